package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.catalyst.plans.physical.SinglePartition
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec

/**
 * `ORDER BY … LIMIT` inside a plan. Spark's node shuffles by itself when it is executed, in clear;
 * here its three steps are nodes of the plan: each task's first rows, an exchange to one partition,
 * and the node itself over that. (At the root the client engine merges.)
 */
object InnerTopK {
  def rewrite(root: SparkPlan): SparkPlan = root.mapChildren(_.transformUp {
    case top: TakeOrderedAndProjectExec if !gathered(top.child) =>
      val local = LocalLimitExec(top.limit, SortExec(top.sortOrder, global = false, top.child))
      val rewritten = top.copy(child = ShuffleExchangeExec(SinglePartition, local))
      rewritten.copyTagsFrom(top)
      rewritten
  })

  private def gathered(plan: SparkPlan): Boolean = plan.outputPartitioning == SinglePartition
}
