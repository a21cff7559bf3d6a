package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{BinaryExpression, Expression, Unevaluable}
import org.apache.spark.sql.types.{DataType, IntegerType}

/** What engines do with ciphertexts that no expression of Spark says. */
private[translate] object CipherExpressions extends ExpressionFamily {
  override def entries: Seq[ExpressionEntry] = Seq(function[OreCompare]("ore_compare"))
}

/**
 * −1, 0 or 1: how the values of two order-revealing ciphertexts compare. Only engines evaluate it.
 */
case class OreCompare(left: Expression, right: Expression) extends BinaryExpression
    with Unevaluable {
  override def dataType: DataType = IntegerType
  override def prettyName: String = "ore_compare"
  override protected def withNewChildrenInternal(
      newLeft: Expression,
      newRight: Expression): OreCompare =
    copy(left = newLeft, right = newRight)
}
