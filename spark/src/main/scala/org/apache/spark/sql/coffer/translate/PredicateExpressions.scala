package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Literal => CatalystLiteral, _}
import org.apache.spark.sql.coffer.proto.plan.{Expr, InList}

/** Comparisons, logic, tests for NULL and NaN, IN. */
private[translate] object PredicateExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    function[EqualTo]("eq"),
    function[EqualNullSafe]("equal_null_safe"),
    function[LessThan]("lt"),
    function[LessThanOrEqual]("le"),
    function[GreaterThan]("gt"),
    function[GreaterThanOrEqual]("ge"),
    function[Not]("not"),
    function[And]("and"),
    function[Or]("or"),
    function[IsNull]("is_null"),
    function[IsNotNull]("is_not_null"),
    function[IsNaN]("is_nan"),
    entry[In]("an IN list") { (e, scope) =>
      for {
        value <- scope.convert(e.value)
        list <- traverse(e.list)(scope.convert)
      } yield inList(value, list)
    },
    entry[InSet]("an IN list, in a fixed order") { (e, scope) =>
      for {
        value <- scope.convert(e.child)
        // A set has no order of its own; the same query must give the same fragment.
        list <- traverse(e.hset)(v => Literals.expr(CatalystLiteral(v, e.child.dataType)))
      } yield inList(value, list.sortBy(_.toByteString)(byteOrder))
    })

  private val byteOrder: Ordering[com.google.protobuf.ByteString] =
    Ordering.comparatorToOrdering(
      com.google.protobuf.ByteString.unsignedLexicographicalComparator())

  private def inList(value: Expr, list: Seq[Expr]): Expr = {
    val in = InList.newBuilder.setValue(value)
    list.foreach(in.addList)
    Expr.newBuilder.setInList(in).build()
  }
}
