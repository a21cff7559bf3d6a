package org.apache.spark.sql.coffer.write

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTableType
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.TableSpec
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.WriteTarget
import org.apache.spark.sql.coffer.proto.wire.BeginWrite
import org.apache.spark.sql.coffer.proto.wire.BeginWrite.Mode
import org.apache.spark.sql.coffer.split.{CofferTable, Locations, SealedFormat}
import org.apache.spark.sql.coffer.versions.TABLE_TYPE
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, TableCatalog}
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.command.AnalyzeTableCommand
import org.apache.spark.sql.execution.datasources.v2.{LeafV2CommandExec, V2SessionCatalog}
import org.apache.spark.unsafe.types.UTF8String

/** CREATE TABLE … USING coffer LOCATION without columns: a name for a table that is there. */
final case class NameTableExec(
    catalog: V2SessionCatalog,
    ident: Identifier,
    spec: TableSpec,
    ifNotExists: Boolean)
    extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override protected def stringArgs: Iterator[Any] = Iterator(ident)

  override protected def run(): Seq[InternalRow] = {
    Entries.check(spec)
    if (catalog.tableExists(ident)) {
      if (!ifNotExists) throw QueryCompilationErrors.tableAlreadyExistsError(ident)
      return Nil
    }
    val name = TableIdentifier(ident.name, ident.namespace.headOption)
    if (spec.location.isEmpty) throw new CofferException(
      "COFFER_NO_PATH",
      s"neither columns nor the folder of a sealed table are given for ${ident.name}",
      "CREATE TABLE … USING coffer LOCATION 'path' names a table that is there; with columns, or " +
        "AS SELECT, one is made")
    val folder = Entries.folder(session.sessionState.catalog, name, spec.location)
    val table = CofferTable.at(Locations.served(folder))
    if (table.missing) throw CofferTable.noTable(table.name())
    Entries.enter(session.sessionState.catalog, name, folder, managed = false, spec)
    Nil
  }
}

/**
 * ALTER TABLE … RENAME TO. Spark moves a managed table's folder; the register knows where it lies,
 * so here it stays. While it is renamed the entry is an external table's with a property of ours:
 * cut short at any point, it is a table that can be read, renamed and dropped.
 */
final case class RenameSealedTableExec(from: Identifier, to: Seq[String])
    extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override protected def stringArgs: Iterator[Any] = Iterator(from)

  override protected def run(): Seq[InternalRow] = {
    val catalog = session.sessionState.catalog
    val old = catalog.qualifyIdentifier(TableIdentifier(from.name, from.namespace.headOption))
    val database = to.dropRight(1) match {
      case Seq() => old.database
      case Seq(db) => Some(db)
      case Seq(CatalogManager.SESSION_CATALOG_NAME, db) => Some(db)
      case _ =>
        throw QueryCompilationErrors.renameTableSourceAndDestinationMismatchError(
          old.database.mkString, to.dropRight(1).mkString("."))
    }
    val renamed = catalog.qualifyIdentifier(TableIdentifier(to.last, database))
    if (renamed.database != old.database)
      throw QueryCompilationErrors.renameTableSourceAndDestinationMismatchError(
        old.database.mkString, renamed.database.mkString)
    if (catalog.tableExists(renamed))
      throw QueryCompilationErrors.tableAlreadyExistsError(renamed.table)
    val entry = catalog.getTableMetadata(old)
    val managed = SealedFormat.managed(entry)
    val table = Option.when(managed)(new ManagedTable(old, entry, catalog))
    table.foreach(_.rename(old, renamed, done = false))
    if (managed) catalog.alterTable(
      entry.copy(identifier = old, tableType = CatalogTableType.EXTERNAL,
        properties = entry.properties + (SealedFormat.MANAGED -> "true")))
    def settled(name: TableIdentifier): Unit = if (managed) {
      val now = catalog.getTableMetadata(name)
      catalog.alterTable(now.copy(tableType = CatalogTableType.MANAGED,
          properties = now.properties - SealedFormat.MANAGED))
    }
    try catalog.renameTable(old, renamed)
    catch {
      case NonFatal(e) =>
        settled(old)
        table.foreach(_.rename(renamed, old, done = true))
        throw e
    }
    settled(renamed)
    table.foreach(_.rename(old, renamed, done = true))
    Nil
  }
}

/** TRUNCATE TABLE: a version without rows. */
final case class TruncateSealedTableExec(table: CofferTable) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override protected def stringArgs: Iterator[Any] = Iterator(table.name())

  override protected def run(): Seq[InternalRow] = {
    if (table.unverified || table.missing) throw CofferTable.noTable(table.name())
    val newest = table.newest()
    val begin = BeginWrite.newBuilder.setMode(Mode.OVERWRITE).setHandle(
      newest.info.getHandle).setPath(newest.info.getPath)
    NewTables.withoutRows(WriteTarget(begin.build(), newest.partitions))
    Nil
  }
}

final case class NothingToDoExec(what: String) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override protected def run(): Seq[InternalRow] = Nil
}

/**
 * ANALYZE TABLES: Spark would count the rows of sealed tables and write the numbers into the
 * catalog.
 */
final case class AnalyzePlainTablesExec(database: Option[String], noScan: Boolean)
    extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil

  override protected def run(): Seq[InternalRow] = {
    val catalog = session.sessionState.catalog
    catalog.listTables(database.getOrElse(catalog.getCurrentDatabase)).foreach { name =>
      try {
        val plain = catalog.isTempView(name) || !SealedFormat.is(catalog.getTableMetadata(name))
        if (plain) AnalyzeTableCommand(name, noScan).run(session)
      } catch {
        case NonFatal(e) => logWarning(s"the table ${name.unquotedString} was not analysed", e)
      }
    }
    Nil
  }
}

/** DESCRIBE of a table that does not open: why, and what the catalog says of it. */
final case class DescribeUnopenedExec(output: Seq[Attribute], table: CofferTable, extended: Boolean)
    extends LeafV2CommandExec {
  override protected def stringArgs: Iterator[Any] = Iterator(table.name())

  override protected def run(): Seq[InternalRow] = {
    def row(cells: String*): InternalRow = InternalRow.fromSeq(cells.map(UTF8String.fromString))
    val why = table.failure.toSeq.flatMap(e =>
      Seq(row("# Cannot be opened", "", ""), row(e.code, e.plain, e.hint)))
    val properties = table.properties()
    val details = Seq(
      "Type" -> TABLE_TYPE,
      "Provider" -> TableCatalog.PROP_PROVIDER,
      "Location" -> TableCatalog.PROP_LOCATION,
      "Comment" -> TableCatalog.PROP_COMMENT,
      "Owner" -> TableCatalog.PROP_OWNER)
    why ++ (if (!extended) Nil
            else
              Seq(row("", "", ""),
                row("# Detailed Table " +
                    "Information", "", ""), row("Name", table.name(), "")) ++
                details.flatMap { case (title, key) =>
                  Option(properties.get(key)).map(row(title, _, ""))
                })
  }
}
