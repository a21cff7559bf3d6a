package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  BitmapConstructAgg,
  BitmapOrAgg,
  BoundReference,
  Cast,
  CreateNamedStruct,
  Descending,
  Divide,
  Expression,
  If,
  IsNull,
  Literal,
  NullsFirst,
  Or
}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.util.{toPrettySQL, ArrayData}
import org.apache.spark.sql.coffer.proto.plan.{AggCall, EvalMode, Literal => PlanLiteral}
import org.apache.spark.sql.coffer.versions.{evalMode, BitmapAndAgg}
import org.apache.spark.sql.execution.aggregate.{
  ScalaAggregator,
  ScalaUDAF,
  TypedAggregateExpression
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{
  AnsiIntervalType,
  ArrayType,
  BinaryType,
  DataType,
  DecimalType,
  LongType,
  NullType,
  NumericType,
  StructType
}
import org.apache.spark.util.sketch.CountMinSketch

/** An aggregate function that only engines have, by the name that they know it by. */
trait EngineAggregate {
  def engineName: String
}

/** The aggregate functions that the engine has, with what is said of each call. */
private[translate] object AggregateFunctions {

  final case class Known(
      name: String,
      eval: EvalMode = EvalMode.LEGACY,
      ignoreNulls: Boolean = false,
      /** The arguments, where they are not the function's children. */
      over: Option[Seq[Expression]] = None,
      percentiles: Option[AggCall.Percentiles] = None,
      largest: Boolean = false,
      /** What else is said of the call, as constants. */
      parameters: Seq[Literal] = Nil,
      pivot: Seq[PlanLiteral] = Nil)

  def of(function: AggregateFunction): Result[Known] =
    OpenTypes.check(function).flatMap(_ => known(function))

  private def isNested(of: DataType): Boolean =
    of.isInstanceOf[ArrayType] || of.isInstanceOf[StructType]

  private def known(function: AggregateFunction): Result[Known] = function match {
    case _: Count => Right(Known("count"))
    case s: Sum if s.child.dataType.isInstanceOf[AnsiIntervalType] => Right(Known("interval_sum"))
    case a: Average if a.child.dataType.isInstanceOf[AnsiIntervalType] =>
      Right(Known("interval_avg"))
    case s: Sum => Right(Known("sum", Modes.of(evalMode(s))))
    case a: Average => Right(Known("avg", Modes.of(a.evalMode)))
    case m @ (_: Min | _: Max) if isNested(m.children.head.dataType) =>
      refuse("the engine has no least and greatest array or struct")
    case m @ (_: Min | _: Max) if m.children.head.dataType == NullType =>
      refuse("the engine has no order of nothing but NULL")
    case _: Min => Right(Known("min"))
    case _: Max => Right(Known("max"))
    case f: First => Right(Known("first", ignoreNulls = f.ignoreNulls))
    case l: Last => Right(Known("last", ignoreNulls = l.ignoreNulls))
    // Of REGR_SXX and REGR_SYY.
    case _: RegrReplacement => Right(Known("regr_sxx"))
    case s: Skewness => moments("skewness", s.nullOnDivideByZero)
    case k: Kurtosis => moments("kurtosis", k.nullOnDivideByZero)
    case _: RegrSXY => Right(Known("regr_sxy"))
    case _: RegrR2 => Right(Known("regr_r2"))
    case _: RegrSlope => Right(Known("regr_slope"))
    case _: RegrIntercept => Right(Known("regr_intercept"))
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
    case _: CollectList => Right(Known("collect_list"))
    case _: CollectSet => Right(Known("collect_set"))
    case m: Mode =>
      // Without an order Spark takes any of several.
      val any = if (m.reverseOpt.isEmpty) Seq(Literal(true)) else Nil
      Right(Known("mode", largest = m.reverseOpt.contains(false), parameters = any))
    case p: Percentile if p.frequencyExpression == Literal(1L) =>
      percentiles("percentile", p, p.reverse)
    case p: Percentile =>
      // Spark's complaint of a negative one names it as it is when it runs.
      val bound = p.frequencyExpression.transform {
        case a: Attribute => BoundReference(0, a.dataType, a.nullable)
      }
      percentiles("percentile", p, p.reverse).map(
        _.copy(over = Some(Seq(counted(p))),
          parameters = Seq(Literal("\"" + toPrettySQL(bound) + "\""))))
    case p: PercentileDisc if !p.legacyCalculation => percentiles("percentile_disc", p, p.reverse)
    case _: PercentileDisc => refuse("spark.sql.legacy.percentileDiscCalculation is not supported")
    case h: HyperLogLogPlusPlus =>
      (4 to 18).find(bits => (1 << bits) / 10 + 1 == h.aggBufferAttributes.length) match {
        case Some(bits) => Right(Known("approx_count_distinct", parameters = Seq(Literal(bits))))
        case None => refuse("so small a deviation is not supported")
      }
    case s: CountMinSketchAgg => sketch(s)
    case b: BloomFilterAggregate => bloom(b)
    case _: BitmapConstructAgg => Right(Known("bitmap_construct_agg"))
    case _: BitmapOrAgg => Right(Known("bitmap_or_agg"))
    case _: BitmapAndAgg => Right(Known("bitmap_and_agg"))
    case p: ApproximatePercentile => approximate(p)
    case h: HistogramNumeric => histogram(h)
    case l: ListAgg =>
      val delimiter = l.delimiter.eval() match {
        case null if l.dataType == BinaryType => Literal(Array.emptyByteArray)
        case null => Literal("")
        case value => Literal(value, l.dataType)
      }
      val orders = l.orderExpressions.flatMap(o =>
        Seq(Literal(o.direction == Descending), Literal(o.nullOrdering == NullsFirst)))
      Right(Known("listagg", over = Some(Seq(listed(l))), parameters = delimiter +: orders))
    case p: PivotFirst =>
      traverse(p.pivotColumnValues)(Literals.of(_, p.pivotColumn.dataType)).map(named =>
        Known("pivot_first", pivot = named))
    case e: EngineAggregate => Right(Known(e.engineName))
    case _: ScalaUDAF | _: ScalaAggregator[_, _, _] | _: TypedAggregateExpression =>
      refuse("user-defined aggregates would see opened data outside the enclave")
    case other => refuse(s"the aggregate function ${other.prettyName} is not supported")
  }

  /** What is kept of a row: the value, with its keys where those are others. */
  private[translate] def listed(l: ListAgg): Expression =
    if (!l.needSaveOrderValue) l.child
    else {
      val keys = l.orderExpressions.map(_.child)
      val parts = (l.child +: keys).zipWithIndex.flatMap { case (e, i) => Seq(Literal(s"_$i"), e) }
      val made = CreateNamedStruct(parts)
      If(IsNull(l.child), Literal(null, made.dataType), made)
    }

  /** What is kept of a row: the value, with how often it counts where that is said. */
  private[translate] def counted(p: Percentile): Expression =
    if (p.frequencyExpression == Literal(1L)) p.child
    else {
      val frequency = p.frequencyExpression.dataType match {
        case LongType => p.frequencyExpression
        case _ => Cast(p.frequencyExpression, LongType)
      }
      val made = CreateNamedStruct(Seq(Literal("_0"), p.child, Literal("_1"), frequency))
      If(Or(IsNull(p.child), IsNull(p.frequencyExpression)), Literal(null, made.dataType), made)
    }

  private def histogram(h: HistogramNumeric): Result[Known] =
    (h.child.dataType, h.nBins.eval()) match {
      case (_: DecimalType, _) =>
        refuse(s"histograms of ${h.child.dataType.sql} are not supported")
      case _ if !SQLConf.get.histogramNumericPropagateInputType =>
        refuse(s"${SQLConf.HISTOGRAM_NUMERIC_PROPAGATE_INPUT_TYPE.key} must be true")
      case (_, bins: Int) =>
        Right(Known(
            "histogram_numeric",
            over = Some(Seq(h.child)),
            parameters = Seq(Literal(bins))))
      case _ => refuse("histograms of no known size")
    }

  private def sketch(s: CountMinSketchAgg): Result[Known] = {
    (s.epsExpression.eval(), s.confidenceExpression.eval(), s.seedExpression.eval()) match {
      case (eps: Double, confidence: Double, number: Number) =>
        val seed = number.intValue
        val like = CountMinSketch.create(eps, confidence, seed)
        if (like.depth.toLong * like.width > MOST_COUNTERS) refuse("a sketch of more counters")
        else {
          val parameters = Seq(like.depth, like.width, seed).map(Literal(_))
          Right(Known("count_min_sketch", over = Some(Seq(s.child)), parameters = parameters))
        }
      case _ => refuse("a sketch of no known size")
    }
  }

  private val MOST_COUNTERS = 1 << 20

  /** Numbers as Spark bounds them where it makes such a filter. */
  private def bloom(b: BloomFilterAggregate): Result[Known] =
    (b.child.dataType, b.estimatedNumItemsExpression.eval(), b.numBitsExpression.eval()) match {
      case (LongType, items: Long, bits: Long) =>
        val conf = SQLConf.get
        val most = Seq(
          items.min(conf.getConf(SQLConf.RUNTIME_BLOOM_FILTER_MAX_NUM_ITEMS)),
          bits.min(conf.getConf(SQLConf.RUNTIME_BLOOM_FILTER_MAX_NUM_BITS)))
        Right(Known(
            "bloom_filter_agg",
            over = Some(Seq(b.child)),
            parameters = most.map(Literal(_))))
      case (other, _, _) => refuse(s"a Bloom filter of ${other.sql} is not supported")
    }

  private def approximate(p: ApproximatePercentile): Result[Known] =
    (p.child.dataType, p.accuracyExpression.eval(), p.percentageExpression.eval()) match {
      // A double does not tell more digits apart.
      case (d: DecimalType, _, _) if d.precision > 15 =>
        refuse(
          s"approximate percentiles of ${d.sql} are not supported: of at most 15 digits they " +
            "are")
      case (_, accuracy: Number, share: Double) =>
        Right(approximate(p, accuracy, AggCall.Percentiles.newBuilder.addShares(share)))
      case (_, accuracy: Number, shares: ArrayData) =>
        val asked = AggCall.Percentiles.newBuilder.setArray(true)
        shares.toDoubleArray().foreach(asked.addShares(_))
        Right(approximate(p, accuracy, asked))
      case _ => refuse("percentiles of no known shares")
    }

  private def approximate(
      p: ApproximatePercentile,
      accuracy: Number,
      asked: AggCall.Percentiles.Builder): Known =
    Known(
      "percentile_approx",
      over = Some(Seq(p.child)),
      percentiles = Some(asked.build()),
      parameters = Seq(Literal(accuracy.intValue)))

  /** Of values that do not differ there is nothing to divide by: NULL or an error. */
  private def division(of: Corr): EvalMode =
    of.evaluateExpression.collectFirst { case d: Divide => Modes.of(d.evalMode) }
      .getOrElse(EvalMode.LEGACY)

  private def percentiles(name: String, of: PercentileBase, reverse: Boolean): Result[Known] = {
    val asked = AggCall.Percentiles.newBuilder.setReverse(reverse)
    of.child.dataType match {
      case _: NumericType =>
        (of.percentageExpression.eval() match {
          case share: Double => Right(asked.addShares(share))
          case shares: ArrayData =>
            shares.toDoubleArray().foreach(asked.addShares(_))
            Right(asked.setArray(true))
          case _ => refuse("percentiles of no known shares")
        }).map(p => Known(name, over = Some(Seq(of.child)), percentiles = Some(p.build())))
      case other => refuse(s"percentiles of ${other.sql} are not supported")
    }
  }

  private def moments(name: String, nullOnDivideByZero: Boolean): Result[Known] =
    if (nullOnDivideByZero) Right(Known(name))
    else refuse("spark.sql.legacy.statisticalAggregate is not supported")
}
