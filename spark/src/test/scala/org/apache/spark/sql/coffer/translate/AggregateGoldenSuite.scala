package org.apache.spark.sql.coffer.translate

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Paths}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  ApproximatePercentile,
  HyperLogLogPlusPlus
}
import org.apache.spark.sql.catalyst.expressions.{BoundReference, GenericInternalRow}
import org.apache.spark.sql.types.LongType

/**
 * What Spark's sketches give, for `coffer-plan` to give as well; `COFFER_GOLDEN=1` writes it anew.
 */
class AggregateGoldenSuite extends AnyFunSuite {
  private val folder = Paths.get("../engine/crates/core/plan/tests/golden")

  /** Line by line: the bits that choose a register, how many numbers from 0 on, the estimate. */
  test("approx_count_distinct") {
    val counts = Seq(0, 1, 5, 17, 40, 75, 100, 300, 1000, 2345, 5000, 12345, 60000)
    val lines = for {
      deviation <- Seq(0.39, 0.26, 0.19, 0.13, 0.05, 0.03, 0.02, 0.01, 0.005)
      count <- counts
    } yield {
      val of = HyperLogLogPlusPlus(BoundReference(0, LongType, nullable = true), deviation)
      val words = of.aggBufferAttributes.length
      val buffer = new GenericInternalRow(Array.fill[Any](words)(0L))
      (0 until count).foreach(i => of.update(buffer, new GenericInternalRow(Array[Any](i.toLong))))
      val bits = (4 to 18).find(b => (1 << b) / 10 + 1 == words).get
      s"$bits:$count ${of.eval(buffer)}"
    }
    golden("approx_count_distinct.txt", lines)
  }

  /** Line by line: accuracy, how many values, share; and Spark's value, put in in their order. */
  test("percentile_approx") {
    val lines = for {
      accuracy <- Seq(1, 2, 10, 100, 10000)
      count <- Seq(1, 2, 3, 10, 101, 4999, 12000, 50000, 50001, 130000)
      share <- Seq(0.0, 0.001, 0.1, 0.25, 0.5, 0.77, 0.95, 1.0)
    } yield {
      val of = new ApproximatePercentile(
        BoundReference(0, LongType, nullable = true),
        Literal(share),
        Literal(accuracy))
      val values = (0L until count.toLong).map(i => i * i % 100003).sorted
      val one = values.foldLeft(of.createAggregationBuffer())((digest, value) =>
        of.update(digest, new GenericInternalRow(Array[Any](value))))
      val sent = of.deserialize(of.serialize(one))
      s"$accuracy $count $share: ${of.eval(of.merge(of.createAggregationBuffer(), sent))}"
    }
    golden("percentile_approx.txt", lines)
  }

  private def golden(name: String, lines: Seq[String]): Unit = {
    val (file, text) = (folder.resolve(name), lines.mkString("", "\n", "\n"))
    if (sys.env.get("COFFER_GOLDEN").contains("1")) {
      Files.write(file, text.getBytes(StandardCharsets.UTF_8))
      ()
    } else {
      val before = new String(Files.readAllBytes(file), StandardCharsets.UTF_8)
      assert(before == text, s"$file is stale: run with COFFER_GOLDEN=1")
    }
  }
}
