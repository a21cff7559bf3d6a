package org.apache.spark.sql.coffer.tail

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.coffer.exec.{ArrowRows, CofferFragmentExec, CofferRootExec, SealedNode}
import org.apache.spark.sql.coffer.split.{Estimates, SealedLeaf}
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan}
import org.apache.spark.sql.vectorized.ColumnarBatch

/** A part of a query that runs sealed, and whose rows come to the driver, for what is above. */
private[coffer] case class TailRows(inEngines: LogicalPlan) extends LeafNode {
  override def output: Seq[Attribute] = inEngines.output
  override def innerChildren: Seq[QueryPlan[_]] = Seq(inEngines)
  setTagValue(Estimates.SOURCE, inEngines)
  override def computeStats(): Statistics = inEngines.stats
  override def references: AttributeSet = AttributeSet.empty
  override protected def doCanonicalize(): LogicalPlan = this
}

/**
 * `root` is a sealed query of its own, planned and adapted by Spark as any other. Spark's operators
 * serialise themselves to see whether they could; this stays here.
 */
private[coffer] case class TailRowsExec(@transient root: SparkPlan) extends LeafExecNode {
  override def nodeName: String = "CofferTailRows"
  override def output: Seq[Attribute] = root.output
  override def outputPartitioning: Partitioning = SinglePartition
  override def innerChildren: Seq[QueryPlan[_]] = Seq(root)
  override protected def stringArgs: Iterator[Any] = Iterator(output.mkString("[", ", ", "]"))
  override protected def doCanonicalize(): SparkPlan = this

  /** What comes from engines. */
  def part: Option[LogicalPlan] = logicalLink.collect { case t: TailRows => t.inEngines }

  /** How much, as far as the tables say. */
  def expected: Option[String] = part.map(Estimates.text(_))

  /** In batches, where that is how rows come here: no row is then an object of its own. */
  override lazy val supportsColumnar: Boolean =
    root.isInstanceOf[CofferRootExec] && ArrowRows.hold(output)

  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = {
    val task = TailTask.running
    val batches = root.asInstanceOf[CofferRootExec].batchesToDriver()
    task.closes(batches)
    new DriverRows(sparkContext, () => task.countedBatches(task.outside(batches)))
  }

  /** Its tasks begin now; their rows are opened as they are asked for, until the tail ends. */
  override protected def doExecute(): RDD[InternalRow] = {
    val task = TailTask.running
    val rows = root match {
      case r: CofferRootExec => r.executeToDriver()
      case other => other.executeToIterator()
    }
    task.closes(rows)
    new DriverRows(sparkContext, () => task.counted(task.outside(rows)))
  }
}

/** A leaf with a plan's columns, by which one operator above it is judged. */
private[coffer] case class StandIn(output: Seq[Attribute], stats0: Statistics) extends LeafNode
    with SealedLeaf {
  override def computeStats(): Statistics = stats0
}

private[coffer] case class StandInExec(output: Seq[Attribute]) extends LeafExecNode
    with SealedNode {
  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}
