package org.apache.spark.sql.coffer.tail

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.coffer.exec.CofferFragmentExec
import org.apache.spark.sql.execution.{DataSourceScanExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase

/** What a tail reads of plain data, counted with what comes there from engines. */
private[tail] case class CountedExec(child: SparkPlan) extends UnaryExecNode {
  override def nodeName: String = "CofferTailRead"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan =
    copy(child = newChild)

  override protected def doExecute(): RDD[InternalRow] = {
    val task = TailTask.running
    new CountedRows(child.execute(), task.counted)
  }
}

private[tail] object CountedExec {

  /** Whether a leaf reads storage. */
  def reads(leaf: SparkPlan): Boolean = leaf match {
    case _: DataSourceScanExec | _: DataSourceV2ScanExecBase => true
    case _ => false
  }
}

/** In a task it has no rows: what counts is here. */
private final class CountedRows(
    of: RDD[InternalRow],
    @transient private val counted: Iterator[InternalRow] => Iterator[InternalRow])
    extends RDD[InternalRow](of) {
  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    if (counted == null) throw CofferFragmentExec.noRows
    counted(firstParent[InternalRow].iterator(split, context))
  }
}
