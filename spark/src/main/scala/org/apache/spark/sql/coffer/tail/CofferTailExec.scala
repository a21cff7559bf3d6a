package org.apache.spark.sql.coffer.tail

import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  SortOrder,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.coffer.exec.{Closing, CofferFragmentExec, DriverPart}
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/**
 * The client tail: what no engine does of a query, by Spark's own operators in this process, over
 * the rows that each [[TailRowsExec]] of `tail` brings here. It has rows only for the driver.
 *
 * @param reasons why each of them is here
 * @param last    only the last so many rows count (`Dataset.tail`)
 */
private[coffer] case class CofferTailExec(tail: SparkPlan, reasons: Seq[String], last: Option[Int])
    extends LeafExecNode
    with DriverPart
    with Logging {

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "rows of the result"))

  override def nodeName: String = "CofferClientTail"
  override def output: Seq[Attribute] = tail.output
  override def outputPartitioning: Partitioning = SinglePartition
  override def outputOrdering: Seq[SortOrder] = tail.outputOrdering
  override def innerChildren: Seq[QueryPlan[_]] = Seq(tail)
  override protected def stringArgs: Iterator[Any] = Iterator(operators.mkString(" ← "))
  override protected def doCanonicalize(): SparkPlan = this

  override def brought: Seq[SparkPlan] = rows.map(_.root)

  def rows: Seq[TailRowsExec] = tail.collectWithSubqueries { case r: TailRowsExec => r }

  /** Spark's operators of the tail, from the top down. */
  def operators: Seq[String] = TailPlan.operators(tail)

  /** Each run has operators of its own: they keep what they have read. */
  private def run(): Closing[InternalRow] = {
    TailConf.check(conf)
    if (reasons.nonEmpty && warned.compareAndSet(false, true)) logWarning(warning)
    val task = new TailTask(sparkContext, conf)
    val plan = tail.clone()
    val rows = task.rows(task.building(plan.execute()))
    val unsafe = UnsafeProjection.create(plan.schema)
    new Closing[InternalRow] {
      override def close(): Unit = task.end(None)
      override def hasNext: Boolean = {
        val more = rows.hasNext
        if (!more) {
          task.end(None)
          TailStreams.accumulate(plan)
        }
        more
      }
      override def next(): InternalRow = rows.next() match {
        case row: UnsafeRow => row.copy()
        case row => unsafe(row).copy()
      }
    }
  }

  @transient private lazy val warned = new java.util.concurrent.atomic.AtomicBoolean()

  def warning: String =
    s"a part of this query runs in the driver (${operators.mkString(", ")}), by Spark's own " +
      s"operators: ${reasons.mkString("; ")}. EXPLAIN shows what comes there; functions that " +
      s"engines have avoid it, and ${TailConf.TAIL}=off refuses it"

  /** What is not read to its end is ended too: Python workers wait for more. */
  private def ended(rows: Iterator[InternalRow] => Iterator[InternalRow]): Array[InternalRow] = {
    val all = run()
    try rows(last.fold[Iterator[InternalRow]](all)(n => all.toArray.takeRight(n).iterator)).toArray
    finally all.close()
  }

  private def counted(rows: Array[InternalRow]): Array[InternalRow] = {
    metrics("numOutputRows").add(rows.length.toLong)
    rows
  }

  override def executeCollect(): Array[InternalRow] = counted(ended(identity))
  override def executeTake(n: Int): Array[InternalRow] =
    if (n <= 0) Array.empty else counted(ended(_.take(n)))
  override def executeTail(n: Int): Array[InternalRow] =
    if (n <= 0) Array.empty else counted(ended(_.toArray.takeRight(n).iterator))

  /** A [[Closing]] one, if it is not all here. */
  override def executeToIterator(): Iterator[InternalRow] =
    if (last.isDefined) ended(identity).iterator else run()
  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) = {
    val rows = executeCollect()
    (rows.length.toLong, rows.iterator)
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}
