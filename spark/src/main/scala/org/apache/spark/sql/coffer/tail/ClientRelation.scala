package org.apache.spark.sql.coffer.tail

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{ClientBytes, Closing, CofferRootExec, SealedNode}
import org.apache.spark.sql.coffer.split.SealedLeaf
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan, SQLExecution}

/**
 * Rows that are in this process, in order. They are compared by identity, and a serialised object
 * has none.
 *
 * @param from the plan whose rows they are
 */
private[coffer] final class ClientHeld(
    @transient val rows: IndexedSeq[InternalRow],
    val bytes: Long,
    @transient val from: Option[SparkPlan])

private[coffer] object ClientHeld {

  /** Copies of all rows, if they are not more than `most` bytes. */
  def of(
      rows: Iterator[InternalRow],
      output: Seq[Attribute],
      most: Long,
      from: Option[SparkPlan]): ClientHeld =
    try {
      val unsafe = UnsafeProjection.create(output.map(_.dataType).toArray)
      val all = Vector.newBuilder[InternalRow]
      var bytes = 0L
      rows.foreach { row =>
        val copy = (row match {
          case u: UnsafeRow => u
          case other => unsafe(other)
        }).copy()
        bytes += copy.getSizeInBytes
        if (bytes > most) throw TailTask.tooMuch(most)
        all += copy
      }
      new ClientHeld(all.result(), bytes, from)
    } finally Closing.end(rows)
}

/**
 * A leaf whose rows the driver has. Whatever stands above it, up to other leaves, runs in the
 * driver: it is sealed in that no executor gets a row.
 */
private[coffer] case class ClientRelation(output: Seq[Attribute], held: ClientHeld)
    extends LeafNode
    with MultiInstanceRelation
    with SealedLeaf {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics = Statistics(
    sizeInBytes = math.max(held.bytes, 1L),
    rowCount = Some(BigInt(held.rows.size)))
  override def maxRows: Option[Long] = Some(held.rows.size.toLong)
  override protected def stringArgs: Iterator[Any] =
    Iterator(output.mkString("[", ", ", "]"), s"${held.rows.size} rows in the driver")
}

private[coffer] case class ClientRelationExec(output: Seq[Attribute], @transient held: ClientHeld)
    extends LeafExecNode
    with SealedNode {
  override def nodeName: String = "CofferLocalRows"
  override def outputPartitioning: Partitioning = SinglePartition
  override protected def stringArgs: Iterator[Any] = Iterator(output.mkString("[", ", ", "]"))
  override protected def doCanonicalize(): SparkPlan = this

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = held.rows
    new DriverRows(sparkContext, () => rows.iterator)
  }
}

/** `coffer.local`: a query's rows, brought here once, as a DataFrame. */
private[coffer] object ClientFrames {

  def local(df: Dataset[_]): Dataset[_] = {
    val session = df.sparkSession
    val conf = session.sessionState.conf
    if (!TailConf.on(conf)) throw new CofferException(
      "COFFER_CONF",
      s"${TailConf.TAIL} is off, and every operator over local rows would run there",
      s"set ${TailConf.TAIL} to on")
    val query = df.queryExecution
    val output = query.analyzed.output
    val held = SQLExecution.withNewExecutionId(query, Some("coffer.local")) {
      val plan = query.executedPlan
      plan.resetMetrics()
      val rows = plan match {
        case root: CofferRootExec => root.executeToDriver()
        case local => local.executeCollect().iterator
      }
      ClientHeld.of(rows, output, ClientBytes.of(conf), Some(plan))
    }
    Dataset.ofRows(session, ClientRelation(output.map(_.newInstance()), held))
  }
}
