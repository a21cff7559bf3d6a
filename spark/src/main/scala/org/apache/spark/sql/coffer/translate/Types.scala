package org.apache.spark.sql.coffer.translate

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.util.CollationFactory
import org.apache.spark.sql.coffer.proto.plan.{DataType => ProtoType, Field, Schema, TypeId}
import org.apache.spark.sql.coffer.versions.TimeType
import org.apache.spark.sql.types._

/**
 * Catalyst's types ↔ the IR's. CHAR and VARCHAR are strings to plans; of a table's
 * columns they are declared beside.
 */
object Types {

  def of(dataType: DataType): Result[ProtoType] = dataType match {
    case NullType => simple(TypeId.NULL)
    case BooleanType => simple(TypeId.BOOLEAN)
    case ByteType => simple(TypeId.BYTE)
    case ShortType => simple(TypeId.SHORT)
    case IntegerType => simple(TypeId.INT)
    case LongType => simple(TypeId.LONG)
    case FloatType => simple(TypeId.FLOAT)
    case DoubleType => simple(TypeId.DOUBLE)
    case BinaryType => simple(TypeId.BINARY)
    case DateType => simple(TypeId.DATE)
    case TimestampType => simple(TypeId.TIMESTAMP)
    case TimestampNTZType => simple(TypeId.TIMESTAMP_NTZ)
    case YearMonthIntervalType(first, last) =>
      fields(TypeId.YEAR_MONTH_INTERVAL, first.toInt, last.toInt)
    case DayTimeIntervalType(first, last) =>
      fields(TypeId.DAY_TIME_INTERVAL, first.toInt, last.toInt)
    case TimeType(digits) => fields(TypeId.TIME, digits, 0)
    case d: DecimalType =>
      if (d.scale < 0) refuse(s"type ${d.sql}: decimals of negative scale are not supported")
      else fields(TypeId.DECIMAL, d.precision, d.scale)
    case s: StringType =>
      if (s.collationId == CollationFactory.UTF8_BINARY_COLLATION_ID) simple(TypeId.STRING)
      else refuse(s"type ${s.sql}: only the UTF8_BINARY collation is supported")
    case ArrayType(element, containsNull) =>
      nested(TypeId.ARRAY, Seq(("element", element, containsNull)))
    case MapType(key, value, containsNull) =>
      nested(TypeId.MAP, Seq(("key", key, false), ("value", value, containsNull)))
    case StructType(Array()) => refuse(s"type ${dataType.sql}: it has no fields")
    case StructType(fields) =>
      val names = distinct(fields.toSeq.map(_.name))
      nested(
        TypeId.STRUCT,
        names.zip(fields).map { case (name, f) => (name, f.dataType, f.nullable) })
    case other => refuse(s"type ${other.sql}: ${whyNot(other)}")
  }

  /** Spark tells fields apart by position, Arrow by name too. */
  private def distinct(names: Seq[String]): Seq[String] =
    if (names.distinct.length == names.length) names
    else names.zipWithIndex.map { case (name, i) => s"$i:$name" }

  private def nested(id: TypeId, children: Seq[(String, DataType, Boolean)]): Result[ProtoType] =
    traverse(children) { case (name, dataType, nullable) =>
      of(dataType).map(t =>
        Field.newBuilder.setName(name).setType(t).setNullable(nullable).build())
    }.map { fields =>
      val builder = ProtoType.newBuilder.setId(id)
      fields.foreach(builder.addChildren)
      builder.build()
    }

  /** The type of what the values of a type are compared by between tasks. */
  def ofKey(dataType: DataType): DataType = dataType match {
    case _: ArrayType | _: StructType => BinaryType
    case other => other
  }

  def toCatalyst(dataType: ProtoType): Result[DataType] = dataType.getId match {
    case TypeId.NULL => Right(NullType)
    case TypeId.BOOLEAN => Right(BooleanType)
    case TypeId.BYTE => Right(ByteType)
    case TypeId.SHORT => Right(ShortType)
    case TypeId.INT => Right(IntegerType)
    case TypeId.LONG => Right(LongType)
    case TypeId.FLOAT => Right(FloatType)
    case TypeId.DOUBLE => Right(DoubleType)
    case TypeId.DECIMAL => Right(DecimalType(dataType.getPrecision, dataType.getScale))
    case TypeId.STRING => Right(StringType)
    case TypeId.BINARY => Right(BinaryType)
    case TypeId.DATE => Right(DateType)
    case TypeId.TIMESTAMP => Right(TimestampType)
    case TypeId.TIMESTAMP_NTZ => Right(TimestampNTZType)
    case TypeId.YEAR_MONTH_INTERVAL =>
      Right(YearMonthIntervalType(dataType.getPrecision.toByte, dataType.getScale.toByte))
    case TypeId.DAY_TIME_INTERVAL =>
      Right(DayTimeIntervalType(dataType.getPrecision.toByte, dataType.getScale.toByte))
    case TypeId.TIME => Right(TimeType(dataType.getPrecision))
    case TypeId.ARRAY =>
      inner(dataType, 1).map(parts => ArrayType(parts.head.dataType, parts.head.nullable))
    case TypeId.MAP =>
      inner(dataType, 2).map(parts =>
        MapType(parts.head.dataType, parts.last.dataType, parts.last.nullable))
    case TypeId.STRUCT =>
      inner(dataType, dataType.getChildrenCount).map(fields => StructType(fields))
    case TypeId.TYPE_UNSPECIFIED | TypeId.UNRECOGNIZED =>
      refuse("the engine sent a type that this version does not know")
  }

  private def inner(dataType: ProtoType, count: Int): Result[Seq[StructField]] =
    if (dataType.getChildrenCount != count)
      refuse("the engine sent a nested type of another form")
    else
      traverse(dataType.getChildrenList.asScala.toSeq) { f =>
        toCatalyst(f.getType).map(StructField(f.getName, _, f.getNullable))
      }

  def schema(output: Seq[Attribute]): Result[Schema] =
    traverse(output)(a => field(a.name, a.dataType, a.nullable)).map(schemaOf)

  /** The columns of a table that is to be made. */
  def declared(schema: StructType): Result[Schema] =
    traverse(schema.fields.toSeq) { f =>
      kept(f).flatMap(_ => field(f.name, f.dataType, f.nullable)).map { made =>
        if (CharVarchar.is(f.dataType)) made.toBuilder.setDeclared(f.dataType.catalogString).build()
        else made
      }
    }.map(schemaOf)

  /** What a column's type says of the parts of a nested type is all that a table keeps of it. */
  private def kept(field: StructField): Result[Unit] = {
    def parts(t: DataType): Seq[DataType] = t match {
      case ArrayType(element, _) => element +: parts(element)
      case MapType(key, value, _) => Seq(key, value) ++ parts(key) ++ parts(value)
      case StructType(fields) => fields.toSeq.flatMap(f => f.dataType +: parts(f.dataType))
      case _ => Nil
    }
    val inner = parts(field.dataType)
    val structs = (field.dataType +: inner).collect { case s: StructType => s.fieldNames.toSeq }
    if (structs.exists(names => names.distinct.length < names.length))
      refuse(s"column ${field.name}: several fields of a struct have one name")
    else if (inner.exists(CharVarchar.is))
      refuse(s"column ${field.name}: CHAR and VARCHAR inside of a nested type are not supported; " +
        s"use STRING")
    else if (inner.nonEmpty && field.dataType != field.dataType.asNullable)
      refuse(s"column ${field.name}: NOT NULL inside of a nested type is not supported")
    else Right(())
  }

  def structType(schema: Schema): Result[StructType] =
    traverse(schema.getFieldsList.asScala) { f =>
      toCatalyst(f.getType).map(StructField(f.getName, _, f.getNullable))
    }.map(fields => StructType(fields))

  private[translate] def field(name: String, dataType: DataType, nullable: Boolean): Result[Field] =
    of(dataType).left
      .map(u => u.copy(expression = u.expression.orElse(Some(name))))
      .map(t => Field.newBuilder.setName(name).setType(t).setNullable(nullable).build())

  private[translate] def schemaOf(fields: Iterable[Field]): Schema = {
    val builder = Schema.newBuilder
    fields.foreach(builder.addFields)
    builder.build()
  }

  private def simple(id: TypeId): Result[ProtoType] = Right(ProtoType.newBuilder.setId(id).build())

  private def fields(id: TypeId, precision: Int, scale: Int): Result[ProtoType] =
    Right(ProtoType.newBuilder.setId(id).setPrecision(precision).setScale(scale).build())

  private def whyNot(dataType: DataType): String = dataType match {
    case CalendarIntervalType => "intervals of months and days together are not supported"
    case _: UserDefinedType[_] => "user-defined types are not supported"
    case VariantType => "variants are not supported"
    case _ => "this type is not supported"
  }
}
