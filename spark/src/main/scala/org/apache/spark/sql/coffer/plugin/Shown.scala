package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.catalyst.expressions.{Expression, SortOrder}
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  AggregateExpression,
  Final,
  PartialMerge
}
import org.apache.spark.sql.catalyst.plans.physical.{
  HashPartitioning,
  Partitioning,
  RangePartitioning
}
import org.apache.spark.sql.coffer.exec.CofferFragmentExec
import org.apache.spark.sql.coffer.translate.Operators
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.execution.window.{WindowExec, WindowGroupLimitExec}

/**
 * What a host learns by each operator of a fragment, beside what the stored columns show to whoever
 * holds them. In an enclave that is by sizes alone (docs/security/sizes.md); a host engine works
 * before the host's eyes, on ciphertexts (docs/reference/schemes.md).
 */
private[coffer] final class Shown(fragment: CofferFragmentExec, hosts: Boolean) {
  private val origins = Origins.of(fragment)
  private val leaves: Set[SparkPlan] = fragment.leaves.toSet

  /**
   * The fragment's operators from the top down, each with the columns it works on; `exchange` is
   * what its rows leave by.
   */
  def lines(exchange: Option[Partitioning]): Seq[String] =
    exchange.toSeq.map(p => line("Exchange", exchanged(p))) ++
      operators(fragment.template).map(p => line(name(p), learned(p)))

  private def operators(plan: SparkPlan): Seq[SparkPlan] =
    if (leaves.exists(_ eq plan)) Nil
    else
      Operators.transparent(plan) match {
        case Some(child) => operators(child)
        case None =>
          val here = if (name(plan).isEmpty) Nil else Seq(plan)
          here ++ plan.children.flatMap(operators)
      }

  private def line(name: String, learned: Seq[String]): String = s"$name: ${learned.mkString("; ")}"

  private def name(plan: SparkPlan): String = plan match {
    case _: FilterExec => "Filter"
    case a: BaseAggregateExec =>
      val merged = a.aggregateExpressions.nonEmpty &&
        a.aggregateExpressions.forall(c => c.mode == Final || c.mode == PartialMerge)
      if (merged) "Aggregate (of partial results)" else "Aggregate"
    case j: BaseJoinExec => s"Join ${j.joinType.sql.toLowerCase(java.util.Locale.ROOT)}"
    case _: SortExec => "Sort"
    case _: TakeOrderedAndProjectExec => "Top rows"
    case _: BaseLimitExec | _: CollectLimitExec => "Limit"
    case _: ExpandExec => "Expand"
    case _: GenerateExec => "Generate"
    case _: WindowExec => "Window"
    case _: WindowGroupLimitExec => "Top rows of each group"
    case _: UnionExec => "Union"
    case _ => "" // scans are shown by their stored columns; a projection tells nothing of its own
  }

  private def learned(plan: SparkPlan): Seq[String] = plan match {
    case f: FilterExec => tells(Seq(f.condition),
        "which rows pass, by each " +
          "condition", "about how many rows pass, by lengths")
    case a: BaseAggregateExec =>
      val groups =
        if (a.groupingExpressions.isEmpty) Nil
        else
          tells(
            a.groupingExpressions,
            "which rows are of one group, and how many",
            "about how many groups there are, by lengths")
      groups ++ a.aggregateExpressions.filter(call =>
        hosts &&
          origins.of(call).exists(_.isCipher)).map(called) match {
        case Nil => Seq(if (hosts) "how many rows there are" else "nothing: one row leaves")
        case some => some.distinct
      }
    case j: BaseJoinExec =>
      tells(
        j.leftKeys ++ j.rightKeys ++ j.condition,
        "which rows of the one side meet which of the other",
        "the lengths of both inputs and of the output, not which rows match")
    case s: SortExec => sorted(s.sortOrder)
    case t: TakeOrderedAndProjectExec => sorted(t.sortOrder)
    case w: WindowExec => tells(
        w.partitionSpec ++ w.orderSpec.map(_.child),
        "which rows are of one group, and their order in it",
        "lengths, which follow from how many rows there are")
    case l: WindowGroupLimitExec => tells(
        l.partitionSpec ++ l.orderSpec.map(_.child),
        "which rows are the first of their group",
        "about how many rows are the first of their groups, by lengths")
    case g: GenerateExec => tells(
        Seq(g.generator),
        "how many rows are made of each row",
        "about how many rows are made, by lengths")
    case _: BaseLimitExec | _: CollectLimitExec =>
      Seq(if (hosts) "which rows are taken" else "whether a task stopped asking for input early")
    case _ => Seq("nothing of its own")
  }

  private def called(call: AggregateExpression): String = {
    val what = call.aggregateFunction.prettyName match {
      case "ashe_sum" => "which rows each sum took"
      case "min" => "which row has the least value"
      case "max" => "which row has the greatest value"
      case "count" if call.isDistinct => "how many distinct values there are"
      case _ => "how many values there are"
    }
    sentence(Seq(call), what)
  }

  private def sorted(order: Seq[SortOrder]): Seq[String] =
    tells(order.map(_.child), "the order of the rows",
      "lengths, which follow from how many rows " +
        "there are")

  private def exchanged(partitioning: Partitioning): Seq[String] = partitioning match {
    case h: HashPartitioning =>
      tells(h.expressions, "which rows have equal values, and so go together",
        "the length of " +
          "each stream from task to task")
    case r: RangePartitioning =>
      tells(r.ordering.map(_.child), "in which range of the order each row lies",
        "the length of " +
          "each stream from task to task")
    case _ => Seq(if (hosts) "which rows go where, which no value decides"
        else "the length of " +
          "each stream from task to task")
  }

  private def tells(on: Seq[Expression], toHosts: String, bySizes: String): Seq[String] =
    Seq(sentence(on, if (hosts) toHosts else bySizes))

  /** The columns worked on, if any, and what that tells. */
  private def sentence(on: Seq[Expression], what: String): String =
    on.flatMap(origins.of).distinct match {
      case Nil => what
      case some => s"${some.map(_.text).mkString(", ")}: $what"
    }
}
