package org.apache.spark.sql.coffer.plugin

import java.net.URI

import scala.util.Try

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{
  CatalogStorageFormat,
  CatalogTable,
  CatalogTablePartition,
  ExternalCatalogUtils
}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.plans.logical.{
  Command,
  LogicalPlan,
  TableSpec,
  V2CreateTablePlan,
  V2WriteCommand
}
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.coffer.common.Client
import org.apache.spark.sql.coffer.split.{CofferTable, SealedFormat, SealedProvider}
import org.apache.spark.sql.coffer.versions.FileStreamSink
import org.apache.spark.sql.connector.catalog.{Table, TableCatalog}
import org.apache.spark.sql.execution.command._
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * In a zone of the policy nothing plain is made: no table of another format has its folder or a
 * partition there, and no files are written there. Which folders are in a zone, the client engine
 * says; if it cannot be asked, nothing plain is written at all. What goes by no plan
 * (`rdd.saveAsTextFile`, a program's own files) is not seen here.
 */
private[coffer] final case class PlainInZones(session: SparkSession) extends (LogicalPlan => Unit) {

  private def catalog = session.sessionState.catalog

  override def apply(plan: LogicalPlan): Unit = {
    val made = plan.collect { case node => targets(node) }.flatten.distinct
    if (made.nonEmpty) Client.get.checkPlain(made)
  }

  /**
   * By the settings that the write itself will have, and by the session's: which of them leads
   * where, is not for the caller to say.
   */
  private def targets(node: LogicalPlan): Seq[String] = {
    val paths = made(node)
    if (paths.isEmpty) Nil
    else {
      val own = options(node)
      val settings = session.sessionState.newHadoopConf() +:
        (if (own.isEmpty) Nil else Seq(session.sessionState.newHadoopConfWithOptions(own)))
      for (path <- paths; set <- settings; target <- PathTargets.of(path, set)) yield target
    }
  }

  /** What a command sets of Hadoop's for itself, by `.option(…)` or `OPTIONS (…)`. */
  private def options(node: LogicalPlan): Map[String, String] = node match {
    case w: InsertIntoHadoopFsRelationCommand => w.options
    case other => other.productIterator.foldLeft(Map.empty[String, String]) {
        case (found, t: CatalogTable) => found ++ t.storage.properties
        case (found, s: CatalogStorageFormat) => found ++ s.properties
        case (found, s: TableSpec) => found ++ s.options
        case (found, Some(t: CatalogTable)) => found ++ t.storage.properties
        case (found, m: Map[_, _]) => found ++
            m.collect { case (key: String, value: String) => key -> value }
        case (found, _) => found
      }
  }

  /** Where a node would make something plain, or lets others make it. */
  private def made(node: LogicalPlan): Seq[Path] = node match {
    case w: InsertIntoHadoopFsRelationCommand => w.outputPath +:
        w.catalogTable.toSeq.flatMap(partitions(_, w.staticPartitions))
    case w: SaveIntoDataSourceCommand =>
      if (w.dataSource.isInstanceOf[SealedProvider]) Nil else path(w.options)
    case w: InsertIntoDataSourceCommand => w.logicalRelation.catalogTable.toSeq.map(folder)
    case w: V2WriteCommand => w.table match {
        case r: DataSourceV2Relation => property(r.table)
        case _ => Nil
      }
    // What a stream keeps of its state is plain too.
    case w: WriteToStream => Seq(new Path(w.resolvedCheckpointLocation)) ++ sink(w.sink) ++
        w.catalogTable.map(folder)
    case c: LoadDataCommand =>
      known(c.table).toSeq.flatMap(written(_, c.partition.getOrElse(Map.empty)))
    case c: CreateTable => table(c.tableDesc)
    case c: CreateTableLikeCommand => like(c)
    case c: V2CreateTablePlan => specified(c)
    case c: AlterTableSetLocationCommand => moved(c)
    case c: AlterTableAddPartitionCommand =>
      plain(c.tableName).flatMap(t =>
        c.partitionSpecsAndLocs.flatMap(_._2).map(at => new Path(folder(t), at)))
    case c: AlterTableRenameCommand if !c.isView => plain(c.oldName).map(_ => default(c.newName))
    // Commands that make or fill a table of Spark's catalog or of Hive's, or a directory.
    case c: Command => c.productIterator.flatMap {
        case t: CatalogTable if c.isInstanceOf[DataWritingCommand] => written(t)
        case t: CatalogTable => table(t)
        case s: CatalogStorageFormat => s.locationUri.map(new Path(_))
        case _ => Nil
      }.toSeq
    case _ => Nil
  }

  private def path(options: Map[String, String]): Seq[Path] =
    CaseInsensitiveMap(options).get("path").map(new Path(_)).toSeq

  private def property(table: Table): Seq[Path] = table match {
    case _: CofferTable => Nil
    case other => Option(other.properties).flatMap(p =>
        Option(p.get(TableCatalog.PROP_LOCATION))).map(new Path(_)).toSeq
  }

  /** Spark's sink for files tells its folder as text only. */
  private def sink(to: Table): Seq[Path] = to match {
    case f: FileStreamSink => Seq(new Path(f.toString.stripPrefix("FileSink[").stripSuffix("]")))
    case other => property(other)
  }

  private def like(c: CreateTableLikeCommand): Seq[Path] = {
    val provider =
      c.provider.orElse(c.fileFormat.inputFormat).orElse(known(c.sourceTable).flatMap(_.provider))
    if (sealedFormat(provider)) Nil else Seq(location(c.fileFormat.locationUri, c.targetTable))
  }

  private def specified(c: V2CreateTablePlan): Seq[Path] = c.productIterator.toSeq.flatMap {
    case s: TableSpec if !sealedFormat(s.provider) =>
      s.location.map(new Path(_)).toSeq ++ path(s.options)
    case _ => Nil
  }

  private def moved(c: AlterTableSetLocationCommand): Seq[Path] = plain(c.tableName).map { t =>
    if (c.partitionSpec.isEmpty) location(Some(new Path(c.location).toUri), c.tableName)
    else new Path(folder(t), c.location)
  }

  private def table(made: CatalogTable): Seq[Path] =
    if (sealedFormat(made.provider)) Nil
    else Seq(location(made.storage.locationUri, made.identifier))

  private def written(t: CatalogTable, of: TablePartitionSpec = Map.empty): Seq[Path] =
    folder(t) +: partitions(t, of)

  private def folder(t: CatalogTable): Path = location(t.storage.locationUri, t.identifier)

  /** The folders of the partitions that are written, of those that have one of their own. */
  private def partitions(t: CatalogTable, of: TablePartitionSpec): Seq[Path] =
    if (t.partitionColumnNames.isEmpty || known(t.identifier).isEmpty) Nil
    else {
      // Thousands of partitions lie where their names say, below the table's folder, of which is
      // asked anyway.
      def own(partition: CatalogTablePartition, at: Path) =
        at != ExternalCatalogUtils.generatePartitionPath(partition.spec, t.partitionColumnNames,
          folder(t))
      for {
        partition <- catalog.listPartitions(t.identifier, Some(of).filter(_.nonEmpty))
        at <- partition.storage.locationUri.map(new Path(_)) if own(partition, at)
      } yield at
    }

  private def known(name: TableIdentifier): Option[CatalogTable] =
    Try(catalog.getTableMetadata(name)).toOption

  private def plain(name: TableIdentifier): Seq[CatalogTable] =
    known(name).filterNot(t => sealedFormat(t.provider)).toSeq

  private def sealedFormat(provider: Option[String]): Boolean = SealedFormat.is(provider)

  private def default(name: TableIdentifier): Path = new Path(catalog.defaultTablePath(name))

  /** Without a location, or with a relative one, in the database's folder. */
  private def location(own: Option[URI], name: TableIdentifier): Path =
    own.fold(default(name))(uri => new Path(default(name).getParent, new Path(uri)))
}
