package org.apache.spark.sql.coffer.plugin

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Paths}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.plans.logical.{LeafCommand, LogicalPlan}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.fake.FakeSession
import org.apache.spark.sql.coffer.split.SealedFormat

/** A command that nobody has heard of. */
final case class Unheard(name: TableIdentifier) extends LeafCommand

/**
 * The list of statements: its page, and that it is closed. What each does is run by
 * `testing/tests/test_ddl.py`.
 */
class StatementsSuite extends AnyFunSuite with FakeSession {
  private val file = Paths.get("../docs/reference/ddl.md")

  test("the reference says what the code does; COFFER_GOLDEN=1 writes it anew") {
    if (sys.env.get("COFFER_GOLDEN").contains("1"))
      Files.write(file, Statements.page.getBytes(StandardCharsets.UTF_8))
    else assert(new String(Files.readAllBytes(file), StandardCharsets.UTF_8) === Statements.page)
  }

  test("each kind has examples, and one title") {
    assert(Statements.all.forall(_.examples.nonEmpty))
    assert(Statements.all.map(_.title).distinct.size === Statements.all.size)
  }

  private def check(plan: LogicalPlan): Unit = SealedStatements.check(plan, spark, known = true)

  test("a command on no list is refused where it names a sealed table, and nowhere else") {
    spark.sql("CREATE TABLE listed USING coffer LOCATION '/sealed/t'")
    spark.sql("CREATE TABLE plainly (a INT) USING parquet")
    try {
      assert(
        intercept[CofferException](check(Unheard(TableIdentifier("listed")))).code == "COFFER_DDL")
      assert(intercept[CofferException](check(Unheard(TableIdentifier("listed",
              Some("default"))))).code == "COFFER_DDL")
      check(Unheard(TableIdentifier("plainly")))
      check(Unheard(TableIdentifier("nowhere")))
      // A temporary view hides the table.
      spark.range(1).createOrReplaceTempView("listed")
      check(Unheard(TableIdentifier("listed")))
      spark.catalog.dropTempView("listed")
    } finally Seq("listed", "plainly").foreach(t => spark.sql(s"DROP TABLE $t"))
  }

  test("Coffer's provider is known however it is spelled") {
    Seq("coffer", "COFFER", "org.apache.spark.sql.coffer.source.CofferDataSource").foreach(p =>
      assert(SealedFormat.is(p), p))
    Seq("parquet", "coffers", "my.coffer.Source", "").foreach(p => assert(!SealedFormat.is(p), p))
  }
}
