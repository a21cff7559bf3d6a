package org.apache.spark.sql.coffer.translate

import scala.reflect.ClassTag

import org.apache.spark.sql.catalyst.expressions.{
  EvalMode => CatalystMode,
  Left => _,
  Right => _,
  _
}
import org.apache.spark.sql.coffer.proto.plan.{Call, EvalMode, Expr}

/**
 * The translation of one class of expressions. An answer without an expression named gets this
 * one's.
 */
private[translate] trait ExpressionSerde[E <: Expression] {
  def convert(expr: E, scope: Scope): Result[Expr]
}

/**
 * A class, what it becomes in the engine (for the reference), and its serde; families are lists of
 * these.
 */
private[translate] final class ExpressionEntry(
    val expression: Class[_],
    val becomes: String,
    serde: ExpressionSerde[Expression]) {
  def convert(expr: Expression, scope: Scope): Result[Expr] = serde.convert(expr, scope)
}

private[translate] trait ExpressionFamily {
  def entries: Seq[ExpressionEntry]

  protected def entry[E <: Expression](becomes: String)(serde: ExpressionSerde[E])(implicit
      tag: ClassTag[E]): ExpressionEntry =
    new ExpressionEntry(
      tag.runtimeClass,
      becomes,
      (expr: Expression, scope: Scope) => serde.convert(expr.asInstanceOf[E], scope))

  /** A function whose arguments are the expression's children, in their order. */
  protected def function[E <: Expression: ClassTag](name: String): ExpressionEntry =
    entry[E](s"`$name`")((expr, scope) => Calls.of(name, expr, expr.children, scope))

  /**
   * The same, where the engine wants one argument to be a literal that `fits`; `what` says which.
   */
  protected def functionOfLiteral[E <: Expression: ClassTag](
      name: String,
      what: String,
      index: Int)(
      fits: Any => Boolean = _ => true): ExpressionEntry =
    entry[E](s"`$name`; $what must be a literal") { (expr, scope) =>
      expr.children(index) match {
        case Literal(null, _) => Calls.of(name, expr, expr.children, scope)
        case Literal(value, _) if fits(value) => Calls.of(name, expr, expr.children, scope)
        case Literal(_, _) => refuse(s"this $what is not supported")
        case _ => refuse(s"$what that is no literal is not supported")
      }
    }

  /**
   * The same, of a function that Spark gives no more arguments than it needs: none but the first
   * may raise an error, as the engine computes all.
   */
  protected def functionOfChosen[E <: Expression: ClassTag](name: String)(
      mode: E => EvalMode): ExpressionEntry =
    entry[E](s"`$name`") { (expr, scope) =>
      traverse(expr.children)(scope.convert).flatMap { args =>
        if (args.tail.forall(Fallibility.infallible)) {
          Calls.ofConverted(name, expr, args, mode(expr))
        } else refuse("an argument that may raise an error and may not be needed")
      }
    }

  /** The same, with what to do about overflow and bad values. */
  protected def functionBy[E <: Expression: ClassTag](name: String)(
      mode: E => EvalMode): ExpressionEntry =
    entry[E](s"`$name`")((expr, scope) => Calls.of(name, expr, expr.children, scope, mode(expr)))
}

/** Every expression that has a translation, by its exact class. */
object Expressions {
  private val families: Seq[ExpressionFamily] = Seq(
    ReferenceExpressions,
    CipherExpressions,
    ArithmeticExpressions,
    DecimalExpressions,
    PredicateExpressions,
    ConditionalExpressions,
    CastExpressions,
    DateExpressions,
    StringExpressions,
    TextExpressions,
    MathExpressions,
    DigestExpressions,
    InstantExpressions,
    IntervalExpressions,
    PatternExpressions,
    InvokeExpressions,
    NestedExpressions,
    LambdaExpressions)

  private val byClass: Map[Class[_], ExpressionEntry] =
    families.flatMap(_.entries).groupMapReduce(_.expression)(identity) { (one, _) =>
      throw new IllegalStateException(s"${one.expression.getName} has two translations")
    }

  private[translate] def convert(expr: Expression, scope: Scope): Result[Expr] = {
    val converted = byClass.get(expr.getClass) match {
      case Some(entry) =>
        for {
          _ <- Types.of(expr.dataType)
          _ <- OpenTypes.check(expr)
          converted <- entry.convert(expr, scope)
        } yield converted
      case None =>
        expr match {
          // Left over where no optimizer rule has passed; the replacement is the meaning.
          case r: RuntimeReplaceable => convert(r.replacement, scope)
          case _ => refuse(Refusals.reason(expr, Types.of(expr.dataType).left.toOption))
        }
    }
    converted.left.map(_.at(expr))
  }

  /**
   * Families with their classes and what those become: what `docs/reference/operators.md` lists.
   */
  private[translate] def reference: Seq[(String, Seq[(String, String)])] = families.map { f =>
    val name = f.getClass.getSimpleName.stripSuffix("$").stripSuffix("Expressions")
    name -> f.entries.map(e => e.expression.getSimpleName -> e.becomes)
  }
}

private[translate] object Calls {

  def of(
      name: String,
      expr: Expression,
      args: Seq[Expression],
      scope: Scope,
      mode: EvalMode = EvalMode.LEGACY): Result[Expr] =
    traverse(args)(scope.convert).flatMap(ofConverted(name, expr, _, mode))

  def ofConverted(
      name: String,
      expr: Expression,
      args: Seq[Expr],
      mode: EvalMode = EvalMode.LEGACY): Result[Expr] =
    for {
      resultType <- Types.of(expr.dataType)
      zone <- TimeZones.of(expr)
    } yield {
      val call = Call.newBuilder.setName(name).setType(resultType).setMode(mode).setTimeZone(
        zone).setFloatText(FloatTexts.of(expr))
      args.foreach(call.addArgs)
      Expr.newBuilder.setCall(call).build()
    }
}

private[translate] object Modes {
  def of(mode: CatalystMode.Value): EvalMode =
    if (mode == CatalystMode.ANSI) EvalMode.ANSI
    else if (mode == CatalystMode.TRY) EvalMode.TRY
    else EvalMode.LEGACY

  def failing(failOnError: Boolean): EvalMode =
    if (failOnError) EvalMode.ANSI else EvalMode.LEGACY
}

private[translate] object TimeZones {

  /** The zone of a time zone aware expression, else an empty text. */
  def of(expr: Expression): Result[String] = expr match {
    case aware: TimeZoneAwareExpression =>
      aware.timeZoneId match {
        case Some(id) => Right(id)
        case None => refuse("its time zone has not been resolved")
      }
    case _ => Right("")
  }
}
