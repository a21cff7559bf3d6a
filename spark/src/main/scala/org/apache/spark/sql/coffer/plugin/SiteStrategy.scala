package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Repartition, ReturnAnswer}
import org.apache.spark.sql.catalyst.plans.physical.{RoundRobinPartitioning, SinglePartition}
import org.apache.spark.sql.coffer.common.CofferConf
import org.apache.spark.sql.coffer.exec.{
  CachedRelation,
  ClientRowsExec,
  ClientTableExec,
  CofferCacheExec,
  CofferLoopExec,
  CofferQuery,
  SealedCache,
  SealedCacheExec,
  SealedInsert,
  SealedLoop,
  SealedPlans
}
import org.apache.spark.sql.coffer.split.{CharPadding, ClientRows, ClientTable, Refused, Sites}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.exchange.{REPARTITION_BY_NUM, ShuffleExchangeExec}

/**
 * Places a query whose tables have stored columns, once Spark has optimised it, and plans each part
 * that runs in engines as a query of its own, with Spark's optimizer and AQE over the stored
 * columns.
 */
private[coffer] final case class SiteStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case ReturnAnswer(_: SealedInsert) if CofferConf.hostEngines(session.sparkContext.conf) =>
      throw Refused.writeByHosts()
    case ReturnAnswer(insert: SealedInsert) if Sites.needed(insert) =>
      Seq(planLater(ReturnAnswer(
            insert.copy(child = new Sites(session).toWrite(CharPadding.strip(insert.child))))))
    case ReturnAnswer(query) if Sites.needed(query) =>
      Seq(planLater(ReturnAnswer(new Sites(session).rewrite(CharPadding.strip(query)))))
    // Merged without an exchange, a task would read what several engines sent for other tasks.
    case Repartition(count, false, child) if sealedRows(child) =>
      val partitioning = if (count == 1) SinglePartition else RoundRobinPartitioning(count)
      Seq(ShuffleExchangeExec(partitioning, planLater(child), REPARTITION_BY_NUM))
    case ReturnAnswer(_: SealedCache) if CofferConf.hostEngines(session.sparkContext.conf) =>
      throw Refused.cachedByHosts()
    case ReturnAnswer(cache: SealedCache) if Sites.needed(cache) =>
      Seq(planLater(ReturnAnswer(
            cache.copy(child = new Sites(session).toCache(CharPadding.strip(cache.child))))))
    case SealedCache(child) => Seq(SealedCacheExec(planLater(child)))
    case loop: SealedLoop => Seq(CofferLoopExec(loop.output, loop.rows))
    case cached: CachedRelation => Seq(CofferCacheExec(cached.output, cached.rows))
    case table: ClientTable => Seq(ClientTableExec(table))
    case clientRows: ClientRows =>
      Seq(ClientRowsExec(clientRows.openings, clientRows.inEngines.output,
          session.sessionState.executePlan(clientRows.inEngines).executedPlan))
    case _ => Nil
  }

  /** AQE plans again over stages that have run, which mention no table. */
  private def sealedRows(plan: LogicalPlan): Boolean =
    CofferQuery.current(session.sparkContext).isDefined || SealedPlans.mentions(plan)
}
