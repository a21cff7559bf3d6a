package org.apache.spark.sql.coffer.write

import java.nio.file.{Path, Paths}

import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType, SessionCatalog}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.coffer.common.{Client, CofferException}
import org.apache.spark.sql.coffer.split.{CofferTable, Locations, NamedTables, SealedFormat}
import org.apache.spark.sql.connector.catalog.CatalogManager.SESSION_CATALOG_NAME
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.datasources.v2.LeafV2CommandExec

/**
 * A managed sealed table that is to be dropped: its files, its entry, its record in the register and with it its key. One that does not open
 * any more (its folder is gone, its manifest damaged) goes as well.
 */
private[write] final class Dropped(entry: CatalogTable, catalog: SessionCatalog) {
  private val folder: Option[String] = Try(Locations.served(entry.location)).toOption

  private val opened: Option[CofferTable] = folder.flatMap { at =>
    try Some(CofferTable.at(at)).filterNot(_.missing)
    catch { case _: CofferException => None }
  }

  private def tell(check: Boolean): Unit = folder.foreach { at =>
    val name = NamedTables.name(entry.identifier.database, entry.identifier.table)
    Client.get.dropTable(opened.fold(at)(_.info.getPath), opened.fold("")(_.info.getTableId), name, check)
  }

  /** Whether it may be dropped; nothing is touched. */
  def check(): Unit = tell(check = true)

  /** That the catalog's name for it is not another table's, where opening it does not say so. */
  def checkName(): Unit = if (opened.isEmpty) check()

  def drop(purge: Boolean): Unit = {
    // Else its files would be taken for somebody else's.
    if (entry.tableType != CatalogTableType.MANAGED) catalog.alterTable(entry.copy(tableType = CatalogTableType.MANAGED))
    catalog.invalidateCachedTable(entry.identifier)
    catalog.dropTable(entry.identifier, ignoreIfNotExists = true, purge = purge)
    tell(check = false)
  }
}

/** DROP TABLE of a sealed table whose files are Spark's to delete. */
final case class DropSealedTableExec(name: TableIdentifier, purge: Boolean) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override protected def stringArgs: Iterator[Any] = Iterator(name)

  override protected def run(): Seq[InternalRow] = {
    val catalog = session.sessionState.catalog
    val table = new Dropped(catalog.getTableMetadata(name), catalog)
    table.check()
    table.drop(purge)
    Nil
  }
}

/** DROP DATABASE: Spark deletes its folder whole. First it is made sure that all sealed tables in it may go, then each goes as by DROP TABLE. */
final case class DropDatabaseExec(database: String, ifExists: Boolean, cascade: Boolean) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override protected def stringArgs: Iterator[Any] = Iterator(database)

  override protected def run(): Seq[InternalRow] = {
    val catalog = session.sessionState.catalog
    if (!catalog.databaseExists(database)) {
      if (!ifExists) throw QueryCompilationErrors.noSuchNamespaceError(Array(SESSION_CATALOG_NAME, database))
      return Nil
    }
    // Spark's own refusals come before anything is dropped.
    val refusedBySpark = database.equalsIgnoreCase(SessionCatalog.DEFAULT_DATABASE) || !cascade && catalog.listTables(database).nonEmpty
    if (!refusedBySpark) {
      val (managed, others) = sealedTables(catalog).partition(e => e.identifier.database.contains(name(catalog)) && SealedFormat.managed(e))
      nothingElseInside(catalog, managed, others)
      val tables = managed.map(new Dropped(_, catalog))
      tables.foreach(_.check())
      tables.foreach(_.drop(purge = false))
    }
    catalog.dropDatabase(database, ignoreIfNotExists = ifExists, cascade = cascade)
    Nil
  }

  private def name(catalog: SessionCatalog): String = catalog.getDatabaseMetadata(database).name

  /** Of all databases: their folders may lie in this one's. */
  private def sealedTables(catalog: SessionCatalog): Seq[CatalogTable] = for {
    db <- catalog.listDatabases()
    table <- catalog.listTables(db, "*", includeLocalTempViews = false)
    entry <- Try(catalog.getTableMetadata(table)).toOption if SealedFormat.is(entry)
  } yield entry

  private def nothingElseInside(catalog: SessionCatalog, managed: Seq[CatalogTable], others: Seq[CatalogTable]): Unit = {
    def at(text: => String): Option[Path] = Try(Paths.get(text)).toOption
    at(Locations.served(catalog.getDatabaseMetadata(database).locationUri)).foreach { folder =>
      val dropped = managed.flatMap(e => at(Locations.served(e.location))).toSet
      others.find(e => at(Locations.served(e.location)).exists(path => path.startsWith(folder) && !dropped(path))).foreach { e =>
        throw new CofferException(
          "COFFER_DDL",
          s"DROP DATABASE $database would delete $folder, where the sealed table ${e.identifier.unquotedString} lies, which is not to be dropped",
          "drop that table first, or move it; then drop the database")
      }
    }
  }
}
