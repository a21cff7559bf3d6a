package org.apache.spark.sql.coffer.tail

import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  SortOrder,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.coffer.exec.{ClientBytes, Closing, CofferFragmentExec, DriverPart}
import org.apache.spark.sql.coffer.split.CofferScan
import org.apache.spark.sql.execution.{CollectMetricsExec, LeafExecNode, SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types.ObjectType

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

  override def earlier: Seq[SparkPlan] =
    tail.collectWithSubqueries { case r: ClientRelationExec => r.held.from }.flatten ++
      tail.collectWithSubqueries { case l: TailLoopExec => l.of.earlier }.flatten

  override def repeated: Seq[CofferScan] =
    tail.collectWithSubqueries { case l: TailLoopExec => l.of.scans }.flatten

  def rows: Seq[TailRowsExec] = tail.collectWithSubqueries { case r: TailRowsExec => r }

  /** What of this plan ran last. */
  @transient @volatile private var ran: Option[SparkPlan] = None

  /** Observed metrics are looked for in a plan and its subqueries, and each run has its own. */
  @transient private lazy val observed: Seq[SparkPlan] = tail.collect {
    case c: CollectMetricsExec => new ObservedExec(c, () => ran)
  }
  override def subqueries: Seq[SparkPlan] = super.subqueries ++ observed

  override def operators: Seq[String] = TailPlan.operators(tail)

  /**
   * Each run has operators of its own: they keep what they have read.
   *
   * @param all  whether all rows are asked for
   * @param hold whether whoever asks keeps them
   */
  private def run(all: Boolean, hold: Boolean): Closing[InternalRow] = {
    TailConf.check(conf)
    if (all) TailBounds.check(tail, ClientBytes.of(conf))
    if (reasons.nonEmpty && warned.compareAndSet(false, true)) logWarning(warning)
    val task = new TailTask(sparkContext, conf)
    val plan = tail.clone()
    ran = Some(plan)
    val rows = task.rows(task.building(plan.execute()))
    val copied = CofferTailExec.copies(plan)
    new Closing[InternalRow] {
      private var open = true
      override def close(): Unit = if (open) {
        open = false
        task.end(None)
        TailStreams.accumulate(plan)
      }
      override def hasNext: Boolean = {
        val more = open && failing(rows.hasNext)
        if (!more) close()
        more
      }
      override def next(): InternalRow = {
        val row = copied(failing(rows.next()))
        if (hold) failing(task.held(row)) else row
      }

      /** What failed has ended by itself, and adds nothing to accumulators. */
      private def failing[T](body: => T): T =
        try body
        catch {
          case e: Throwable =>
            open = false
            task.end(Some(e))
            throw e
        }
    }
  }

  @transient private lazy val warned = new java.util.concurrent.atomic.AtomicBoolean()

  def warning: String =
    s"a part of this query runs in the driver (${operators.mkString(", ")}), by Spark's own " +
      s"operators: ${reasons.mkString("; ")}. EXPLAIN shows what comes there; functions that " +
      s"engines have avoid it, and ${TailConf.TAIL}=off refuses it"

  /** Also what is not read to its end is ended: Python workers wait for more. */
  private def counted(rows: Array[InternalRow]): Array[InternalRow] = {
    metrics("numOutputRows").add(rows.length.toLong)
    post(sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
    rows
  }

  private def post(execution: String): Unit =
    SQLMetrics.postDriverMetricUpdates(sparkContext, execution, metrics.values.toSeq)

  override def executeCollect(): Array[InternalRow] = counted(last match {
    case Some(n) => Closing.last(run(all = true, hold = false), n)
    case None => Closing.whole(run(all = true, hold = true))
  })
  override def executeTake(n: Int): Array[InternalRow] =
    if (n <= 0) Array.empty
    else counted(last match {
      case Some(of) => Closing.last(run(all = true, hold = false), of).take(n)
      case None => Closing.first(run(all = false, hold = true), n)
    })
  override def executeTail(n: Int): Array[InternalRow] =
    if (n <= 0) Array.empty
    else counted(Closing.last(run(all = true, hold = false), last.fold(n)(math.min(n, _))))

  /** A [[Closing]] one, if it is not all here. */
  override def executeToIterator(): Iterator[InternalRow] =
    if (last.isDefined) executeCollect().iterator
    else {
      val rows = run(all = true, hold = false)
      val execution = sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)
      new Closing[InternalRow] {
        private var reported = false
        override def hasNext: Boolean = {
          val more = rows.hasNext
          if (!more) report()
          more
        }
        override def next(): InternalRow = {
          metrics("numOutputRows").add(1)
          rows.next()
        }
        override def close(): Unit =
          try rows.close()
          finally report()
        private def report(): Unit = if (!reported) {
          reported = true
          post(execution)
        }
      }
    }
  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) = {
    val rows = executeCollect()
    (rows.length.toLong, rows.iterator)
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

/** Metrics that a query observes, as its last run has counted them. */
private final class ObservedExec(of: CollectMetricsExec, ran: () => Option[SparkPlan])
    extends CollectMetricsExec(of.name, of.metricExpressions, StandInExec(of.child.output)) {
  override def collectedMetrics: Row = ran().flatMap(_.collectFirst {
    case c: CollectMetricsExec if c.name == of.name => c.collectedMetrics
  }).getOrElse(of.collectedMetrics)
}

private[coffer] object CofferTailExec {

  /** Each row as one that stays as it is; objects, which Scala's functions take, as they are. */
  private def copies(plan: SparkPlan): InternalRow => InternalRow =
    if (plan.output.exists(_.dataType.isInstanceOf[ObjectType])) _.copy()
    else {
      val unsafe = UnsafeProjection.create(plan.schema)
      ({
        case row: UnsafeRow => row.copy()
        case row => unsafe(row).copy()
      })
    }
}
