package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/**
 * What work on stored columns costs, for choices between forms and sites that serve alike. One page, since none of it decides what is right,
 * only what is faster.
 *
 * Rates are those of `bench/run schemes` (bench/results/schemes.json: BIGINT and INT, one core), in nanoseconds for each value.
 */
private[coffer] object SiteCosts {

  /** `repeated`: what a value costs that the scheme has met before; it keeps a dictionary. */
  final case class Rate(encrypt: Double, open: Double, repeated: Double)

  val rates: Map[String, Rate] = Map(
    "ashe" -> Rate(4, 24, 4),
    "det" -> Rate(25, 37, 25),
    "std" -> Rate(104, 92, 104),
    "ope" -> Rate(236, 227, 12),
    "ore" -> Rate(179, 603, 179),
    // AES-GCM over whole pages: gigabytes in a second.
    "tee" -> Rate(4, 4, 4),
    "plain" -> Rate(0, 0, 0))

  /** Nanoseconds to bring a byte home: a link of 1 Gbit/s. */
  val HOME_BYTE = 8.0

  /** Bytes of the two columns that say of which file and row a `std` or `ashe` value is; the file's id packs to nothing. */
  val PLACE_BYTES = 8.0

  /** A query over so few rows in all is quicker at home: a stage more costs tens of milliseconds to launch, its rows none. */
  val SMALL_ROWS = 1000L

  /** Bytes of a value as it is stored under a protection, before Parquet packs it. `value`: of the value itself. */
  def width(protection: String, value: Double, narrow: Boolean = true): Double = protection match {
    case "std" | "det" => value + 16
    case "ope" => if (narrow) 8 else 2 * value
    case "ore" => 2 * value
    case "ashe" | "row" => 8
    case "file" => 16
    case _ => value
  }

  /** To bring one value home as it is stored, with its place if it needs one, and open it there. */
  def home(table: CofferTable, stored: StoredColumn): Double = {
    val place = if (stored.needsPlace) PLACE_BYTES else 0
    rates.get(stored.protection).fold(0.0)(_.open) + (bytes(table, stored) + place) * HOME_BYTE
  }

  /** Whether a query is over so little that its rows are best worked on at home. */
  def small(query: LogicalPlan): Boolean = {
    val tables = query.collect { case BaseColumn.Table(table, _) => table.info.getRows }
    tables.nonEmpty && tables.sum <= SMALL_ROWS
  }

  /** To compare or group by one value in this form: by its bytes, which are read and hashed. */
  def work(form: Form): Double = bytes(form.table, form.stored)

  private def bytes(table: CofferTable, stored: StoredColumn): Double =
    width(stored.protection, Estimates.width(table.columnType(stored.column)), narrow = stored.dataType.defaultSize == 8)
}
