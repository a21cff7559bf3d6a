package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{
  And,
  BloomFilterMightContain,
  Expression,
  PredicateHelper
}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, ReturnAnswer}
import org.apache.spark.sql.coffer.common.CofferConf
import org.apache.spark.sql.coffer.exec.{Hiding, SealedPlans}
import org.apache.spark.sql.coffer.split.CofferScan
import org.apache.spark.sql.coffer.versions.ScanOf
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.internal.SQLConf

/**
 * Takes Spark's runtime Bloom filters out of queries that must go without: what they leave of a
 * join's other side shows in the sizes of its exchange, which padding is there to hide; and they
 * hash values as engines open them, which stored columns are not. The join above says the same.
 *
 * Elsewhere a filter is a subquery as any other: engines make it, it comes to the driver sealed,
 * and goes sealed to the scans.
 */
private[coffer] final case class RuntimeFilters(session: SparkSession) extends SparkStrategy
    with PredicateHelper {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case ReturnAnswer(query) if filtered(query) && isSealed(query) && without(query) =>
      Seq(planLater(ReturnAnswer(strip(query))))
    case _ => Nil
  }

  private def isSealed(query: LogicalPlan): Boolean = SealedPlans.mentions(query) || query.exists {
    case stage: LogicalQueryStage => isSealed(stage.logicalPlan)
    case _ => false
  }

  private def without(query: LogicalPlan): Boolean =
    Hiding.of(SQLConf.get) != Hiding.nothing || isPlaced(query) ||
      CofferConf.hostEngines(session.sparkContext.conf)

  /** Also of what a placed query has engines do, and of what has run when the rest is planned. */
  private def isPlaced(query: LogicalPlan): Boolean = query.exists {
    case ScanOf(_, scan: CofferScan, _) => scan.table.stored.nonEmpty || scan.table.viewed
    case stage: LogicalQueryStage => isPlaced(stage.logicalPlan)
    case _ => false
  }

  private def filtered(query: LogicalPlan): Boolean = query.exists {
    case f: Filter => f.condition.exists(isFilter)
    case _ => false
  }

  private def isFilter(e: Expression): Boolean = e.isInstanceOf[BloomFilterMightContain]

  private def strip(query: LogicalPlan): LogicalPlan = query.transform {
    case f: Filter if f.condition.exists(isFilter) =>
      val kept = splitConjunctivePredicates(f.condition).filterNot(isFilter)
      kept.reduceOption(And(_, _)).fold(f.child)(Filter(_, f.child))
  }
}
