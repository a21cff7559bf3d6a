package org.apache.spark.sql.coffer.translate

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Paths}

import org.scalatest.funsuite.AnyFunSuite

/**
 * The files that `coffer-expr` replays (`tests/functions`) are what this Spark gives and what this
 * translator emits; `COFFER_GOLDEN=1` writes them anew.
 */
class FunctionGoldenSuite extends AnyFunSuite with PlanFixture {
  private val folder = Paths.get("../engine/crates/core/expr/tests/functions")

  override def beforeAll(): Unit = {
    super.beforeAll()
    spark.conf.set(
      "spark.sql.optimizer.excludedRules",
      "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation")
  }

  FunctionCases.refused.foreach { c =>
    test(s"left to the client: ${c.sql.take(60)} of ${c.columns.map(_._1).mkString(", ")}") {
      val classic = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession]
      assert(FunctionGolden.refusal(classic, c).isDefined)
    }
  }

  FunctionCases.families.foreach { case (family, cases) =>
    test(family) {
      val classic = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession]
      val text = cases.flatMap(FunctionGolden.lines(classic, _)).mkString("", "\n", "\n")
      val file = folder.resolve(s"$family.txt")
      if (sys.env.get("COFFER_GOLDEN").contains("1")) {
        Files.createDirectories(folder)
        Files.write(file, text.getBytes(StandardCharsets.UTF_8))
        ()
      } else {
        val before = new String(Files.readAllBytes(file), StandardCharsets.UTF_8)
        assert(before == text, s"$file is stale: run with COFFER_GOLDEN=1")
      }
    }
  }
}
