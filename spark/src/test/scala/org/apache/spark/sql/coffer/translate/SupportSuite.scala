package org.apache.spark.sql.coffer.translate

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.{Expression, PlanExpression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.functions.udf

/** What is refused, and in which words. */
class SupportSuite extends AnyFunSuite with PlanFixture {

  private def messages(sql: String): Seq[String] =
    Support.check(physical(sql), PlanFixture.Scans).map(_.message)

  private def refused(sql: String, message: String): Unit = {
    assert(messages(sql).contains(message), messages(sql).mkString("\n", "\n", "\n"))
    ()
  }

  test("every golden query is supported, with and without adaptive execution") {
    GoldenQueries.all.foreach { query =>
      withConf(query.conf: _*)(assert(messages(query.sql) === Nil, query.name))
      withConf(query.conf :+ ("spark.sql.adaptive.enabled" -> "true"): _*)(
        assert(messages(query.sql) === Nil, query.name))
    }
  }

  test("what is remembered keeps no plan, or a query would be kept with all that it broadcast") {
    Seq("false", "true").foreach { adaptive =>
      withConf("spark.sql.adaptive.enabled" -> adaptive) {
        assert(messages("SELECT i FROM t WHERE l = (SELECT max(l) FROM t b) AND d < " +
            "(SELECT avg(d) FROM t) ORDER BY (SELECT min(i) FROM t)").isEmpty)
        assert(messages("SELECT i, count(*) FROM t GROUP BY i HAVING count(*) > " +
            "(SELECT min(l) FROM t)").isEmpty)
      }
    }
    def holds(argument: Any): Boolean = argument match {
      case e: Expression => e.exists(_.isInstanceOf[PlanExpression[_]])
      case several: Iterable[_] => several.exists(holds)
      case one: Option[_] => one.exists(holds)
      case other => other.isInstanceOf[SparkPlan]
    }
    val kept = Support.supported.asMap.keySet.asScala.flatMap(_.arguments)
    assert(kept.nonEmpty && !kept.exists(holds))
  }

  test("joins") {
    refused(
      "SELECT a.i FROM t a FULL JOIN t b ON a.l < b.l",
      "BroadcastNestedLoopJoin: it would emit unmatched rows of a broadcast, of which each task " +
        "has all")
    refused(
      "SELECT /*+ BROADCAST(a) */ a.i FROM t a LEFT JOIN t b ON a.l < b.l",
      "BroadcastNestedLoopJoin: it would emit unmatched rows of a broadcast, of which each task " +
        "has all")
    assert(messages("SELECT i, (SELECT d FROM t b WHERE b.i = a.i) FROM t a").isEmpty)
    assert(messages("SELECT a.i FROM t a JOIN t b ON a.s RLIKE " +
        "b.s").exists(_.contains("a pattern that is not a literal")))
  }

  test("windows") {
    assert(messages("SELECT hll_sketch_agg(i) OVER (PARTITION BY l) FROM t").exists(
        _.contains("the aggregate function hll_sketch_agg is not supported")))
    for (by <- Seq("INTERVAL 2 DAYS", "INTERVAL 1 MONTH"))
      assert(messages(s"SELECT count(i) OVER (ORDER BY ts RANGE BETWEEN $by PRECEDING AND " +
          "CURRENT ROW) FROM t").isEmpty)
  }

  test("generators, coalesce") {
    refused(
      "SELECT explode(sentences(s)) FROM t",
      "Generate: static_invoke(ExpressionImplUtils.getSentences(s, ?, ?)): it calls the JVM " +
        "method ExpressionImplUtils.getSentences, which the engine has not")
    // Before a plan is physical it becomes an exchange.
    refused(
      "SELECT /*+ COALESCE(1) */ i FROM t",
      "Coalesce: merging partitions without an exchange is not supported; use repartition " +
        "instead of coalesce")
  }

  test("types are named with their column") {
    assert(messages("SELECT items FROM nested") === Nil)
    refused(
      "SELECT folded FROM nested",
      "Scan parquet : folded: type STRING COLLATE UTF8_LCASE: only the UTF8_BINARY collation is " +
        "supported")
    assert(messages("SELECT make_interval(0, i) FROM t").exists(
        _.endsWith("intervals of months and days together are not supported")))
    assert(messages("SELECT to_json(named_struct('a', ts - ts)) FROM t").nonEmpty)
    assert(messages("SELECT ts - ts FROM t").isEmpty)
  }

  test("functions that are not deterministic, and user-defined ones") {
    assert(messages("SELECT rand(7), uuid() FROM t WHERE rand() < 0.5 AND i > 3") === Nil)
    refused(
      "SELECT if(i > 3, rand(7), 0) FROM t",
      "Project: (IF((i > ?), rand(?), ?)): what rand gives may not be needed here for each row")
    spark.udf.register("secret_length", udf((s: String) => s.length))
    assert(
      messages("SELECT secret_length(s) FROM t").exists(
        _.endsWith("user-defined functions would see opened data outside the enclave")))
  }

  test("a literal's value is in no message") {
    val all = messages("SELECT regexp_replace(s, '(?=hunter2)', 'x') FROM t WHERE s RLIKE " +
      "'(?=hunter2)'")
    assert(all.nonEmpty)
    assert(all.forall(!_.contains("hunter2")), all)
    assert(all.exists(_.contains("regexp_replace(s, ?, ?, ?)")), all)
  }

  test("everything that is missing is named at once, below subqueries too") {
    val all = messages(
      "SELECT if(i > 1, rand(1), 0), md5(s) FROM t WHERE i > (SELECT count(*) FROM t WHERE s " +
        "RLIKE '(?=a)')")
    assert(all.exists(_.startsWith("Project: ")), all)
    assert(all.exists(_.contains("regular expressions of Java's dialect are not supported")), all)
  }

  test("a plaintext table beside a sealed one") {
    val none = new LeafResolver {
      def leaf(plan: org.apache.spark.sql.execution.SparkPlan): Option[Leaf] = None
    }
    assert(Support.check(physical("SELECT i FROM " +
          "t"), none).map(_.reason).exists(_.startsWith("a plaintext table")))
  }

  test("structs, also with two fields of one name") {
    assert(messages("SELECT named_struct('a', i, 'a', l) FROM t") === Nil)
    assert(messages("SELECT i FROM t WHERE l > (SELECT avg(l) FROM t) AND d < (SELECT max(d) " +
      "FROM t)") === Nil)
  }

  test("aggregates without a kernel") {
    refused(
      "SELECT hll_sketch_agg(i) FROM t",
      "ObjectHashAggregate: hll_sketch_agg(i, ?): the aggregate function hll_sketch_agg is not " +
        "supported")
  }
}
