package org.apache.spark.sql.coffer.tail

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.coffer.common.CofferException

class TailMemorySuite extends AnyFunSuite {

  private def holding(memory: TailMemory, bytes: Long): HeldRows = {
    val held = new HeldRows(memory)
    held.add(bytes)
    held
  }

  private def refused(body: => Any): String = {
    val e = intercept[CofferException](body)
    assert(e.code == "COFFER_MEMORY")
    e.plain
  }

  test("a tail has no more than its own bound") {
    val memory = new TailMemory(-1, 8 << 20)
    try {
      holding(memory, 6 << 20)
      assert(refused(holding(memory, 6 << 20)).contains("8.0 MiB"))
    } finally memory.cleanUpAllAllocatedMemory()
  }

  test("all tails have a bound together, and what one gives back another has") {
    val (one, other) =
      (new TailMemory(-1, TailMemory.all), new TailMemory(-2, TailMemory.all))
    try {
      holding(one, TailMemory.all * 2 / 3)
      assert(refused(holding(other, TailMemory.all * 2 / 3)).contains("together"))
      one.cleanUpAllAllocatedMemory()
      holding(other, TailMemory.all * 2 / 3)
    } finally {
      one.cleanUpAllAllocatedMemory()
      other.cleanUpAllAllocatedMemory()
    }
  }

  test("what is let go after the end is not given back twice") {
    val memory = new TailMemory(-1, TailMemory.all)
    val held = holding(memory, TailMemory.all * 2 / 3)
    memory.cleanUpAllAllocatedMemory()
    held.freeMemory(0)
    val again = new TailMemory(-2, TailMemory.all)
    try {
      holding(again, TailMemory.all * 2 / 3)
      assert(refused(holding(new TailMemory(-3, TailMemory.all), TailMemory.all * 2 / 3)).nonEmpty)
    } finally again.cleanUpAllAllocatedMemory()
  }

  test("rows are counted with what an object takes") {
    val memory = new TailMemory(-1, 4 << 20)
    val held = new HeldRows(memory)
    val row = new GenericInternalRow(1)
    try refused((0 to 100000).foreach(_ => held.add(8L * row.numFields)))
    finally memory.cleanUpAllAllocatedMemory()
  }
}
