package org.apache.spark.sql.coffer.write

import java.net.URI

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType, CatalogUtils}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, TableSpec}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.coffer.{CofferException, CofferQuery}
import org.apache.spark.sql.coffer.driver.CofferDriver
import org.apache.spark.sql.coffer.plan.Types
import org.apache.spark.sql.coffer.proto.wire.{BeginWrite, PublishWrite}
import org.apache.spark.sql.coffer.proto.wire.BeginWrite.Mode
import org.apache.spark.sql.coffer.source.CofferTable
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.connector.expressions.{IdentityTransform, Transform}
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.datasources.v2.{LeafV2CommandExec, V2SessionCatalog}
import org.apache.spark.sql.types.StructType

/**
 * CREATE TABLE … USING coffer, with columns or AS SELECT, and its REPLACE. The sealed table is written and published first; the
 * catalog's entry, which is a name for a folder and nothing else, comes last: so nobody finds half a table.
 *
 * @param rows the columns of a table without rows, or the query
 */
final case class MakeTableExec(
    catalog: V2SessionCatalog,
    ident: Identifier,
    partitioning: Seq[Transform],
    rows: Either[StructType, LogicalPlan],
    spec: TableSpec,
    options: Map[String, String],
    ifNotExists: Boolean,
    replace: Boolean,
    orCreate: Boolean)
    extends LeafV2CommandExec {

  override def output: Seq[Attribute] = Nil
  override protected def stringArgs: Iterator[Any] = Iterator(ident)

  private lazy val sessionCatalog = session.sessionState.catalog
  private lazy val identifier = TableIdentifier(ident.name, ident.namespace.headOption)

  override protected def run(): Seq[InternalRow] = {
    val exists = catalog.tableExists(ident)
    if (exists && ifNotExists) return Nil
    if (exists && !replace) throw QueryCompilationErrors.tableAlreadyExistsError(ident)
    if (!exists && replace && !orCreate) throw QueryCompilationErrors.cannotReplaceMissingTableError(ident)
    val known = if (exists) Some(sessionCatalog.getTableMetadata(identifier)) else None
    known.filterNot(_.provider.exists(_.equalsIgnoreCase("coffer"))).foreach { _ =>
      throw new CofferException("COFFER_REPLACE", s"$identifier is a table of another format", "drop it first")
    }
    val location = spec.location.map(CatalogUtils.stringToURI)
    val folder = known.map(_.location).orElse(location).getOrElse(sessionCatalog.defaultTablePath(identifier))
    val schema = rows.fold(identity, query => query.schema.asNullable)
    val mode = if (replace) Mode.REPLACE else Mode.CREATE
    val target =
      NewTables.target(mode, NewTables.local(folder), name, schema, NewTables.columns(partitioning), session.sessionState.conf.resolver)
    rows match {
      case Right(query) => session.sessionState.executePlan(SealedInsert(target, query)).assertCommandExecuted()
      case Left(_) => NewTables.withoutRows(target)
    }
    if (known.isEmpty) enter(folder, managed = location.isEmpty && !spec.external)
    Nil
  }

  /** By the policy a table of the default database is called as in SQL, any other `database.table`. */
  private def name: String = options.get("name").orElse(spec.options.get("name")).getOrElse {
    ident.namespace.headOption.filterNot(_ == catalog.defaultNamespace.headOption.getOrElse("default")).fold(ident.name)(db =>
      s"$db.${ident.name}")
  }

  /** As [[V2SessionCatalog.createTable]] does, but for a folder that is not empty any more. */
  private def enter(folder: URI, managed: Boolean): Unit = sessionCatalog.createTable(
    CatalogTable(
      identifier = identifier,
      tableType = if (managed) CatalogTableType.MANAGED else CatalogTableType.EXTERNAL,
      storage = CatalogStorageFormat.empty.copy(locationUri = Some(folder)),
      schema = new StructType,
      provider = Some("coffer"),
      properties = spec.properties,
      comment = spec.comment),
    ignoreIfExists = false,
    validateLocation = false)
}

/** DROP TABLE of a sealed table whose files are Spark's to delete: register and policy forget it too, and with it its key. */
final case class DropSealedTableExec(catalog: V2SessionCatalog, ident: Identifier, purge: Boolean) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil
  override protected def stringArgs: Iterator[Any] = Iterator(ident)

  override protected def run(): Seq[InternalRow] = {
    val location = session.sessionState.catalog.getTableMetadata(TableIdentifier(ident.name, ident.namespace.headOption)).location
    // A table that does not open any more can still be dropped; what the register knows of it, `coffer keys forget` removes.
    val table =
      try Some(CofferTable.at(NewTables.local(location)))
      catch { case _: CofferException => None }
    if (purge) catalog.purgeTable(ident) else catalog.dropTable(ident)
    table.filterNot(_.missing).foreach(t => CofferDriver.get.client.dropTable(t.info.getPath, t.info.getTableId))
    Nil
  }
}

object DropSealedTableExec {
  def managed(catalog: V2SessionCatalog, ident: Identifier): Boolean = catalog.tableExists(ident) && {
    val metadata = org.apache.spark.sql.classic.SparkSession.active.sessionState.catalog
      .getTableMetadata(TableIdentifier(ident.name, ident.namespace.headOption))
    metadata.tableType == CatalogTableType.MANAGED && metadata.provider.exists(_.equalsIgnoreCase("coffer"))
  }
}

/** What the client engine must know of a table that is to be made. */
object NewTables {

  def target(
      mode: Mode,
      path: String,
      name: String,
      schema: StructType,
      partitionColumns: Seq[String],
      resolver: (String, String) => Boolean): WriteTarget = {
    val at = partitionColumns.map { p =>
      schema.fieldNames.indexWhere(resolver(_, p)) match {
        case -1 =>
          throw new CofferException("COFFER_PARTITIONING", s"there is no column $p to partition by", "name one of the table's columns")
        case i => i
      }
    }
    val columns = Types.schema(DataTypeUtils.toAttributes(schema)).fold(u => throw CofferQuery.refusal(Seq(u.message)), identity)
    val begin = BeginWrite.newBuilder
      .setMode(mode)
      .setPath(path)
      .setName(name)
      .setSchema(columns)
      .addAllPartitionColumns(at.map(schema.fieldNames(_)).asJava)
    WriteTarget(begin.build(), at)
  }

  def columns(partitioning: Seq[Transform]): Seq[String] = partitioning.map {
    case IdentityTransform(reference) => reference.fieldNames.mkString(".")
    case other => throw new CofferException(
        "COFFER_PARTITIONING",
        s"a sealed table cannot be partitioned by ${other.name}",
        "partition by columns; add one that holds the value of the function")
  }

  def withoutRows(target: WriteTarget): Unit = {
    val driver = CofferDriver.get
    SealedPublication(driver, target)(begun => driver.client.publishWrite(PublishWrite.newBuilder.setWrite(begun.getWrite).build()))
  }

  /** A folder of this machine; other storage is not there yet. */
  def local(uri: URI): String =
    if (uri.getScheme == null || uri.getScheme == "file") uri.getPath
    else throw new CofferException(
      "COFFER_STORAGE_SCHEME",
      s"sealed tables cannot be written to ${uri.getScheme} storage yet",
      "use a folder that driver and executors share")
}
