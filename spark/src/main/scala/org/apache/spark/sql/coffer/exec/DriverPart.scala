package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.coffer.split.CofferScan
import org.apache.spark.sql.execution.SparkPlan

/** Rows that may be given up before their end. */
trait Closing[T] extends Iterator[T] with AutoCloseable {
  override def close(): Unit
}

object Closing {
  def end(rows: Iterator[_]): Unit = rows match {
    case c: AutoCloseable => c.close()
    case _ => ()
  }

  def apply[T](rows: Iterator[T])(end: => Unit): Closing[T] = new Closing[T] {
    override def hasNext: Boolean = rows.hasNext
    override def next(): T = rows.next()
    override def close(): Unit = end
  }

  /** One after the other, each begun when the one before it has ended. */
  def chain[T](parts: Iterator[Iterator[T]]): Closing[T] = new Closing[T] {
    private var current = Iterator.empty[T]
    private var closed = false

    override def hasNext: Boolean = {
      while (!closed && !current.hasNext && parts.hasNext) current = parts.next()
      !closed && current.hasNext
    }
    override def next(): T = if (hasNext) current.next() else Iterator.empty.next()
    override def close(): Unit = if (!closed) {
      closed = true
      end(current)
    }
  }

  /** All of it; what holds the rows is let go also where it fails. */
  def whole[T: scala.reflect.ClassTag](rows: Iterator[T]): Array[T] =
    try rows.toArray
    finally end(rows)

  /** The first `n`. */
  def first[T: scala.reflect.ClassTag](rows: Iterator[T], n: Int): Array[T] =
    try rows.take(n).toArray
    finally end(rows)

  /** The last `n`; no more of them are held at a time. */
  def last[T: scala.reflect.ClassTag](rows: Iterator[T], n: Int): Array[T] =
    try {
      val kept = scala.collection.mutable.Queue.empty[T]
      rows.foreach { row =>
        kept.enqueue(row)
        if (kept.size > n) kept.dequeue()
      }
      kept.toArray
    } finally end(rows)
}

/** A part of a query that runs in the driver. */
trait DriverPart extends SealedNode {

  /** The sealed queries whose rows come there. */
  def brought: Seq[SparkPlan]

  /** Those whose rows came there before, for other queries. */
  def earlier: Seq[SparkPlan] = Nil

  /** What queries read that are planned while it runs. */
  def repeated: Seq[CofferScan] = Nil

  /** Spark's operators of it, from the top down. */
  def operators: Seq[String]
}
