package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{EvalMode => _, Left => _, Right => _, _}
import org.apache.spark.sql.coffer.proto.plan.{EvalMode, Expr}
import org.apache.spark.sql.types._

/**
 * Year-month and day-time intervals: made, scaled, taken apart, and the differences that are ones.
 * What adds them is in `ArithmeticExpressions`, what adds them to instants in `InstantExpressions`.
 */
private[translate] object IntervalExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    function[MakeYMInterval]("make_ym_interval"),
    function[MakeDTInterval]("make_dt_interval"),
    function[MultiplyYMInterval]("interval_multiply"),
    function[MultiplyDTInterval]("interval_multiply"),
    function[DivideYMInterval]("interval_divide"),
    function[DivideDTInterval]("interval_divide"),
    function[ExtractANSIIntervalYears]("interval_years"),
    function[ExtractANSIIntervalMonths]("interval_months"),
    function[ExtractANSIIntervalDays]("interval_days"),
    function[ExtractANSIIntervalHours]("interval_hours"),
    function[ExtractANSIIntervalMinutes]("interval_minutes"),
    function[ExtractANSIIntervalSeconds]("interval_seconds"),
    function[DateAddYMInterval]("date_add_ym_interval"),
    function[TimestampAddYMInterval]("timestamp_add_months"),
    entry[SubtractTimestamps]("`subtract_timestamps`") { (e, scope) =>
      if (e.legacyInterval) refuse("spark.sql.legacy.interval.enabled is not supported")
      else Calls.of("subtract_timestamps", e, e.children, scope)
    },
    entry[SubtractDates]("`subtract_dates`") { (e, scope) =>
      if (e.legacyInterval) refuse("spark.sql.legacy.interval.enabled is not supported")
      else Calls.of("subtract_dates", e, e.children, scope)
    })

  private lazy val classes: Set[Class[_]] = entries.map(_.expression).toSet

  def has(e: Expression): Boolean = classes(e.getClass)

  /** Arithmetic of two intervals, or of one. */
  def arithmetic(e: Expression): Option[String] = e.dataType match {
    case _: AnsiIntervalType => e match {
        case _: Add => Some("interval_add")
        case _: Subtract => Some("interval_subtract")
        case _: UnaryMinus => Some("interval_negate")
        case _: MultiplyYMInterval | _: MultiplyDTInterval => Some("interval_multiply")
        case _: DivideYMInterval | _: DivideDTInterval => Some("interval_divide")
        case _ => None
      }
    case _ => None
  }

  /** What fails of them is NULL, if nothing of their arguments can. */
  def tried(name: String, e: Expression, scope: Scope): Result[Expr] =
    traverse(e.children)(scope.convert).flatMap { args =>
      if (args.forall(Fallibility.infallible) && name != "interval_negate")
        Calls.ofConverted(name, e, args, EvalMode.TRY)
      else refuse("what may fail of a try is not supported")
    }
}
