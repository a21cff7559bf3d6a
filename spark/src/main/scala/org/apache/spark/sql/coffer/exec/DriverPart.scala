package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.execution.SparkPlan

/** Rows that may be given up before their end. */
trait Closing[T] extends Iterator[T] with AutoCloseable {
  override def close(): Unit
}

object Closing {
  def end(rows: Iterator[_]): Unit = rows match {
    case c: Closing[_] => c.close()
    case _ => ()
  }
}

/** A part of a query that runs in the driver. */
trait DriverPart extends SealedNode {

  /** The sealed queries whose rows come there. */
  def brought: Seq[SparkPlan]
}
