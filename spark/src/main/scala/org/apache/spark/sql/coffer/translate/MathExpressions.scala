package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions._

/** Rounding, powers, logarithms, angles. */
private[translate] object MathExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    functionBy[Round]("round")(e => Modes.failing(e.ansiEnabled)),
    functionBy[BRound]("bround")(e => Modes.failing(e.ansiEnabled)),
    function[Floor]("floor"),
    function[Ceil]("ceil"),
    function[Sqrt]("sqrt"),
    function[Signum]("signum"),
    function[Exp]("exp"),
    function[Log]("log"),
    function[Log10]("log10"),
    function[Logarithm]("logarithm"),
    function[Pow]("pow"))
}
