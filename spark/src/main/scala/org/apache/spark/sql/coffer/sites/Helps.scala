package org.apache.spark.sql.coffer.sites

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Average, Count, Max, Min, Sum}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.joins.BaseJoinExec

/** The protections under which engines without keys could do what a plan does with a column. */
private[sites] object Helps {

  private sealed abstract class Use(val words: String, val protection: Option[String])
  private case object Equality extends Use("compared for equality, joined or grouped by", Some("det"))
  private case object Order extends Use("compared or sorted by", Some("ope"))
  private case object Sums extends Use("summed", Some("ashe"))
  private case object Computed extends Use("computed with, which only enclaves and the client engine can do", None)
  private case object Carried extends Use("only brought home", Some("std"))

  /** For each column one sentence. */
  def of(columns: Seq[Attribute], plan: SparkPlan): Seq[String] = columns.map { a =>
    val uses = plan.collect { case p => p.expressions.flatMap(use(_, a)) ++ keys(p, a) }.flatten.distinct
    val told = if (uses.isEmpty) Seq(Carried) else uses
    val wanted = told.flatMap(_.protection)
    val what = s"`${a.name}` is ${told.map(_.words).mkString(" and ")}"
    if (wanted.size < told.size) what
    else s"$what: ${wanted.map(p => s""""$p"""").mkString(" and ")} in the policy would do"
  }

  private def keys(plan: SparkPlan, a: Attribute): Seq[Use] = plan match {
    case j: BaseJoinExec => (j.leftKeys ++ j.rightKeys).collect { case k: Attribute if k.exprId == a.exprId => Equality }
    case g: BaseAggregateExec => g.groupingExpressions.collect { case k: Attribute if k.exprId == a.exprId => Equality }
    case _ => Nil
  }

  private def use(e: Expression, a: Attribute): Seq[Use] = {
    def is(x: Expression): Boolean = x match {
      case k: Attribute => k.exprId == a.exprId
      case _ => false
    }
    if (!e.references.exists(is)) Nil
    else
      e match {
        case k: Attribute if is(k) => Nil
        case Alias(child, _) => use(child, a)
        case _: And | _: Or | _: Not => e.children.flatMap(use(_, a))
        case IsNull(x) if is(x) => Nil
        case IsNotNull(x) if is(x) => Nil
        case _: EqualTo | _: EqualNullSafe | _: In | _: InSet if e.children.exists(is) => Seq(Equality)
        case _: LessThan | _: LessThanOrEqual | _: GreaterThan | _: GreaterThanOrEqual if e.children.exists(is) => Seq(Order)
        case SortOrder(x, _, _, _) if is(x) => Seq(Order)
        case call: AggregateExpression =>
          call.aggregateFunction match {
            case Min(x) if is(x) => Seq(Order)
            case Max(x) if is(x) => Seq(Order)
            case Sum(x, _) if is(x) => Seq(Sums)
            case Average(x, _) if is(x) => Seq(Sums)
            case c: Count if c.children.forall(_.isInstanceOf[Attribute]) => if (call.isDistinct) Seq(Equality) else Nil
            case _ => Seq(Computed)
          }
        case _ => Seq(Computed)
      }
  }
}
