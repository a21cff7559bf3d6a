package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.execution.{BaseSubqueryExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}

/**
 * The plain files that a plan reads beside sealed tables, wherever in it: below exchanges, in
 * subqueries, in what comes to the client. A query pins them all before its first task runs, or the
 * host would choose what a later stage finds by what came of an earlier one.
 */
private[coffer] object UnverifiedScans {

  /** Handles of tables, with the columns that are read of each. */
  def of(plan: SparkPlan): Seq[(Int, Vector[String])] = plan match {
    case SealedScan(node, scan) if scan.table.unverified =>
      Seq((scan.table.info.getHandle, node.output.map(_.name).toVector))
    case a: AdaptiveSparkPlanExec => of(a.inputPlan)
    case q: QueryStageExec => of(q.plan)
    case s: BaseSubqueryExec => of(s.child)
    case f: CofferFragmentExec => of(f.template) ++ below(f)
    case h: CofferClientExec => of(h.part) ++ below(h)
    case h: ClientRowsExec => of(h.root) ++ below(h)
    case d: DriverPart => d.brought.flatMap(of) ++ d.repeated.filter(_.table.unverified).map(s =>
        (s.table.info.getHandle, s.readSchema().fieldNames.toVector))
    case other => below(other)
  }

  private def below(plan: SparkPlan): Seq[(Int, Vector[String])] = (plan.children ++
    plan.subqueries).flatMap(of)
}
