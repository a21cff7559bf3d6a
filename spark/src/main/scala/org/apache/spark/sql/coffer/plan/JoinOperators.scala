package org.apache.spark.sql.coffer.plan

import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec
import org.apache.spark.sql.execution.joins._

/** Joins, and the broadcasts that serve only them. */
private[plan] object JoinOperators extends OperatorFamily {
  private val notYet = "joins come with the next issue"

  override def entries: Seq[OperatorEntry] = Seq(
    refused[BroadcastHashJoinExec](notYet),
    refused[ShuffledHashJoinExec](notYet),
    refused[SortMergeJoinExec](notYet),
    refused[BroadcastNestedLoopJoinExec](notYet),
    refused[CartesianProductExec](notYet),
    refused[BroadcastExchangeExec](notYet))
}
