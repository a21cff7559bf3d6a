package org.apache.spark.sql.coffer.translate

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  JsonToStructs,
  Literal => CatalystLiteral
}
import org.apache.spark.sql.catalyst.expressions.json.StructsToJsonEvaluator
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.coffer.proto.plan.{Call, Expr}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** JSON made of values, and values read from JSON. */
private[translate] object JsonExpressions {

  /** `to_json`, with no options but whether NULL fields are left out. */
  def generated(
      e: Expression,
      json: StructsToJsonEvaluator,
      child: Expression,
      scope: Scope): Result[Expr] = {
    val options = json.options.map { case (k, v) => k.toLowerCase(Locale.ROOT) -> v }
    val leavesOut = options.get("ignorenullfields") match {
      case None => Some(SQLConf.get.jsonGeneratorIgnoreNullFields)
      case Some(value) => value.toBooleanOption
    }
    (leavesOut, json.timeZoneId) match {
      case _ if (options.keySet - "ignorenullfields").nonEmpty =>
        refuse("options of JSON other than ignoreNullFields are not supported")
      case _ if SQLConf.get.getConf(SQLConf.LEGACY_TIME_PARSER_POLICY).toString == "LEGACY" =>
        refuse("Spark's legacy formats of times are not supported")
      case _ if !written(json.inputSchema) => refuse("JSON of this type is not supported")
      case (Some(flag), Some(zone)) =>
        for {
          value <- scope.convert(child)
          flagged <- Literals.expr(CatalystLiteral(flag))
          of <- Types.of(StringType)
        } yield {
          val call = Call.newBuilder.setName("to_json").setType(of).setTimeZone(zone)
            .setFloatText(FloatTexts.ofThisJvm).addArgs(value).addArgs(flagged)
          Expr.newBuilder.setCall(call).build()
        }
      case _ => refuse("options of JSON that are not resolved")
    }
  }

  /** Whether `from_json` reads what the engine does. */
  def read(e: JsonToStructs): Result[Unit] = e.dataType match {
    case _ if e.options.nonEmpty => refuse("from_json with options is not supported")
    case StructType(fields) if fields.nonEmpty && fields.forall(f => plain(f.dataType)) =>
      val corrupt = SQLConf.get.getConf(SQLConf.COLUMN_NAME_OF_CORRUPT_RECORD)
      if (fields.exists(_.name == corrupt)) refuse(s"the column $corrupt is not supported")
      else if (fields.map(_.name).distinct.length < fields.length)
        refuse("several fields of one name")
      else if (fields.exists(_.metadata.contains(
            ResolveDefaultColumns.EXISTS_DEFAULT_COLUMN_METADATA_KEY)))
        refuse("fields with a default are not supported")
      else Right(())
    case _ => refuse("from_json of this type is not supported")
  }

  private def plain(of: DataType): Boolean = of match {
    case BooleanType | _: IntegralType | FloatType | DoubleType | _: StringType => true
    case _ => false
  }

  /** Keys are texts whose form is one; a field's name is the engine's; no field has a default. */
  private def written(of: DataType): Boolean = of match {
    case ArrayType(element, _) => written(element)
    case MapType(_: StringType | _: IntegralType | BooleanType, value, _) => written(value)
    case StructType(fields) =>
      fields.map(_.name).distinct.length == fields.length &&
      fields.forall(f =>
        written(f.dataType) &&
          !f.metadata.contains(ResolveDefaultColumns.EXISTS_DEFAULT_COLUMN_METADATA_KEY))
    case _: MapType | _: UserDefinedType[_] => false
    case _ => true
  }
}
