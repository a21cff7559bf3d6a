package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.types.{BinaryType, ByteType, DataType, DecimalType, IntegerType, LongType, ShortType, StringType}

/**
 * The protections under which engines without keys could do what a plan does with the columns of a table that is read at home: those that
 * `coffer policy advise` would try first, by the uses that it goes by ([[ColumnUses]]).
 */
private[coffer] object Helps {

  /** `protections`: what serves; nothing where nothing does. */
  private final case class Help(words: String, protections: Seq[String])

  private val CARRIED = Help("only brought home", Seq("std"))
  private val COMPUTED = "computed with, which only enclaves and the client engine can do"

  /** For each closed column one sentence. */
  def of(table: HomeTable, plan: SparkPlan): Seq[String] = {
    val query = plan.collectFirst { case p if p.logicalLink.isDefined => p.logicalLink.get }
    table.closed.map(a => sentence(a, query.toSeq.flatMap(uses(_, table, a))))
  }

  private def uses(query: LogicalPlan, table: HomeTable, a: Attribute): Seq[Use] =
    ColumnUses.of(query).filter(u => u.table == table.table.info.getName && u.column == a.name)

  private def sentence(a: Attribute, uses: Seq[Use]): String = {
    val helps = uses.flatMap(help(_, a.dataType)).distinct
    val told = if (helps.isEmpty) Seq(CARRIED) else helps
    val wanted = told.flatMap(_.protections).distinct
    // What engines compute on opens at home too, but for a text's prefix.
    val opening = wanted.filter(p => p != "std" && !(isText(a.dataType) && p == "ope"))
    val least = if (opening.isEmpty) wanted else wanted.filterNot(_ == "std")
    val what = s"`${a.name}` is ${told.map(_.words).mkString(" and ")}"
    if (told.exists(_.protections.isEmpty)) what
    else s"$what: ${least.map(p => s""""$p"""").mkString(" and ")} in the policy would do"
  }

  private def help(use: Use, of: DataType): Option[Help] = use.kind match {
    case "equality" | "in" | "join" | "group" | "distinct" =>
      Some(Help("compared for equality, joined or grouped by", Seq("det")))
    case "range" => Some(Help("compared by size", if (isText(of)) Seq("std", "ope") else Seq("ore")))
    case "compare" | "min" | "max" =>
      Some(Help("compared by size with its own values or another column's", if (isText(of)) Nil else Seq("ope")))
    case "order" if use.other == "limit" => Some(Help("sorted by for its first rows", if (isText(of)) Nil else Seq("ope")))
    // As many rows come home, whatever engines can do.
    case "order" => Some(Help("only brought home and sorted by there", Seq("std")))
    case "sum" | "avg" => Some(if (isSummed(of)) Help("summed", Seq("ashe")) else Help(COMPUTED, Nil))
    case "like" | "expression" => Some(Help(COMPUTED, Nil))
    // NULL is seen, and rows are counted, under any of them.
    case _ => None
  }

  private def isText(t: DataType): Boolean = t.isInstanceOf[StringType] || t == BinaryType

  private def isSummed(t: DataType): Boolean = t match {
    case ByteType | ShortType | IntegerType | LongType | _: DecimalType => true
    case _ => false
  }
}
