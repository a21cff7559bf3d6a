package org.apache.spark.sql.coffer.split

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path, Paths}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.plugin.CofferExplain
import org.apache.spark.sql.coffer.translate.PlanFixture

/**
 * How queries are split between engines and client, against `src/test/resources/golden-sites`.
 * `COFFER_GOLDEN=1` writes the files anew; review the difference. A literal N stands in ciphertexts
 * as 1000 + N (ope), as "det:N" or "ore:N".
 */
abstract class SplitSuite(name: String, mode: String) extends AnyFunSuite with SitesFixture {
  override protected def settings: Map[String, String] = Map("spark.coffer.enclave" -> mode)

  test("queries are split as they were") {
    same(s"$name.txt", SplitSuite.queries)(shown(_))
  }

  test("EXPLAIN says of each operator where it runs, on what, and what that tells the host") {
    same(s"explain-$name.txt", SplitSuite.explained) { sql =>
      new CofferExplain().generateExtendedInfo(
        spark.sql(sql).queryExecution.executedPlan).linesIterator.toSeq
    }
  }

  private def same(name: String, queries: Seq[String])(lines: String => Seq[String]): Unit = {
    val text = queries.map { sql =>
      PlanFixture.idsFrom(2000000)
      val shown =
        try lines(sql)
        catch { case e: CofferException => Seq(s"refused: ${e.getMessage.linesIterator.next()}") }
      (s"# $sql" +: shown).mkString("", "\n", "\n")
    }.mkString("\n")
    val file: Path = Paths.get("src/test/resources/golden-sites", name)
    if (sys.env.get("COFFER_GOLDEN").contains("1"))
      Files.write(file, text.getBytes(StandardCharsets.UTF_8))
    else assert(text === new String(Files.readAllBytes(file), StandardCharsets.UTF_8))
  }
}

/** Engines are enclaves, which may open what is `tee`. */
class EnclaveSplitSuite extends SplitSuite("enclaves", "required")

/** Engines hold no key. */
class HostSplitSuite extends SplitSuite("hosts", "none")

object SplitSuite {
  val explained: Seq[String] = Seq(
    "SELECT category, avg(salary) FROM e WHERE age BETWEEN 25 AND 30 GROUP BY category ORDER BY " +
      "category",
    "SELECT name FROM e WHERE id IN (1, 2) ORDER BY age LIMIT 3",
    "SELECT label, count(*), max(age) FROM e JOIN c ON category = cat GROUP BY label",
    "SELECT grade, open FROM e WHERE grade > 3 AND open > 1",
    "SELECT label, sum(bonus) FROM e JOIN c ON category = cat WHERE bonus > 10 GROUP BY label")

  val queries: Seq[String] = Seq(
    // Conditions.
    "SELECT id FROM e WHERE id = 7",
    "SELECT id FROM e WHERE id <> 7",
    "SELECT id FROM e WHERE NOT (id = 7 OR age < 30)",
    "SELECT id FROM e WHERE id > 7",
    "SELECT id FROM e WHERE age BETWEEN 25 AND 30",
    "SELECT id FROM e WHERE age > 200",
    "SELECT id FROM e WHERE age <= 200 OR age < -1",
    "SELECT id FROM e WHERE NOT (age > 200)",
    "SELECT id FROM e WHERE age IN (25, 200, 30)",
    "SELECT id FROM e WHERE age IN (25, NULL)",
    "SELECT id FROM e WHERE age NOT IN (25, NULL)",
    "SELECT id FROM e WHERE age <=> 25",
    "SELECT id FROM e WHERE age <=> NULL",
    "SELECT id FROM e WHERE grade >= 5 AND grade <> 9",
    "SELECT id FROM e WHERE grade IN (1, 2)",
    "SELECT id FROM e WHERE code > 'abcd'",
    "SELECT id FROM e WHERE NOT (code > 'abcd')",
    "SELECT id FROM e WHERE code = 'abcd' OR id = 1",
    "SELECT id FROM e WHERE name = 'x' AND age > 3",
    "SELECT id FROM e WHERE name = 'x' OR age > 3",
    "SELECT id FROM e WHERE name IS NULL AND salary IS NOT NULL",
    "SELECT id FROM e WHERE open > 3 AND category = 'nurse'",
    "SELECT id FROM e WHERE age + 1 > 26",
    "SELECT id FROM e WHERE age > 25 AND age + 1 < 40",
    "SELECT id FROM e WHERE age > (SELECT avg(size) FROM c)",
    // Aggregates.
    "SELECT count(*), count(name), count(DISTINCT category), count(DISTINCT name) FROM e",
    "SELECT category, count(*), count(age), min(age), max(age) FROM e GROUP BY category",
    "SELECT category, sum(salary), avg(salary) FROM e GROUP BY category",
    "SELECT sum(salary) FILTER (WHERE open > 1) FROM e",
    "SELECT sum(salary) FILTER (WHERE age > 1) FROM e",
    "SELECT sum(salary + 1) FROM e",
    "SELECT sum(DISTINCT salary) FROM e",
    "SELECT age, sum(open) FROM e GROUP BY age HAVING sum(open) > 3",
    "SELECT name, count(*) FROM e GROUP BY name",
    "SELECT category, max(name) FROM e GROUP BY category",
    "SELECT category, sum(salary) s FROM e GROUP BY category ORDER BY s DESC LIMIT 3",
    "SELECT sum(bonus) FROM e",
    "SELECT DISTINCT category FROM e",
    // Joins.
    "SELECT label, id FROM e JOIN c ON category = cat",
    "SELECT label, id FROM e JOIN c ON category = cat AND age > size",
    "SELECT label, id FROM e JOIN c ON category = cat AND name = label",
    "SELECT label, id FROM e LEFT JOIN c ON category = cat",
    "SELECT label, id FROM e LEFT JOIN c ON category = cat AND name = label",
    "SELECT label, id FROM e FULL JOIN c ON category <=> cat",
    "SELECT label, id FROM e JOIN c ON age = size",
    "SELECT label, bonus FROM e JOIN c ON category = cat",
    "SELECT id FROM e WHERE category IN (SELECT cat FROM c)",
    "SELECT id FROM e WHERE category NOT IN (SELECT cat FROM c)",
    "SELECT id FROM e JOIN VALUES (1), (2) AS v(n) ON id = n",
    // Order, limits, unions.
    "SELECT id FROM e ORDER BY age LIMIT 3",
    "SELECT id FROM e ORDER BY id LIMIT 3",
    "SELECT id FROM e ORDER BY age DESC NULLS LAST, id",
    "SELECT id FROM e LIMIT 3 OFFSET 2",
    "SELECT id FROM e WHERE name = 'x' LIMIT 3",
    "SELECT id, bonus FROM e LIMIT 3",
    "SELECT id FROM e UNION ALL SELECT size FROM c",
    "SELECT open FROM e UNION ALL SELECT open + 1 FROM e",
    "SELECT code FROM e WHERE open = 1",
    "SELECT bonus, name, age, open FROM e WHERE bonus > 3 AND open = 1")
}
