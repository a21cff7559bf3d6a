package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf

/**
 * Dates and timestamps. Hours and truncations of instants are those of the session's time zone,
 * which the call carries.
 */
private[translate] object DateExpressions extends ExpressionFamily {

  /**
   * The patterns that the engine writes: numbers with fixed places, and what stands between them.
   */
  private val plain =
    "(?:y{4}(?!y)|M{1,2}(?!M)|d{1,2}(?!d)|H{1,2}(?!H)|m{1,2}(?!m)|s{1,2}(?!s)|S{1,6}(?!S)|[ -~&&[^a-zA-Z'\\[\\]{}#]])*".r

  /** Java's older formatter has another calendar before 1582. */
  private def legacyFormatter: Boolean =
    SQLConf.get.getConf(SQLConf.LEGACY_TIME_PARSER_POLICY).toString == "LEGACY"

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
    functionOfLiteral[TruncDate]("trunc_date", "unit", 1)(),
    functionOfLiteral[TruncTimestamp]("trunc_timestamp", "unit", 0)(),
    functionOfLiteral[DateFormatClass]("date_format", "pattern", 1)(p =>
      plain.matches(p.toString) && !legacyFormatter),
    functionOfLiteral[MonthsBetween]("months_between", "rounding", 2)(),
    function[Hour]("hour"),
    function[Minute]("minute"),
    function[Second]("second"),
    function[SecondWithFraction]("second_with_fraction"),
    function[UnixSeconds]("unix_seconds"),
    function[UnixMillis]("unix_millis"),
    function[UnixMicros]("unix_micros"),
    function[MillisToTimestamp]("millis_to_timestamp"),
    function[MicrosToTimestamp]("micros_to_timestamp"),
    function[UnixDate]("unix_date"),
    function[DateFromUnixDate]("date_from_unix_date"),
    functionBy[MakeDate]("make_date")(e => Modes.failing(e.failOnError)))
}
