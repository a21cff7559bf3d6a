package org.apache.spark.sql.coffer.exec

import java.util.concurrent.{ExecutorService, Future => JFuture, TimeoutException, TimeUnit}

import scala.concurrent.{Future, Promise}
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.ByteString

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.Statistics
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.proto.wire.{AcceptCommits, CommitsAccepted}
import org.apache.spark.sql.coffer.translate.{Fragments, TranslatedFragment}
import org.apache.spark.sql.coffer.versions.maxBroadcastBytes
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeExec, BroadcastExchangeLike}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.util.{SparkFatalException, ThreadUtils}

/**
 * A broadcast whose tasks have run: the sealed streams on their way to executors, and the client
 * engine's word on them.
 */
final class SealedBroadcast(
    val stage: Int,
    val maps: Int,
    val streams: Broadcast[Array[Array[Byte]]],
    val accepted: CommitsAccepted)

/**
 * A broadcast of sealed streams. Its tasks' streams come to the driver as a result's do, stay
 * sealed, and go out as they are by Spark's own broadcast; what engines build of them is built
 * there. Driver and consumers hold the same bytes, so there is no second epoch.
 */
case class CofferBroadcastExchangeExec(original: BroadcastExchangeExec, child: SparkPlan)
    extends BroadcastExchangeLike
    with CountedStage
    with SealedNode {

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "rows"),
    "dataSize" -> SQLMetrics.createSizeMetric(sparkContext, "unpacked size, where it was sealed"),
    "sealedBytes" -> SQLMetrics.createSizeMetric(sparkContext, "sealed bytes of the broadcast"),
    "collectTime" -> SQLMetrics.createTimingMetric(sparkContext, "time to collect"),
    "broadcastTime" -> SQLMetrics.createTimingMetric(sparkContext, "time to broadcast")) ++
    stageCounters

  override def nodeName: String = "CofferBroadcastExchange"
  override def stringArgs: Iterator[Any] = Iterator(original.mode)
  override def outputPartitioning: Partitioning = original.outputPartitioning
  override protected def doCanonicalize(): SparkPlan = original.canonicalized

  // What a broadcast has measured must outlast the plan's other metrics: it runs once.
  override def resetMetrics(): Unit = ()

  private[exec] def fragment: CofferFragmentExec = child match {
    case f: CofferFragmentExec => f
    case other => throw CofferException.refusal(Seq(s"${other.nodeName} is no sealed fragment"))
  }

  @transient private lazy val promise = Promise[Broadcast[Any]]()
  @transient override lazy val completionFuture: Future[Broadcast[Any]] = promise.future
  @transient @volatile private var written: Option[SealedBroadcast] = None
  @transient private val timeout: Long = conf.broadcastTimeout

  @transient override lazy val relationFuture: JFuture[Broadcast[Any]] =
    SQLExecution.withThreadLocalCaptured[Broadcast[Any]](session,
      CofferBroadcastExchangeExec.threads) {
      try {
        // As Spark's own: by this tag the job is cancelled.
        sparkContext.addJobTag(jobTag)
        sparkContext.setInterruptOnCancel(true)
        val made = run()
        written = Some(made)
        val streams = made.streams.asInstanceOf[Broadcast[Any]]
        promise.trySuccess(streams)
        streams
      } catch {
        case e if !NonFatal(e) =>
          val carried = new SparkFatalException(e)
          promise.tryFailure(carried)
          throw carried
        case e: Throwable =>
          promise.tryFailure(e)
          throw e
      }
    }

  private def run(): SealedBroadcast = {
    val query = CofferQuery.required(sparkContext)
    val started = System.nanoTime()
    fragment.ready()
    val translated = sealing(planned(query))
    val stage = query.nextStage()
    val rdd =
      sealing(StageSealer.seal(query, stage, 0L, translated, translated.fragment, fragment, Nil))
    val outcomes = ResultJob.run(sparkContext, rdd, 0 until rdd.getNumPartitions)
    val accepted = query.client.acceptCommits(
      AcceptCommits.newBuilder
        .setSession(query.session)
        .setStage(stage)
        .setMaps(outcomes.size)
        .addAllCommits(outcomes.map(o => ByteString.copyFrom(o.commit)).asJava)
        .build())
    val sealedBytes = outcomes.map(_.stream.length.toLong).sum
    val unpacked = accepted.getBytesByReduceList.asScala.map(_.longValue).sum
    check(accepted.getRows, math.max(sealedBytes, unpacked))
    val collected = System.nanoTime()
    val streams =
      sparkContext.broadcastInternal(outcomes.map(_.stream).toArray, serializedOnly = true)
    metrics("numOutputRows").set(accepted.getRows)
    metrics("dataSize").set(unpacked)
    metrics("sealedBytes").set(sealedBytes)
    metrics("collectTime").set((collected - started) / 1000000)
    metrics("broadcastTime").set((System.nanoTime() - collected) / 1000000)
    report(query, stage, outcomes.map(_.report), translated, fragment, fragment.template)
    new SealedBroadcast(stage, outcomes.size, streams, accepted)
  }

  private[exec] def planned(query: CofferQuery): TranslatedFragment = Fragments
    .broadcast(fragment.template, fragment.context(query))
    .fold(u => throw CofferException.refusal(Seq(u.message)), identity)

  /** What its tasks said, where it was run with all of its query. */
  private[exec] def ran(
      query: CofferQuery,
      stage: Int,
      reports: Seq[TaskReport],
      translated: TranslatedFragment): Unit =
    report(query, stage, reports, translated, fragment, fragment.template,
      written = metrics.get("numOutputRows"))

  private def check(rows: Long, bytes: Long): Unit = {
    if (rows >= CofferBroadcastExchangeExec.MAX_ROWS)
      throw QueryExecutionErrors.cannotBroadcastTableOverMaxTableRowsError(
        CofferBroadcastExchangeExec.MAX_ROWS, rows)
    if (bytes >= maxBroadcastBytes(conf))
      throw QueryExecutionErrors.cannotBroadcastTableOverMaxTableBytesError(
        maxBroadcastBytes(conf), bytes)
  }

  /** Waits for it, as long as `spark.sql.broadcastTimeout` allows. */
  def sealedBroadcast(): SealedBroadcast = {
    try relationFuture.get(timeout, TimeUnit.SECONDS)
    catch {
      case e: TimeoutException =>
        cancelBroadcastJob(Some("The corresponding broadcast query has failed."))
        throw QueryExecutionErrors.executeBroadcastTimeoutError(timeout, Some(e))
    }
    written.getOrElse(throw CofferException.refusal(Seq("a broadcast that was cancelled")))
  }

  /** From sealed commits alone; AQE drops joins with what is said to be empty. */
  override def runtimeStatistics: Statistics = {
    val accepted = sealedBroadcast().accepted
    val bytes = accepted.getBytesByReduceList.asScala.map(_.longValue).sum
    val hiding = Hiding.of(conf)
    // What may come out otherwise when it is made again says nothing of what there is: by a count
    // Spark drops joins and limits.
    val rows = if (accepted.getMayChange) None else hiding.rows(accepted.getRows)
    Statistics(BigInt(hiding.size(bytes)), rows)
  }

  override protected def doPrepare(): Unit = relationFuture

  override protected[sql] def doExecuteBroadcast[T](): Broadcast[T] =
    sealedBroadcast().streams.asInstanceOf[Broadcast[T]]

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows

  override protected def withNewChildInternal(newChild: SparkPlan): CofferBroadcastExchangeExec =
    copy(child = newChild)
}

object CofferBroadcastExchangeExec {
  // Spark's limit for its own hash tables of one key.
  private val MAX_ROWS = 512000000L

  private val threads: ExecutorService =
    ThreadUtils.newDaemonCachedThreadPool("coffer-broadcast", 128)
}
