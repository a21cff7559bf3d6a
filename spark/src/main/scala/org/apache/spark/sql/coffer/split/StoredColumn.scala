package org.apache.spark.sql.coffer.split

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.coffer.proto.wire.{
  Capability,
  Encoding,
  Opener,
  Shown,
  StoredColumn => Proto,
  TableInfo
}
import org.apache.spark.sql.types.{DataType, StructField}

/**
 * One protection of a column, as a column of the table's files. What it shows and allows is what
 * the client engine says of it: nothing here knows a protection by name.
 *
 * @param name     in the files: `c7`
 * @param column   position in the table's schema; of the two that say of which file and row a value
 *                 is, meaningless
 * @param protection its name, for people
 * @param dataType of what is stored: a ciphertext's, or the column's own
 * @param link     columns of equal links, in whatever tables, have comparable ciphertexts; empty:
 *                 with none but itself
 * @param prefix   ciphertexts of a text's prefix only, which may be equal where texts differ
 * @param leaks    to whoever holds the table's files
 * @param allows   what can be done with it unopened
 * @param needsPlace whether its values say nothing without their file and row
 */
final case class StoredColumn(
    name: String,
    column: Int,
    protection: String,
    encoding: Encoding,
    dataType: DataType,
    nullable: Boolean,
    bytes: Long,
    link: String,
    prefix: Boolean,
    leaks: Seq[Shown],
    allows: Set[Capability],
    openedBy: Opener,
    needsPosition: Boolean) {

  /** Not one of the two that say of which file and row a value is. */
  def isColumn: Boolean = encoding != Encoding.ENCODING_FILE && encoding != Encoding.ENCODING_ROW

  def field: StructField = StructField(name, dataType, nullable)

  /** A new one for each use. */
  def attribute: AttributeReference = AttributeReference(name, dataType, nullable)()

  /** Whether its values are the column's own, under Parquet's encryption or none. */
  def isOpen: Boolean = isInClear || isForEnclaves

  /** Whether anyone has its values. */
  def isInClear: Boolean = openedBy == Opener.OPENER_ANYONE

  /** Whether enclaves have its values, and hosts nothing. */
  def isForEnclaves: Boolean = openedBy == Opener.OPENER_ENCLAVES

  /** Whether its values are ciphertexts to engines. */
  def isCipher: Boolean = isColumn && !isOpen

  /** Whether the column's values can be had from it. */
  def opens: Boolean = isColumn && openedBy != Opener.OPENER_NOBODY

  /**
   * To whoever holds the table's files, in the words of `coffer policy check`: EXPLAIN says no
   * less.
   */
  def shows(table: CofferTable): Seq[String] =
    leaks.map(_.getWords) ++
      Option.when(linked(table))(s"by link $link what its columns show together (coffer policy " +
        s"check names them)")

  /**
   * Whether other columns may have comparable ciphertexts. A column that is not linked is a link of
   * its own, named after it.
   */
  private def linked(table: CofferTable): Boolean = link.nonEmpty &&
    !link.startsWith(s"${table.info.getTableId}.")
}

object StoredColumn {

  /** What the columns of a table that has no stored columns are. */
  val WHOLE = "tee"

  /** What the columns of plain files are. */
  val CLEAR = "plain"

  def all(info: TableInfo): Seq[StoredColumn] = info.getStoredList.asScala.map(of).toSeq

  /** The two that say of which file and row each value is. */
  def position(stored: Seq[StoredColumn]): Option[(StoredColumn, StoredColumn)] =
    for {
      file <- stored.find(_.encoding == Encoding.ENCODING_FILE)
      row <- stored.find(_.encoding == Encoding.ENCODING_ROW)
    } yield (file, row)

  private def of(c: Proto): StoredColumn = StoredColumn(
    c.getName,
    c.getColumn,
    c.getProtection,
    c.getEncoding,
    CofferTable.dataType(c.getType),
    c.getNullable,
    c.getBytes,
    c.getLink,
    c.getPrefix,
    c.getShowsList.asScala.toSeq,
    c.getAllowsList.asScala.toSet,
    c.getOpenedBy,
    c.getPlaced)
}
