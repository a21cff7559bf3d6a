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

  def infallible(expr: Expr): Boolean = expr.getKindCase match {
    case Expr.KindCase.LITERAL | Expr.KindCase.COLUMN | Expr.KindCase.SUBQUERY => true
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
    case _ => Nil
  }

  private val alwaysTotal: Set[String] = Set(
    "and", "or", "not", "is_null", "is_not_null", "is_nan", "eq", "equal_null_safe", "lt", "le",
    "gt", "ge", "if",
    "coalesce", "starts_with", "ends_with", "contains", "like", "upper", "lower", "length",
    "octet_length", "substring",
    "year", "quarter", "month", "day_of_month", "day_of_week", "day_of_year",
    "normalize_nan_and_zero",
    "read_side_padding", "string_rpad")

  private def total(call: Call): Boolean = alwaysTotal.contains(call.getName)

  /**
   * The engine reads no text as a float or an instant that only Java reads, and no bytes as a
   * string that are not UTF-8.
   */
  private val dependsOnSource: Set[TypeId] =
    Set(TypeId.STRING, TypeId.FLOAT, TypeId.DOUBLE, TypeId.TIMESTAMP)

  private def total(cast: Cast): Boolean =
    cast.getMode != EvalMode.ANSI && !dependsOnSource.contains(cast.getTo.getId)
}
