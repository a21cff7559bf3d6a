package org.apache.spark.sql.coffer.write

import java.net.URI

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{
  CatalogStorageFormat,
  CatalogTable,
  CatalogTableType,
  SessionCatalog
}
import org.apache.spark.sql.catalyst.plans.logical.TableSpec
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.split.{Locations, SealedFormat}
import org.apache.spark.sql.coffer.versions.isConstrained
import org.apache.spark.sql.types.StructType

/** A catalog's entry of a sealed table: a name for a folder, and nothing else. */
private[write] object Entries {

  /**
   * Where a table is to be: as Spark, a relative LOCATION counts from the database's folder. What
   * is not served is refused here.
   */
  def folder(catalog: SessionCatalog, name: TableIdentifier, location: Option[String]): URI = {
    val uri = location match {
      case None => catalog.defaultTablePath(name)
      case Some(text)
          if Locations.local(text).exists(path =>
            path == text &&
              !path.startsWith("/")) =>
        new Path(catalog.defaultTablePath(name)).getParent.toUri match {
          case database => new Path(new Path(database), new Path(null, null, text)).toUri
        }
      case Some(text) => Locations.uri(Locations.served(text))
    }
    Locations.served(uri)
    uri
  }

  /** What CREATE TABLE can ask for and a sealed table does not keep. */
  def check(spec: TableSpec): Unit = {
    if (isConstrained(spec)) throw refused("constraints",
      "rows are written by engines, " +
        "which do not check them")
    if (spec.collation.exists(!_.equalsIgnoreCase("UTF8_BINARY")))
      throw refused("a collation", "strings are compared by their bytes")
    spec.properties.keys.find(SealedFormat.reserved).foreach { key =>
      throw refused(s"the property $key", "it would be read as where the table is")
    }
  }

  def refused(what: String, why: String): CofferException =
    new CofferException("COFFER_DDL",
      s"a sealed table is not made with $what: " +
        s"$why", "leave it out")

  /** As Spark's catalog makes its own, but for a folder that is not empty any more. */
  def enter(
      catalog: SessionCatalog,
      name: TableIdentifier,
      folder: URI,
      managed: Boolean,
      spec: TableSpec): Unit = catalog.createTable(
    CatalogTable(
      identifier = name,
      tableType = if (managed) CatalogTableType.MANAGED else CatalogTableType.EXTERNAL,
      storage = CatalogStorageFormat.empty.copy(locationUri = Some(folder)),
      schema = new StructType,
      provider = Some("coffer"),
      properties = spec.properties,
      comment = spec.comment),
    ignoreIfExists = false,
    validateLocation = false)
}
