package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight, BuildSide}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.coffer.proto.plan.{Join, JoinType => ProtoJoinType, Node}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.joins._

/**
 * Joins. Keys are those of the plan, not the packed longs that Spark's hash tables take. Which rows
 * are held in memory follows Spark's build side; when a partition of it is too large for that, the
 * stage's sealing turns a hash join into a sort-merge join.
 */
private[translate] object JoinOperators extends OperatorFamily {

  override def entries: Seq[OperatorEntry] = Seq(
    operator[BroadcastHashJoinExec]("hash join; the broadcast side is built once per engine; NOT " +
      "IN of one column too") {
      (plan, children, translation) =>
        if (losesUnmatched(plan.joinType, plan.buildSide)) refuse(unmatched)
        else equi(plan, plan.leftKeys, plan.rightKeys, children, translation) {
          _.setStrategy(Join.Strategy.HASH)
            .setBuildLeft(plan.buildSide == BuildLeft)
            .setBroadcast(true)
            .setNullAware(plan.isNullAwareAntiJoin)
        }
    },
    operator[ShuffledHashJoinExec]("hash join, or sort-merge join where the build side does not " +
      "fit") { (plan, children, translation) =>
      equi(plan, plan.leftKeys, plan.rightKeys, children, translation) {
        _.setStrategy(Join.Strategy.HASH).setBuildLeft(plan.buildSide == BuildLeft)
      }
    },
    // Not as a hash join: Spark may have dropped a sort above because this node gives its keys'
    // order.
    operator[SortMergeJoinExec]("sort-merge join; it sorts its sides " +
      "itself") { (plan, children, translation) =>
      equi(plan, plan.leftKeys, plan.rightKeys, children.map(unsorted), translation) {
        _.setStrategy(Join.Strategy.SORT_MERGE)
      }
    },
    operator[BroadcastNestedLoopJoinExec]("nested loop join over a " +
      "broadcast") { (plan, children, translation) =>
      if (losesUnmatched(plan.joinType, plan.buildSide)) refuse(unmatched)
      else join(plan, children, translation) {
        _.setStrategy(Join.Strategy.NESTED_LOOP).setBuildLeft(
          plan.buildSide == BuildLeft).setBroadcast(true)
      }
    },
    operator[CofferNestedLoopJoinExec]("nested loop join in one partition, for outer joins " +
      "without equal keys") {
      (plan, children, translation) =>
        join(plan, children, translation) {
          _.setStrategy(Join.Strategy.NESTED_LOOP).setBuildLeft(plan.buildSide == BuildLeft)
        }
    },
    operator[CartesianProductExec]("nested loop join of each partition with " +
      "each") { (plan, children, translation) =>
      join(plan, children, translation)(_.setStrategy(Join.Strategy.NESTED_LOOP)).map { product =>
        product.copy(partitions = () => children.map(_.partitions()).product)
      }
    })

  private val unmatched = "it would emit unmatched rows of a broadcast, of which each task has all"

  /** Whether a join of this type emits rows of the build side that have met no other. */
  private def losesUnmatched(joinType: JoinType, build: BuildSide): Boolean =
    (joinType, build) match {
      case (_: InnerLike, _) => false
      case (RightOuter, BuildLeft) => false
      case (LeftOuter | LeftSingle | LeftExistence(_), BuildRight) => false
      case _ => true
    }

  private def unsorted(child: Relation): Relation =
    if (child.node.hasSort &&
      child.node.getSort.getFetch == 0) child.copy(node = child.node.getSort.getChild)
    else child

  private def equi(
      plan: BaseJoinExec,
      leftKeys: Seq[Expression],
      rightKeys: Seq[Expression],
      children: Seq[Relation],
      translation: Translation)(how: Join.Builder => Join.Builder): Result[Relation] = {
    val (left, right) = (children.head, children.last)
    for {
      leftExprs <- traverse(leftKeys)(new Scope(left.output, translation).convert)
      rightExprs <- traverse(rightKeys)(new Scope(right.output, translation).convert)
      relation <- join(plan, children, translation) { builder =>
        leftExprs.foreach(builder.addLeftKeys)
        rightExprs.foreach(builder.addRightKeys)
        how(builder)
      }
    } yield relation
  }

  private def join(plan: BaseJoinExec, children: Seq[Relation], translation: Translation)(
      how: Join.Builder => Join.Builder): Result[Relation] = {
    val (left, right) = (children.head, children.last)
    for {
      kind <- joinType(plan.joinType)
      // The optimizer leaves `true` where it folded a condition, maybe of sides without columns.
      condition <- traverse(plan.condition.filterNot(_ == Literal.TrueLiteral))(new Scope(
          left.output ++ right.output,
          translation).convert)
    } yield {
      val builder = Join.newBuilder.setLeft(left.node).setRight(right.node).setType(kind)
      condition.foreach(builder.setCondition)
      val built = how(builder)
      // A broadcast has no partitions of its own.
      val streamed = if (built.getBroadcast && built.getBuildLeft) right else left
      val node: Node = translation.node(plan: SparkPlan).setJoin(built).build()
      Relation(node, plan.output, streamed.partitions)
    }
  }

  private def joinType(joinType: JoinType): Result[ProtoJoinType] = joinType match {
    case _: InnerLike => Right(ProtoJoinType.INNER)
    case LeftOuter => Right(ProtoJoinType.LEFT_OUTER)
    case RightOuter => Right(ProtoJoinType.RIGHT_OUTER)
    case FullOuter => Right(ProtoJoinType.FULL_OUTER)
    case LeftSemi => Right(ProtoJoinType.LEFT_SEMI)
    case LeftAnti => Right(ProtoJoinType.LEFT_ANTI)
    case _: ExistenceJoin => Right(ProtoJoinType.EXISTENCE)
    case LeftSingle => refuse("a scalar subquery that may give several rows for one is not " +
        "supported; aggregate it, or add LIMIT 1")
    case other => refuse(s"${other.sql.toLowerCase(java.util.Locale.ROOT)} joins are not supported")
  }
}
