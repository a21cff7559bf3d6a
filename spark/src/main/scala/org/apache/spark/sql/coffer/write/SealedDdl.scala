package org.apache.spark.sql.coffer.write

import scala.util.Try

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{ResolvedIdentifier, ResolvedNamespace, ResolvedTable}
import org.apache.spark.sql.catalyst.catalog.CatalogUtils
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.split.{CofferTable, SealedFormat}
import org.apache.spark.sql.coffer.versions.{tableSpec, TableOf}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Identifier}
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.command.{
  AnalyzeTablesCommand,
  CreateTableLikeCommand,
  DropDatabaseCommand,
  DropTableCommand
}
import org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog
import org.apache.spark.sql.types.StructType

/**
 * Commands about sealed tables of Spark's session catalog that are ours to run. Which ones there
 * are, `rules.Statements` says.
 */
object SealedDdl {

  def unapply(plan: LogicalPlan): Option[SparkPlan] = plan match {
    case c @ CreateTableAsSelect(ResolvedIdentifier(catalog: V2SessionCatalog, ident), partitioning,
          query, spec: TableSpec, _, ifNotExists,
          _)
        if SealedFormat.is(spec) =>
      Some(MakeTableExec(catalog, ident, partitioning, Right(query), spec, c.writeOptions,
          ifNotExists, replace = false, orCreate = true))
    case c @ ReplaceTableAsSelect(ResolvedIdentifier(catalog: V2SessionCatalog, ident),
          partitioning, query, spec: TableSpec, _, orCreate,
          _)
        if SealedFormat.is(spec) =>
      Some(MakeTableExec(catalog, ident, partitioning, Right(query), spec, c.writeOptions,
          ifNotExists = false, replace = true, orCreate))
    case c @ CreateTable(ResolvedIdentifier(catalog: V2SessionCatalog, ident), columns,
          partitioning, spec: TableSpec, ifNotExists)
        if SealedFormat.is(spec) =>
      // Without columns it only names a table that is there.
      if (columns.isEmpty) Some(NameTableExec(catalog, ident, spec,
          c.ignoreIfExists ||
            ifNotExists))
      else Some(MakeTableExec(catalog, ident, partitioning, Left(schema(columns)), spec, Map.empty,
          c.ignoreIfExists || ifNotExists,
          replace = false, orCreate = true))
    case ReplaceTable(ResolvedIdentifier(catalog: V2SessionCatalog, ident), columns, partitioning,
          spec: TableSpec, orCreate)
        if SealedFormat.is(spec) =>
      Some(MakeTableExec(catalog, ident, partitioning, Left(schema(columns)), spec, Map.empty,
          ifNotExists = false, replace = true,
          orCreate))
    case c: CreateTableLikeCommand => like(c)
    case DropTable(ResolvedIdentifier(_: V2SessionCatalog, ident), _, purge) =>
      drop(TableIdentifier(ident.name, ident.namespace.headOption), purge)
    case DropTableCommand(name, _, false, purge) => drop(name, purge)
    case DropNamespace(ResolvedNamespace(_: V2SessionCatalog, Seq(database), _), ifExists,
          cascade) =>
      Some(DropDatabaseExec(database, ifExists, cascade))
    case DropDatabaseCommand(database, ifExists, cascade) =>
      Some(DropDatabaseExec(database, ifExists, cascade))
    case RenameTable(ResolvedTable(_: V2SessionCatalog, ident, _: CofferTable, _), to, false) =>
      Some(RenameSealedTableExec(ident, to))
    case TruncateTable(ResolvedTable(_, _, table: CofferTable, _)) =>
      Some(TruncateSealedTableExec(table))
    // Rows and bytes are in the manifest.
    case AnalyzeTable(ResolvedTable(_, _, _: CofferTable, _), spec, _) if spec.isEmpty =>
      Some(NothingToDoExec("ANALYZE TABLE"))
    case AnalyzeTablesCommand(database, noScan) => Some(AnalyzePlainTablesExec(database, noScan))
    case d: DescribeRelation => d.relation match {
        case ResolvedTable(_, _, table: CofferTable, _) if table.failure.isDefined =>
          Some(DescribeUnopenedExec(d.output, table, d.isExtended))
        case _ => None
      }
    case _ => None
  }

  /** The query of a command that writes a sealed table and does not show it as a child. */
  def query(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case c: CreateTableAsSelect if SealedFormat.is(c.tableSpec) => Some(c.query)
    case c: ReplaceTableAsSelect if SealedFormat.is(c.tableSpec) => Some(c.query)
    case _ => None
  }

  private def session = SparkSession.active

  private def schema(columns: Seq[ColumnDefinition]): StructType = {
    columns.foreach { c =>
      val what =
        if (c.defaultValue.isDefined) Some("a default value")
        else if (c.generationExpression.isDefined) Some("a generated column")
        else if (c.identityColumnSpec.isDefined) Some("an identity column")
        else None
      what.foreach(w =>
        throw Entries.refused(s"$w (${c.name})",
          "rows are written as the query " +
            "has them"))
    }
    CatalogV2Util.v2ColumnsToStructType(columns.map(_.toV2Column("CREATE TABLE")).toArray)
  }

  private def drop(name: TableIdentifier, purge: Boolean): Option[SparkPlan] = {
    val catalog = session.sessionState.catalog
    val known = if (catalog.isTempView(name)) None else Try(catalog.getTableMetadata(name)).toOption
    known.filter(SealedFormat.managed).map(_ => DropSealedTableExec(name, purge))
  }

  /** Of another format it is Spark's; it was judged before whether that may be. */
  private def like(c: CreateTableLikeCommand): Option[SparkPlan] = {
    lazy val source = session.table(c.sourceTable).queryExecution.analyzed
    def partitioned: Seq[Transform] =
      source.collectFirst { case TableOf(t: CofferTable, _, _, _) =>
        t.partitionNames
      }.toSeq.flatten
        .map(Expressions.identity(_))
    def ofSealed = Try(session.sessionState.catalog.getTempViewOrPermanentTableMetadata(
        c.sourceTable)).toOption.exists(SealedFormat.is(_))
    val sealedOne = c.provider.fold(c.fileFormat.inputFormat.isEmpty && ofSealed)(SealedFormat.is)
    (sealedOne, session.sessionState.catalogManager.v2SessionCatalog) match {
      case (true, catalog: V2SessionCatalog) =>
        val name = session.sessionState.catalog.qualifyIdentifier(c.targetTable)
        val spec = tableSpec(c.properties, "coffer",
          c.fileFormat.locationUri.map(CatalogUtils.URIToString))
        val ident = Identifier.of(name.database.toArray, name.table)
        val parts = if (ofSealed) partitioned else Nil
        Some(MakeTableExec(catalog, ident, parts, Left(source.schema), spec, Map.empty,
            c.ifNotExists, replace = false, orCreate = true))
      case _ => None
    }
  }
}
