package org.apache.spark.sql.coffer.source

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, SaveMode, SQLContext}
import org.apache.spark.sql.coffer.split.{CofferTable, SealedProvider}
import org.apache.spark.sql.coffer.write.SaveSealed
import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.sources.{BaseRelation, CreatableRelationProvider, DataSourceRegister}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * `spark.read.format("coffer").load(path)`, `df.write.format("coffer").save(path)` and
 * `CREATE TABLE … USING coffer`. What a table is, the client engine says. `save` comes as
 * [[CreatableRelationProvider]], the one way that has all four modes and partition columns for
 * folders in which there may be nothing yet; it runs nothing itself but the same commands as SQL.
 */
class CofferDataSource extends TableProvider with CreatableRelationProvider with DataSourceRegister
    with SealedProvider {
  override def shortName(): String = "coffer"

  /** Schemas come from manifests; one that a catalog keeps would be the host's word. */
  override def supportsExternalMetadata(): Boolean = false

  override def inferSchema(options: CaseInsensitiveStringMap): StructType =
    CofferTable.listed(options).schema

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: util.Map[String, String]): Table =
    CofferTable.listed(new CaseInsensitiveStringMap(properties))

  override def createRelation(
      context: SQLContext,
      mode: SaveMode,
      parameters: Map[String, String],
      data: DataFrame): BaseRelation = {
    SaveSealed(mode, new CaseInsensitiveStringMap(parameters.asJava), data)
    new BaseRelation {
      override def sqlContext: SQLContext = context
      override def schema: StructType = data.schema
    }
  }
}
