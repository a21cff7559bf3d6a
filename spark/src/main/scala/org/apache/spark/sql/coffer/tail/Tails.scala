package org.apache.spark.sql.coffer.tail

import org.apache.spark.sql.catalyst.expressions.IntegerLiteral
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ReturnAnswer, Tail}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.SealedPlans
import org.apache.spark.sql.execution.SparkPlan

/** Plans whole queries over sealed tables. */
private[coffer] object Tails {

  /**
   * The rows of a write as the driver makes them, and why; none where engines do, or where the
   * planner itself is to say what is wrong.
   */
  def written(session: SparkSession, query: LogicalPlan): Option[(LogicalPlan, Seq[String])] = {
    val forced = TailConf.forced(session.sessionState.conf).nonEmpty
    val failed =
      try Judge.check(Planning.in(Planning.Inner)(session.sessionState.planner.plan(query).next()))
      catch { case e: CofferException if e.code == "COFFER_UNSUPPORTED" => Seq(e.plain) }
    if (failed.isEmpty && !forced) None
    else {
      val (tail, reasons) = new TailSplit(session)(query, failed)
      if (tail.fastEquals(query) && SealedPlans.mentions(tail)) None
      else TailRefusals.of(tail) match {
        case Nil => Some(tail -> reasons)
        case refused => throw CofferException.refusal(refused)
      }
    }
  }

  /** None: the planner itself is to say what is wrong with it. */
  def plan(session: SparkSession, query: LogicalPlan): Option[SparkPlan] = {
    val forced = TailConf.forced(session.sessionState.conf).nonEmpty
    val (planned, failed) =
      try {
        val plan = Planning.in(Planning.Inner) {
          session.sessionState.planner.plan(ReturnAnswer(query)).next()
        }
        (Some(plan), Judge.check(plan))
      } catch {
        case e: CofferException if e.code == "COFFER_UNSUPPORTED" => (None, Seq(e.plain))
      }
    if (failed.isEmpty && !forced) planned
    else {
      val (rows, last) = query match {
        case Tail(IntegerLiteral(n), child) => (child, Some(n))
        case other => (other, None)
      }
      val (tail, reasons) = new TailSplit(session)(rows, failed)
      val here = tail.exists {
        case _: TailRows | _: ClientRelation | _: TailLoop => true
        case _ => false
      }
      if (!here && (tail.fastEquals(rows) || tail.children.isEmpty)) planned
      else TailRefusals.of(tail) match {
        case Nil => Some(CofferTailExec(TailPlan.of(session, tail), reasons, last))
        case refused => throw CofferException.refusal(refused)
      }
    }
  }
}
