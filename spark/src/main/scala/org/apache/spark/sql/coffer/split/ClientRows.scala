package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.coffer.proto.plan.Decrypt
import org.apache.spark.sql.coffer.translate.Opened

/** How a column comes to the client: as it is, or opened from a stored column. */
final case class Opening(
    output: Attribute,
    from: Attribute,
    kind: Decrypt.Kind,
    encoding: Option[StoredEncoding]) {
  def text: String = encoding match {
    case Some(f) => s"${output.name} from ${f.stored.protection}"
    case None => output.name
  }

  /** As the translator has it: without the table. */
  def plain: Opened = Opened(
    output,
    from,
    kind,
    encoding.map(f => (f.table.info.getHandle, f.stored.name)),
    if (kind == Decrypt.Kind.VALUE) encoding.flatMap(_.position) else None)
}

/**
 * The rows of a part of the query that runs in engines, brought to the client and opened. Above it
 * the client engine works.
 */
case class ClientRows(inEngines: LogicalPlan, openings: Seq[Opening]) extends LeafNode {
  override def output: Seq[Attribute] = openings.map(_.output)
  override def innerChildren: Seq[QueryPlan[_]] = Seq(inEngines)
  override def computeStats(): Statistics = inEngines.stats
  override def references: AttributeSet = AttributeSet.empty
  override protected def doCanonicalize(): LogicalPlan = this
}
