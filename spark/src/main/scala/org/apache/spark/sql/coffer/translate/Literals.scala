package org.apache.spark.sql.coffer.translate

import java.nio.ByteBuffer
import java.nio.charset.{CharacterCodingException, StandardCharsets}

import com.google.protobuf.ByteString

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Literal => CatalystLiteral}
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.coffer.proto.plan.{Expr, Literal}
import org.apache.spark.sql.coffer.versions.TimeType
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Values in Catalyst's internal form (days, microseconds, `UTF8String`, `Decimal`) as literals of
 * the IR.
 */
object Literals {

  /** Also for what is computed between stages: the value of a scalar subquery. */
  def of(value: Any, dataType: DataType): Result[Literal] = Types.of(dataType).flatMap { t =>
    val literal = Literal.newBuilder.setType(t)
    (value, dataType) match {
      case (null, _) => Right(literal.build())
      case (v: Boolean, BooleanType) => Right(literal.setBool(v).build())
      case (v: Byte, ByteType) => Right(literal.setInt(v.toLong).build())
      case (v: Short, ShortType) => Right(literal.setInt(v.toLong).build())
      case (v: Int, IntegerType | DateType | _: YearMonthIntervalType) =>
        Right(literal.setInt(v.toLong).build())
      case (v: Long, LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType) =>
        Right(literal.setInt(v).build())
      // Spark holds nanoseconds, of which no type has more than microseconds.
      case (v: Long, _: TimeType) if v % 1000 == 0 => Right(literal.setInt(v / 1000).build())
      case (_: Long, _: TimeType) => refuse("a TIME of less than microseconds")
      case (v: Float, FloatType) => Right(literal.setFloat(v).build())
      case (v: Double, DoubleType) => Right(literal.setDouble(v).build())
      case (v: Decimal, d: DecimalType) => decimal(v, d, literal)
      case (v: UTF8String, _: StringType) => string(v, literal)
      case (v: Array[Byte], BinaryType) => Right(literal.setBinary(ByteString.copyFrom(v)).build())
      case (v: ArrayData, ArrayType(element, _)) =>
        nested(literal, v.toSeq[Any](element).map((_, element)))
      case (v: InternalRow, StructType(fields)) =>
        nested(literal, v.toSeq(fields.map(_.dataType).toSeq).zip(fields.map(_.dataType)))
      case (v: MapData, MapType(key, value, _)) =>
        val keys = v.keyArray().toSeq[Any](key)
        val values = v.valueArray().toSeq[Any](value)
        nested(literal, keys.zip(values).flatMap { case (k, x) => Seq((k, key), (x, value)) })
      case _ => refuse(s"a literal of type ${dataType.sql} in an unknown form")
    }
  }

  private def nested(literal: Literal.Builder, values: Seq[(Any, DataType)]): Result[Literal] =
    traverse(values) { case (value, dataType) => of(value, dataType) }.map { literals =>
      val builder = Literal.Nested.newBuilder
      literals.foreach(builder.addValues)
      literal.setNested(builder).build()
    }

  private[translate] def expr(literal: CatalystLiteral): Result[Expr] =
    of(literal.value, literal.dataType).map(l => Expr.newBuilder.setLiteral(l).build())

  private[translate] def string(value: String): Expr = {
    val t = org.apache.spark.sql.coffer.proto.plan.DataType.newBuilder
      .setId(org.apache.spark.sql.coffer.proto.plan.TypeId.STRING)
    Expr.newBuilder.setLiteral(Literal.newBuilder.setType(t).setString(value)).build()
  }

  private def decimal(value: Decimal, d: DecimalType, literal: Literal.Builder): Result[Literal] = {
    val exact = value.toJavaBigDecimal
    // Catalyst keeps 1.5 in a DECIMAL(10,2) as it came; the IR's bytes are at the type's scale.
    if (exact.stripTrailingZeros.scale > d.scale) {
      refuse(s"a decimal literal that does not fit its type ${d.sql}")
    } else {
      val unscaled = exact.setScale(d.scale).unscaledValue
      Right(literal.setDecimal(ByteString.copyFrom(unscaled.toByteArray)).build())
    }
  }

  private def string(value: UTF8String, literal: Literal.Builder): Result[Literal] =
    try {
      // A strict decoder: protobuf strings must be UTF-8, Spark's need not be.
      val text = StandardCharsets.UTF_8.newDecoder.decode(ByteBuffer.wrap(value.getBytes)).toString
      Right(literal.setString(text).build())
    } catch {
      case _: CharacterCodingException => refuse("a string literal that is not valid UTF-8")
    }
}
