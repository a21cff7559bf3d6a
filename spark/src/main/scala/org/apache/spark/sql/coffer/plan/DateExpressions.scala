package org.apache.spark.sql.coffer.plan

import org.apache.spark.sql.catalyst.expressions._

/** Dates and timestamps. Hours and truncations of instants are those of the session's time zone, which the call carries. */
private[plan] object DateExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    function[DateAdd]("date_add"),
    function[DateSub]("date_sub"),
    function[DateDiff]("date_diff"),
    function[AddMonths]("add_months"),
    function[LastDay]("last_day"),
    function[Year]("year"),
    function[Quarter]("quarter"),
    function[Month]("month"),
    function[DayOfMonth]("day_of_month"),
    function[DayOfWeek]("day_of_week"),
    function[DayOfYear]("day_of_year"),
    function[WeekDay]("week_day"),
    function[WeekOfYear]("week_of_year"),
    function[TruncDate]("trunc_date"),
    function[TruncTimestamp]("trunc_timestamp"),
    function[Hour]("hour"),
    function[Minute]("minute"),
    function[Second]("second"),
    function[UnixDate]("unix_date"),
    function[DateFromUnixDate]("date_from_unix_date"),
    functionBy[MakeDate]("make_date")(e => Modes.failing(e.failOnError)))
}
