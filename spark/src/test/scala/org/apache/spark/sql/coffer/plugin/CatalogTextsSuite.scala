package org.apache.spark.sql.coffer.plugin

import java.net.URI

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.fake.FakeSession
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension
import org.apache.spark.sql.types.StructType

/**
 * A catalog in the place of Spark's: for all that Coffer knows, others write to it. Spark opens
 * tables of its own formats alone in such a one, so sealed ones are temporary views here; Hive's is
 * tried in `test_ddl_places.py`.
 */
class OthersCatalog extends DelegatingCatalogExtension

/** What a catalog has a driver load. */
object Loaded {
  @volatile var yes = false
}
class Loaded {
  Loaded.yes = true
}

class CatalogTextsSuite extends AnyFunSuite with FakeSession {
  private val others = "spark.sql.catalog.spark_catalog" -> classOf[OthersCatalog].getName

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    spark.sessionState.catalog.createTable(
      CatalogTable(
        TableIdentifier("sealed", Some("default")),
        CatalogTableType.EXTERNAL,
        CatalogStorageFormat.empty.copy(locationUri = Some(new URI("/sealed/t"))),
        new StructType(),
        provider = Some("coffer")),
      ignoreIfExists = false)
  }

  private def analysed(sql: String) = spark.sql(sql).queryExecution.analyzed

  private def refused(sql: String): Unit = withClue(sql) {
    val e = intercept[CofferException](analysed(sql))
    assert(e.code == "COFFER_CATALOG_TEXT" && e.hint.nonEmpty)
  }

  test("a permanent function of others' catalog is refused before anything of it is loaded") {
    spark.sql("CREATE FUNCTION loaded AS " +
      "'org.apache.spark.sql.coffer.plugin.Loaded' USING JAR '/nowhere.jar'")
    spark.sql("CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN x * 2")
    spark.sql("CREATE FUNCTION several(x BIGINT) RETURNS TABLE (y BIGINT) RETURN SELECT x")
    analysed("SELECT twice(k), y FROM t, LATERAL several(k)")
    withConf(others) {
      Seq(
        "SELECT twice(k) FROM t",
        "SELECT 1 AS one WHERE twice(1) = 2",
        "SELECT loaded(k) FROM t",
        "SELECT loaded(1)",
        "SELECT default.twice(k) FROM t",
        "SELECT spark_catalog.default.twice(k) FROM t",
        "SELECT (SELECT max(twice(v)) FROM u) FROM t",
        "WITH w AS (SELECT twice(k) AS k FROM t) SELECT * FROM w",
        "SELECT k FROM t LATERAL VIEW loaded(k) AS l",
        "SELECT y FROM t, LATERAL several(k)",
        "SELECT * FROM several(1)",
        "CREATE TEMPORARY FUNCTION via(x BIGINT) RETURNS BIGINT RETURN twice(x)",
        "CREATE TEMPORARY VIEW above AS SELECT twice(k) AS k FROM t"
      ).foreach(refused)
      assert(!Loaded.yes)
    }
  }

  test("functions of the session are the user's") {
    spark.udf.register("thrice", (x: Long) => 3 * x)
    spark.sql("CREATE TEMPORARY FUNCTION own(x BIGINT) RETURNS BIGINT RETURN thrice(x) + 1")
    withConf(others) {
      analysed("SELECT own(k), abs(k), explode(array(k)) FROM t, LATERAL range(2)")
    }
  }

  test("a permanent view of others' catalog is refused beside sealed tables") {
    spark.sql("CREATE VIEW lined AS SELECT k FROM sealed")
    spark.sql("CREATE VIEW guesses AS SELECT 1 AS k")
    analysed("SELECT * FROM lined JOIN guesses USING (k)")
    withConf(others) {
      Seq(
        "SELECT * FROM t JOIN guesses USING (k)",
        "SELECT * FROM t WHERE k IN (SELECT k FROM guesses)",
        "CREATE TEMPORARY VIEW around AS SELECT t.k FROM t JOIN guesses ON t.k = guesses.k",
        "CREATE VIEW more AS SELECT k FROM t",
        "CREATE OR REPLACE VIEW guesses AS SELECT k FROM t",
        "ALTER VIEW guesses AS SELECT k FROM t"
      ).foreach(refused)
      assert(intercept[AnalysisException](spark.table("more")).getCondition ==
        "TABLE_OR_VIEW_NOT_FOUND")
      // A text of the session's own, and plain queries, are not Coffer's to judge.
      spark.sql("CREATE TEMPORARY VIEW mine AS SELECT k FROM t")
      analysed("SELECT * FROM mine")
      spark.sql("ALTER VIEW mine AS SELECT k + 1 AS k FROM t")
      analysed("SELECT * FROM guesses")
      spark.sql("DROP VIEW lined")
    }
  }

  test("rows that were made before the query are no values of its own") {
    val t = spark.table("t")
    def refused(rows: => org.apache.spark.sql.DataFrame): Unit = {
      val e = intercept[CofferException](rows.queryExecution.analyzed)
      assert(e.code == "COFFER_UNSUPPORTED" && e.plain.contains("were made before"), e.plain)
    }
    refused(t.join(spark.sql("SHOW TABLES").selectExpr("length(tableName) AS k"), "k"))
    refused(t.join(spark.sql("SHOW TBLPROPERTIES sealed").selectExpr("length(key) AS k"), "k"))
    refused(t.join(spark.range(2).toDF("a").transpose().selectExpr("1L AS k"), "k"))
    Seq("VALUES (1L), (2L + 1) AS v(k)", "(SELECT 1L AS k) v", "range(3) v(k)").foreach { rows =>
      analysed(s"SELECT * FROM t JOIN $rows USING (k)")
    }
  }
}
