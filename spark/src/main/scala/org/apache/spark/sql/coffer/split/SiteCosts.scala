package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.coffer.proto.wire.Protection

/**
 * What work on stored columns costs, for choices between forms and sites that serve alike. None of
 * it decides what is right, only what is faster. Each scheme's own costs come with the table of the
 * protections.
 */
private[coffer] object SiteCosts {

  /** Nanoseconds to bring a byte to the client: a link of 1 Gbit/s. */
  val CLIENT_BYTE = 8.0

  /**
   * Bytes of the two columns that say of which file and row a `std` or `ashe` value is; the file's
   * id packs to nothing.
   */
  val POSITION_BYTES = 8.0

  /**
   * A query over so few rows in all is quicker at the client: a stage more costs tens of
   * milliseconds to launch, its rows none.
   */
  val SMALL_ROWS = 1000L

  /**
   * Bytes of a value as it is stored under a protection, before Parquet packs it. `value`: of the
   * value itself.
   */
  def width(cost: Protection.Cost, value: Double, narrow: Boolean): Double =
    if (narrow && cost.hasNarrow) cost.getNarrow.toDouble else cost.getTimes * value + cost.getPlus

  /** Whether values are stored as whole numbers of 8 bytes. */
  def isNarrow(cost: Protection.Cost, narrow: Boolean): Boolean = cost.getTimes == 0 || (narrow &&
    cost.hasNarrow)

  /**
   * To bring one value to the client as it is stored, with its place if it needs one, and open it
   * there.
   */
  def toClient(table: CofferTable, stored: StoredColumn): Double = {
    val position = if (stored.needsPosition) POSITION_BYTES else 0
    table.cost(stored).getOpen + (bytes(table, stored) + position) * CLIENT_BYTE
  }

  /** Whether a query is over so little that its rows are best worked on at the client. */
  def small(query: LogicalPlan): Boolean = {
    val tables = query.collect { case BaseColumn.Table(table, _) => table.info.getRows }
    tables.nonEmpty && tables.sum <= SMALL_ROWS
  }

  /** Whether so many rows may come to the client rather than be joined by some of their keys. */
  def mayCome(side: LogicalPlan): Boolean = side.stats.sizeInBytes <= MOST_BYTES

  private val MOST_BYTES = BigInt(256L << 20)

  /** To compare or group by one value in this form: by its bytes, which are read and hashed. */
  def work(encoding: StoredEncoding): Double = bytes(encoding.table, encoding.stored)

  private def bytes(table: CofferTable, stored: StoredColumn): Double =
    width(table.cost(stored), Estimates.width(table.columnType(stored.column)),
      narrow = stored.dataType.defaultSize == 8)
}
