package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Cast => CatalystCast,
  Expression,
  Literal => CatalystLiteral,
  TimeZoneAwareExpression,
  ToPrettyString
}
import org.apache.spark.sql.coffer.proto.plan.{Cast, Expr}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{
  AnsiIntervalType,
  ArrayType,
  BinaryType,
  DataType,
  MapType,
  StringType,
  StructType,
  TimestampType
}

/** Casts, and `ToPrettyString`, which is the cast to string of `show()`. */
private[translate] object CastExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    entry[CatalystCast]("a cast") { (e, scope) =>
      for {
        _ <- textOfNested(e)
        source = spelled(e.child, e, e.dataType)
        child <- scope.convert(source)
        to <- Types.of(e.dataType)
        // Spark resolves a zone for each cast; only those that need it have a meaning that depends
        // on it. Spark does not count the text of instants inside of nested values among them.
        zone <- if (e.needsTimeZone || e.child.dataType.existsRecursively(_ == TimestampType)) {
          TimeZones.of(e)
        } else Right("")
        cast =
          Cast.newBuilder.setChild(child).setTo(to).setMode(Modes.of(e.evalMode)).setTimeZone(zone)
            .setFloatText(FloatTexts.of(e))
        from <- Types.of(source.dataType)
        _ = if (OpenTypes.holds(source.dataType)) cast.setFrom(from)
        checked <- CharVarcharExpressions.checked(Expr.newBuilder.setCast(cast).build(), e, scope)
      } yield checked
    },
    entry[ToPrettyString]("`to_pretty_string`") { (e, scope) =>
      val child = spelled(e.child, e, StringType)
      val shown = child.dataType match {
        case _: AnsiIntervalType => CatalystCast(child, StringType, e.timeZoneId)
        case _ => child
      }
      // `spark-sql` sets it when it prints its first result.
      val style =
        if (!child.dataType.existsRecursively(_ == BinaryType)) None
        else SQLConf.get.getConf(SQLConf.BINARY_OUTPUT_STYLE).map(s => CatalystLiteral(s.toString))
      Calls.of("to_pretty_string", e, shown +: style.toSeq, scope)
    })

  /** Intervals inside of what becomes a text, as texts: of such the engine knows numbers only. */
  private def spelled(
      child: Expression,
      e: TimeZoneAwareExpression,
      to: DataType): Expression = (child.dataType, to) match {
    case (from @ (_: ArrayType | _: MapType | _: StructType), _: StringType)
        if OpenTypes.holdsInterval(from) =>
      CatalystCast(child, OpenTypes.textual(from), e.timeZoneId)
    case _ => child
  }

  private def textOfNested(e: CatalystCast): Result[Unit] = (e.child.dataType, e.dataType) match {
    case (_: ArrayType | _: MapType | _: StructType, _: StringType)
        if SQLConf.get.getConf(SQLConf.LEGACY_COMPLEX_TYPES_TO_STRING) =>
      refuse(s"${SQLConf.LEGACY_COMPLEX_TYPES_TO_STRING.key} is not supported")
    case _ => Right(())
  }
}
