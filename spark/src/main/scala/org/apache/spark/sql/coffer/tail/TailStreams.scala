package org.apache.spark.sql.coffer.tail

import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import scala.reflect.ClassTag

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression
import org.apache.spark.sql.coffer.exec.CofferFragmentExec
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf

/** Reads all rows of a tail, for one who takes them as they come and keeps none. */
private[coffer] object TailStreams {

  /**
   * Several threads take the partitions of a plan that has some, up to `most` threads; each has its
   * own rows, valid until the next one. They end together, also when one fails.
   */
  def run[T: ClassTag](plan: SparkPlan, most: Int)(each: Iterator[InternalRow] => T): Seq[T] = {
    val (sc, conf) = (plan.session.sparkContext, plan.conf)
    TailConf.check(conf)
    val own = plan.clone()
    val task = new TailTask(sc, conf)
    val rdd = task.building(own.execute())
    val threads = math.min(most, rdd.getNumPartitions)
    val made =
      if (threads <= 1)
        try Seq(each(task.rows(rdd)))
        finally task.end(None)
      else {
        task.end(None)
        if (!ListedRows.narrow(rdd)) throw CofferFragmentExec.noRows
        new Threads(sc, conf, rdd, threads)(each).run()
      }
    accumulate(own)
    made
  }

  /** What Python functions added to their accumulators goes to Python as if from a task. */
  def accumulate(plan: SparkPlan): Unit = plan.foreach { node =>
    node.expressions.flatMap(_.collect { case p: PythonFuncExpression => p.func }).foreach { f =>
      Option(f.accumulator).filterNot(_.isZero).foreach { sum =>
        val added = sum.copyAndReset()
        sum.value.forEach(added.add(_))
        sum.reset()
        sum.merge(added)
      }
    }
  }
}

/**
 * As executors do with tasks, each thread has a copy of the RDD: readers keep what they are at in
 * it. Serialised is how to read, and no row.
 */
private final class Threads[T: ClassTag](
    sc: SparkContext,
    conf: SQLConf,
    rdd: RDD[InternalRow],
    count: Int)(each: Iterator[InternalRow] => T) {
  private val serializer = SparkEnv.get.closureSerializer
  private val bytes = serializer.newInstance().serialize[AnyRef](rdd)
  private val parts = rdd.partitions
  private val next = new AtomicInteger()
  private val failed = new AtomicReference[Throwable]()
  private val made = new Array[T](count)
  private val loader = Thread.currentThread.getContextClassLoader

  // They inherit the session and Spark's local properties.
  private val all = (0 until count).map { at =>
    val thread = new Thread(() => guarded(at), s"coffer-tail-$at")
    thread.setDaemon(true)
    thread.setContextClassLoader(loader)
    thread
  }

  private def guarded(at: Int): Unit =
    try made(at) = one()
    catch {
      case e: Throwable => if (failed.compareAndSet(null, e)) all.foreach(_.interrupt())
    }

  private def one(): T = {
    val copy =
      serializer.newInstance().deserialize[AnyRef](bytes.duplicate(), loader)
        .asInstanceOf[RDD[InternalRow]]
    val task = new TailTask(sc, conf)
    val mine =
      Iterator.continually(next.getAndIncrement()).takeWhile(_ < parts.length).map(parts(_))
    try each(task.rows(copy, mine))
    finally task.end(None)
  }

  def run(): Seq[T] = {
    all.foreach(_.start())
    try all.foreach(_.join())
    catch {
      case e: InterruptedException =>
        all.foreach(_.interrupt())
        all.foreach(_.join())
        throw e
    }
    Option(failed.get).foreach(throw _)
    made.toSeq
  }
}
