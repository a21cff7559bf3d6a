package org.apache.spark.sql.coffer.plan

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.coffer.proto.plan.{Expr, SubqueryValue}
import org.apache.spark.sql.execution.ScalarSubquery

/** Columns, literals, values computed elsewhere, and the wrappers that only tell the optimizer something. */
private[plan] object ReferenceExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    entry[AttributeReference] { (a, scope) =>
      scope.position(a.exprId) match {
        case Some(position) => Right(column(position))
        case None => refuse("this column is not among the operator's input")
      }
    },
    entry[BoundReference] { (b, scope) =>
      if (b.ordinal < scope.width) Right(column(b.ordinal))
      else refuse("this position is not among the operator's input")
    },
    entry[Literal]((l, _) => Literals.expr(l)),
    entry[Alias]((a, scope) => scope.convert(a.child)),
    entry[ScalarSubquery]((s, scope) => subquery(s, 0, s, scope)),
    entry[GetStructField] { (field, scope) =>
      field.child match {
        case s: ScalarSubquery => subquery(s, field.ordinal, field, scope)
        case _ => refuse("nested types are not supported")
      }
    },
    entry[KnownNullable]((e, scope) => scope.convert(e.child)),
    entry[KnownNotNull]((e, scope) => scope.convert(e.child)),
    entry[KnownFloatingPointNormalized]((e, scope) => scope.convert(e.child)),
    function[NormalizeNaNAndZero]("normalize_nan_and_zero"))

  private def subquery(
      subquery: ScalarSubquery,
      field: Int,
      value: Expression,
      scope: Scope): Result[Expr] =
    Types.of(value.dataType).map { t =>
      val id = scope.translation.bindSubquery(subquery, field, value)
      Expr.newBuilder.setSubquery(SubqueryValue.newBuilder.setId(id).setType(t)).build()
    }

  def column(position: Int): Expr = Expr.newBuilder.setColumn(position).build()
}
