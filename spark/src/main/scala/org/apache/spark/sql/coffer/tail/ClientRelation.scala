package org.apache.spark.sql.coffer.tail

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{
  CacheEntry,
  ClientBytes,
  Closing,
  CofferQuery,
  CofferRootExec,
  KeptRows,
  SealedNode
}
import org.apache.spark.sql.coffer.split.SealedLeaf
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan, SQLExecution}

/**
 * Rows that are in this process, in order, or come here when they are needed. They are compared by
 * identity, and a serialised object has none.
 *
 * @param fill     gives them, and their bytes
 * @param from     the plan whose rows they are
 * @param estimate of their bytes, as long as they are not here
 */
private[coffer] final class ClientHeld(
    @transient fill: () => (IndexedSeq[InternalRow], Long),
    @transient val from: Option[SparkPlan],
    estimate: Long)
    extends KeptRows {
  @transient @volatile private var there: Option[(IndexedSeq[InternalRow], Long)] = None

  def rows: IndexedSeq[InternalRow] = synchronized {
    there.getOrElse {
      val filled = fill()
      there = Some(filled)
      filled
    }._1
  }
  def bytes: Long = there.fold(estimate)(_._2)

  /** How many, if they are here. */
  def count: Option[Long] = there.map(_._1.size.toLong)

  /** Called by Spark's listeners, which must not wait for whoever fills it. */
  override def drop(): Unit = there = None
}

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
      val filled = (all.result(), bytes)
      val held = new ClientHeld(() => filled, from, bytes)
      held.rows
      held
    } finally Closing.end(rows)

  /** The rows of a tail, when they are first needed: as a query of its own, whoever asks. */
  def later(root: CofferRootExec, estimate: BigInt): ClientHeld = {
    val sc = root.session.sparkContext
    def fill(): (IndexedSeq[InternalRow], Long) = {
      val task = TaskContext.get()
      TaskContext.unset()
      try
        CofferQuery.apart(sc) {
          val held = of(root.executeToDriver(), root.output, ClientBytes.of(root.conf), None)
          (held.rows, held.bytes)
        }
      finally if (task != null) TaskContext.setTaskContext(task)
    }
    new ClientHeld(() => fill(), Some(root), estimate.min(Long.MaxValue).toLong)
  }
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
    rowCount = held.count.map(BigInt(_)))
  override def maxRows: Option[Long] = held.count
  override protected def stringArgs: Iterator[Any] = Iterator(output.mkString("[", ", ", "]"),
    held.count.fold("rows that come to the driver")(n => s"$n rows in the driver"))
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

/** What Spark's cache has of a query with a client tail: its rows stay in the driver. */
private[coffer] case class CofferTailCacheExec(output: Seq[Attribute], held: ClientHeld)
    extends CacheEntry {
  override def nodeName: String = "CofferClientTailCache"
  override def kept: KeptRows = held
  override def filling: SparkPlan = held.from.get
  override def relation(output: Seq[Attribute], estimate: BigInt): LogicalPlan =
    ClientRelation(output, held)
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
