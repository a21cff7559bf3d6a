package org.apache.spark.sql.coffer

import org.apache.spark.sql.ExtendedExplainGenerator
import org.apache.spark.sql.coffer.driver.CofferDriver
import org.apache.spark.sql.coffer.exec._
import org.apache.spark.sql.execution.{BaseSubqueryExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}

/** What EXPLAIN says of a sealed plan: its fragments, what is sealed between them, and how far engines have proved themselves. */
class CofferExplain extends ExtendedExplainGenerator {
  override def title: String = "Coffer"

  override def generateExtendedInfo(plan: SparkPlan): String =
    if (!SealedPlans.mentions(plan)) "no sealed table: Spark runs this plan itself\n"
    else {
      val lines = Seq.newBuilder[String]
      lines += "every fragment runs inside an enclave; executors see sealed bytes and their sizes"
      if (CofferDriver.running_? && CofferDriver.get.simulatedEvidence)
        lines += "evidence: SIMULATED, nothing proves what code the engines run"
      lines ++= describe(plan)
      lines.result().mkString("", "\n", "\n")
    }

  private def describe(plan: SparkPlan): Seq[String] = plan match {
    case a: AdaptiveSparkPlanExec => describe(a.executedPlan)
    case q: QueryStageExec => describe(q.plan)
    case r: CofferResultExec => line("result, opened by the client engine", r.child) ++ below(r.child)
    case e: CofferShuffleExchangeExec =>
      line(s"shuffle ${e.original.outputPartitioning.getClass.getSimpleName.stripSuffix("$")}", e.child) ++ below(e.child)
    case b: CofferBroadcastExchangeExec => line("broadcast", b.child) ++ below(b.child)
    case other => below(other)
  }

  private def below(plan: SparkPlan): Seq[String] = (plan.children ++ plan.subqueries).flatMap {
    case s: BaseSubqueryExec => describe(s.child)
    case p => describe(p)
  }

  private def line(what: String, plan: SparkPlan): Seq[String] = plan match {
    case f: CofferFragmentExec => Seq(s"fragment → $what: ${f.operators}")
    case _ => Nil
  }
}
