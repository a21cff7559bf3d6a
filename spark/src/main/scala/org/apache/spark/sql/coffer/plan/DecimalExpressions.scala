package org.apache.spark.sql.coffer.plan

import org.apache.spark.sql.catalyst.expressions._

/**
 * What Catalyst puts around decimals by itself. Precision and scale are those of the call's type; `nullOnOverflow` is the mode.
 */
private[plan] object DecimalExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    functionBy[CheckOverflow]("check_overflow")(e => Modes.failing(!e.nullOnOverflow)),
    functionBy[CheckOverflowInSum]("check_overflow_in_sum")(e => Modes.failing(!e.nullOnOverflow)),
    functionBy[DecimalDivideWithOverflowCheck]("decimal_divide_with_overflow_check")(e => Modes.failing(!e.nullOnOverflow)),
    functionBy[MakeDecimal]("make_decimal")(e => Modes.failing(!e.nullOnOverflow)),
    function[UnscaledValue]("unscaled_value"))
}
