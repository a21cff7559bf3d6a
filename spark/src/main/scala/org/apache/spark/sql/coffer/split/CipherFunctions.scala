package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  ImperativeAggregate,
  TypedImperativeAggregate
}
import org.apache.spark.sql.catalyst.trees.TernaryLike
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.translate.EngineAggregate
import org.apache.spark.sql.types.{BinaryType, DataType}

/**
 * The sum of a column under `ashe`, still encrypted, with the rows that it took: what Seabed calls
 * the id list. Only engines evaluate it, and only the client engine opens it.
 */
case class AsheSum(
    first: Expression,
    second: Expression,
    third: Expression,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
    extends TypedImperativeAggregate[Array[Byte]]
    with TernaryLike[Expression]
    with EngineAggregate {

  override def engineName: String = "ashe_sum"
  override def prettyName: String = engineName
  override def dataType: DataType = BinaryType
  override def nullable: Boolean = false
  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(
      value: Expression,
      file: Expression,
      row: Expression): AsheSum =
    copy(first = value, second = file, third = row)

  private def refused: Nothing = throw new CofferException(
    "COFFER_UNSEALED_PLAN",
    "a sum of ciphertexts was to be computed by Spark itself",
    s"set spark.sql.extensions=${CofferConf.EXTENSIONS}")

  override def createAggregationBuffer(): Array[Byte] = refused
  override def update(buffer: Array[Byte], input: InternalRow): Array[Byte] = refused
  override def merge(buffer: Array[Byte], input: Array[Byte]): Array[Byte] = refused
  override def eval(buffer: Array[Byte]): Any = refused
  override def serialize(buffer: Array[Byte]): Array[Byte] = refused
  override def deserialize(bytes: Array[Byte]): Array[Byte] = refused
}
