package org.apache.spark.sql.coffer.split

import java.util

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.CommonConfigurationKeysPublic

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.coffer.common.{Client, CofferConf, CofferException}
import org.apache.spark.sql.coffer.proto.plan.{DataType => ProtoType, Field}
import org.apache.spark.sql.coffer.proto.wire.{Encoding, OpenTable, Protection, TableInfo}
import org.apache.spark.sql.coffer.translate.Types
import org.apache.spark.sql.connector.catalog.{
  SupportsRead,
  SupportsWrite,
  Table,
  TableCapability,
  V1Table
}
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * One version of a sealed table, verified by the client engine when it was opened; or, `missing`, a
 * folder where there is none.
 */
final class CofferTable private (
    val info: TableInfo,
    location: String,
    val viewed: Boolean = false,
    known: Map[Int, ColumnFigures] = Map.empty,
    val failure: Option[CofferException] = None,
    val entry: Option[CatalogTable] = None)
    extends Table
    with SupportsRead
    with SupportsWrite {

  /** Plain files that the policy lists: their rows are not verified. */
  def unverified: Boolean = info.getUnverified

  def missing: Boolean = info.getHandle == 0

  /** The table as a catalog's entry has it: what `DESCRIBE` and its like show of it. */
  def entered(as: CatalogTable): CofferTable =
    new CofferTable(info, location, viewed, known, failure, Some(as))

  override def properties(): util.Map[String, String] = {
    val shown = entry.fold(Map.empty[String, String])(V1Table.addV2TableProperties)
    (shown ++ failure.map(e => "status" -> s"[${e.code}] ${e.plain}")).asJava
  }

  /** Not there: what a policy would make of a table, for queries that are planned and never run. */
  def imagined: Boolean = info.getHandle == CofferTable.IMAGINED

  /** What is known of the values of a column of the schema. */
  def figures(column: Int): Option[ColumnFigures] = known.get(column)

  /** The type of a column of the schema, whatever it is stored as. */
  def columnType(column: Int): DataType =
    CofferTable.dataType(info.getSchema.getFields(column).getType)

  override def name(): String = {
    val called = if (info.getName.nonEmpty) info.getName else location
    if (unverified) s"unverified.`$called`" else s"coffer.`$called`"
  }

  /** The columns that the user may not read. What enforces this is the client engine. */
  lazy val denied: Set[String] =
    if (viewed) stored.filter(c =>
      c.isColumn &&
        info.getDeniedList.contains(c.column)).map(_.name).toSet
    else info.getDeniedList.asScala.map(i => info.getSchema.getFields(i).getName).toSet

  /**
   * Asks for columns that a query still needs when it was optimised: the client engine knows
   * today's rights, and records what it refuses.
   */
  def checkRead(columns: Iterable[String]): Unit = {
    val refused = columns.filter(denied).toSeq
    if (refused.nonEmpty) Client.get.checkRead(info.getHandle, refused)
  }

  /** What each protection shows, allows and costs, from what shows least. */
  def protections: Seq[Protection] = info.getProtectionsList.asScala.toSeq

  private lazy val costs: Map[Encoding, Protection.Cost] = protections.map(p =>
    p.getEncoding ->
      p.getCost).toMap

  /** What work on a stored column costs. */
  def cost(stored: StoredColumn): Protection.Cost =
    costs.getOrElse(stored.encoding, Protection.Cost.getDefaultInstance)

  /** How its columns lie in the files, if not each as itself. */
  lazy val stored: Seq[StoredColumn] = StoredColumn.all(info)

  /**
   * The same version as its files have it: the stored columns, if there are any, in the place of
   * the columns.
   */
  def asStored: CofferTable = new CofferTable(info, location, viewed = true, known, failure, entry)

  override val schema: StructType =
    if (viewed && info.getStoredCount > 0) StructType(StoredColumn.all(info).map(_.field))
    else StructType(info.getSchema.getFieldsList.asScala.map { f =>
      // A denied column may come to be NULL.
      StructField(f.getName, CofferTable.declared(f), f.getNullable || denied(f.getName))
    }.toArray)

  /** Stored bytes of each column of the schema. */
  private[split] def columnBytes: Seq[Long] =
    if (viewed && stored.nonEmpty) stored.map(_.bytes)
    else info.getColumnsList.asScala.map(_.getBytes).toSeq

  def partitionNames: Seq[String] = info.getPartitionColumnsList.asScala.toSeq

  /** Positions of the partition columns. */
  def partitions: Seq[Int] = partitionNames.map(schema.fieldIndex)

  override def partitioning(): Array[Transform] =
    partitionNames.map(Expressions.identity(_): Transform).toArray

  // Not BATCH_WRITE: with it `save` would not come to CofferDataSource. SealedWrites takes the
  // commands before Spark plans a V1 write.
  override def capabilities(): util.Set[TableCapability] = {
    val all = util.EnumSet.of(
      TableCapability.BATCH_READ,
      TableCapability.V1_BATCH_WRITE,
      TableCapability.TRUNCATE,
      TableCapability.OVERWRITE_BY_FILTER,
      TableCapability.OVERWRITE_DYNAMIC)
    // So that what fails is its opening, not the number of columns.
    if (failure.isDefined) all.add(TableCapability.ACCEPT_ANY_SCHEMA)
    all
  }

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new CofferScanBuilder(this)

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder =
    throw CofferTable.noExtensions

  /**
   * Errors where a catalog calls it by another table's name: what a catalog says is the host's
   * word.
   */
  def calledInCatalog(called: String): Unit =
    if (!missing && !unverified && !imagined &&
      !called.equalsIgnoreCase(info.getName)) {
      val request =
        OpenTable.newBuilder.setPath(info.getPath).setTableId(info.getTableId).setName(called)
      Client.get.openTable(request.build())
    }

  /**
   * Its newest version, opened now: of this very table, and not of another that was made at its
   * path meanwhile.
   */
  def newest(): CofferTable = {
    val request =
      OpenTable.newBuilder.setPath(info.getPath).setTableId(info.getTableId).setIfThere(true)
    new CofferTable(Client.get.openTable(request.build()), info.getPath)
  }

  override def equals(other: Any): Boolean = other match {
    // Else Spark would take the one with its entry for the one without.
    case t: CofferTable
        if failure.isDefined || t.failure.isDefined ||
          t.entry.isDefined != entry.isDefined => this eq t
    case t: CofferTable => t.info.getTableId == info.getTableId &&
      t.info.getVersion == info.getVersion && t.viewed == viewed
    case _ => false
  }
  override def hashCode(): Int = (info.getTableId, info.getVersion).hashCode
}

object CofferTable {

  /** No client engine has so many tables open. */
  private val IMAGINED = -1

  def imagine(info: TableInfo.Builder, known: Map[Int, ColumnFigures]): CofferTable =
    new CofferTable(info.setHandle(IMAGINED).build(), info.getName, known = known)

  def open(options: CaseInsensitiveStringMap): CofferTable = {
    val request = OpenTable.newBuilder.setIfThere(true)
    val path = Option(options.get("path")).filter(_.nonEmpty)
    val name = Option(options.get("name")).filter(_.nonEmpty)
    (path, name) match {
      case (Some(p), _) => request.setPath(Locations.served(p, settings(options)))
      case (None, Some(n)) => request.setName(n)
      case (None, None) =>
        throw new CofferException(
          "COFFER_NO_PATH",
          "no sealed table is named",
          """give its folder: .load("path"), or LOCATION 'path' in CREATE TABLE; """ +
            """or option "name" with its name in the policy""")
    }
    new CofferTable(Client.get.openTable(request.build()), path.orElse(name).getOrElse(""))
  }

  /** What the one who names a folder sets of Hadoop's counts too. */
  private[coffer] def settings(options: CaseInsensitiveStringMap): Configuration = {
    val settings = ClassicSession.active.sessionState.newHadoopConfWithOptions(
      options.asCaseSensitiveMap.asScala.toMap)
    // Writers' options come in lower case.
    val key = CommonConfigurationKeysPublic.FS_DEFAULT_NAME_KEY
    Option(options.get(key)).foreach(settings.set(key, _))
    settings
  }

  /**
   * As a catalog has it: what does not open is a table all the same, and says why when it is used;
   * else it would spoil every listing.
   */
  private[coffer] def listed(options: CaseInsensitiveStringMap): CofferTable = {
    // Spark hands these on to any source; to pass over them would answer another question.
    Seq("versionAsOf", "timestampAsOf").find(options.containsKey).foreach { option =>
      throw CofferException.refusal(
        Seq(s"the option $option: only the newest version of a sealed table is read"))
    }
    try {
      val table = open(options)
      if (table.missing) throw noTable(table.name())
      table
    } catch {
      case e: CofferException =>
        unopened(Option(options.get("path")).orElse(Option(options.get("name"))).getOrElse(""), e)
    }
  }

  private def unopened(location: String, why: CofferException): CofferTable =
    new CofferTable(TableInfo.getDefaultInstance, location, failure = Some(why))

  /** The table in a folder, or none there. */
  def at(path: String): CofferTable =
    new CofferTable(
      Client.get.openTable(OpenTable.newBuilder.setPath(path).setIfThere(true).build()), path)

  /** Plain Parquet files of the policy's unverified inputs, as one table for engines to read. */
  /** `whether`: one that the policy does not list is no refusal, as there is another way. */
  def plain(files: Seq[String], name: String, whether: Boolean = false): CofferTable = {
    if (files.isEmpty) throw new CofferException(
      "COFFER_UNVERIFIED_INPUT",
      s"the plain table $name has no files",
      "leave it out of the query, or put a relation of VALUES in its place")
    val request = OpenTable.newBuilder.setWhether(whether)
    files.foreach(request.addPlainFiles)
    new CofferTable(Client.get.openTable(request.build()), name)
  }

  def noTable(name: String): CofferException = new CofferException(
    "COFFER_NO_TABLE",
    s"there is no sealed table at $name",
    "look at the path; df.write.format(\"coffer\").save(path) or `coffer encrypt` makes one")

  def noExtensions: CofferException = new CofferException(
    "COFFER_UNSEALED_PLAN",
    "a sealed table was to be written by Spark itself, from executors",
    s"set spark.sql.extensions=${CofferConf.EXTENSIONS}")

  /**
   * CHAR and VARCHAR, whose values are strings; Spark pads and checks them wherever a relation has
   * a column of such a type.
   */
  private def declared(f: Field): DataType =
    if (f.getDeclared.isEmpty) dataType(f.getType)
    else CatalystSqlParser.parseDataType(f.getDeclared)

  private[coffer] def dataType(t: ProtoType): DataType = Types.toCatalyst(t) match {
    case Right(known) => known
    case Left(unknown) =>
      throw new CofferException(
        "COFFER_SCHEMA",
        s"the table has a column of a type this plugin does not know: ${unknown.reason}",
        "use one build")
  }
}
