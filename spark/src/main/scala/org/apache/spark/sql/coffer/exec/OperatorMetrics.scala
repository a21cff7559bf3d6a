package org.apache.spark.sql.coffer.exec

import org.apache.spark.SparkContext
import org.apache.spark.sql.coffer.proto.wire.NodeMetrics
import org.apache.spark.sql.coffer.translate.Operators
import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/**
 * Rows, time and spill of each operator of a fragment. They hold what was opened at the client: no
 * executor ever adds to them.
 *
 * @param input whether a node stands for what another stage wrote; that is counted where it was
 *              written
 */
private[exec] final class OperatorMetrics(
    sc: SparkContext,
    template: SparkPlan,
    input: SparkPlan => Boolean) {

  private val positions: Vector[SparkPlan] = walk(template)

  // By position in the template: a plan of the same shape, made of other instances, is counted too.
  private val shown: Map[Int, OperatorMetrics.Shown] = {
    val counted = positions.zipWithIndex.filterNot { case (p, _) =>
      input(p) ||
      Operators.transparent(p).isDefined
    }
    val names = counted.map(_._1.nodeName)
    counted.zipWithIndex.map { case ((plan, position), nth) =>
      val same = names.take(nth).count(_ == plan.nodeName)
      val name = if (same == 0) plan.nodeName else s"${plan.nodeName} (${same + 1})"
      position -> new OperatorMetrics.Shown(
        SQLMetrics.createMetric(sc, s"rows of $name"),
        SQLMetrics.createNanoTimingMetric(sc, s"time in $name"),
        if (spills(plan)) Some(SQLMetrics.createSizeMetric(sc, s"spilled by $name")) else None)
    }.toMap
  }

  val all: Map[String, SQLMetric] = shown.flatMap { case (position, s) =>
    Seq(s"rows.$position" -> s.rows, s"time.$position" -> s.time) ++
      s.spill.map(s"spill.$position" -> _)
  }

  /**
   * `nodes` tells which operator of `ran` a node stands for; of several that stand for one, the
   * last is the topmost. Gives what was counted: an operator that the scan below it has taken in
   * has nothing to show.
   */
  def count(metrics: Seq[NodeMetrics], nodes: Map[Int, SparkPlan], ran: SparkPlan): Seq[SQLMetric] =
    synchronized {
      val position = walk(ran).zipWithIndex.map { case (p, i) => new Ref(p) -> i }.toMap
      metrics
        .groupBy(m => nodes.get(m.getNode).flatMap(p => position.get(new Ref(p))))
        .toSeq
        .flatMap { case (position, of) =>
          position.flatMap(shown.get).toSeq.flatMap { s =>
            s.rows.add(of.maxBy(_.getNode).getRows)
            s.time.add(of.map(_.getNanos).sum)
            s.spill.foreach(_.add(of.map(_.getSpilledBytes).sum))
            Seq(s.rows, s.time) ++ s.spill
          }
        }
    }

  private def walk(plan: SparkPlan): Vector[SparkPlan] =
    plan +: (if (input(plan)) Vector.empty else plan.children.toVector.flatMap(walk))

  private def spills(plan: SparkPlan): Boolean = plan match {
    case _: SortExec | _: CofferRootSortExec | _: BaseAggregateExec | _: BaseJoinExec => true
    case _ => false
  }
}

private object OperatorMetrics {
  private final class Shown(val rows: SQLMetric, val time: SQLMetric, val spill: Option[SQLMetric])
}
