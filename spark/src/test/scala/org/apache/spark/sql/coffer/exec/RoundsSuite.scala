package org.apache.spark.sql.coffer.exec

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeReference, Literal, Rand}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.IntegerType

/** How long a recursion goes on, as Spark counts it. */
class RoundsSuite extends AnyFunSuite {
  private val column = AttributeReference("n", IntegerType)()
  private val reference = UnionLoopRef(1, Seq(column), accumulated = false)
  private val one = LocalRelation(column)

  private def loop(
      limit: Option[Int] = None,
      depth: Option[Int] = None,
      recursion: LogicalPlan = reference): UnionLoop =
    UnionLoop(1, one, recursion, Seq(column.exprId), limit, depth)

  private def conf(settings: (String, String)*): SQLConf = {
    val made = new SQLConf
    settings.foreach { case (key, value) => made.setConfString(key, value) }
    made
  }

  /** How many rounds there are, where each gives so many rows. */
  private def took(rounds: Rounds, rows: Iterator[Long]): Int = {
    var count = 0
    while (rounds.hasNext) {
      rounds.next(identity)
      count += 1
      rounds.gave(rows.next())
    }
    count
  }

  test("it ends with a round without rows") {
    assert(took(new Rounds(loop(), conf()), Iterator(0L)) == 1)
    assert(took(new Rounds(loop(), conf()), Iterator(3L, 2L, 1L, 0L)) == 4)
  }

  test("its depth is bounded, and looked at before its rows") {
    def endless = Iterator.continually(1L)
    val rows = "spark.sql.cteRecursionRowLimit" -> "4"
    val deep = intercept[SparkException](
      took(new Rounds(loop(depth = Some(3)), conf(rows)), endless))
    assert(deep.getCondition == "RECURSION_LEVEL_LIMIT_EXCEEDED")
    val long = intercept[SparkException](
      took(new Rounds(loop(depth = Some(9)), conf(rows)), endless))
    assert(long.getCondition == "RECURSION_ROW_LIMIT_EXCEEDED")
    val unbounded = conf("spark.sql.cteRecursionRowLimit" -> "-1")
    assert(took(new Rounds(loop(depth = Some(-1)), unbounded),
      Iterator.fill(500)(9L) ++
        Iterator(0L)) == 501)
  }

  test("a limit ends it without an error, and is in the plan of each round") {
    val rounds = new Rounds(loop(limit = Some(5)), conf())
    assert(rounds.next(identity) == LocalLimit(Literal(5), one))
    rounds.gave(3)
    assert(rounds.next(_ => one) == LocalLimit(Literal(2), one))
    rounds.gave(2)
    assert(!rounds.hasNext)
  }

  test("each round after the first recursion draws from a seed of its own") {
    val drawn = Project(Seq(Alias(Rand(Literal(7), hideSeed = false), "r")()), reference)
    val rounds = new Rounds(loop(recursion = drawn), conf())
    rounds.next(identity)
    val seeds = (1 to 3).map { _ =>
      rounds.gave(1)
      rounds.next(identity).expressions.flatMap(_.collect { case r: Rand => r.child.eval() }).head
    }
    assert(seeds.map(_.toString) == Seq("7", "8", "9"))
  }
}
