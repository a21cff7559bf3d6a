package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.execution.{FilterExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.{BroadcastHashJoinExec, ShuffledJoin}
import org.apache.spark.sql.types.{DataType, DoubleType, FloatType}

/**
 * Which rows are the same each time that engines make them, if not in the same order, so that two
 * readers need not have those of one time.
 */
private[exec] object FixedRows {

  /** Of scans, filters and joins. */
  def row(plan: SparkPlan): Boolean = made(plan, _ => false)

  /** The same of a fragment over scans and what joins are built from. */
  def row(fragment: CofferFragmentExec): Boolean =
    made(fragment.template, plan => fragment.leaves.exists(_ eq plan)) &&
      fragment.reads.forall {
        case BroadcastRead(b) => row(b.fragment)
        case _ => false
      }

  /**
   * What comes of them in the end: a partial aggregate's rows depend on what its task saw, what is
   * merged of them does not.
   */
  def merged(plan: SparkPlan): Boolean = made(plan, isMerged)

  private def made(plan: SparkPlan, also: SparkPlan => Boolean): Boolean =
    also(plan) || {
      plan.subqueries.isEmpty && plan.expressions.forall(_.deterministic) && (plan match {
        case SealedScan(_, _) | _: Exchange | _: ProjectExec | _: FilterExec => true
        case _: ShuffledJoin | _: BroadcastHashJoinExec => true
        case _ => false
      }) && plan.children.forall(made(_, also))
    }

  /** Which of 0.0 and -0.0 is the least or greatest depends on which comes first. */
  private def isFloat(of: DataType): Boolean = of == FloatType || of == DoubleType

  /** Engines sum to the last digit in whatever order (`Buffers`). */
  private def isMerged(plan: SparkPlan): Boolean = plan match {
    case a: BaseAggregateExec =>
      def same(function: AggregateFunction) = function match {
        case _: Count | _: Sum | _: Average => true
        case _: Min | _: Max =>
          UnsafeRowUtils.isBinaryStable(function.dataType) &&
          !function.dataType.existsRecursively(isFloat)
        case _ => false
      }
      a.subqueries.isEmpty && a.expressions.forall(_.deterministic) &&
      a.aggregateExpressions.forall(e => same(e.aggregateFunction)) &&
      a.groupingExpressions.forall(g => UnsafeRowUtils.isBinaryStable(g.dataType)) &&
      a.children.forall(merged)
    case _ => false
  }
}
