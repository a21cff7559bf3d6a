package org.apache.spark.sql.coffer.tail

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{PlannedLeaves, SealedPlans}
import org.apache.spark.sql.coffer.translate.{InputLeaf, Leaf, LeafResolver, Support}
import org.apache.spark.sql.execution.SparkPlan

/** Whether engines support an operator, and why they do not. */
private[tail] final class Judge(session: SparkSession) {
  private val forced = TailConf.forced(session.sessionState.conf)
  private val found = mutable.LinkedHashSet.empty[String]

  /** Whether a test wants the operator in the driver. */
  def forces(node: LogicalPlan): Boolean = forced(node.nodeName) || forced("*")

  /** Of all that is not supported, in the order in which it was met. */
  def reasons: Seq[String] = found.toSeq

  def blame(reasons: Seq[String]): Unit = found ++= reasons

  /** One operator over children that are supported. */
  def supports(node: LogicalPlan): Boolean = {
    val why = faults(node)
    if (node.nodeName != "StandIn") found ++= why
    why.isEmpty
  }

  private def faults(node: LogicalPlan): Seq[String] =
    if (node.isInstanceOf[LeafNode]) leaf(node)
    else if (forces(node)) Seq(s"${node.nodeName}: forced by a test")
    else
      try {
        val alone = node.withNewChildren(node.children.map(c => StandIn(c.output, c.stats)))
        val plan = Planning.in(Planning.Judging)(session.sessionState.planner.plan(alone).next())
        Judge.check(plan)
      } catch {
        case e: CofferException => Seq(e.plain)
        case NonFatal(e) => Seq(s"${node.nodeName}: ${e.getClass.getSimpleName}")
      }

  private def leaf(node: LogicalPlan): Seq[String] =
    if (SealedPlans.mentions(node)) Nil
    else
      try Judge.check(Planning.in(Planning.Judging)(session.sessionState.planner.plan(node).next()))
      catch { case NonFatal(e) => Seq(s"${node.nodeName}: ${e.getClass.getSimpleName}") }

  /** Whether a condition that engines have cannot raise an error. */
  def neverFails(condition: Expression, child: LogicalPlan): Boolean =
    !SubqueryExpression.hasSubquery(condition) &&
      Support.infallible(condition, child.output, Judge.Leaves)
}

private[coffer] object Judge {

  private[tail] object Leaves extends LeafResolver {
    override def leaf(plan: SparkPlan): Option[Leaf] = plan match {
      case s: StandInExec => Some(InputLeaf(s, s.output, () => 1))
      case other => PlannedLeaves.leaf(other)
    }
  }

  /** What engines do not support of a plan; a subquery is a query of its own. */
  def check(plan: SparkPlan): Seq[String] =
    Support.check(plan.transform { case p =>
        p.transformExpressions {
          case _: DynamicPruning => Literal.TrueLiteral
          case s: SubqueryExpression => Literal.create(null, s.dataType)
        }
      }, Leaves).map(_.message)
}
