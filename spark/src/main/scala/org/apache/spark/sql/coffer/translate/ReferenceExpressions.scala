package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.coffer.proto.plan.{Expr, SubqueryValue}
import org.apache.spark.sql.execution.ScalarSubquery

/**
 * Columns, literals, values computed elsewhere, and the wrappers that only tell the optimizer
 * something.
 */
private[translate] object ReferenceExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    entry[AttributeReference]("a column by position") { (a, scope) =>
      scope.position(a.exprId) match {
        case Some(position) => Right(column(position))
        case None => refuse("this column is not among the operator's input")
      }
    },
    entry[BoundReference]("a column by position") { (b, scope) =>
      if (b.ordinal < scope.width) Right(column(b.ordinal))
      else refuse("this position is not among the operator's input")
    },
    entry[Literal]("a literal")((l, _) => Literals.expr(l)),
    entry[Alias]("its child")((a, scope) => scope.convert(a.child)),
    entry[ScalarSubquery]("a value that comes sealed with the " +
      "task")((s, scope) => subquery(s, 0, s, scope)),
    entry[GetStructField]("`get_struct_field`; a value as above, of a scalar subquery that the " +
      "optimizer merged") { (field, scope) =>
      field.child match {
        case s: ScalarSubquery => subquery(s, field.ordinal, field, scope)
        case child =>
          for {
            row <- scope.convert(child)
            ordinal <- Literals.expr(Literal(field.ordinal))
            call <- Calls.ofConverted("get_struct_field", field, Seq(row, ordinal))
          } yield call
      }
    },
    // A write puts it above columns that the table has as NOT NULL; the engine's sink checks those
    // itself.
    entry[AssertNotNull]("its child: the sink of a write checks NOT " +
      "NULL")((e, scope) => scope.convert(e.child)),
    entry[CheckOverflowInTableInsert]("its child, a cast that may " +
      "fail")((e, scope) => scope.convert(e.child)),
    entry[KnownNullable]("its child")((e, scope) => scope.convert(e.child)),
    entry[KnownNotNull]("its child")((e, scope) => scope.convert(e.child)),
    entry[KnownFloatingPointNormalized]("its child")((e, scope) => scope.convert(e.child)),
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
