package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Cast,
  Expression,
  FormatString,
  GetJsonObject,
  JsonToStructs,
  JsonTuple,
  RoundBase,
  ToPrettyString
}
import org.apache.spark.sql.coffer.proto.plan.FloatText
import org.apache.spark.sql.types.{DoubleType, FloatType}

/**
 * The digits that FLOAT and DOUBLE have as text. JDK 19 changed them (JDK-4511638), and with them
 * what casts, `show()`, decimals of doubles and rounding give: engines follow the driver's Java,
 * whose constant folding is part of the same answers.
 */
private[translate] object FloatTexts {

  /** Of an expression, by what it does and is given. */
  def of(e: Expression): FloatText = e match {
    case _: Cast | _: ToPrettyString | _: RoundBase if e.children.exists(floating) => ofThisJvm
    case _: FormatString if e.children.exists(floating) => ofThisJvm
    // Jackson reads numbers with a point as doubles, and writes those.
    case _: GetJsonObject | _: JsonTuple | _: JsonToStructs => ofThisJvm
    case _ => FloatText.FLOAT_TEXT_SHORTEST
  }

  /** This JVM's. */
  val ofThisJvm: FloatText =
    if (Runtime.version.feature < 19) FloatText.FLOAT_TEXT_JDK18 else FloatText.FLOAT_TEXT_SHORTEST

  private def floating(e: Expression): Boolean = e.dataType == FloatType || e.dataType == DoubleType
}
