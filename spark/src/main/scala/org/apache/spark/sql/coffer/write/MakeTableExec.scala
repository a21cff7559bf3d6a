package org.apache.spark.sql.coffer.write

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, TableSpec}
import org.apache.spark.sql.catalyst.util.{CharVarcharUtils, ResolveDefaultColumns}
import org.apache.spark.sql.coffer.common.{Client, CofferException}
import org.apache.spark.sql.coffer.exec.{SealedInsert, WriteTarget}
import org.apache.spark.sql.coffer.proto.wire.{BeginWrite, PublishWrite}
import org.apache.spark.sql.coffer.proto.wire.BeginWrite.Mode
import org.apache.spark.sql.coffer.split.{Locations, NamedTables, SealedFormat}
import org.apache.spark.sql.coffer.translate.Types
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.connector.expressions.{IdentityTransform, Transform}
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.datasources.v2.{LeafV2CommandExec, V2SessionCatalog}
import org.apache.spark.sql.types.StructType

/**
 * CREATE TABLE … USING coffer, with columns or AS SELECT, and its REPLACE. The sealed table is
 * written and published first; the catalog's entry, which is a name for a folder and nothing else,
 * comes last: so nobody finds half a table.
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
    Entries.check(spec)
    val exists = catalog.tableExists(ident)
    if (exists && ifNotExists) return Nil
    if (exists && !replace) throw QueryCompilationErrors.tableAlreadyExistsError(ident)
    if (!exists && replace &&
      !orCreate) throw QueryCompilationErrors.cannotReplaceMissingTableError(ident)
    // A manifest keeps no default: Spark's own refusal of formats that do not, rather than NULLs
    // later.
    rows.left.foreach(ResolveDefaultColumns.validateTableProviderForDefaultValue(_, Some("coffer"),
        "CREATE TABLE", false))
    val known = if (exists) Some(sessionCatalog.getTableMetadata(identifier)) else None
    known.filterNot(SealedFormat.is(_)).foreach { _ =>
      throw new CofferException("COFFER_REPLACE",
        s"$identifier is a table of another " +
          s"format", "drop it first")
    }
    lazy val asked = Entries.folder(sessionCatalog, identifier, spec.location)
    val folder = known.fold(asked)(_.location)
    if (spec.location.isDefined && Locations.served(asked) != Locations.served(folder))
      throw Entries.refused(s"LOCATION ${spec.location.mkString}",
        s"$identifier lies at " +
          s"$folder, and its next version does too")
    val schema = rows.fold(identity,
      query => CharVarcharUtils.getRawSchema(query.schema, session.sessionState.conf).asNullable)
    val mode = if (replace) Mode.REPLACE else Mode.CREATE
    val target =
      NewTables.target(mode, Locations.served(folder), name, schema,
        NewTables.columns(partitioning), session.sessionState.conf.resolver)
    val managed = spec.location.isEmpty && !spec.external
    // By its name in the catalog it is to be dropped one day: that is nobody else's, before
    // anything is made.
    def called(done: Boolean): Unit =
      if (known.isEmpty && managed &&
        name != inCatalog)
        Client.get.renameTable(Locations.served(folder), "", name, inCatalog, done)
    called(done = false)
    rows match {
      case Right(query) =>
        session.sessionState.executePlan(SealedInsert(target, query)).assertCommandExecuted()
      case Left(_) => NewTables.withoutRows(target)
    }
    called(done = true)
    if (known.isEmpty) Entries.enter(sessionCatalog, identifier, folder, managed, spec)
    Nil
  }

  private lazy val inCatalog = NamedTables.name(ident)

  /** In policy and register. */
  private def name: String =
    options.get("name").orElse(spec.options.get("name")).getOrElse(inCatalog)
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
          throw new CofferException("COFFER_PARTITIONING",
            s"there is no column $p to partition " +
              s"by", "name one of the table's columns")
        case i => i
      }
    }
    val columns =
      Types.declared(schema).fold(u => throw CofferException.refusal(Seq(u.message)), identity)
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
    val client = Client.get
    SealedPublication(client, target)(begun =>
      client.publishWrite(PublishWrite.newBuilder.setWrite(begun.getWrite).build()))
  }
}
