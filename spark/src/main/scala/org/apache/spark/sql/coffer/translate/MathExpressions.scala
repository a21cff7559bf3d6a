package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{EvalMode => _, _}
import org.apache.spark.sql.coffer.proto.plan.EvalMode

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
    function[Pow]("pow"),
    function[Log2]("log2"),
    function[Log1p]("log1p"),
    function[Expm1]("expm1"),
    function[Acos]("acos"),
    function[Asin]("asin"),
    function[Atan]("atan"),
    function[Atan2]("atan2"),
    function[Sinh]("sinh"),
    function[Cosh]("cosh"),
    function[Tanh]("tanh"),
    function[Acosh]("acosh"),
    function[Asinh]("asinh"),
    function[Atanh]("atanh"),
    function[Cbrt]("cbrt"),
    function[Hypot]("hypot"),
    function[Rint]("rint"),
    function[ToDegrees]("to_degrees"),
    function[ToRadians]("to_radians"),
    functionOfChosen[NaNvl]("na_nvl")(_ => EvalMode.LEGACY),
    function[Factorial]("factorial"),
    function[WidthBucket]("width_bucket"),
    function[BitwiseCount]("bitwise_count"),
    function[BitwiseGet]("bitwise_get"),
    function[Bin]("bin"),
    function[Hex]("hex"),
    functionBy[Unhex]("unhex")(e => Modes.failing(e.failOnError)),
    functionBy[Conv]("conv")(e => Modes.failing(e.ansiEnabled)))
}
