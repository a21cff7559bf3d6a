package org.apache.spark.sql.coffer.tail

import scala.reflect.ClassTag

import org.apache.spark.{InterruptibleIterator, Partition, SparkContext, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.{
  BroadcastMode,
  BroadcastPartitioning,
  Partitioning
}
import org.apache.spark.sql.coffer.exec.CofferFragmentExec
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Rows, or batches of rows, of this process as an RDD of one partition, for operators that are run
 * here. In a task it has none: it may be serialised, with operators that closures hold, and what it
 * reads is not.
 */
private[tail] final class DriverRows[T: ClassTag](
    sc: SparkContext,
    @transient private val rows: () => Iterator[T])
    extends RDD[T](sc, Nil) {
  override protected def getPartitions: Array[Partition] = Array(DriverRows.Only)

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    if (rows == null) throw CofferFragmentExec.noRows
    new InterruptibleIterator(context, DriverRows.cancellable(context, rows()))
  }
}

private object DriverRows {
  private object Only extends Partition {
    override def index: Int = 0
  }

  /** The thread that asks for rows is interrupted, as a task would be killed. */
  private def cancellable[T](context: TaskContext, rows: Iterator[T]) = rows.map { row =>
    if (Thread.currentThread.isInterrupted) context.markInterrupted("the query was cancelled")
    row
  }
}

/** A join's smaller side, for operators in this process: no broadcast, no block. */
private[tail] case class InProcessBroadcastExec(mode: BroadcastMode, child: SparkPlan)
    extends UnaryExecNode {
  override def nodeName: String = "CofferTailBuild"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = BroadcastPartitioning(mode)
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan =
    copy(child = newChild)

  @transient private lazy val built: Any = {
    val task = TailTask.running
    val unsafe = UnsafeProjection.create(child.schema)
    val rows = task.rows(child.execute()).map {
      case row: UnsafeRow => row
      case row => unsafe(row)
    }
    // Spark's relation takes memory of no task: what it keeps is counted as it comes.
    mode.transform(rows.map(row => task.held(row.copy())), None)
  }

  override protected[sql] def doExecuteBroadcast[T](): Broadcast[T] =
    new InProcess[T](built.asInstanceOf[T])

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

/** A value that is nowhere else: outside of this process it is null. */
private final class InProcess[T](@transient private val of: T)
    extends Broadcast[T](-1L)(scala.reflect.ClassTag.Any.asInstanceOf[scala.reflect.ClassTag[T]]) {
  override protected def getValue(): T = {
    if (of == null) throw CofferFragmentExec.noRows
    of
  }
  override protected def doUnpersist(blocking: Boolean): Unit = ()
  override protected def doDestroy(blocking: Boolean): Unit = ()
}
