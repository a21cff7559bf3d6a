package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.execution.{BaseSubqueryExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}

/** A scan of a query's plan: the table's handle, and the columns that are read. */
private[coffer] final case class PlannedScan(
    handle: Int,
    columns: Vector[String],
    unverified: Boolean)

/**
 * All scans of a plan, wherever in it: below exchanges, in subqueries, in what comes to the client.
 * What they need of keys goes out, and into the audit log, with the query's first stage.
 */
private[coffer] object PlannedScans {

  def of(plan: SparkPlan): Seq[PlannedScan] = plan match {
    case SealedScan(node, scan) =>
      val columns = node.output.map(_.name).toVector
      Seq(PlannedScan(scan.table.info.getHandle, columns, scan.table.unverified))
    case a: AdaptiveSparkPlanExec => of(a.inputPlan)
    case q: QueryStageExec => of(q.plan)
    case s: BaseSubqueryExec => of(s.child)
    case f: CofferFragmentExec => of(f.template) ++ below(f)
    case h: CofferClientExec => of(h.part) ++ below(h)
    case h: ClientRowsExec => of(h.root) ++ below(h)
    case d: DriverPart => d.brought.flatMap(of) ++ d.repeated.map(s =>
        PlannedScan(s.table.info.getHandle, s.readSchema().fieldNames.toVector, s.table.unverified))
    case other => below(other)
  }

  private def below(plan: SparkPlan): Seq[PlannedScan] =
    (plan.children ++ plan.subqueries).flatMap(of)
}

/**
 * The plain files that a plan reads beside sealed tables. A query pins them all before its first
 * task runs, or the host would choose what a later stage finds by what came of an earlier one.
 */
private[coffer] object UnverifiedScans {
  def of(plan: SparkPlan): Seq[PlannedScan] = PlannedScans.of(plan).filter(_.unverified)
}
