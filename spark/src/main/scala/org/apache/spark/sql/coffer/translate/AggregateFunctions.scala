package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.Divide
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.coffer.proto.plan.EvalMode
import org.apache.spark.sql.execution.aggregate.{
  ScalaAggregator,
  ScalaUDAF,
  TypedAggregateExpression
}

/** An aggregate function that only engines have, by the name that they know it by. */
trait EngineAggregate {
  def engineName: String
}

/** The aggregate functions that the engine has, with what is said of each call. */
private[translate] object AggregateFunctions {

  final case class Known(
      name: String,
      eval: EvalMode = EvalMode.LEGACY,
      ignoreNulls: Boolean = false)

  def of(function: AggregateFunction): Result[Known] = function match {
    case _: Count => Right(Known("count"))
    case s: Sum => Right(Known("sum", Modes.of(s.evalContext.evalMode)))
    case a: Average => Right(Known("avg", Modes.of(a.evalMode)))
    case _: Min => Right(Known("min"))
    case _: Max => Right(Known("max"))
    case f: First => Right(Known("first", ignoreNulls = f.ignoreNulls))
    case l: Last => Right(Known("last", ignoreNulls = l.ignoreNulls))
    case v: VariancePop => moments("variance_pop", v.nullOnDivideByZero)
    case v: VarianceSamp => moments("variance_samp", v.nullOnDivideByZero)
    case s: StddevPop => moments("stddev_pop", s.nullOnDivideByZero)
    case s: StddevSamp => moments("stddev_samp", s.nullOnDivideByZero)
    case c: CovPopulation => moments("covar_pop", c.nullOnDivideByZero)
    case c: CovSample => moments("covar_samp", c.nullOnDivideByZero)
    case c: Corr => moments("corr", c.nullOnDivideByZero).map(_.copy(eval = division(c)))
    case _: BitAndAgg => Right(Known("bit_and"))
    case _: BitOrAgg => Right(Known("bit_or"))
    case _: BitXorAgg => Right(Known("bit_xor"))
    case _: MaxBy => Right(Known("max_by"))
    case _: MinBy => Right(Known("min_by"))
    case e: EngineAggregate => Right(Known(e.engineName))
    case _: ScalaUDAF | _: ScalaAggregator[_, _, _] | _: TypedAggregateExpression =>
      refuse("user-defined aggregates would see opened data outside the enclave")
    case other => refuse(s"the aggregate function ${other.prettyName} is not supported")
  }

  /** Of values that do not differ there is nothing to divide by: NULL or an error. */
  private def division(of: Corr): EvalMode =
    of.evaluateExpression.collectFirst { case d: Divide => Modes.of(d.evalMode) }
      .getOrElse(EvalMode.LEGACY)

  private def moments(name: String, nullOnDivideByZero: Boolean): Result[Known] =
    if (nullOnDivideByZero) Right(Known(name))
    else refuse("spark.sql.legacy.statisticalAggregate is not supported")
}
