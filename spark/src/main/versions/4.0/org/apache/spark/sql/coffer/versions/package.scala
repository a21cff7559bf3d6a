package org.apache.spark.sql.coffer

import org.apache.spark.SparkThrowableHelper
import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Add, EvalMode, Expression, TimeAdd}
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum
import org.apache.spark.sql.catalyst.optimizer.MergeScalarSubqueries
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.{RDDScanExec, SampleExec, SparkPlan}
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec
import org.apache.spark.sql.execution.python.EvaluatePython
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * What Spark's versions have each in its own way, or not at all. There is one file of this name for
 * each line of versions; all other sources are the same for all of them. What this line has not is
 * a type here of which there are no values.
 */
package object versions {
  val LINE = "4.0"

  type FileStreamSink = org.apache.spark.sql.execution.streaming.FileStreamSink
  type OneRowRelationExec = RDDScanExec
  type TimestampAddInterval = TimeAdd
  val TimestampAddInterval = TimeAdd

  val ScalarArrowUdf: Int = -1
  val TABLE_TYPE: String = "table_type"

  def evalMode(sum: Sum): EvalMode.Value = sum.evalMode

  def added(left: Expression, right: Expression, conf: SQLConf): Add =
    Add(left, right, EvalMode.fromSQLConf(conf))

  def mapZipWithUsesJava(conf: SQLConf): Boolean = true

  def maxBroadcastBytes(conf: SQLConf): Long = BroadcastExchangeExec.MAX_BROADCAST_TABLE_BYTES

  /** Several scalar subqueries as one, by Spark's own rule. */
  def mergedSubqueries(plan: LogicalPlan): LogicalPlan = MergeScalarSubqueries(plan)

  def messageTemplate(condition: String): String =
    SparkThrowableHelper.errorReader.getMessageTemplate(condition)

  /** How rows are pickled for Python. */
  def pickledRows(schema: StructType, conf: SQLConf): InternalRow => Any =
    EvaluatePython.toJava(_, schema)

  /** Depth and rows at which a recursion ends: the defaults of later versions. */
  def recursionBounds(loop: UnionLoop, conf: SQLConf): (Int, Int) = (100, 1000000)

  def sampleSeed(sample: SampleExec): Long = sample.seed

  /** Whether it is the plan of one row without columns. */
  def isOneRow(plan: SparkPlan): Boolean = plan match {
    case r: RDDScanExec => r.name == "OneRowRelation" && r.output.isEmpty
    case _ => false
  }

  def describesPartition(plan: DescribeRelation): Boolean = plan.partitionSpec.nonEmpty

  def tableSpec(
      properties: Map[String, String],
      provider: String,
      location: Option[String]): TableSpec =
    TableSpec(properties, Some(provider), Map.empty, location, None, None, None, external = false)

  def isConstrained(spec: TableSpec): Boolean = false

  /** `saveAsTable` of a format of Spark's own is no command of its own here. */
  object SavedAsTable {
    def unapply(plan: LogicalPlan): Option[SaveMode] = None
  }

  /** There are no constraints. */
  object Constrained {
    def unapply(plan: LogicalPlan): Option[Option[LogicalPlan]] = None
  }
}

package versions {

  sealed trait BitmapAndAgg

  sealed abstract case class ToTimeParser(format: Option[String])

  sealed abstract case class TimeType(precision: Int) extends DataType

  object TimeType {
    val MICROS_PRECISION: Int = 6
    def apply(precision: Int): DataType =
      throw new UnsupportedOperationException("this version of Spark has no TIME")
  }
}
