package org.apache.spark.sql.coffer.translate

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Paths}

import org.scalatest.funsuite.AnyFunSuite

/** `docs/reference/operators.md` is made from the registries; `COFFER_GOLDEN=1` writes it anew. */
class ReferenceSuite extends AnyFunSuite {
  private val file = Paths.get("../docs/reference/operators.md")

  test("the reference says what the code does") {
    if (sys.env.get("COFFER_GOLDEN").contains("1")) {
      Files.createDirectories(file.getParent)
      Files.write(file, ReferenceSuite.page.getBytes(StandardCharsets.UTF_8))
    } else {
      assert(new String(Files.readAllBytes(file), StandardCharsets.UTF_8) === ReferenceSuite.page)
    }
  }

  test("the engine's reference lists every function that is translated") {
    val engine = Paths.get("../docs/reference/expressions.md")
    val text = new String(Files.readAllBytes(engine), StandardCharsets.UTF_8)
    val missing = Expressions.reference.flatMap(_._2).map(_._2).flatMap(
      "^`(\\w+)`".r.findFirstMatchIn(_)).map(_.group(1))
      .filterNot(name => text.contains(s"`$name`"))
    assert(missing === Nil)
  }
}

object ReferenceSuite {
  private val intro =
    """# Operators and expressions
      |
      |Which of Spark's physical operators and expressions run sealed, and what becomes of them in
      |the engine. Whatever is not listed here is refused while the query is planned, before any
      |task starts, with the operator, the expression and the reason named. Literals are shown as
      |`?` in such messages. This page is made from the code (`ReferenceSuite`); the engine's side
      |of the functions is in `expressions.md`.
      |
      |Types: boolean, the integer types, float, double, decimal, string (UTF8_BINARY; CHAR and
      |VARCHAR as Spark has them), binary, date, timestamp with and without time zone, intervals of
      |months and of days, time; arrays, maps and structs of these, up to 32 levels deep. Variants,
      |user-defined types and other collations are refused. Intervals of months and days together
      |(`make_interval`) are literals of what they are added to, or the client's. What an expression
      |or an aggregate does with intervals and times must be listed (`OpenTypes`): the others, such
      |as `to_json`, percentiles and `try_sum`, run at the client.
      |
      |Three things happen on the way:
      |* Of a filter directly above a scan, the conjuncts that cannot fail and need nothing but the
      |  row are handed to the scan, which applies them exactly. Those that can fail (an ANSI
      |  division, say) stay, in their order.
      |* A root `ORDER BY` needs no exchange. Tasks sort their partitions; the client engine merges,
      |  then does what is left: the final limit and offset, the projection that drops the sort
      |  columns.
      |* A scalar subquery's value is no part of the fragment; it comes sealed, by id.
      |
      |""".stripMargin

  private val exchanges =
    """
      |Exchanges are the edges of fragments: hash, single, round-robin and range partitioning are
      |supported. A range exchange takes two fragments, one that samples keys and one that uses the
      |bounds picked from them.
      |
      |## Aggregate functions
      |
      |`count`, `sum`, `avg`, `min`, `max`, `first`, `last`, `stddev_samp`, `stddev_pop`,
      |`variance_samp`, `variance_pop`, `skewness`, `kurtosis`, `covar_samp`, `covar_pop`, `corr`,
      |`regr_slope`, `regr_intercept`, `regr_r2`, `regr_sxy`, `bit_and`, `bit_or`, `bit_xor`,
      |`max_by`, `min_by`, `collect_list`, `collect_set`, `percentile`, `percentile_disc`, `mode`,
      |`percentile_approx`, `histogram_numeric`, `approx_count_distinct`, `count_min_sketch`,
      |`listagg`, `bitmap_construct_agg`, `bitmap_or_agg`, `bitmap_and_agg`,
      |PIVOT's, and what Spark rewrites to them (`any_value`, `array_agg`, `bool_and`, `count_if`,
      |`median`, `percentile_cont`, `regr_sxx`, `try_sum`, …); with DISTINCT and FILTER; in each of
      |Spark's modes. User-defined aggregates are refused.
      |
      |Sums, averages and moments of FLOAT and DOUBLE are exact and rounded once, at the end: they
      |do not depend on the order of the rows, nor does whether a sum of decimals fits its type.
      |`min` and `max` of 0.0 and −0.0 are −0.0 and 0.0. Of several most frequent values `mode`
      |without an order gives the least. `first`, `last`, `max_by`, `min_by`, `collect_list` and
      |`collect_set` depend on the order: what is computed from them is reported to Spark as
      |INDETERMINATE
      |([0020](../decisions/0020-exact-sums-and-a-list-of-what-is-repeatable.md) has the whole
      |list).
      |""".stripMargin

  def page: String = {
    val operators = table("Operator", Operators.reference.sortBy(_._1))
    val expressions = Expressions.reference.map { case (family, rows) =>
      s"### $family\n\n${table("Expression", rows)}"
    }
    s"$intro## Operators\n\n$operators$exchanges\n## Expressions\n\n${expressions.mkString("\n")}"
  }

  private def table(head: String, rows: Seq[(String, String)]): String =
    rows.map { case (name, becomes) => s"| `$name` | $becomes |" }.mkString(s"| $head | In the " +
        s"engine |\n|---|---|\n", "\n", "\n")
}
