package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Attribute, NamedExpression, SortOrder}
import org.apache.spark.sql.coffer.proto.plan.{Limit, Node, Project, Sort}
import org.apache.spark.sql.execution._

/**
 * Sort and limit, each within a partition: exchanges below, or the client engine's finish above
 * ([[ResultPlan]]), make them global.
 */
private[translate] object OrderOperators extends OperatorFamily {

  override def entries: Seq[OperatorEntry] = Seq(
    operator[SortExec]("sort, within each partition") { (plan, children, translation) =>
      sort(plan, children.head, plan.sortOrder, None, translation)
    },
    operator[LocalLimitExec]("limit") { (plan, children, translation) =>
      Right(limit(plan, children.head, 0, Some(plan.limit), translation))
    },
    operator[GlobalLimitExec]("limit with offset") { (plan, children, translation) =>
      Right(limited(plan, children.head, plan.limit, plan.offset, translation))
    },
    operator[CollectLimitExec]("limit with offset; at the root the client engine takes " +
      "part") { (plan, children, translation) =>
      inOnePartition(plan, translation).map(_ =>
        limited(plan, children.head, plan.limit, plan.offset, translation))
    },
    operator[TakeOrderedAndProjectExec]("top-k sort, limit, project; at the root the client " +
      "engine takes part") {
      (plan, children, translation) =>
        for {
          _ <- inOnePartition(plan, translation)
          sorted <- sort(plan, children.head, plan.sortOrder, Some(plan.limit), translation)
          taken =
            if (plan.offset > 0) limit(plan, sorted, plan.offset, None, translation) else sorted
          projected <- project(plan, taken, plan.projectList, plan.output, translation)
        } yield projected
    })

  def sort(
      plan: SparkPlan,
      child: Relation,
      order: Seq[SortOrder],
      fetch: Option[Int],
      translation: Translation): Result[Relation] =
    if (fetch.contains(0)) {
      // In the IR a sort that fetches 0 rows fetches all.
      Right(limit(plan, child, 0, fetch, translation))
    } else {
      Operators.sortKeys(order, new Scope(child.output, translation)).map { keys =>
        val builder = Sort.newBuilder.setChild(child.node)
        fetch.foreach(f => builder.setFetch(f.toLong))
        keys.foreach(builder.addKeys)
        child.copy(node = translation.node(plan).setSort(builder).build())
      }
    }

  /** Spark's limit counts the rows that its offset skips; a limit of −1 is none. */
  def limited(
      plan: SparkPlan,
      child: Relation,
      fetch: Int,
      offset: Int,
      translation: Translation): Relation =
    limit(plan, child, offset, if (fetch < 0) None else Some(math.max(fetch - offset, 0)),
      translation)

  def limit(
      plan: SparkPlan,
      child: Relation,
      skip: Int,
      fetch: Option[Int],
      translation: Translation): Relation = {
    val builder = Limit.newBuilder.setChild(child.node).setSkip(skip.toLong)
    fetch.foreach(f => builder.setFetch(f.toLong))
    val node: Node = translation.node(plan).setLimit(builder).build()
    child.copy(node = node)
  }

  def project(
      plan: SparkPlan,
      child: Relation,
      exprs: Seq[NamedExpression],
      output: Seq[Attribute],
      translation: Translation): Result[Relation] =
    if (Operators.isIdentity(exprs, child.output)) {
      Right(child)
    } else {
      Places.named(exprs, plan, child, translation).map { case (below, named) =>
        val builder = Project.newBuilder.setChild(below.node)
        named.foreach(builder.addExprs)
        Relation(translation.node(plan).setProject(builder).build(), output, child.partitions)
      }
    }

  /** These two shuffle inside `doExecute` unless their child has one partition. */
  private def inOnePartition(plan: UnaryExecNode, translation: Translation): Result[Unit] =
    if (translation.atClient || plan.child.outputPartitioning.numPartitions == 1) Right(())
    else refuse("inside a plan it must be planned as a local part, an exchange and a global part")
}
