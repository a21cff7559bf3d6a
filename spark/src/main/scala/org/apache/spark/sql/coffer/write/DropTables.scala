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
 * A managed sealed table that is to be dropped (its files, its entry, its record in the register
 * and with it its key) or renamed. One that does not open any more (its folder is gone, its
 * manifest damaged) goes as well. `name` is the user's word; what the entry calls itself, and where
 * it leads, is the catalog's.
 */
private[write] final class ManagedTable(
    name: TableIdentifier,
    entry: CatalogTable,
    catalog: SessionCatalog) {
  private val folder: Option[String] = Try(Locations.served(entry.location)).toOption

  private val opened: Option[CofferTable] = folder.flatMap { at =>
    try Some(CofferTable.at(at)).filterNot(_.missing)
    catch { case _: CofferException => None }
  }

  private def path(at: String): String = opened.fold(at)(_.info.getPath)
  private def id: String = opened.fold("")(_.info.getTableId)
  private def called(name: TableIdentifier): String = NamedTables.name(name.database, name.table)

  private def tell(check: Boolean): Unit =
    folder.foreach(at => Client.get.dropTable(path(at), id, called(name), check))

  /** Whether it may be dropped; nothing is touched. */
  def check(): Unit = tell(check = true)

  /** Has the register know what it is called from now on: both, until it is done. */
  def rename(from: TableIdentifier, to: TableIdentifier, done: Boolean): Unit =
    folder.foreach(at => Client.get.renameTable(path(at), id, called(from), called(to), done))

  def drop(purge: Boolean): Unit = {
    // Else its files would be taken for somebody else's.
    if (entry.tableType != CatalogTableType.MANAGED) catalog.alterTable(
      entry.copy(identifier = name, tableType = CatalogTableType.MANAGED))
    catalog.invalidateCachedTable(name)
    catalog.dropTable(name, ignoreIfNotExists = true, purge = purge)
    tell(check = false)
  }
}

/** DROP TABLE of a sealed table whose files are Spark's to delete. */
final case class DropSealedTableExec(name: TableIdentifier, purge: Boolean)
    extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override protected def stringArgs: Iterator[Any] = Iterator(name)

  override protected def run(): Seq[InternalRow] = {
    val catalog = session.sessionState.catalog
    val asked = catalog.qualifyIdentifier(name)
    val table = new ManagedTable(asked, catalog.getTableMetadata(asked), catalog)
    table.check()
    table.drop(purge)
    Nil
  }
}

/**
 * DROP DATABASE: Spark deletes its folder whole. First it is made sure that all sealed tables in it
 * may go, then each goes as by DROP TABLE.
 */
final case class DropDatabaseExec(database: String, ifExists: Boolean, cascade: Boolean)
    extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override protected def stringArgs: Iterator[Any] = Iterator(database)

  override protected def run(): Seq[InternalRow] = {
    val catalog = session.sessionState.catalog
    if (!catalog.databaseExists(database)) {
      if (!ifExists)
        throw QueryCompilationErrors.noSuchNamespaceError(Array(SESSION_CATALOG_NAME, database))
      return Nil
    }
    // Spark's own refusals come before anything is dropped.
    val refusedBySpark = database.equalsIgnoreCase(SessionCatalog.DEFAULT_DATABASE) || !cascade &&
      catalog.listTables(database).nonEmpty
    if (!refusedBySpark) {
      val (managed, others) = sealedTables(catalog).partition { case (name, entry) =>
        name.database.exists(_.equalsIgnoreCase(database)) && SealedFormat.managed(entry)
      }
      nothingElseInside(catalog, managed.map(_._2), others)
      val tables = managed.map { case (name, entry) => new ManagedTable(name, entry, catalog) }
      tables.foreach(_.check())
      tables.foreach(_.drop(purge = false))
    }
    catalog.dropDatabase(database, ignoreIfNotExists = ifExists, cascade = cascade)
    Nil
  }

  /**
   * Of all databases, as their folders may lie in this one's; each under the name that it is listed
   * by.
   */
  private def sealedTables(catalog: SessionCatalog): Seq[(TableIdentifier, CatalogTable)] = for {
    db <- catalog.listDatabases()
    table <- catalog.listTables(db, "*", includeLocalTempViews = false)
    name = TableIdentifier(table.table, Some(db))
    entry <- Try(catalog.getTableMetadata(name)).toOption if SealedFormat.is(entry)
  } yield (name, entry)

  private def nothingElseInside(
      catalog: SessionCatalog,
      managed: Seq[CatalogTable],
      others: Seq[(TableIdentifier, CatalogTable)]): Unit = {
    def at(text: => String): Option[Path] = Try(Paths.get(text)).toOption
    at(Locations.served(catalog.getDatabaseMetadata(database).locationUri)).foreach { folder =>
      val dropped = managed.flatMap(e => at(Locations.served(e.location))).toSet
      def stays(entry: CatalogTable) = at(Locations.served(entry.location)).exists(path =>
        path.startsWith(folder) && !dropped(path))
      others.collectFirst { case (name, entry) if stays(entry) => name }.foreach { name =>
        throw new CofferException(
          "COFFER_DDL",
          s"DROP DATABASE $database would delete $folder, where the sealed table " +
            s"${name.unquotedString} lies, which is not to be dropped",
          "drop that table first, or move it; then drop the database")
      }
    }
  }
}
