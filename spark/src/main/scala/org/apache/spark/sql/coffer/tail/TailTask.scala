package org.apache.spark.sql.coffer.tail

import java.util.Properties
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.apache.spark.{
  Partition,
  SparkContext,
  SparkEnv,
  SparkException,
  SparkThrowable,
  TaskContext,
  TaskContextImpl
}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{ArrowRows, ClientBytes, Closing, CofferFragmentExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.Utils

/**
 * One run of a tail, in the thread that asks for its rows: the task context that Spark's operators
 * look for, with memory of its own that never spills. `most`: bytes that may come to the driver.
 */
private[tail] final class TailTask(sc: SparkContext, conf: SQLConf) {
  private val most = ClientBytes.of(conf)
  private val id = TailTask.ids.decrementAndGet()
  val memory: TailMemory = new TailMemory(id, TailMemory.forOne(most))
  private val rowsHeld = new HeldRows(memory)
  private val all = new AtomicLong()
  private var ended = false

  private val context = new TaskContextImpl(0, 0, 0, id, 0, 1, memory, properties,
    SparkEnv.get.metricsSystem)

  // Broadcast blocks are read, of settings for one, under locks of tasks that are known.
  private val blocks = SparkEnv.get.blockManager
  blocks.registerTask(id)

  LiveTails.begin(this)

  /** What code in a task knows of the session. */
  private def properties: Properties = {
    val all = new Properties()
    Option(sc.getLocalProperties).foreach(p =>
      p.stringPropertyNames.forEach(k =>
        all.setProperty(k, p.getProperty(k))))
    conf.getAllConfs.foreach { case (k, v) => all.setProperty(k, v) }
    all
  }

  /** A property of the thread that asked for the rows. */
  def local(key: String): Option[String] = Option(context.getLocalProperty(key))

  /** Ends the tail as a cancelled job ends: also while it waits for a Python worker. */
  def cancel(reason: String): Unit = context.markInterrupted(reason)

  /** `rows` are let go of when the tail ends, wherever that is. */
  def closes(rows: Iterator[_]): Unit =
    context.addTaskCompletionListener[Unit]((_: TaskContext) => Closing.end(rows))

  /** A row that is kept until the tail ends, counted. */
  def held[T <: InternalRow](row: T): T = {
    rowsHeld.add(row match {
      case u: UnsafeRow => u.getSizeInBytes.toLong
      case other => 16L * other.numFields
    })
    row
  }

  /** Rows that come by jobs: what this process asks of Spark then is no task's doing. */
  def outside[T](rows: Iterator[T]): Iterator[T] = new Iterator[T] {
    override def hasNext: Boolean = out(rows.hasNext)
    override def next(): T = out(rows.next())
    private def out[R](body: => R): R = {
      val before = TaskContext.get()
      TailTask.into(null)
      try body
      finally TailTask.into(before)
    }
  }

  /** The rows that come to the driver, until they are too many bytes. */
  def counted(rows: Iterator[InternalRow]): Iterator[InternalRow] = rows.map { row =>
    val bytes = row match {
      case u: UnsafeRow => u.getSizeInBytes.toLong
      case other => 16L * other.numFields
    }
    came(bytes)
    row
  }

  /** The same of batches. */
  def countedBatches(batches: Iterator[ColumnarBatch]): Iterator[ColumnarBatch] = batches.map {
    batch =>
      came(ArrowRows.bytes(batch))
      batch
  }

  private def came(bytes: Long): Unit =
    if (all.addAndGet(bytes) > most) throw TailTask.tooMuch(most)

  /** All partitions of an RDD one after the other, here. Each row is valid until the next one. */
  def rows(rdd: RDD[InternalRow]): Iterator[InternalRow] = {
    if (!ListedRows.narrow(rdd)) {
      end(None)
      throw CofferFragmentExec.noRows
    }
    rows(rdd, rdd.partitions.iterator)
  }

  /** Some of them. */
  def rows(rdd: RDD[InternalRow], parts: Iterator[Partition]): Iterator[InternalRow] =
    within(parts.flatMap(p => rdd.iterator(p, context)))

  private def within(rows: Iterator[InternalRow]): Iterator[InternalRow] =
    new Iterator[InternalRow] {
      override def hasNext: Boolean = in {
        if (Thread.currentThread.isInterrupted) context.markInterrupted("the query was cancelled")
        context.killTaskIfInterrupted()
        rows.hasNext
      }
      override def next(): InternalRow = in(rows.next())
    }

  /** As if in a task. What code asks of Spark while it builds a plan's RDDs is none. */
  private def in[T](body: => T): T = {
    val before = TaskContext.get()
    TailTask.into(context)
    try body
    catch {
      case e: Throwable =>
        end(Some(e))
        throw context.getKillReason().fold(TailTask.failed(e))(TailTask.cancelled(_, e))
    } finally TailTask.into(before)
  }

  /** Ends what operators hold: memory, Python workers. */
  def end(error: Option[Throwable]): Unit = if (!ended) {
    ended = true
    LiveTails.end(this)
    val before = TaskContext.get()
    TailTask.into(context)
    try {
      error.foreach(context.markTaskFailed)
      context.markTaskCompleted(error)
    } catch { case NonFatal(e) => error.foreach(_.addSuppressed(e)) }
    finally {
      TailTask.into(before)
      blocks.releaseAllLocksForTask(id)
      memory.cleanUpAllAllocatedMemory()
    }
  }

  /** `body` builds the RDDs of a plan; nodes find the task by [[TailTask.running]]. */
  def building[T](body: => T): T = TailTask.current.withValue(Some(this)) {
    try body
    catch {
      case e: Throwable =>
        end(Some(e))
        throw e
    }
  }
}

private[tail] object TailTask {
  private val current = new scala.util.DynamicVariable[Option[TailTask]](None)

  /** Spark's own tasks count up, and small negative numbers mean no task to its locks. */
  private val ids = new AtomicLong(Int.MinValue)

  /**
   * This thread is in that task; `null`: in none. Unlike `TaskContext.unset`, which makes a new
   * entry for the thread each time, it costs nothing by the row.
   */
  private def into(context: TaskContext): Unit = TaskContext.setTaskContext(context)

  def running: TailTask = current.value.getOrElse(throw new IllegalStateException(
      "a part of the client tail was run outside of it"))

  /** As a job's failure has what is no error of Spark's, a user's function's among them. */
  private def failed(e: Throwable): Throwable = e match {
    case s: SparkThrowable => s.asInstanceOf[Throwable]
    case NonFatal(other) =>
      new SparkException(s"a part of the query that runs in the driver failed: $other", other)
    case fatal => fatal
  }

  private def cancelled(reason: String, e: Throwable): Throwable = new SparkException(
    "SPARK_JOB_CANCELLED", Map("jobId" -> "of the client tail", "reason" -> reason), e)

  def tooMuch(most: Long): CofferException = new CofferException(
    ClientBytes.TOO_MUCH,
    "a part of this query runs in the driver, and more bytes come there than " +
      s"${ClientBytes.KEY} (${Utils.bytesToString(most)}) allows",
    s"filter or aggregate more before it (EXPLAIN shows what comes), or raise ${ClientBytes.KEY} " +
      "and spark.driver.memory")
}
