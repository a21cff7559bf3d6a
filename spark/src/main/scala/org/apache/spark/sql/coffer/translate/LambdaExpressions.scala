package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Left => _,
  Literal => CatalystLiteral,
  Right => _,
  _
}
import org.apache.spark.sql.coffer.proto.plan.{Expr, Lambda}
import org.apache.spark.sql.coffer.versions.mapZipWithUsesJava
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** Functions that evaluate a lambda for each element or entry. */
private[translate] object LambdaExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    entry[NamedLambdaVariable]("a parameter of a lambda, by position") { (v, scope) =>
      scope.variable(v.exprId) match {
        case Some(position) => Right(Expr.newBuilder.setVariable(position).build())
        case None => refuse("no lambda has this variable")
      }
    },
    higherOrder[ArrayTransform]("array_transform"),
    higherOrder[ArrayFilter]("array_filter"),
    entry[ArrayExists]("`array_exists`") { (e, scope) =>
      Literals.expr(CatalystLiteral(e.followThreeValuedLogic)).flatMap(flag =>
        call("array_exists", e, scope, after = Seq(flag)))
    },
    higherOrder[ArrayForAll]("array_for_all"),
    entry[ArrayAggregate]("`array_aggregate`") { (e, scope) =>
      // Structs whose fields have other names are of one type to Spark.
      if (bare(e.zero.dataType) == bare(e.merge.dataType)) call("array_aggregate", e, scope)
      else refuse("a state whose fields change their names")
    },
    higherOrder[ZipWith]("zip_with"),
    entry[TransformKeys]("`transform_keys`")((e, scope) =>
      NestedExpressions.lastKeyWins(e.dataType).flatMap(flag =>
        call("transform_keys", e, scope, before = Seq(flag)))),
    higherOrder[TransformValues]("transform_values"),
    higherOrder[MapFilter]("map_filter"),
    entry[MapZipWith]("`map_zip_with`") { (e, scope) =>
      if (mapZipWithUsesJava(SQLConf.get)) call("map_zip_with", e, scope)
      else refuse("map_zip_with over Scala's collections is not supported")
    },
    entry[ArraySort]("`array_sort`, in its own order only") { (e, scope) =>
      if (isDefault(e)) Calls.of("array_sort", e, Seq(e.argument), scope)
      else refuse("array_sort with a comparator of its own is not supported")
    })

  private def higherOrder[E <: HigherOrderFunction](name: String)(implicit
      tag: scala.reflect.ClassTag[E]): ExpressionEntry =
    entry[E](s"`$name`")((e, scope) => call(name, e, scope))

  /** The arguments, and then the lambdas. */
  private def call(
      name: String,
      e: HigherOrderFunction,
      scope: Scope,
      before: Seq[Expr] = Nil,
      after: Seq[Expr] = Nil): Result[Expr] =
    for {
      args <- traverse(e.arguments)(scope.convert)
      lambdas <- traverse(e.functions)(lambda(_, scope))
      call <- Calls.ofConverted(name, e, before ++ args ++ after ++ lambdas)
    } yield call

  private def lambda(function: Expression, scope: Scope): Result[Expr] = function match {
    case LambdaFunction(body, parameters, _) =>
      for {
        types <- traverse(parameters)(p => Types.of(p.dataType))
        converted <- scope.inside(parameters.map(_.exprId)).convert(body)
      } yield {
        val lambda = Lambda.newBuilder.setBody(converted)
        types.foreach(lambda.addParameters)
        Expr.newBuilder.setLambda(lambda).build()
      }
    case _ => refuse("a function that is no lambda")
  }

  /** The type without what the engine's does not have: which parts may be NULL. */
  private def bare(dataType: DataType): DataType = dataType match {
    case ArrayType(element, _) => ArrayType(bare(element), containsNull = true)
    case MapType(key, value, _) => MapType(bare(key), bare(value), valueContainsNull = true)
    case StructType(fields) =>
      StructType(fields.map(f => StructField(f.name, bare(f.dataType), nullable = true)))
    case other => other
  }

  // ---- array_sort -------------------------------------------------------------------------------

  /** `ArraySort.comparator`, also where the optimizer knows that nothing is NULL. */
  private def isDefault(sort: ArraySort): Boolean = (sort.function, sort.argument.dataType) match {
    case (LambdaFunction(body, Seq(l, r), _), ArrayType(_, containsNull)) =>
      def is(e: Expression, v: NamedExpression) = e match {
        case found: NamedLambdaVariable => found.exprId == v.exprId
        case _ => false
      }
      def compares(e: Expression): Boolean = e match {
        case If(LessThan(a, b), Number(-1), If(GreaterThan(c, d), Number(1), Number(0))) =>
          is(a, l) && is(b, r) && is(c, l) && is(d, r)
        case _ => false
      }
      body match {
        case If(
              And(IsNull(a), IsNull(b)),
              Number(0),
              If(IsNull(c), Number(1), If(IsNull(d), Number(-1), rest))) =>
          is(a, l) && is(b, r) && is(c, l) && is(d, r) && compares(rest)
        case rest => !containsNull && compares(rest)
      }
    case _ => false
  }

  private object Number {
    def unapply(e: Expression): Option[Int] = e match {
      case CatalystLiteral(n: Int, IntegerType) => Some(n)
      case _ => None
    }
  }
}
