package org.apache.spark.sql.coffer.split

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.coffer.proto.wire.{StoredColumn => Proto, TableInfo}
import org.apache.spark.sql.types.{BinaryType, DataType, StringType, StructField}

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

  /** To whoever holds the table's files, in the words of `coffer policy check` (its shows.rs): EXPLAIN says no less. */
  def shows(table: CofferTable): Seq[String] = {
    def said(is: Boolean, words: String): Option[String] = Option.when(is)(words)
    val comparable = Set("det", "ope", "ore")(protection)
    val ordered = protection == "ope" || protection == "ore"
    val text = isColumn && (table.columnType(column) match {
      case _: StringType | BinaryType => true
      case _ => false
    })
    val partition = table.partitionNames.contains(table.info.getSchema.getFields(column).getName)
    val words = Seq(
      said(protection == "plain", if (partition) "every value, in the files' paths" else "every value"),
      said(comparable && !prefix, "which values are equal"),
      said(ordered && !prefix, "their order"),
      said(ordered && prefix, "the order of their first bytes, and which are equal there"),
      said(protection == "ope", "about the upper half of each one's bits"),
      said(protection == "ore", "the first bit in which any two differ"),
      said(protection == "ashe", "which rows each sum took"),
      said(text && (protection == "det" || protection == "std"), "lengths"),
      said(nullable && !isOpen, "which are NULL"),
      said(comparable && linked(table), s"by link $link what its columns show together (coffer policy check names them)")).flatten
    if (words.nonEmpty) words else Seq("nothing but sizes, and which files, row groups and pages are read")
  }

  /** Whether other columns may have comparable ciphertexts. A column that is not linked is a link of its own, named after it. */
  private def linked(table: CofferTable): Boolean = link.nonEmpty && !link.startsWith(s"${table.info.getTableId}.")

  /** Whether equal ciphertexts mean equal values and the other way round. */
  def tellsEqual: Boolean = protection == "det" || (protection == "ope" && !prefix)

  /** Whether ciphertexts lie in the order of values. */
  def tellsOrder: Boolean = protection == "ope" && !prefix
}

object StoredColumn {

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
