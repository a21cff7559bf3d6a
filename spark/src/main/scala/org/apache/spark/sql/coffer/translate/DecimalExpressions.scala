package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions._

/**
 * What Catalyst puts around decimals by itself, but for what lives inside SUM and AVG only.
 * Precision and scale are those of the call's type; `nullOnOverflow` is the mode.
 */
private[translate] object DecimalExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    functionBy[CheckOverflow]("check_overflow")(e => Modes.failing(!e.nullOnOverflow)),
    functionBy[MakeDecimal]("make_decimal")(e => Modes.failing(!e.nullOnOverflow)),
    // What is left of an average whose sum came to the client from ciphertexts.
    functionBy[DecimalDivideWithOverflowCheck]("decimal_divide_with_overflow_check")(e =>
      Modes.failing(!e.nullOnOverflow)),
    // Where the frame of a row ends.
    function[DecimalAddNoOverflowCheck]("decimal_add_no_overflow_check"),
    function[UnscaledValue]("unscaled_value"))
}
