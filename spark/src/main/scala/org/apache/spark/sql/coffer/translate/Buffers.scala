package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.coffer.versions.evalMode
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, QueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}
import org.apache.spark.sql.types._

/**
 * The columns of partial aggregates: Spark's `aggBufferAttributes`, but BINARY where a number of
 * Spark's type would depend on the order in which the rows came, which the host can change. There
 * engines send exact sums. To Spark's plan the columns keep their types: nothing of Spark's reads
 * them.
 */
private[translate] object Buffers {

  /** The most digits that leave a sum's type ten more. */
  private val DIGITS = DecimalType.MAX_PRECISION - 10

  /** The buffer of a call, as engines have it. */
  def of(function: AggregateFunction): Seq[Attribute] = {
    val own = function.aggBufferAttributes
    function match {
      case s: Sum
          if exact(s.child.dataType) || tried(s) ||
            s.child.dataType.isInstanceOf[AnsiIntervalType] =>
        own.head.withDataType(BinaryType) +:
          own.tail
      case a: Average if exact(a.child.dataType) || !a.child.dataType.isInstanceOf[DecimalType] =>
        own.head.withDataType(BinaryType) +: own.tail
      case _: CentralMomentAgg | _: Covariance | _: PearsonCorrelation | _: RegrSlope |
          _: RegrIntercept => own.head +: own.tail.map(_.withDataType(BinaryType))
      // Spark's own is its rows' bytes.
      case p: Percentile =>
        val element = AggregateFunctions.counted(p).dataType
        Seq(own.head.withDataType(ArrayType(element, containsNull = false)))
      case h: HistogramNumeric =>
        Seq(own.head.withDataType(ArrayType(h.child.dataType, containsNull = false)))
      case f @ (_: CollectList | _: CollectSet | _: Mode | _: PercentileDisc) =>
        Seq(own.head.withDataType(ArrayType(f.children.head.dataType, containsNull = false)))
      case p: ApproximatePercentile =>
        Seq(own.head.withDataType(ArrayType(p.child.dataType, containsNull = false)))
      case l: ListAgg =>
        val element = AggregateFunctions.listed(l).dataType
        Seq(own.head.withDataType(ArrayType(element, containsNull = false)))
      case _ => own
    }
  }

  private def exact(dataType: DataType): Boolean = dataType match {
    case FloatType | DoubleType => true
    case d: DecimalType => d.precision > DIGITS
    case _ => false
  }

  private def tried(s: Sum): Boolean =
    s.child.dataType.isInstanceOf[IntegralType] &&
      evalMode(s) == org.apache.spark.sql.catalyst.expressions.EvalMode.TRY

  /** The output of an aggregate, as engines have it. */
  def output(plan: BaseAggregateExec): Seq[Attribute] = {
    val buffers =
      if (plan.aggregateExpressions.exists(a => a.mode == Partial || a.mode == PartialMerge))
        plan.aggregateExpressions.flatMap(a => of(a.aggregateFunction))
      else Nil
    val first = plan.output.length - buffers.length
    plan.output.take(first) ++
      plan.output.drop(first).zip(buffers).map { case (a, b) => typed(a, b.dataType) }
  }

  /** The columns of an exchange that is read, as its writer has them. */
  def read(leaf: SparkPlan, output: Seq[Attribute]): Seq[Attribute] = writer(leaf) match {
    case Some(plan) if plan.output.length == output.length =>
      output.zip(this.output(plan)).map { case (a, b) => typed(a, b.dataType) }
    case _ => output
  }

  private def typed(a: Attribute, dataType: DataType): Attribute =
    if (a.dataType == dataType) a else a.withDataType(dataType)

  @annotation.tailrec
  private def writer(plan: SparkPlan): Option[BaseAggregateExec] = plan match {
    case a: BaseAggregateExec => Some(a)
    case read: AQEShuffleReadExec => writer(read.child)
    case stage: QueryStageExec => writer(stage.plan)
    case reused: ReusedExchangeExec => writer(reused.child)
    case fragment: Templated => writer(fragment.template)
    case exchange: Exchange => writer(exchange.child)
    case other =>
      Operators.transparent(other) match {
        case Some(child) => writer(child)
        case None => None
      }
  }
}
