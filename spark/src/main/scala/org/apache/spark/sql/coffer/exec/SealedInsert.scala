package org.apache.spark.sql.coffer.exec

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand, UnaryNode}
import org.apache.spark.sql.coffer.proto.wire.BeginWrite
import org.apache.spark.sql.coffer.translate.SealedSink
import org.apache.spark.sql.execution.SparkPlan

/**
 * What is written to.
 *
 * @param begin      what the client engine is asked for
 * @param partitions positions of the partition columns
 */
final case class WriteTarget(begin: BeginWrite, partitions: Seq[Int]) {
  // It goes into plan strings: nothing of what it asks for is shown.
  override def toString: String = s"${begin.getMode.name.toLowerCase}, ${partitions.size} " +
    s"partition columns"
}

/**
 * Writing the rows of a query to a sealed table. The child's columns are the table's, position by
 * position, types and all.
 */
final case class SealedInsert(target: WriteTarget, child: LogicalPlan) extends UnaryCommand {
  override protected def withNewChildInternal(newChild: LogicalPlan): SealedInsert =
    copy(child = newChild)
}

/**
 * The write as a node inside its query, at the root: so that AQE plans the query as it plans any
 * other. It has no rows.
 */
final case class SealedWrite(partitions: Seq[Int], child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = Nil
  override lazy val references: AttributeSet = child.outputSet
  override protected def withNewChildInternal(newChild: LogicalPlan): SealedWrite =
    copy(child = newChild)
}

/**
 * The same in a physical plan: the last operator of its fragment, which the translator turns into
 * the fragment's sink.
 */
final case class SealedWriteExec(partitions: Seq[Int], child: SparkPlan) extends SealedSink
    with SealedNode {
  override def nodeName: String = "SealedWrite"
  override def output: Seq[Attribute] = Nil
  override lazy val references: AttributeSet = child.outputSet
  override protected def withNewChildInternal(newChild: SparkPlan): SealedWriteExec =
    copy(child = newChild)
  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}
