package org.apache.spark.sql.coffer.translate

import scala.reflect.ClassTag

import org.apache.spark.sql.catalyst.expressions.{EvalMode => _, Left => _, Right => _, _}
import org.apache.spark.sql.coffer.proto.plan.EvalMode
import org.apache.spark.sql.types.AnsiIntervalType

/**
 * Numbers in, a number out. Decimal results have the precision and scale that Catalyst resolved.
 */
private[translate] object ArithmeticExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    ofIntervals[Add]("add")(e => Modes.of(e.evalMode)),
    ofIntervals[Subtract]("subtract")(e => Modes.of(e.evalMode)),
    functionBy[Multiply]("multiply")(e => Modes.of(e.evalMode)),
    functionBy[Divide]("divide")(e => Modes.of(e.evalMode)),
    functionBy[IntegralDivide]("integral_divide")(e => Modes.of(e.evalMode)),
    functionBy[Remainder]("remainder")(e => Modes.of(e.evalMode)),
    functionBy[Pmod]("pmod")(e => Modes.of(e.evalMode)),
    ofIntervals[UnaryMinus]("unary_minus")(e => Modes.failing(e.failOnError)),
    functionBy[Abs]("abs") { e =>
      // Of intervals Spark has no other.
      Modes.failing(e.failOnError || e.dataType.isInstanceOf[AnsiIntervalType])
    },
    entry[UnaryPositive]("its child")((e, scope) => scope.convert(e.child)),
    function[BitwiseAnd]("bitwise_and"),
    function[BitwiseOr]("bitwise_or"),
    function[BitwiseXor]("bitwise_xor"),
    function[BitwiseNot]("bitwise_not"),
    function[ShiftLeft]("shift_left"),
    function[ShiftRight]("shift_right"),
    function[ShiftRightUnsigned]("shift_right_unsigned"))

  /** What intervals have a function of their own for, which fails in every mode. */
  private def ofIntervals[E <: Expression: ClassTag](name: String)(
      mode: E => EvalMode): ExpressionEntry =
    entry[E](s"`$name`; of intervals one of their own") { (e, scope) =>
      IntervalExpressions.arithmetic(e) match {
        case Some(own) => Calls.of(own, e, e.children, scope, EvalMode.ANSI)
        case None => Calls.of(name, e, e.children, scope, mode(e))
      }
    }
}
