package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ReturnAnswer}
import org.apache.spark.sql.classic
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.coffer.exec.{SealedCache, SealedInsert, SealedPlans}
import org.apache.spark.sql.coffer.tail._
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage

/**
 * Plans a query as engines run it; or, where they do not support all of it, as the driver ends it
 * over the rows of the parts that they do.
 */
private[coffer] final case class TailStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case s: StandIn => Seq(StandInExec(s.output))
    case c: ClientRelation => Seq(ClientRelationExec(c.output, c.held))
    case l: TailLoop => Seq(TailLoopExec(l))
    case t: TailRows => Seq(TailRowsExec(TailPlan.sealedPart(classicSession, t.inEngines)))
    case ReturnAnswer(query) if Planning.current == Planning.Off && whole(query) =>
      Tails.plan(classicSession, query).toSeq
    case _ => Nil
  }

  private def classicSession: classic.SparkSession = session.asInstanceOf[classic.SparkSession]

  /** Not what AQE plans again, nor what is written or cached. */
  private def whole(query: LogicalPlan): Boolean =
    SealedPlans.mentions(query) && TailConf.on(classicSession.sessionState.conf) &&
      !query.exists {
        case _: LogicalQueryStage | _: SealedInsert | _: SealedCache => true
        case _ => false
      }
}
