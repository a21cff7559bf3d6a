package org.apache.spark.sql.coffer.split

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.coffer.proto.wire.{Capability, Opener, Protection}
import org.apache.spark.sql.coffer.proto.wire.Capability._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.types.{
  BinaryType,
  ByteType,
  DataType,
  DecimalType,
  IntegerType,
  LongType,
  ShortType,
  StringType
}

/**
 * The protections under which engines without keys could do what a plan does with the columns of a
 * table that is read at the client: those that `coffer policy advise` would try first, by the uses
 * that it goes by ([[ColumnUses]]).
 */
private[coffer] object Helps {

  /** `protections`: what serves; nothing where nothing does. */
  private final case class Help(words: String, protections: Seq[Protection])

  private val COMPUTED = "computed with, which only enclaves and the client engine can do"

  /** For each closed column one sentence. */
  def of(table: ClientTable, plan: SparkPlan): Seq[String] = {
    val query = plan.collectFirst { case p if p.logicalLink.isDefined => p.logicalLink.get }
    table.closed.map(a =>
      new Helps(table.table.protections, a).sentence(query.toSeq.flatMap(uses(_, table, a))))
  }

  private def uses(query: LogicalPlan, table: ClientTable, a: Attribute): Seq[Use] =
    ColumnUses.of(query).filter(u => u.table == table.table.info.getName && u.column == a.name)
}

/** What helps one column. `all`: the protections, from what shows least. */
private final class Helps(all: Seq[Protection], a: Attribute) {
  import Helps.{COMPUTED, Help}

  private val text: Boolean = a.dataType.isInstanceOf[StringType] || a.dataType == BinaryType

  def sentence(uses: Seq[Use]): String = {
    val helps = uses.flatMap(help).distinct
    val shown = if (helps.isEmpty) Seq(Help("only brought to the client", carried)) else helps
    val wanted = shown.flatMap(_.protections).distinct
    // What engines compute on opens at the client too, but for a text's prefix.
    val opening = wanted.filterNot(carried.contains).filter(opens)
    val least = if (opening.isEmpty) wanted else wanted.filterNot(carried.contains)
    val what = s"`${a.name}` is ${shown.map(_.words).mkString(" and ")}"
    if (shown.exists(_.protections.isEmpty)) what
    else s"$what: ${least.map(p => s""""${p.getName}"""").mkString(" and ")} in the policy would do"
  }

  private def help(use: Use): Option[Help] = use.kind match {
    case "equality" | "in" | "join" | "group" | "distinct" =>
      Some(Help("compared for equality, joined or grouped by", allowing(CAPABILITY_EQUALITY)))
    case "range" => Some(Help("compared by size",
          allowing(CAPABILITY_COMPARISON, CAPABILITY_ORDER, CAPABILITY_PREFIX_ORDER)))
    case "compare" | "min" | "max" =>
      Some(Help("compared by size with its own values or another " +
            "column's", allowing(CAPABILITY_ORDER)))
    case "order" if use.other == "limit" =>
      Some(Help("sorted by for its first " +
            "rows", allowing(CAPABILITY_ORDER)))
    // As many rows come to the client, whatever engines can do.
    case "order" => Some(Help("only brought to the client and sorted by there", carried))
    case "sum" | "avg" => Some(
        if (isSummed(a.dataType)) Help("summed", allowing(CAPABILITY_SUM)) else Help(COMPUTED, Nil))
    case "like" | "expression" => Some(Help(COMPUTED, Nil))
    // NULL is seen, and rows are counted, under any of them.
    case _ => None
  }

  /**
   * The one that shows least of those that allow any of this; if the column does not open from it,
   * behind one that it opens from.
   */
  private def allowing(any: Capability*): Seq[Protection] =
    all.find(p => treatment(p).exists(_.getAllowsList.asScala.exists(any.contains))).toSeq
      .flatMap(p => if (opens(p)) Seq(p) else carried :+ p)

  /** What shows least of those under which engines can carry the column along. */
  private lazy val carried: Seq[Protection] = allowing(CAPABILITY_CARRY)

  private def opens(p: Protection): Boolean =
    treatment(p).exists(_.getOpenedBy != Opener.OPENER_NOBODY)

  private def treatment(p: Protection): Option[Protection.Treatment] =
    if (text) Option.when(p.hasTexts)(p.getTexts) else Some(p.getNumbers)

  private def isSummed(t: DataType): Boolean = t match {
    case ByteType | ShortType | IntegerType | LongType | _: DecimalType => true
    case _ => false
  }
}
