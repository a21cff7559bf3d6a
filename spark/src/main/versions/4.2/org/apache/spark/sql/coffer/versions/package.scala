package org.apache.spark.sql.coffer

import org.apache.spark.SparkThrowableHelper
import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Add, EvalMode, Expression, NumericEvalContext}
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum
import org.apache.spark.sql.catalyst.optimizer.MergeSubplans
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.execution.{SampleExec, SparkPlan}
import org.apache.spark.sql.execution.command.SaveAsV1TableCommand
import org.apache.spark.sql.execution.python.EvaluatePython
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/**
 * What Spark's versions have each in its own way, or not at all. There is one file of this name for
 * each line of versions; all other sources are the same for all of them.
 */
package object versions {
  val LINE = "4.2"

  type BitmapAndAgg = org.apache.spark.sql.catalyst.expressions.BitmapAndAgg
  type FileStreamSink = org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
  type OneRowRelationExec = org.apache.spark.sql.execution.OneRowRelationExec
  type TimeType = org.apache.spark.sql.types.TimeType
  val TimeType = org.apache.spark.sql.types.TimeType
  type TimestampAddInterval = org.apache.spark.sql.catalyst.expressions.TimestampAddInterval
  val TimestampAddInterval = org.apache.spark.sql.catalyst.expressions.TimestampAddInterval
  type ToTimeParser = org.apache.spark.sql.catalyst.expressions.ToTimeParser
  val ToTimeParser = org.apache.spark.sql.catalyst.expressions.ToTimeParser

  val ScalarArrowUdf: Int = org.apache.spark.api.python.PythonEvalType.SQL_SCALAR_ARROW_UDF
  val TABLE_TYPE: String = TableCatalog.PROP_TABLE_TYPE

  def evalMode(sum: Sum): EvalMode.Value = sum.evalContext.evalMode

  def added(left: Expression, right: Expression, conf: SQLConf): Add =
    Add(left, right, NumericEvalContext.fromSQLConf(conf))

  def mapZipWithUsesJava(conf: SQLConf): Boolean = conf.mapZipWithUsesJavaCollections

  def maxBroadcastBytes(conf: SQLConf): Long = conf.maxBroadcastTableSizeInBytes

  /** Several scalar subqueries as one, by Spark's own rule. */
  def mergedSubqueries(plan: LogicalPlan): LogicalPlan = MergeSubplans(plan)

  def messageTemplate(condition: String): String =
    SparkThrowableHelper.getMessageTemplate(condition)

  /** How rows are pickled for Python. */
  def pickledRows(schema: StructType, conf: SQLConf): InternalRow => Any = {
    val binaryAsBytes = conf.pysparkBinaryAsBytes
    EvaluatePython.toJava(_, schema, binaryAsBytes)
  }

  /** Depth and rows at which a recursion ends, −1 for never. */
  def recursionBounds(loop: UnionLoop, conf: SQLConf): (Int, Int) = (
    loop.maxDepth.getOrElse(conf.getConf(SQLConf.CTE_RECURSION_LEVEL_LIMIT)),
    conf.getConf(SQLConf.CTE_RECURSION_ROW_LIMIT))

  def sampleSeed(sample: SampleExec): Long = sample.resolvedSeed

  /** Whether it is the plan of one row without columns. */
  def isOneRow(plan: SparkPlan): Boolean = plan.isInstanceOf[OneRowRelationExec]

  /** Here that is another node. */
  def describesPartition(plan: LogicalPlan): Boolean = plan.isInstanceOf[DescribeTablePartition]

  def tableSpec(
      properties: Map[String, String],
      provider: String,
      location: Option[String]): TableSpec =
    TableSpec(properties, Some(provider), Map.empty, location, None, None, None, external = false,
      Nil)

  def isConstrained(spec: TableSpec): Boolean = spec.constraints.nonEmpty

  /** `saveAsTable` of a format of Spark's own. */
  object SavedAsTable {
    def unapply(plan: LogicalPlan): Option[SaveMode] = plan match {
      case s: SaveAsV1TableCommand => Some(s.mode)
      case _ => None
    }
  }

  /** A change of a table's constraints; with the relation, where it is no table. */
  object Constrained {
    def unapply(plan: LogicalPlan): Option[Option[LogicalPlan]] = plan match {
      case c: AddCheckConstraint => Some(Some(c.child))
      case _: AddConstraint | _: DropConstraint => Some(None)
      case _ => None
    }
  }
}
