package org.apache.spark.sql.coffer.split

import scala.util.Try

import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.plans.logical.{TableSpec, TableSpecBase, UnresolvedTableSpec}
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.internal.SQLConf

/** Marks the provider that is Coffer's. */
trait SealedProvider

/** Whether a provider, however it is spelled, is Coffer's. */
object SealedFormat {

  /**
   * An entry that Spark would take for an external table's, and of which DROP deletes the files all
   * the same: one that is being renamed.
   */
  val MANAGED = "coffer.managed"

  /** Properties that would be read as where a table is. */
  private val MEANT_FOR_US =
    Set("path", "paths", "name", "location", "provider", "external", "is_managed_location", MANAGED)

  def is(provider: String): Boolean = provider.equalsIgnoreCase("coffer") ||
    provider.toLowerCase.contains("coffer") &&
    Try(DataSource.lookupDataSource(provider, SQLConf.get)).toOption.exists(
      classOf[SealedProvider].isAssignableFrom(_))

  def is(provider: Option[String]): Boolean = provider.exists(is)

  def is(table: CatalogTable): Boolean = is(table.provider)

  /**
   * By USING, or without it by `spark.sql.sources.default`. (Spark's setting that such tables be
   * Hive's has them planned elsewhere.)
   */
  def is(spec: TableSpecBase): Boolean = is(spec match {
    case t: TableSpec =>
      t.provider.orElse(Option.when(t.serde.isEmpty)(SQLConf.get.defaultDataSourceName))
    case u: UnresolvedTableSpec =>
      u.provider.orElse(Option.when(u.serde.isEmpty)(SQLConf.get.defaultDataSourceName))
    case _ => None
  })

  /** Whether DROP deletes its files. */
  def managed(table: CatalogTable): Boolean =
    is(table) && (table.tableType == CatalogTableType.MANAGED ||
      table.properties.get(MANAGED).contains("true"))

  def reserved(property: String): Boolean = MEANT_FOR_US(property.toLowerCase)
}
