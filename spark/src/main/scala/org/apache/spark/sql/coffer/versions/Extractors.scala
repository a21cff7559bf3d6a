package org.apache.spark.sql.coffer.versions

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.connector.catalog.{CatalogPlugin, Identifier, Table}
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation
}
import org.apache.spark.sql.types.{CharType => SparkChar, VarcharType => SparkVarchar}

/** What is asked of Spark's own nodes, whose other fields change with its versions. */
object TableOf {
  type Named = (Table, Seq[AttributeReference], Option[CatalogPlugin], Option[Identifier])

  def unapply(r: DataSourceV2Relation): Option[Named] =
    Some((r.table, r.output, r.catalog, r.identifier))
}

object ScanOf {
  def unapply(
      r: DataSourceV2ScanRelation): Option[(DataSourceV2Relation, Scan, Seq[AttributeReference])] =
    Some((r.relation, r.scan, r.output))
}

object CharOf {
  def unapply(t: SparkChar): Option[Int] = Some(t.length)
}

object VarcharOf {
  def unapply(t: SparkVarchar): Option[Int] = Some(t.length)
}
