package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions._

/**
 * Numbers in, a number out. Decimal results have the precision and scale that Catalyst resolved.
 */
private[translate] object ArithmeticExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    functionBy[Add]("add")(e => Modes.of(e.evalMode)),
    functionBy[Subtract]("subtract")(e => Modes.of(e.evalMode)),
    functionBy[Multiply]("multiply")(e => Modes.of(e.evalMode)),
    functionBy[Divide]("divide")(e => Modes.of(e.evalMode)),
    functionBy[IntegralDivide]("integral_divide")(e => Modes.of(e.evalMode)),
    functionBy[Remainder]("remainder")(e => Modes.of(e.evalMode)),
    functionBy[Pmod]("pmod")(e => Modes.of(e.evalMode)),
    functionBy[UnaryMinus]("unary_minus")(e => Modes.failing(e.failOnError)),
    functionBy[Abs]("abs")(e => Modes.failing(e.failOnError)),
    entry[UnaryPositive]("its child")((e, scope) => scope.convert(e.child)),
    function[BitwiseAnd]("bitwise_and"),
    function[BitwiseOr]("bitwise_or"),
    function[BitwiseXor]("bitwise_xor"),
    function[BitwiseNot]("bitwise_not"),
    function[ShiftLeft]("shift_left"),
    function[ShiftRight]("shift_right"),
    function[ShiftRightUnsigned]("shift_right_unsigned"))
}
