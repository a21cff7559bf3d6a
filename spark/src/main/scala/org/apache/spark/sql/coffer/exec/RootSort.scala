package org.apache.spark.sql.coffer.exec

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, RangePartitioning}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.exchange.{ENSURE_REQUIREMENTS, ShuffleExchangeExec}

/**
 * A query's last ORDER BY: tasks sort their partitions, the client engine merges. It asks nothing
 * of its child's distribution, so the range exchange (and the job that samples for it) falls away,
 * and AQE goes on to coalesce below it.
 */
case class CofferRootSortExec(sortOrder: Seq[SortOrder], child: SparkPlan) extends UnaryExecNode {
  override def nodeName: String = "CofferRootSort"
  override def output: Seq[Attribute] = child.output
  override def outputOrdering: Seq[SortOrder] = sortOrder
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override protected def withNewChildInternal(newChild: SparkPlan): CofferRootSortExec =
    copy(child = newChild)
  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

object RootSort {

  /**
   * Takes the exchange from under the sort that ends a query, if nothing but row by row work
   * follows it.
   */
  def rewrite(root: SparkPlan): SparkPlan = root match {
    case sort @ SortExec(order, true, exchange: ShuffleExchangeExec, _) if made(exchange) =>
      val rewritten = CofferRootSortExec(order, exchange.child)
      rewritten.copyTagsFrom(sort)
      rewritten
    case p: ProjectExec => below(p, p.child)
    case f: FilterExec => below(f, f.child)
    case l: CollectLimitExec => below(l, l.child)
    case other => other
  }

  private def below(parent: SparkPlan, child: SparkPlan): SparkPlan = {
    val rewritten = rewrite(child)
    if (rewritten eq child) parent else parent.withNewChildren(Seq(rewritten))
  }

  private def made(exchange: ShuffleExchangeExec): Boolean =
    exchange.shuffleOrigin == ENSURE_REQUIREMENTS &&
      exchange.outputPartitioning.isInstanceOf[RangePartitioning]

  /** Spark's own words again, for the translator: a global sort at the root. */
  def restore(plan: SparkPlan): SparkPlan = plan match {
    case CofferRootSortExec(order, child) => SortExec(order, global = true, child)
    case p: ProjectExec => restored(p, p.child)
    case f: FilterExec => restored(f, f.child)
    case l: CollectLimitExec => restored(l, l.child)
    case other => other
  }

  private def restored(parent: SparkPlan, child: SparkPlan): SparkPlan = {
    val back = restore(child)
    if (back eq child) parent else parent.withNewChildren(Seq(back))
  }
}
