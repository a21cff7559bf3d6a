package org.apache.spark.sql.coffer.exec

import com.google.protobuf.ByteString

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.coffer.common.{CofferException, OpenedResult}
import org.apache.spark.sql.coffer.proto.plan.{Fragment, Limit, Node}
import org.apache.spark.sql.coffer.proto.wire.{OpenResult, ResultKept, TaskResult}
import org.apache.spark.sql.coffer.translate.ResultPlan
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * The stage whose rows go to the client. Its tasks' sealed streams come to the driver, the client
 * engine opens them and finishes what is left to do (merging sorted streams, a last limit). It has
 * rows only for the driver: there is no RDD of them.
 *
 * @param whole its stages, down to the tables, run in the engine in one request ([[WholeQuery]])
 */
case class CofferResultExec(child: SparkPlan, whole: Boolean = false) extends UnaryExecNode
    with CountedStage
    with SealedNode {

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "rows opened at the driver"),
    "sealedBytes" -> SQLMetrics.createSizeMetric(sparkContext, "sealed bytes of the result"),
    "runTime" -> SQLMetrics.createTimingMetric(sparkContext,
      "time of the result's " +
        "tasks")) ++ stageCounters

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def nodeName: String = "CofferResult"
  override protected def stringArgs: Iterator[Any] =
    if (whole) Iterator("in one request") else Iterator.empty
  override protected def doCanonicalize(): SparkPlan = child.canonicalized
  override protected def withNewChildInternal(newChild: SparkPlan): CofferResultExec =
    copy(child = newChild)

  private def fragment: CofferFragmentExec = child match {
    case f: CofferFragmentExec => f
    case other => throw CofferException.refusal(Seq(s"${other.nodeName} is no sealed fragment"))
  }

  /** The stage, sealed for one run. Each run is an execution of its own. */
  private final class Run(limit: Option[Int]) {
    val query: CofferQuery = CofferQuery.required(sparkContext)
    if (whole) WholeQuery.ready(fragment) else fragment.ready()
    private val template = RootSort.restore(fragment.template)
    val plan: ResultPlan = sealing {
      ResultPlan.of(template, fragment.context(query)).fold(
        u => throw CofferException.refusal(Seq(u.message)), identity)
    }
    private val stage = query.nextStage()
    private val execution = query.nextExecution()
    private val limited =
      limit.filter(_ => plan.finish.isEmpty).map(withLimit(plan.task.fragment, _))
    private val tasks: Tasks = sealing {
      val asked = limited.getOrElse(plan.task.fragment)
      if (whole) new AtOnce(WholeQuery.seal(query, stage, execution, plan.task, asked,
          fragment)(told))
      else new Staged(StageSealer.seal(query, stage, execution, plan.task, asked, fragment, Nil))
    }

    /** The result's tasks: what they bring, when it is asked for. */
    private trait Tasks {
      def partitions: Int
      def bring(which: Seq[Int]): Seq[TaskOutcome]
    }

    private final class Staged(rdd: SealedRDD) extends Tasks {
      override val partitions: Int = rdd.getNumPartitions
      override def bring(which: Seq[Int]): Seq[TaskOutcome] = {
        val outcomes = ResultJob.run(sparkContext, rdd, which)
        told(outcomes.map(_.report))
        outcomes
      }
    }

    private final class AtOnce(run: WholeRun) extends Tasks {
      override val partitions: Int = plan.task.partitions
      override def bring(which: Seq[Int]): Seq[TaskOutcome] = which.map(run.outcomes(_))
    }

    private def told(reports: Seq[TaskReport]): Unit =
      report(query, stage, reports, plan.task, fragment, template)

    val partitions: Int = tasks.partitions

    /** Runs some of the partitions and opens what they bring. */
    def open(which: Seq[Int], finish: Option[Fragment]): OpenedResult =
      query.client.openResult(brought(which, finish).build())

    /**
     * Runs all of it; the rows stay with the client engine, if they are not more than `most` bytes.
     */
    def keep(most: Long): ResultKept =
      query.client.keepResult(brought(0 until partitions, plan.finish).setKeepBytes(most).build())

    private def brought(which: Seq[Int], finish: Option[Fragment]): OpenResult.Builder = {
      val before = System.nanoTime()
      val outcomes = tasks.bring(which)
      metrics("runTime").add((System.nanoTime() - before) / 1000000)
      metrics("sealedBytes").add(outcomes.map(_.stream.length.toLong).sum)
      val request = OpenResult.newBuilder
        .setSession(query.session)
        .setExecution(execution)
        .setStage(stage)
        .setPartitions(partitions)
        .setPartial(which.size < partitions)
      outcomes.foreach { o =>
        request.addResults(
          TaskResult.newBuilder
            .setPartition(o.partition)
            .setStream(ByteString.copyFrom(o.stream))
            .setCommit(ByteString.copyFrom(o.commit)))
      }
      finish.foreach(f =>
        request.setFinish(f.toByteString).setValues(fragment.subqueryExpressions.nonEmpty))
      request
    }

    def openAll(): OpenedResult = open(0 until partitions, plan.finish)

    /**
     * All rows in order. What a finish needs whole is opened whole. Else it is a few partitions at
     * a time: not more sealed bytes are here than about [[CofferResultExec.AT_A_TIME]], and no more
     * of the result's tasks run than what reads it takes.
     */
    def opening[T](form: OpenedResult => Closing[T]): Closing[T] =
      if (plan.finish.isDefined) form(openAll())
      else {
        var left: Seq[Int] = 0 until partitions
        var batch = math.max(2 * sparkContext.defaultParallelism, 1)
        val parts = Iterator.continually {
          val (now, later) = left.splitAt(batch)
          left = later
          val before = metrics("sealedBytes").value
          // Jobs of an iterator may start after the action that made it has ended.
          val opened = CofferQuery.within(sparkContext, query)(form(open(now, None)))
          val each = (metrics("sealedBytes").value - before) / now.size + 1
          batch = math.max(1, math.min(CofferResultExec.AT_A_TIME / each, 2L * batch).toInt)
          opened
        }
        Closing.chain(Iterator.continually(()).takeWhile(_ => left.nonEmpty).map(_ => parts.next()))
      }
  }

  private def withLimit(fragment: Fragment, rows: Int): Fragment = {
    val root = fragment.getRoot
    val limit = Limit.newBuilder.setChild(root).setFetch(rows.toLong)
    fragment.toBuilder.setRoot(Node.newBuilder.setId(root.getId + 1).setLimit(limit)).build()
  }

  private def rows(opened: OpenedResult): Closing[InternalRow] =
    ArrowRows.of(opened, output, () => opened.close())

  private def counted[T <: Array[InternalRow]](rows: T): T = {
    metrics("numOutputRows").add(rows.length.toLong)
    post()
    rows
  }

  /** The rows stay with the client engine, for the part of the query that runs there. */
  def keep(most: Long): ResultKept = {
    val run = new Run(None)
    if (run.plan.tail.isDefined) throw CofferException.refusal(Seq("the last rows of a part of " +
        "the query are counted at the client"))
    val kept = run.keep(most)
    metrics("numOutputRows").add(kept.getRows)
    post()
    kept
  }

  override def executeCollect(): Array[InternalRow] = {
    val run = new Run(None)
    run.plan.tail match {
      case Some(n) => counted(tail(run, n))
      case None => counted(Closing.whole(run.opening(rows)))
    }
  }

  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) = {
    val all = executeCollect()
    (all.length.toLong, all.iterator)
  }

  /**
   * Partition after partition, a few at first, until there are enough rows; what a finish needs
   * whole is taken whole.
   */
  override def executeTake(n: Int): Array[InternalRow] =
    if (n <= 0) Array.empty
    else {
      val run = new Run(Some(n))
      if (run.plan.finish.isDefined || run.plan.tail.isDefined) {
        val all =
          run.plan.tail.fold(Closing.first(rows(run.openAll()), n))(t => tail(run, t).take(n))
        counted(all)
      } else counted(growing(run, n, 0 until run.partitions)((have, more) =>
          (have ++
            more).take(n)).toArray)
    }

  override def executeTail(n: Int): Array[InternalRow] =
    if (n <= 0) Array.empty
    else {
      val run = new Run(None)
      counted(tail(run, run.plan.tail.fold(n)(math.min(_, n))))
    }

  private def tail(run: Run, n: Int): Array[InternalRow] =
    if (run.plan.finish.isDefined) Closing.last(rows(run.openAll()), n)
    else growing(run, n, (0 until run.partitions).reverse)((have, more) =>
      (more ++
        have).takeRight(n)).toArray

  private def growing(run: Run, n: Int, order: Seq[Int])(
      join: (Vector[InternalRow], Vector[InternalRow]) => Vector[InternalRow])
      : Vector[InternalRow] = {
    var have = Vector.empty[InternalRow]
    var left = order
    var batch = math.max(1, conf.limitInitialNumPartitions)
    while (have.size < n && left.nonEmpty) {
      val (now, later) = left.splitAt(batch)
      have = join(have, Closing.whole(rows(run.open(now.sorted, None))).toVector)
      left = later
      batch *= math.max(conf.limitScaleUpFactor, 2)
    }
    have
  }

  /** In order, some partitions at a time; rows are opened as they are asked for. */
  def executeToDriver(): Iterator[InternalRow] = {
    val run = new Run(None)
    run.plan.tail match {
      case Some(n) => tail(run, n).iterator
      case None => run.opening(rows)
    }
  }

  /** The same in batches. */
  def batchesToDriver(): Closing[ColumnarBatch] = {
    val run = new Run(None)
    run.plan.tail match {
      case Some(n) => ArrowRows.batched(tail(run, n).iterator, output, conf)
      case None => run.opening(o => ArrowRows.batches(o, output, () => o.close()))
    }
  }

  /** One partition at a time, each when it is asked for. */
  override def executeToIterator(): Iterator[InternalRow] = {
    val run = new Run(None)
    if (run.plan.tail.isDefined) tail(run, run.plan.tail.get).iterator
    else if (run.plan.finish.isDefined) rows(run.openAll())
    else {
      val query = run.query
      Closing.chain((0 until run.partitions).iterator.map { p =>
        // Jobs of a local iterator start after the action that made it has ended.
        CofferQuery.within(sparkContext, query)(rows(run.open(Seq(p), None)))
      })
    }
  }

  /** The result as the bytes of one Arrow IPC stream. */
  def collectArrow(): Iterator[Array[Byte]] = {
    val run = new Run(None)
    if (run.plan.tail.isDefined)
      ArrowRows.stream(tail(run, run.plan.tail.get).iterator, output, conf)
    else {
      val opened = run.openAll()
      post()
      opened
    }
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

object CofferResultExec {

  /** Sealed bytes of a result that are in the driver's heap together, where there is a choice. */
  private val AT_A_TIME: Long = 64L << 20
}
