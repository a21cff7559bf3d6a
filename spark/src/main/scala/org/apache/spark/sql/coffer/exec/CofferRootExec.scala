package org.apache.spark.sql.coffer.exec

import scala.util.control.NonFatal

import com.google.protobuf.ByteString

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.proto.wire.OpenError
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * The root of a sealed query, around AQE's plan too. It is where a query begins: below it, whatever
 * thread runs, the query's session is found. It hands rows to the driver only; every way that would
 * make an RDD of rows is refused before a task starts, but where tasks run in this process
 * ([[JobRows]]).
 */
case class CofferRootExec(child: SparkPlan, @transient query: CofferQuery) extends UnaryExecNode
    with SealedNode {
  override def nodeName: String = "CofferRoot"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def stringArgs: Iterator[Any] = Iterator.empty
  override protected def doCanonicalize(): SparkPlan = child.canonicalized
  override protected def withNewChildInternal(newChild: SparkPlan): CofferRootExec =
    copy(child = newChild)

  override def executeCollect(): Array[InternalRow] = run(_.executeCollect(), whole = true)

  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) = {
    val rows = executeCollect()
    (rows.length.toLong, rows.iterator)
  }

  override def executeTake(n: Int): Array[InternalRow] = run(_.executeTake(n), whole = true)

  override def executeTail(n: Int): Array[InternalRow] = run(_.executeTail(n), whole = true)

  override def executeToIterator(): Iterator[InternalRow] = opening {
    case local @ (_: LocalTableScanExec | _: EmptyRelationExec) => local.executeCollect().iterator
    case plan => plan.executeToIterator()
  }

  /** All rows, by tasks that run now; opened as they are asked for. */
  private[coffer] def executeToDriver(): Iterator[InternalRow] = opening {
    case local @ (_: LocalTableScanExec | _: EmptyRelationExec) => local.executeCollect().iterator
    case result: CofferResultExec => result.executeToDriver()
    case plan => plan.executeToIterator()
  }

  /** The same in batches. */
  private[coffer] def batchesToDriver(): Closing[ColumnarBatch] = opening {
    case result: CofferResultExec => result.batchesToDriver()
    case result: CofferClientExec => result.batchesToDriver()
    case local @ (_: LocalTableScanExec | _: EmptyRelationExec) =>
      ArrowRows.batched(local.executeCollect().iterator, output, conf)
    case plan => ArrowRows.batched(plan.executeToIterator(), output, conf)
  }

  /**
   * The result as the bytes of one Arrow IPC stream, for those who want columns: `coffer.to_arrow`
   * in Python.
   */
  def collectArrow(): Closing[Array[Byte]] = opening(
    {
      case result: CofferResultExec => result.collectArrow()
      case result: CofferClientExec => result.collectArrow()
      case part: DriverPart => ArrowRows.stream(part.executeToIterator(), output, conf)
      case plan => ArrowRows.stream(plan.executeCollect().iterator, output, conf)
    },
    whole = true)

  /** What a write does with its query's last stage, where a query's errors are opened. */
  private[coffer] def through[T](how: SparkPlan => T): T = run(how)

  override protected def doExecute(): RDD[InternalRow] = JobRows.of(this)

  /**
   * Rows that are all here when this returns; so is the receipt.
   *
   * @param whole whether all stages may run in one request, which brings all rows at once
   */
  private def run[T](how: SparkPlan => T, whole: Boolean = false): T = {
    val outermost = CofferQuery.current(sparkContext).isEmpty
    val result = planned(how, whole)
    if (outermost) query.receipt()
    result
  }

  private def planned[T](how: SparkPlan => T, whole: Boolean): T =
    opened(CofferQuery.current(sparkContext)) {
      CofferQuery.within(sparkContext, query) {
        CofferQuery.current(sparkContext).foreach { q =>
          q.asks(AskedText.of(sparkContext))
          q.reads(child)
        }
        val result = child match {
          case aqe: AdaptiveSparkPlanExec =>
            ran = None
            CofferQuery.current(sparkContext).filter(_ => whole).flatMap(WholeQuery.of(aqe,
                _)) match {
              case Some(plan) => atOnce(plan, aqe, how)
              case None => aqe.withFinalPlanUpdate(how)
            }
          case plan => executeQuery(how(plan))
        }
        CofferQuery.current(sparkContext).foreach(_.settle())
        result
      }
    }

  private def atOnce[T](
      plan: CofferResultExec,
      aqe: AdaptiveSparkPlanExec,
      how: SparkPlan => T): T =
    try {
      ran = Some(plan)
      WholeQuery.show(this, plan)
      how(plan)
    } catch {
      case NonFatal(e) if WholeQuery.isTooLarge(e) =>
        logInfo("the query needs more memory at once than the engine has; it runs stage by stage")
        ran = None
        aqe.withFinalPlanUpdate(how)
    }

  /** What ran last in the place of AQE's plan. */
  @transient @volatile private var ran = Option.empty[CofferResultExec]
  private[coffer] def ranWhole: Option[CofferResultExec] = ran

  /** Iterators fail as late as they run: in whatever query somebody asks for their rows. */
  private def opening[T](how: SparkPlan => Iterator[T], whole: Boolean = false): Closing[T] = {
    val outermost = CofferQuery.current(sparkContext).isEmpty
    var of = Option.empty[CofferQuery]
    val rows = planned(
      { plan =>
        of = CofferQuery.current(sparkContext)
        how(plan)
      },
      whole)
    new Closing[T] {
      private var receipt = outermost
      override def close(): Unit = {
        Closing.end(rows)
        receipted()
      }
      override def hasNext: Boolean = {
        val more = failing(rows.hasNext)
        if (!more) receipted()
        more
      }

      /** What fails brings no receipt. */
      private def failing[R](body: => R): R =
        try opened(of)(body)
        catch {
          case e: Throwable =>
            receipt = false
            throw e
        }
      private def receipted(): Unit = if (receipt) {
        receipt = false
        query.receipt()
      }
      override def next(): T = failing(rows.next())
    }
  }

  /**
   * What failed inside an engine says only *failed* to the host; at the client its reason is
   * opened. `of`: the query whose session sealed it.
   */
  private def opened[T](of: => Option[CofferQuery])(body: => T): T =
    try body
    catch {
      // Its message has the user's values, in which no failure of Spark's is looked for.
      case e: Throwable if QueryErrors.isOpened(e) => throw e
      case NonFatal(e) =>
        CofferTaskException.find(e) match {
          case Some(failure) => throw explained(failure, e, of.getOrElse(query))
          case None => throw CofferRootExec.ours(e).orElse(CofferRootExec.coded(e)).getOrElse(e)
        }
    }

  private def explained(
      failure: CofferTaskException.Sealed,
      cause: Throwable,
      of: CofferQuery): Throwable =
    if (failure.error.isEmpty) new CofferException(
      "COFFER_TASK",
      s"a task failed in its engine (${failure.code}, stage ${failure.stage}, partition " +
        s"${failure.partition})",
      "the executor's log has the engine's messages",
      cause)
    else {
      val detail = query.client.openError(
        OpenError.newBuilder
          .setSession(of.session)
          .setStage(failure.stage)
          .setPartition(failure.partition)
          .setSealedError(ByteString.copyFrom(failure.error))
          .build())
      QueryErrors.of(detail.getCode, detail.getMessage, child, cause)
    }
}

object CofferRootExec {

  private def causes(e: Throwable): Iterator[Throwable] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(50)

  /** A refusal of ours that Spark wrapped in its own exceptions on the way. */
  private def ours(e: Throwable): Option[CofferException] =
    causes(e).collectFirst { case c: CofferException => c }

  /**
   * What Spark itself says only in the text of a job's failure: a full disk, an object that was
   * held back, lost shuffle data.
   */
  private[exec] def coded(e: Throwable): Option[CofferException] = {
    val texts = causes(e).flatMap(c => Option(c.getMessage)).toSeq
    reason.collectFirst {
      case (words, code, message, hint) if texts.exists(_.contains(words)) =>
        new CofferException(code, message, hint, e)
    }
  }

  private val reason = Seq(
    (
      "No space left on device",
      "COFFER_DISK_FULL",
      "an executor has no room for shuffle data (no space left on device)",
      "free or add disk space under the executors' spark.local.dir, then run the query again"),
    (
      "filter status: REJECTED",
      "COFFER_DESERIALIZATION_FILTER",
      "an executor sent an object of a class that is not on the deserialisation allow-list; it " +
        "was not read",
      "the driver's log names the class; if it is yours, spark.coffer.driver.allowClasses adds it"),
    (
      "Exception while getting task result",
      "COFFER_TASK_RESULT",
      "what an executor sent as a task's result could not be read",
      "run the query again; if it persists, an executor tampers with task results"),
    (
      "has failed the maximum allowable number of times",
      "COFFER_SHUFFLE_LOST",
      "shuffle data could not be fetched, however often Spark repeated the stage that wrote it",
      "see the executors' logs; if no disk and no executor failed, one of them removes or " +
        "damages shuffle files"))
}
