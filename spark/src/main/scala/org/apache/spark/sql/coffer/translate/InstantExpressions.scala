package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Left => _,
  Literal => CatalystLiteral,
  Right => _,
  _
}
import org.apache.spark.sql.coffer.proto.plan.Expr
import org.apache.spark.sql.coffer.versions.TimestampAddInterval
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.CalendarInterval

/**
 * Instants made, moved and read elsewhere. An interval of months and days together must be a
 * literal: it is no type here.
 */
private[translate] object InstantExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    functionBy[NextDay]("next_day")(e => Modes.failing(e.failOnError)),
    function[MonthName]("month_name"),
    function[DayName]("day_name"),
    function[FromUTCTimestamp]("from_utc_timestamp"),
    function[ToUTCTimestamp]("to_utc_timestamp"),
    function[ConvertTimezone]("convert_timezone"),
    function[SecondsToTimestamp]("seconds_to_timestamp"),
    function[PreciseTimestampConversion]("precise_timestamp_conversion"),
    function[YearOfWeek]("year_of_week"),
    functionBy[MakeTimestamp]("make_timestamp")(e => Modes.failing(e.failOnError)),
    entry[TimestampAdd]("`timestamp_add`") { (e, scope) =>
      Calls.of(
        "timestamp_add",
        e,
        Seq(CatalystLiteral(e.unit), e.quantity, e.timestamp),
        scope)
    },
    entry[TimestampDiff]("`timestamp_diff`") { (e, scope) =>
      // Spark adds days of the year, and counts none.
      if (e.unit.equalsIgnoreCase("DAYOFYEAR")) refuse("the unit DAYOFYEAR is not supported")
      else {
        Calls.of(
          "timestamp_diff",
          e,
          Seq(CatalystLiteral(e.unit), e.startTimestamp, e.endTimestamp),
          scope)
      }
    },
    entry[TimestampAddInterval]("`timestamp_add_day_time`; `timestamp_add_interval` of a literal") {
      (e, scope) =>
        e.interval.dataType match {
          case _: DayTimeIntervalType =>
            Calls.of("timestamp_add_day_time", e, Seq(e.start, e.interval), scope)
          case _ => moved("timestamp_add_interval", e, e.start, e.interval, scope)
        }
    },
    entry[DateAddInterval]("`date_add_interval`; the interval must be a literal of months and " +
      "days") { (e, scope) => moved("date_add_interval", e, e.start, e.interval, scope) })

  private def moved(
      name: String,
      e: Expression,
      start: Expression,
      interval: Expression,
      scope: Scope): Result[Expr] =
    for {
      parts <- parts(interval)
      from <- scope.convert(start)
      (months, days, micros) = parts
      by <- traverse(Seq[Any](months, days))(n => Literals.expr(CatalystLiteral(n)))
      rest <- Literals.expr(CatalystLiteral(micros))
      args <-
        if (name == "timestamp_add_interval") Right(from +: (by :+ rest))
        else if (micros == 0) Right(from +: by)
        else refuse("an interval of less than days added to a date is not supported")
      call <- Calls.ofConverted(name, e, args)
    } yield call

  /** Months, days and microseconds of a literal. */
  private def parts(interval: Expression): Result[(Int, Int, Long)] = interval match {
    case CatalystLiteral(i: CalendarInterval, CalendarIntervalType) =>
      Right((i.months, i.days, i.microseconds))
    case UnaryMinus(child, _) =>
      parts(child).map { case (months, days, micros) => (-months, -days, -micros) }
    case _ => refuse("an interval that is not a literal is not supported")
  }
}
