package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.coffer.proto.plan.{Input, Node, Decrypt}

/** Rows at the client: an input of the client engine, and what it opens of them. */
private[translate] object ClientOperators {

  def convert(leaf: ClientRowsLeaf, translation: Translation): Result[Relation] =
    for {
      schema <- Types.schema(leaf.stored)
      columns <- traverse(leaf.openings)(opened(_, leaf.stored))
    } yield {
      val input = Input.newBuilder.setInputId(translation.bindClientRows(leaf)).setSchema(schema)
      val rows = translation.node(leaf.plan).setInput(input).build()
      Relation(decrypt(leaf, rows, columns, translation), leaf.output, leaf.partitions)
    }

  /**
   * Over the scan of a table that is read at the client. Where it reads the columns as they are,
   * there is nothing to open.
   */
  def opened(leaf: ClientTableLeaf, read: Relation, translation: Translation): Result[Relation] =
    if (leaf.openings.map(_.output.exprId) == read.output.map(_.exprId)) Right(read)
    else traverse(leaf.openings)(opened(_, read.output)).map { columns =>
      Relation(decrypt(leaf, read.node, columns, translation), leaf.output, leaf.partitions,
        Some(read))
    }

  private def decrypt(
      leaf: Leaf,
      rows: Node,
      columns: Seq[Decrypt.Opened],
      translation: Translation): Node = {
    val decrypt = Decrypt.newBuilder.setChild(rows)
    columns.foreach(decrypt.addColumns)
    translation.node(leaf.plan).setDecrypt(decrypt).build()
  }

  private def opened(opening: Opened, stored: Seq[Attribute]): Result[Decrypt.Opened] =
    for {
      dataType <- Types.of(opening.output.dataType)
      from <- position(opening.from, stored)
      position <- traverse(opening.position.toSeq.flatMap { case (file, row) => Seq(file, row) })(
        position(_, stored))
    } yield {
      val column = Decrypt.Opened.newBuilder
        .setName(opening.output.name)
        .setColumn(from)
        .setType(dataType)
        .setNullable(opening.output.nullable)
        .setKind(opening.kind)
      opening.stored.foreach { case (handle, name) => column.setHandle(handle).setStored(name) }
      position match {
        case Seq(file, row) => column.setFile(file).setRow(row)
        case _ =>
      }
      column.build()
    }

  private def position(a: Attribute, stored: Seq[Attribute]): Result[Int] =
    stored.indexWhere(_.exprId == a.exprId) match {
      case -1 => refuse(s"column ${a.name} did not come to the client")
      case i => Right(i)
    }
}
