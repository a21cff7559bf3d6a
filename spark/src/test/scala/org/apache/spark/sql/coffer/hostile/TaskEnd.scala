package org.apache.spark.sql.coffer.hostile

import scala.collection.mutable
import scala.util.{Random, Try}

import org.apache.spark.SparkEnv
import org.apache.spark.scheduler.{DirectTaskResult, MapStatus}
import org.apache.spark.sql.coffer.exec.{Commits, MapCommit, TaskOutcome, WholeOutcome}
import org.apache.spark.util.AccumulatorV2
import org.apache.spark.util.io.ChunkedByteBuffer

/**
 * A finished task as its executor holds it: what it returns, and what it counted. Both can be
 * changed.
 */
final class TaskEnd(result: DirectTaskResult[Any]) {
  private val serializer = SparkEnv.get.serializer.newInstance()

  /**
   * What the task returns: a [[MapStatus]], a [[TaskOutcome]] or a [[WholeOutcome]] where Coffer
   * runs.
   */
  lazy val value: Any =
    serializer.deserialize[Any](result.valueByteBuffer.toByteBuffer,
      Thread.currentThread.getContextClassLoader)

  def returns(other: Any): Unit =
    result.valueByteBuffer = new ChunkedByteBuffer(serializer.serialize[Any](other))

  def accumulators: Seq[AccumulatorV2[_, _]] = result.accumUpdates
  def counts(updates: Seq[AccumulatorV2[_, _]]): Unit = result.accumUpdates = updates

  /** Of a map task of Coffer's: its sealed records. */
  def records: Seq[MapCommit] = commits.toSeq.flatMap(_.value.values)

  private def commits: Option[Commits] =
    accumulators.collectFirst { case c: Commits if !c.isZero => c }

  /** Puts other records in the place of the task's own. */
  def tells(records: Iterable[MapCommit]): Unit = commits.foreach { c =>
    c.reset()
    records.foreach(c.add)
  }
}

object TaskEnd {

  /** The sizes that a map status tells, by reduce partition. */
  def sizes(status: MapStatus): Array[Long] =
    Iterator.from(0).map(i => Try(status.getSizeForBlock(i))).takeWhile(_.isSuccess).map(
      _.get).toArray
}

/** What earlier tasks left, to be shown again. Bounded. */
object Museum {
  private val KEPT = 64
  private val commits = mutable.ArrayDeque.empty[MapCommit]
  private val outcomes = mutable.ArrayDeque.empty[TaskOutcome]
  private val wholes = mutable.ArrayDeque.empty[WholeOutcome]
  private val broadcasts = mutable.ArrayDeque.empty[Array[Byte]]
  private val outputs = mutable.ArrayDeque.empty[MapOutput]

  /** A map output's two files. */
  final case class MapOutput(data: Array[Byte], index: Array[Byte])

  def keep(records: Seq[MapCommit], value: Any): Unit = synchronized {
    records.foreach(add(commits, _))
    value match {
      case outcome: TaskOutcome => add(outcomes, outcome)
      case outcome: WholeOutcome if outcome.isWhole => add(wholes, outcome)
      case _ =>
    }
  }
  def keep(streams: Array[Array[Byte]]): Unit = synchronized(streams.foreach(add(broadcasts, _)))
  def keep(output: MapOutput): Unit = synchronized(add(outputs, output))

  def commit(rng: Random): Option[MapCommit] = synchronized(pick(commits, rng))
  def outcome(rng: Random): Option[TaskOutcome] = synchronized(pick(outcomes, rng))
  def whole(rng: Random): Option[WholeOutcome] = synchronized(pick(wholes, rng))
  def broadcast(rng: Random): Option[Array[Byte]] = synchronized(pick(broadcasts, rng))
  def output(rng: Random): Option[MapOutput] = synchronized(pick(outputs, rng))

  def clear(): Unit =
    synchronized(Seq(commits, outcomes, wholes, broadcasts, outputs).foreach(_.clear()))

  private def add[T](to: mutable.ArrayDeque[T], what: T): Unit = {
    to.append(what)
    if (to.size > KEPT) to.removeHead()
  }

  private def pick[T](from: mutable.ArrayDeque[T], rng: Random): Option[T] =
    if (from.isEmpty) None else Some(from(rng.nextInt(from.size)))
}

/** Changes of bytes that all mutations share. */
object Bytes {

  /** One bit is another; of no bytes, one byte is there. */
  def flipped(bytes: Array[Byte], rng: Random): Array[Byte] =
    if (bytes.isEmpty) Array(rng.nextInt().toByte)
    else {
      val at = rng.nextInt(bytes.length)
      bytes.updated(at, (bytes(at) ^ (1 << rng.nextInt(8))).toByte)
    }

  /** The end is missing. */
  def cut(bytes: Array[Byte], rng: Random): Array[Byte] =
    bytes.take(if (bytes.isEmpty) 0 else rng.nextInt(bytes.length))

  /** Something stands behind the end. */
  def extended(bytes: Array[Byte], rng: Random): Array[Byte] = {
    val more = new Array[Byte](1 + rng.nextInt(64))
    rng.nextBytes(more)
    bytes ++ more
  }

  /** As many bytes, of no meaning. */
  def noise(bytes: Array[Byte], rng: Random): Array[Byte] = {
    val other = new Array[Byte](bytes.length)
    rng.nextBytes(other)
    other
  }
}
