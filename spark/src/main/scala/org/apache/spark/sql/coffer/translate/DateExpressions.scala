package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{LongType, StringType}

/**
 * Dates and timestamps. Hours and truncations of instants are those of the session's time zone,
 * which the call carries.
 */
private[translate] object DateExpressions extends ExpressionFamily {

  /** Letters that need no locale but English names and no zone, and what stands between them. */
  private val between = "'[^']*'|[ -~&&[^a-zA-Z'\\[\\]{}#]]"
  private val clock =
    "d{1,2}(?!d)|H{1,2}(?!H)|h{1,2}(?!h)|m{1,2}(?!m)|s{1,2}(?!s)|S{1,9}(?!S)|a(?!a)"
  private val written = (s"(?:y{1,6}(?!y)|M{1,4}(?!M)|L{1,4}(?!L)|E{1,4}(?!E)|D{1,3}(?!D)|" +
    s"Q{1,2}(?!Q)|K{1,2}(?!K)|k{1,2}(?!k)|$clock|$between)*").r
  private val read = s"(?:y{4}(?!y)|M{1,4}(?!M)|$clock|$between)*".r

  /** Each letter once: a field that is given twice must agree with itself. */
  private[translate] def readable(pattern: String): Boolean = {
    val letters = "'[^']*'".r.replaceAllIn(pattern, "").filter(_.isLetter)
    val runs = letters.indices.filter(i => i == 0 || letters(i) != letters(i - 1)).map(letters(_))
    read.matches(pattern) && runs.distinct.length == runs.length &&
    !(runs.contains('H') && (runs.contains('h') || runs.contains('a')))
  }

  private def writable(pattern: Any): Boolean =
    written.matches(pattern.toString) && !legacyFormatter

  private def parsed[E <: ToTimestamp](name: String)(fails: E => Boolean)(implicit
      tag: scala.reflect.ClassTag[E]): ExpressionEntry =
    entry[E](s"`$name`; the pattern must be a literal") { (e, scope) =>
      e.right match {
        case _ if !e.left.dataType.isInstanceOf[StringType] && e.dataType != LongType =>
          refuse("a pattern for what is no string is not supported")
        case _ if !e.left.dataType.isInstanceOf[StringType] =>
          Calls.of(name, e, Seq(e.left, Literal("yyyy")), scope, Modes.failing(fails(e)))
        case Literal(null, _) => Calls.of(name, e, e.children, scope)
        case Literal(p, _) if readable(p.toString) && correctedParser =>
          Calls.of(name, e, e.children, scope, Modes.failing(fails(e)))
        case Literal(_, _) => refuse("this pattern is not supported")
        case _ => refuse("a pattern that is not a literal is not supported")
      }
    }

  /** Java's older formatter has another calendar before 1582. */
  private def legacyFormatter: Boolean =
    SQLConf.get.getConf(SQLConf.LEGACY_TIME_PARSER_POLICY).toString == "LEGACY"

  private def correctedParser: Boolean =
    SQLConf.get.getConf(SQLConf.LEGACY_TIME_PARSER_POLICY).toString == "CORRECTED"

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
    functionOfLiteral[DateFormatClass]("date_format", "pattern", 1)(writable),
    functionOfLiteral[FromUnixTime]("from_unix_time", "pattern", 1)(writable),
    parsed[GetTimestamp]("get_timestamp")(e => e.failOnError),
    parsed[ToUnixTimestamp]("to_unix_timestamp")(e => e.failOnError),
    parsed[UnixTimestamp]("to_unix_timestamp")(e => e.failOnError),
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
