package org.apache.spark.sql.coffer.split

import java.util.OptionalLong

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.proto.wire.TableInfo
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types._

final class CofferScanBuilder(table: CofferTable) extends ScanBuilder
    with SupportsPushDownRequiredColumns {
  private var required = table.schema
  // Spark builds a scan of all columns too, for statistics alone; one that is run was told its
  // columns.
  private var asked = false

  /** Of a nested column all is read: whole columns are what keys and rights are of. */
  override def pruneColumns(schema: StructType): Unit = {
    val nested = table.schema.fields.filter(f => CofferScan.isNested(f.dataType))
    val whole = nested.map(f => f.name -> f.dataType).toMap
    required = StructType(schema.fields.map(f =>
        f.copy(dataType = whole.getOrElse(f.name, f.dataType))))
    asked = true
  }

  override def build(): Scan = {
    if (asked) table.checkRead(required.fieldNames)
    new CofferScan(table, required)
  }
}

/**
 * The columns of a table that a query reads. It reads nothing itself: the fragment that it becomes
 * part of does, in an engine.
 */
final class CofferScan(val table: CofferTable, schema: StructType) extends Scan with Batch
    with SupportsReportStatistics {
  override def readSchema(): StructType = schema

  override def description(): String = {
    val version = if (table.unverified) "plain files that are not " +
      "verified"
    else s"version ${table.info.getVersion}"
    s"${table.name()} $version, ${schema.size} columns"
  }

  override def columnarSupportMode(): Scan.ColumnarSupportMode =
    Scan.ColumnarSupportMode.UNSUPPORTED

  override def toBatch: Batch = this

  private def unsealed: Nothing = throw new CofferException(
    "COFFER_UNSEALED_PLAN",
    s"a plan over ${table.name()} was to be run by Spark itself, which cannot open sealed data",
    s"set spark.sql.extensions=${CofferConf.EXTENSIONS}; if it is set, please report the query's " +
      s"EXPLAIN")

  override def planInputPartitions(): Array[InputPartition] = unsealed
  override def createReaderFactory(): PartitionReaderFactory = unsealed

  /** Stored bytes of the columns read; footers and pages not read are left out. */
  def bytes: Long = columnBytes.map(_._2).sum

  /**
   * The size of the rows by which joins are planned: about in the proportion to them that stored
   * bytes have in Spark's own Parquet source. Numbers in their order are stored in a few bits each,
   * and take no less memory for that.
   */
  def size: Long = {
    val rows = table.info.getRows
    columnBytes.map { case (kind, stored) =>
      math.max(stored, rows * (CofferScan.width(kind) / 2))
    }.sum.max(1L)
  }

  private def columnBytes: Seq[(DataType, Long)] = {
    val wanted = schema.fieldNames.toSet
    val stored = table.schema.fields.toSeq.zip(table.columnBytes)
    stored.collect { case (field, b) if wanted(field.name) => field.dataType -> b }
  }

  override def estimateStatistics(): Statistics = new Statistics {
    override def sizeInBytes(): OptionalLong = OptionalLong.of(size)
    override def numRows(): OptionalLong = OptionalLong.of(table.info.getRows)
  }

  /**
   * Which row groups each task reads: neighbours together, about equally many bytes, at least as
   * many tasks as there are cores if there are as many row groups.
   */
  lazy val tasks: Seq[Seq[CofferScan.Slice]] = {
    val session = SparkSession.active
    val parallelism = math.max(1, session.sparkContext.defaultParallelism)
    val target = session.conf.getOption(CofferConf.SCAN_TARGET_BYTES).flatMap(_.toLongOption)
      .getOrElse(CofferConf.DEFAULT_SCAN_TARGET_BYTES)
    CofferScan.plan(table.info, bytes, parallelism, target)
  }

  override def equals(other: Any): Boolean = other match {
    case s: CofferScan => s.table == table && s.readSchema() == schema
    case _ => false
  }
  override def hashCode(): Int = (table, schema).hashCode
}

object CofferScan {

  /** Bytes of a number of a type; 0 of others. */
  private def width(t: DataType): Int = t match {
    case IntegerType | DateType | FloatType => 4
    case LongType | DoubleType | TimestampType | TimestampNTZType | _: DecimalType => 8
    case _ => 0
  }

  def isNested(t: DataType): Boolean = t match {
    case _: ArrayType | _: MapType | _: StructType => true
    case _ => false
  }

  /** Row groups [first, end) of a file, by its position in the table. */
  final case class Slice(file: Int, first: Int, end: Int)

  private[coffer] def plan(
      info: TableInfo,
      bytesRead: Long,
      parallelism: Int,
      target: Long): Seq[Seq[Slice]] = {
    val groups = for {
      (file, f) <- info.getFilesList.asScala.toVector.zipWithIndex
      g <- 0 until file.getRowGroupsCount
    } yield (f, g, math.max(1L, file.getRowGroups(g).getBytes))
    if (groups.isEmpty) return Seq(Nil)
    val total = groups.map(_._3).sum
    val byBytes = math.min((bytesRead + target - 1) / math.max(1L, target), 1000000L).toInt
    val wanted = math.max(parallelism, byBytes)
    // A group belongs to the share in which its middle lies.
    val shares = groups.scanLeft(0L)(_ + _._3).zip(groups).map { case (before, (f, g, b)) =>
      val middle = before + b / 2
      ((BigInt(middle) * wanted / total).toInt, f, g)
    }
    shares.groupBy(_._1).toSeq.sortBy(_._1).map { case (_, members) =>
      merge(members.map(m => (m._2, m._3)))
    }
  }

  private def merge(groups: Seq[(Int, Int)]): Seq[Slice] =
    groups.foldLeft(Vector.empty[Slice]) {
      case (done :+ last, (f, g))
          if last.file == f &&
            last.end == g => done :+ last.copy(end = g + 1)
      case (done, (f, g)) => done :+ Slice(f, g, g + 1)
    }
}
