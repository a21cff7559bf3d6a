package org.apache.spark.sql.coffer.translate

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.coffer.proto.plan.{Call, Cast, EvalMode, Expr, TypeId}

/**
 * Which translated expressions cannot raise an error, whatever the row. An allow-list: what is not
 * known is taken to fail, which costs a pushed filter and never an answer.
 */
private[translate] object Fallibility {

  /** May be moved into a scan: cannot fail, and needs nothing but the row. */
  def pushable(expr: Expr): Boolean = infallible(expr) && rowOnly(expr)

  /** Whether this call or cast cannot fail, whatever its arguments may do. */
  def itself(expr: Expr): Boolean = expr.getKindCase match {
    case Expr.KindCase.CALL => total(expr.getCall)
    case Expr.KindCase.CAST => total(expr.getCast)
    case _ => infallible(expr)
  }

  def infallible(expr: Expr): Boolean = expr.getKindCase match {
    case Expr.KindCase.LITERAL | Expr.KindCase.COLUMN | Expr.KindCase.SUBQUERY |
        Expr.KindCase.VARIABLE => true
    case Expr.KindCase.LAMBDA => infallible(expr.getLambda.getBody)
    case Expr.KindCase.IN_LIST =>
      infallible(expr.getInList.getValue) && expr.getInList.getListList.asScala.forall(infallible)
    case Expr.KindCase.CASE_WHEN =>
      val c = expr.getCaseWhen
      c.getBranchesList.asScala.forall(b => infallible(b.getWhen) && infallible(b.getThen)) &&
      (!c.hasOtherwise || infallible(c.getOtherwise))
    case Expr.KindCase.CAST => infallible(expr.getCast.getChild) && total(expr.getCast)
    case Expr.KindCase.CALL =>
      val call = expr.getCall
      total(call) && call.getArgsList.asScala.forall(infallible)
    case Expr.KindCase.KIND_NOT_SET => false
  }

  private def rowOnly(expr: Expr): Boolean = children(expr).forall(rowOnly) && !expr.hasSubquery

  private def children(expr: Expr): Seq[Expr] = expr.getKindCase match {
    case Expr.KindCase.CALL => expr.getCall.getArgsList.asScala.toSeq
    case Expr.KindCase.CAST => Seq(expr.getCast.getChild)
    case Expr.KindCase.IN_LIST => expr.getInList.getValue +:
        expr.getInList.getListList.asScala.toSeq
    case Expr.KindCase.CASE_WHEN =>
      val c = expr.getCaseWhen
      c.getBranchesList.asScala.toSeq.flatMap(b => Seq(b.getWhen, b.getThen)) ++
        (if (c.hasOtherwise) Seq(c.getOtherwise) else Nil)
    case Expr.KindCase.LAMBDA => Seq(expr.getLambda.getBody)
    case _ => Nil
  }

  private val alwaysTotal: Set[String] = Set(
    "and", "or", "not", "is_null", "is_not_null", "is_nan", "eq", "equal_null_safe", "lt", "le",
    "gt", "ge", "if",
    "coalesce", "starts_with", "ends_with", "contains", "like", "upper", "lower", "length",
    "octet_length", "substring",
    "year", "quarter", "month", "day_of_month", "day_of_week", "day_of_year",
    "normalize_nan_and_zero",
    "read_side_padding", "string_rpad", "create_named_struct", "get_struct_field",
    "get_array_struct_fields", "create_array", "get_map_value", "size", "flatten", "arrays_zip",
    "array_join", "array_contains", "array_position", "array_remove", "arrays_overlap", "array_min",
    "array_max", "sort_array", "array_sort", "array_distinct", "array_union", "array_intersect",
    "array_except", "map_keys", "map_values", "map_entries", "map_sort", "string_split",
    "array_transform", "array_filter", "array_exists", "array_for_all", "array_aggregate",
    "zip_with", "transform_values", "map_filter", "map_zip_with",
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "base64", "bin",
    "bitmap_bit_position", "bitmap_bucket_number", "bitmap_count", "bitwise_count", "cbrt", "cosh",
    "crc32", "date_format", "day_name", "empty_to_null", "expm1", "factorial", "find_in_set",
    "format_number", "from_unix_time", "hex", "hour_of_time", "hypot",
    "interval_days", "interval_hours", "interval_minutes", "interval_months", "interval_seconds",
    "interval_years", "minute_of_time", "second_of_time", "second_of_time_with_fraction",
    "subtract_times", "is_valid_utf8", "levenshtein", "log1p",
    "log2", "md5", "might_contain", "month_name", "murmur3_hash", "na_nvl", "overlay",
    "precise_timestamp_conversion", "quote", "regexp_instr", "regexp_like", "rint", "sha1", "sha2",
    "sinh", "sound_ex", "tanh", "to_degrees", "to_radians", "url_encode", "width_bucket",
    "xx_hash64")

  /** Those that may fail in ANSI mode only. */
  private val totalUnlessAnsi: Set[String] =
    Set("get_array_item", "conv", "elt", "get_timestamp", "next_day", "unhex", "url_decode")

  def total(call: Call): Boolean =
    alwaysTotal.contains(call.getName) ||
      totalUnlessAnsi.contains(call.getName) && call.getMode != EvalMode.ANSI

  /**
   * The engine reads no text as a float or an instant that only Java reads, and no bytes as a
   * string that are not UTF-8; nested types may hold such. A text that is no interval raises in
   * LEGACY mode too.
   */
  private val dependsOnSource: Set[TypeId] =
    Set(
      TypeId.STRING,
      TypeId.FLOAT,
      TypeId.DOUBLE,
      TypeId.TIMESTAMP,
      TypeId.YEAR_MONTH_INTERVAL,
      TypeId.DAY_TIME_INTERVAL,
      TypeId.ARRAY,
      TypeId.STRUCT,
      TypeId.MAP)

  private def total(cast: Cast): Boolean =
    cast.getMode != EvalMode.ANSI && !dependsOnSource.contains(cast.getTo.getId) && !cast.hasFrom
}
