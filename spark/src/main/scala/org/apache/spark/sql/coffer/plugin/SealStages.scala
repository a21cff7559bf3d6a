package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{
  CofferCacheStageExec,
  CofferClientExec,
  CofferQuery,
  CofferResultExec,
  CofferRootExec,
  ClientRowsExec,
  DriverPart,
  InnerTopK,
  PlannedLeaves,
  RootSort,
  SealedCacheExec,
  SealedPlans,
  SealedWriteExec
}
import org.apache.spark.sql.coffer.exec.FragmentPlans.{broadcast, exchange, fragment, withExchanges}
import org.apache.spark.sql.coffer.translate.Support
import org.apache.spark.sql.coffer.write.{CofferWriteExec, CofferWriteStageExec}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeExec, ShuffleExchangeExec}

/**
 * Names everything that is unsupported before anything runs, on AQE's first plan and on each new
 * one; and drops the last exchange.
 */
private[coffer] final case class CheckSupport(session: SparkSession) extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (plan.isInstanceOf[DriverPart]) plan
    else if (SealedPlans.sealedNow(plan)) {
      CheckSupport.check(plan)
      if (ClientRowsExec.in(plan)) CofferClientExec.withoutExchanges(plan)
      else InnerTopK.rewrite(RootSort.rewrite(ShufflePartitions.rewrite(plan)))
    } else plan
}

private[coffer] object CheckSupport {
  def check(plan: SparkPlan): Unit = {
    val reasons = Support.check(plan, PlannedLeaves)
    if (reasons.nonEmpty) throw CofferException.refusal(reasons.map(_.message))
  }
}

/**
 * AQE runs this on a stage's plan, or on what is above the last stages, just before [[SealStages]]:
 * which of the two, that must know.
 */
private[coffer] object MarkStage extends Rule[SparkPlan] {
  val TAG: TreeNodeTag[Unit] = TreeNodeTag[Unit]("coffer_aqe_stage")
  override def apply(plan: SparkPlan): SparkPlan = {
    plan.setTagValue(TAG, ())
    plan
  }
}

/** Puts sealed nodes in place, where whole-stage code generation would put its own. */
private[coffer] object SealStages extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = new Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = seal(plan)
  }

  private def marked(plan: SparkPlan): Boolean = plan.getTagValue(MarkStage.TAG).isDefined

  private def seal(plan: SparkPlan): SparkPlan = plan match {
    case write: CofferWriteExec => write.copy(child = query(write.child))
    case command if SealedPlans.isCommand(command) => command
    case _: CofferRootExec => plan
    case _ if !marked(plan) && SealedPlans.mentions(plan) && Caching.now => Caching.entry(plan)
    case part: DriverPart => if (marked(part)) part else root(part)
    case aqe: AdaptiveSparkPlanExec =>
      if (SealedPlans.mentions(aqe)) root(aqe) else aqe
    case _ if !SealedPlans.sealedNow(plan) => plan
    // Rows that are at the driver already, and stay there.
    case _: LocalTableScanExec | _: EmptyRelationExec if marked(plan) => plan
    case write: SealedWriteExec if marked(write) =>
      linked(CofferWriteStageExec(fragment(write)), plan)
    case cache: SealedCacheExec if marked(cache) =>
      linked(CofferCacheStageExec(fragment(cache.child)), plan)
    case _ if marked(plan) =>
      linked(if (ClientRowsExec.in(plan)) CofferClientExec(fragment(plan))
        else CofferResultExec(fragment(plan)), plan)
    case e: ShuffleExchangeExec if marked(e.child) => exchange(e)
    case b: BroadcastExchangeExec if marked(b.child) => broadcast(b)
    case cache: SealedCacheExec =>
      CheckSupport.check(cache)
      root(CofferCacheStageExec(fragment(withExchanges(InnerTopK.rewrite(cache).children.head))))
    case _ =>
      CheckSupport.check(plan)
      if (ClientRowsExec.in(plan))
        root(CofferClientExec(fragment(CofferClientExec.withoutExchanges(plan))))
      else
        root(CofferResultExec(fragment(withExchanges(InnerTopK.rewrite(RootSort.rewrite(plan))))))
  }

  private def root(plan: SparkPlan): SparkPlan =
    CofferRootExec(plan, CofferQuery.create(caches = Caching.fills(plan)))

  /** What AQE's plan would become if nothing changed any more: for EXPLAIN. */
  def preview(plan: SparkPlan): SparkPlan = plan match {
    case write: SealedWriteExec => CofferWriteStageExec(fragment(withExchanges(write)))
    case cache: SealedCacheExec => CofferCacheStageExec(fragment(withExchanges(cache.child)))
    case clientRows if ClientRowsExec.in(clientRows) =>
      CofferClientExec(fragment(CofferClientExec.withoutExchanges(clientRows)))
    case other => CofferResultExec(fragment(withExchanges(other)))
  }

  /** The query of a write: AQE's plan, or all of it here at once. */
  private def query(plan: SparkPlan): SparkPlan = plan match {
    case root: CofferRootExec => root
    case part: DriverPart => CofferRootExec(part, CofferQuery.create())
    case aqe: AdaptiveSparkPlanExec => CofferRootExec(aqe, CofferQuery.create())
    case whole =>
      CheckSupport.check(whole)
      CofferRootExec(CofferWriteStageExec(fragment(withExchanges(InnerTopK.rewrite(whole)))),
        CofferQuery.create())
  }

  /** AQE wants to know what a stage stands for, each time that it runs. */
  private def linked(node: SparkPlan, of: SparkPlan): SparkPlan = {
    of.collectFirst { case p if p.logicalLink.isDefined => p.logicalLink.get }
      .foreach(node.setTagValue(SparkPlan.LOGICAL_PLAN_TAG, _))
    node
  }
}
