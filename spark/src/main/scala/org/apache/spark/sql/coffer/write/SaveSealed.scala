package org.apache.spark.sql.coffer.write

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.{DataFrame, SaveMode}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{
  AppendData,
  LogicalPlan,
  OverwriteByExpression,
  OverwritePartitionsDynamic
}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.SealedInsert
import org.apache.spark.sql.coffer.proto.wire.BeginWrite.Mode
import org.apache.spark.sql.coffer.split.{CofferTable, Locations}
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.datasources.DataSourceUtils
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf.PartitionOverwriteMode
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * `df.write.format("coffer").mode(…).save(path)`. Into a table that is there, columns go by name,
 * with Spark's casts; overwriting keeps its columns unless `overwriteSchema` is true, and
 * overwrites the partitions that are met where `partitionOverwriteMode` is dynamic.
 */
object SaveSealed {

  def apply(mode: SaveMode, options: CaseInsensitiveStringMap, data: DataFrame): Unit = {
    val session = data.sparkSession.asInstanceOf[SparkSession]
    val query = data.asInstanceOf[Dataset[_]].queryExecution.analyzed
    val table = CofferTable.open(options)
    val partitions =
      Option(options.get(DataSourceUtils.PARTITIONING_COLUMNS_KEY)).fold(Seq.empty[String])(
        DataSourceUtils.decodePartitioningColumns)
    val path =
      Option(options.get("path")).map(Locations.served(_, CofferTable.settings(options))).getOrElse(
        table.info.getPath)

    def make(how: Mode): LogicalPlan = SealedInsert(
      NewTables.target(
        how,
        path,
        Option(options.get("name")).getOrElse(""),
        CharVarcharUtils.getRawSchema(query.schema).asNullable,
        partitions,
        session.sessionState.conf.resolver),
      query)

    def same(): Unit =
      if (partitions.nonEmpty &&
        partitions != table.partitionNames) throw new CofferException(
        "COFFER_PARTITIONING",
        s"${table.name()} is partitioned by (${table.partitionNames.mkString(", ")}), not by " +
          s"(${partitions.mkString(", ")})",
        "leave partitionBy out, or set the option overwriteSchema to true to make the table anew")

    val relation = DataSourceV2Relation.create(table, None, None, CaseInsensitiveStringMap.empty())
    val command = (mode, table.missing) match {
      case (SaveMode.Ignore, false) => None
      case (SaveMode.ErrorIfExists, false) =>
        throw QueryCompilationErrors.outputPathAlreadyExistsError(new Path(path))
      case (_, true) => Some(make(Mode.CREATE))
      case (SaveMode.Append, false) =>
        same()
        Some(AppendData.byName(relation, query))
      case (SaveMode.Overwrite, false) =>
        if (options.getBoolean("overwriteSchema", false)) Some(make(Mode.REPLACE))
        else {
          same()
          val dynamic = Option(options.get("partitionOverwriteMode")).fold(
            session.sessionState.conf.partitionOverwriteMode == PartitionOverwriteMode.DYNAMIC)(
            _.equalsIgnoreCase("dynamic"))
          if (dynamic && table.partitionNames.nonEmpty)
            Some(OverwritePartitionsDynamic.byName(relation, query))
          else Some(OverwriteByExpression.byName(relation, query, Literal.TrueLiteral))
        }
    }
    command.foreach(c => session.sessionState.executePlan(c).assertCommandExecuted())
  }
}
