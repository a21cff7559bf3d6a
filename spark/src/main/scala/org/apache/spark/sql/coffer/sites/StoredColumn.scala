package org.apache.spark.sql.coffer.sites

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.coffer.proto.wire.{StoredColumn => Proto, TableInfo}
import org.apache.spark.sql.coffer.source.CofferTable
import org.apache.spark.sql.types.{DataType, StructField}

/**
 * One protection of a column, as a column of the table's files.
 *
 * @param name     in the files: `c7`
 * @param column   position in the table's schema; of `file` and `row` meaningless
 * @param dataType of what is stored: a ciphertext's, or the column's own
 * @param link     columns of equal links, in whatever tables, have comparable ciphertexts; empty: with none but itself
 * @param prefix   ciphertexts of a text's prefix only, which may be equal where texts differ
 */
final case class StoredColumn(
    name: String,
    column: Int,
    protection: String,
    dataType: DataType,
    nullable: Boolean,
    bytes: Long,
    link: String,
    prefix: Boolean) {

  /** Not one of the two that say of which file and row a value is. */
  def isColumn: Boolean = protection != "file" && protection != "row"

  def field: StructField = StructField(name, dataType, nullable)

  /** A new one for each use. */
  def attribute: AttributeReference = AttributeReference(name, dataType, nullable)()

  /** Whether its values are the column's own, under Parquet's encryption or none. */
  def isOpen: Boolean = protection == "plain" || protection == "tee"

  /** Whether its values say nothing without their file and row. */
  def needsPlace: Boolean = protection == "std" || protection == "ashe"

  /** To who holds the table's files. */
  def shows: String = protection match {
    case "tee" => "sizes"
    case "std" => "which values are NULL, and lengths"
    case "det" => "equality"
    case "ope" => if (prefix) "order of prefixes, equality of prefixes" else "order, equality, about the upper half of the bits"
    case "ore" => "order, and the first differing bit of every pair"
    case "ashe" => "which values are NULL; of a sum, which rows it took"
    case _ => "everything"
  }

  /** Whether equal ciphertexts mean equal values and the other way round. */
  def tellsEqual: Boolean = protection == "det" || (protection == "ope" && !prefix)

  /** Whether ciphertexts lie in the order of values. */
  def tellsOrder: Boolean = protection == "ope" && !prefix
}

object StoredColumn {

  /** Protections whose values the client engine can open, the cheapest to read from storage first. */
  val opened: Seq[String] = Seq("ashe", "std", "det", "ope", "ore")

  /** Protections whose stored values are ciphertexts to engines. */
  val schemes: Set[String] = Set("std", "det", "ope", "ore", "ashe")

  def all(info: TableInfo): Seq[StoredColumn] = info.getStoredList.asScala.map(of).toSeq

  private def of(c: Proto): StoredColumn = StoredColumn(
    c.getName,
    c.getColumn,
    c.getProtection,
    CofferTable.dataType(c.getType),
    c.getNullable,
    c.getBytes,
    c.getLink,
    c.getPrefix)
}
