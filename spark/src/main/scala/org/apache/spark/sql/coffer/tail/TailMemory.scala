package org.apache.spark.sql.coffer.tail

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.SparkConf
import org.apache.spark.memory.{
  MemoryConsumer,
  MemoryMode,
  TaskMemoryManager,
  UnifiedMemoryManager
}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.util.Utils

/**
 * Memory for operators in the driver. Spark's own would have them spill to `spark.local.dir`, in
 * clear, when there is no more. What all tails of this process have together is bounded too.
 */
private[tail] final class TailMemory(id: Long, most: Long) extends TaskMemoryManager(
      new UnifiedMemoryManager(TailMemory.conf, Long.MaxValue / 2, Long.MaxValue / 4, 1), id) {
  private val own = new AtomicLong()

  override def acquireExecutionMemory(required: Long, consumer: MemoryConsumer): Long = {
    if (required > 0) {
      val mine = own.addAndGet(required)
      val all = TailMemory.used.addAndGet(required)
      if (mine > most || all > TailMemory.all) {
        giveBack(required)
        throw TailMemory.tooMuch(mine > most, most)
      }
    }
    super.acquireExecutionMemory(required, consumer)
  }

  override def releaseExecutionMemory(size: Long, consumer: MemoryConsumer): Unit = {
    giveBack(size)
    super.releaseExecutionMemory(size, consumer)
  }

  override def cleanUpAllAllocatedMemory(): Long = {
    giveBack(Long.MaxValue)
    super.cleanUpAllAllocatedMemory()
  }

  /** No more than it has: an operator may let go of what the end of its tail has freed. */
  private def giveBack(size: Long): Unit = {
    val before = own.getAndUpdate(had => math.max(0, had - size))
    TailMemory.used.addAndGet(-math.min(before, size))
  }
}

private[tail] object TailMemory {

  /** Each map and each sort begins with a page. */
  private val conf = new SparkConf(false).set("spark.buffer.pageSize", "2m")

  /** What all tails have now. */
  private val used = new AtomicLong()

  /** The driver's heap has more in it than what tails hold. */
  val all: Long = Runtime.getRuntime.maxMemory * 3 / 5

  /** For one tail, of which `most` bytes may come to the driver. */
  def forOne(most: Long): Long = math.min(math.max(4 * most, 4L << 30), all)

  private def tooMuch(alone: Boolean, most: Long): CofferException = new CofferException(
    "COFFER_MEMORY",
    "a part of this query runs in the driver, and needs more than " +
      (if (alone) s"${Utils.bytesToString(most)} of memory there"
       else s"is left there of ${Utils.bytesToString(all)}, which all such parts have together"),
    "filter or aggregate more before it (EXPLAIN shows what comes), or raise " +
      "spark.driver.memory")
}

/** Rows that a tail keeps as objects, beside what Spark's operators ask memory for. */
private[tail] final class HeldRows(memory: TailMemory)
    extends MemoryConsumer(memory, MemoryMode.ON_HEAP) {
  private var bytes = 0L

  override def spill(size: Long, trigger: MemoryConsumer): Long = 0

  def add(row: Long): Unit = {
    bytes += row + HeldRows.OBJECT
    // Not a question for each row.
    if (bytes > getUsed) acquireMemory(math.max(bytes - getUsed, HeldRows.STEP))
  }
}

private object HeldRows {
  private val STEP = 1L << 20

  /** An object, its array's head, and what refers to it. */
  private val OBJECT = 64L
}
