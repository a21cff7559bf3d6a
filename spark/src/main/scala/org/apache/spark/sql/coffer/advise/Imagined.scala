package org.apache.spark.sql.coffer.advise

import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.proto.plan.{DataType => ProtoType, Field, Schema}
import org.apache.spark.sql.coffer.proto.wire.{
  Encoding,
  Opener,
  Protection,
  StoredColumn => Stored,
  TableInfo
}
import org.apache.spark.sql.coffer.split.{
  CofferTable,
  ColumnFigures,
  Estimates,
  SiteCosts,
  StoredColumn
}
import org.apache.spark.sql.coffer.translate.Types
import org.apache.spark.sql.types._

/** A column that a table has: `type` as SQL; numbers as in [[ColumnFigures]]. */
private[advise] final case class ImaginedColumn(
    name: String,
    `type`: String,
    nullable: Boolean,
    distinct: Option[Double],
    low: Option[Double],
    high: Option[Double],
    width: Option[Double]) {
  lazy val dataType: DataType = CatalystSqlParser.parseDataType(`type`)
}

/** A table of which schema and figures are known, as it would be if it were sealed. */
private[advise] final case class Imagined(name: String, rows: Long, columns: Seq[ImaginedColumn]) {

  /** Columns that are not named are `tee`. */
  def under(policy: Map[String, Choice], protections: Protections): CofferTable = {
    val info = TableInfo.newBuilder
      .setTableId(name)
      .setVersion(Imagined.versions.incrementAndGet())
      .setName(name)
      .setRows(rows)
      .addAllProtections(protections.all.asJava)
      .setSchema(columns.foldLeft(Schema.newBuilder)((s, c) => s.addFields(field(c))))
    columns.foreach { c =>
      val bytes = rows * c.width.getOrElse(Estimates.width(c.dataType))
      info.addColumns(
        TableInfo.ColumnInfo.newBuilder.setProtection(StoredColumn.WHOLE).setBytes(bytes.toLong))
    }
    if (policy.values.exists(_.protections != Choice.whole.protections))
      stored(policy, protections).foreach(s => info.addStored(s))
    val figures = columns.zipWithIndex.map { case (c, i) =>
      i ->
        ColumnFigures(c.distinct, c.low, c.high, c.width)
    }
    CofferTable.imagine(info, figures.toMap)
  }

  private def field(c: ImaginedColumn): Field =
    Field.newBuilder.setName(c.name).setType(Imagined.proto(c.dataType)).setNullable(
      c.nullable).build()

  private def stored(policy: Map[String, Choice], protections: Protections): Seq[Stored] = {
    val encodings = columns.zipWithIndex.flatMap { case (c, i) =>
      val choice = policy.getOrElse(c.name, Choice.whole)
      choice.protections.map(p => encoding(c, i, protections(p), choice))
    }
    val positions =
      if (encodings.exists(_.getPlaced)) Seq(Encoding.ENCODING_FILE ->
          BinaryType, Encoding.ENCODING_ROW -> LongType)
      else Nil
    val all = encodings ++ positions.map { case (e, t) =>
      Stored.newBuilder.setEncoding(e).setType(Imagined.proto(t))
    }
    all.zipWithIndex.map { case (f, n) => f.setName(s"c${n + 1}").build() }
  }

  private def encoding(
      c: ImaginedColumn,
      column: Int,
      protection: Protection,
      choice: Choice): Stored.Builder = {
    val texts = c.dataType.isInstanceOf[StringType] || c.dataType == BinaryType
    val described = Protections.describe(Stored.newBuilder, protection, texts, c.nullable)
    val as = described.getOpenedBy match {
      case Opener.OPENER_ANYONE | Opener.OPENER_ENCLAVES => c.dataType
      case _ if SiteCosts.isNarrow(protection.getCost, choice.narrow) => LongType
      case _ => BinaryType
    }
    val width = SiteCosts.width(protection.getCost, c.width.getOrElse(Estimates.width(c.dataType)),
      choice.narrow)
    described
      .setColumn(column)
      .setType(Imagined.proto(as))
      .setNullable(c.nullable)
      .setBytes((rows * width).toLong)
      // A column can always be compared with itself.
      .setLink(if (!protection.getLinked) ""
        else if (choice.link.nonEmpty) choice.link else s"$name.${c.name}")
  }
}

private object Imagined {
  private val versions = new AtomicLong()

  def proto(t: DataType): ProtoType = Types.of(t) match {
    case Right(proto) => proto
    case Left(unsupported) => throw CofferException.refusal(Seq(unsupported.message))
  }
}
