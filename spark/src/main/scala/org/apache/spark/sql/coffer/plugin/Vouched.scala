package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.coffer.common.CofferConf
import org.apache.spark.sql.coffer.exec.{
  ClientRowsExec,
  CofferCacheExec,
  CofferFragmentExec,
  CofferLoopExec,
  DriverPart,
  LoopRows,
  SealedScan
}
import org.apache.spark.sql.coffer.split.CofferScan
import org.apache.spark.sql.execution.{BaseSubqueryExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}

/**
 * Whether there is a proof of a query's answer: that its rows are those of the tables, and are
 * computed as the query says.
 */
object Vouched {

  /**
   * Nobody does where engines that proved nothing read a part of it, or where it reads plain files.
   */
  def verified(plan: SparkPlan): Boolean = {
    val hosts = CofferConf.hostEngines(plan.session.sparkContext.conf)
    !scans(plan).exists(s => hosts || s.table.unverified)
  }

  /** Whether engines on executors have a part in it. */
  private[coffer] def byEngines(plan: SparkPlan): Boolean = scans(plan).nonEmpty

  /** What engines on executors read. */
  private def scans(plan: SparkPlan): Seq[CofferScan] = plan match {
    case a: AdaptiveSparkPlanExec => scans(a.inputPlan)
    case q: QueryStageExec => scans(q.plan)
    case h: ClientRowsExec => scans(h.root)
    case c: CofferCacheExec => scans(c.rows.filling)
    case l: CofferLoopExec => l.rows.scans ++ LoopRows.earlier(l.rows.loop).flatMap(scans)
    case d: DriverPart => (d.brought ++ d.earlier).flatMap(scans) ++ d.repeated
    case f: CofferFragmentExec => scans(f.template)
    case s: BaseSubqueryExec => scans(s.child)
    case SealedScan(_, scan) => Seq(scan)
    case p => (p.children ++ p.subqueries).flatMap(scans)
  }
}
