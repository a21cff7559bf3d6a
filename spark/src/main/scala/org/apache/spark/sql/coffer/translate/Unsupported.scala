package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression, Literal}
import org.apache.spark.sql.execution.SparkPlan

/**
 * Why a plan cannot run sealed. `operator` and `expression` are filled in on the way out, by
 * whoever knows them first.
 */
final case class Unsupported(
    reason: String,
    operator: Option[String] = None,
    expression: Option[String] = None) {

  def in(plan: SparkPlan): Unsupported =
    if (operator.isDefined) this else copy(operator = Some(plan.nodeName))

  def at(expr: Expression): Unsupported =
    if (expression.isDefined) this else copy(expression = Some(Unsupported.describe(expr)))

  /** One line: the operator, the expression if one is at fault, the reason. */
  def message: String = {
    val where = operator.getOrElse("plan")
    expression.fold(s"$where: $reason")(e => s"$where: $e: $reason")
  }
}

object Unsupported {

  /** The expression as SQL with `?` for every literal: messages travel further than values may. */
  private[translate] def describe(expr: Expression): String = {
    val masked = expr.transform {
      case l: Literal => AttributeReference("?", l.dataType)()
      case a: AttributeReference => a.withQualifier(Nil)
    }
    val text =
      try masked.sql
      catch { case scala.util.control.NonFatal(_) => expr.prettyName }
    val plain = text.replace("`", "")
    if (plain.length <= 200) plain else plain.take(197) + "..."
  }
}
