package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.coffer.proto.plan.Decrypt
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * A sealed table that the client engine reads itself, from storage, because engines may not open
 * what the query needs of it. What is above it runs at the client too.
 *
 * @param table    as the query has it
 * @param columns  what is read: names in the table's files, and what they are to the query or to
 *                 `openings`
 * @param openings the table's columns, from what is read
 * @param closed   the columns of which engines have nothing to work on
 */
case class ClientTable(
    table: CofferTable,
    columns: Seq[(String, Attribute)],
    openings: Seq[Opening],
    closed: Seq[Attribute])
    extends LeafNode {

  val scan: CofferScan = new CofferScan(
    table.asStored,
    StructType(columns.map { case (name, a) => StructField(name, a.dataType, a.nullable) }))

  override def output: Seq[Attribute] = openings.map(_.output)
  override def references: AttributeSet = AttributeSet.empty
  override def computeStats(): Statistics =
    Statistics(sizeInBytes = math.max(1L, scan.bytes), rowCount = Some(BigInt(table.info.getRows)))
  override protected def doCanonicalize(): LogicalPlan = this
}

object ClientTable {

  def of(table: CofferTable, output: Seq[AttributeReference]): ClientTable =
    if (table.stored.isEmpty)
      ClientTable(table,
        output.map(a =>
          a.name ->
            a), output.map(a => Opening(a, a, Decrypt.Kind.AS_IS, None)), output)
    else {
      val chosen = output.map(a => a -> cheapest(table, stored(table, a)))
      val position =
        if (chosen.exists(_._2.needsPosition)) StoredColumn.position(table.stored) else None
      val positions = position.map { case (file, row) => (file.attribute, row.attribute) }
      val read = chosen.map {
        case (a, c) if c.isOpen => (c.name, a: Attribute, Opening(a, a, Decrypt.Kind.AS_IS, None))
        case (a, c) =>
          val from = c.attribute
          val encoding = StoredEncoding(table, c, from, positions.filter(_ => c.needsPosition))
          (c.name, from: Attribute, Opening(a, from, Decrypt.Kind.VALUE, Some(encoding)))
      }
      val located =
        for ((file, row) <- position.toSeq; (f, r) <- positions.toSeq;
          column <- Seq(file.name ->
              f, row.name -> r)) yield column
      ClientTable(table,
        read.map(r => r._1 -> r._2) ++
          located, read.map(_._3), output.filter(a => closed(stored(table, a))))
    }

  /** For EXPLAIN: what is read of a column, and why not by engines. */
  def text(table: ClientTable, opening: Opening): String = {
    val protection = opening.encoding.map(_.stored.protection).getOrElse {
      val read =
        table.columns.collectFirst { case (name, a) if a.exprId == opening.from.exprId => name }
      table.table.stored.find(c => read.contains(c.name)).fold(StoredColumn.WHOLE)(_.protection)
    }
    val why = if (table.closed.exists(_.exprId == opening.output.exprId)) ", which no engine may " +
      "open"
    else ""
    s"${opening.output.name} from $protection$why"
  }

  /** Whether engines without keys have nothing of a column. */
  def closed(stored: Seq[StoredColumn]): Boolean = stored.forall(_.isForEnclaves)

  /** What is stored of a column. */
  def stored(table: CofferTable, a: Attribute): Seq[StoredColumn] = {
    val column = table.schema.fieldIndex(a.name)
    table.stored.filter(c => c.column == column && c.isColumn)
  }

  private def cheapest(table: CofferTable, stored: Seq[StoredColumn]): StoredColumn =
    stored.filter(_.opens).minByOption(SiteCosts.toClient(table, _)).getOrElse(
      throw new IllegalStateException("a stored column opens from nothing"))
}
