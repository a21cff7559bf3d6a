package org.apache.spark.sql.coffer.exec

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.expressions.{ExpressionWithRandomSeed, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{
  LocalLimit,
  LogicalPlan,
  UnionLoop,
  UnionLoopRef
}
import org.apache.spark.sql.coffer.versions.recursionBounds
import org.apache.spark.sql.internal.SQLConf

/**
 * The rounds of a recursive query, within Spark's bounds and counted as `UnionLoopExec` does: the
 * depth is looked at before the rows.
 */
private[coffer] final class Rounds(loop: UnionLoop, conf: SQLConf) {
  private val (depth, most) = recursionBounds(loop, conf)
  private val bounded = loop.limit.getOrElse(most) != -1
  private var left = loop.limit.getOrElse(most).toLong
  private var level = 0
  private var over = false

  def hasNext: Boolean = !over

  /** The query of the next round. `before`: what stands for the rows of the last one. */
  def next(before: UnionLoopRef => LogicalPlan): LogicalPlan = {
    val plan =
      if (level == 0) loop.anchor
      else reseeded(level - 1).transformWithSubqueries {
        case r: UnionLoopRef if r.loopId == loop.id => before(r)
      }
    if (loop.limit.exists(_ >= 0)) LocalLimit(Literal(left.toInt), plan) else plan
  }

  /** With random numbers of its own, as each round of Spark's has. */
  private def reseeded(by: Int): LogicalPlan =
    if (by == 0 || loop.recursion.deterministic) loop.recursion
    else loop.recursion.transformAllExpressionsWithSubqueries {
      case e: ExpressionWithRandomSeed if e.seedExpression.foldable =>
        e.seedExpression.eval() match {
          case seed: Number => e.withNewSeed(seed.longValue + by)
          case _ => e
        }
    }

  /**
   * How many rows a round gave.
   *
   * @throws SparkException with Spark's conditions, where a recursion goes on for too long
   */
  def gave(rows: Long): Unit = {
    level += 1
    over = rows == 0
    if (!over) {
      if (depth != -1 && level > depth) throw exceeded("LEVEL", "levelLimit" -> depth.toString)
      if (bounded) {
        left -= rows
        if (left <= 0) {
          if (loop.limit.isEmpty) throw exceeded("ROW", "rowLimit" -> most.toString)
          over = true
        }
      }
    }
  }

  private def exceeded(what: String, limit: (String, String)) =
    new SparkException(s"RECURSION_${what}_LIMIT_EXCEEDED", Map(limit), null)
}
