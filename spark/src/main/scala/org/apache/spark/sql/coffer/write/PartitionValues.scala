package org.apache.spark.sql.coffer.write

import org.apache.spark.sql.coffer.proto.wire.PartitionValue
import org.apache.spark.sql.types._

/** Values of partition columns in the text form of manifests (docs/reference/table-format.md). */
object PartitionValues {
  def of(value: Any, dataType: DataType): PartitionValue = {
    val builder = PartitionValue.newBuilder
    (value, dataType) match {
      case (null, _) => ()
      case (d: Decimal, t: DecimalType) =>
        builder.setValue(d.toJavaBigDecimal.setScale(t.scale).unscaledValue.toString)
      // days, microseconds, whole numbers, booleans, strings
      case (other, _) => builder.setValue(other.toString)
    }
    builder.build()
  }
}
