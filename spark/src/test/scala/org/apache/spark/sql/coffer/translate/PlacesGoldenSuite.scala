package org.apache.spark.sql.coffer.translate

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Paths}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{ArrayType, LongType}

/** What Spark draws for each row, for `coffer-plan` to draw too; `COFFER_GOLDEN=1` writes it. */
class PlacesGoldenSuite extends AnyFunSuite {
  private val file = Paths.get("../engine/crates/core/plan/tests/golden/places.txt")

  /** Line by line: kind, seed, partition, and the values of the first rows. */
  test("places") {
    val array = BoundReference(0, ArrayType(LongType), nullable = true)
    val kinds: Seq[(String, Long => Expression)] = Seq(
      "UNIFORM" -> (s => Rand(Literal(s))),
      "NORMAL" -> (s => Randn(Literal(s))),
      "TEXT" -> (s => RandStr(Literal(7), Literal(s), hideSeed = false)),
      "UUID" -> (s => Uuid(Some(s))),
      "SHUFFLED" -> (s => Shuffle(array, Some(s))),
      "ID" -> (_ => MonotonicallyIncreasingID()),
      "PARTITION" -> (_ => SparkPartitionID()))
    val lines = for {
      (kind, make) <- kinds
      seed <- Seq(0L, 1L, -1L, 42L, 1234567890123L, Long.MaxValue, Long.MinValue)
      partition <- Seq(0, 1, 7)
    } yield {
      val expr = make(seed)
      expr.foreach { case n: Nondeterministic => n.initialize(partition); case _ => }
      val values = (0 until 700).map { i =>
        // Every fifth is NULL, and draws nothing.
        val items = if (i % 5 == 4) null
        else
          new org.apache.spark.sql.catalyst.util.GenericArrayData((0L until (i % 9).toLong).toArray)
        FunctionGolden.show(expr.eval(new GenericInternalRow(Array[Any](items))), expr.dataType)
      }
      // All as a checksum (FNV-1a), for what repeats late; the first, to be read.
      val sum = values.mkString(" ").getBytes(StandardCharsets.UTF_8)
        .foldLeft(0xcbf29ce484222325L)((hash, b) => (hash ^ (b & 0xff)) * 0x100000001b3L)
      s"$kind $seed $partition ${"%016x".format(sum)} ${values.take(12).mkString(" ")}"
    }
    val text = lines.mkString("", "\n", "\n")
    if (sys.env.get("COFFER_GOLDEN").contains("1")) {
      Files.write(file, text.getBytes(StandardCharsets.UTF_8))
      ()
    } else assert(new String(Files.readAllBytes(file), StandardCharsets.UTF_8) == text)
  }
}
