package org.apache.spark.sql.coffer.exec

import java.util.concurrent.ExecutorService

import scala.collection.mutable
import scala.concurrent.ExecutionContext
import scala.jdk.CollectionConverters._

import com.google.protobuf.{ByteString, InvalidProtocolBufferException}

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.proto.wire.{Counters, NodeMetrics, OpenMetrics}
import org.apache.spark.sql.coffer.translate.TranslatedFragment
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates
import org.apache.spark.util.ThreadUtils

/**
 * What a finished task said of itself: encoded counters, of what its host saw anyway; and its
 * operators' rows and times, sealed.
 */
final case class TaskReport(partition: Int, counters: Array[Byte], metrics: Array[Byte])

/**
 * A node that runs a stage, and shows in Spark's SQL tab what crossed between executors and engines
 * for it.
 */
trait CountedStage extends SparkPlan {

  /** To be part of the node's `metrics`. */
  protected def stageCounters: Map[String, SQLMetric] = StageMetrics.counters(sparkContext)

  /** `body` translates and seals the stage: the driver's part of its cost. */
  protected def sealing[T](body: => T): T = {
    val started = System.nanoTime()
    try body
    finally metrics("sealTime").add((System.nanoTime() - started) / 1000000)
  }

  /**
   * Shows what a stage's tasks counted. Counters are the executors' word, good for looking at and
   * nothing else. Rows and times are opened by the client engine, beside the query's own way:
   * [[CofferQuery.settle]] waits for them before the query ends.
   *
   * @param ran       what was translated: the fragment's template, or that in Spark's own words
   *                 ([[RootSort.restore]])
   * @param execution of Spark's SQL tab: to be given where a thread of our own calls
   * @param written   counts the rows of the fragment's root, where no commit says how many
   */
  protected def report(
      query: CofferQuery,
      stage: Int,
      tasks: Seq[TaskReport],
      translated: TranslatedFragment,
      fragment: CofferFragmentExec,
      ran: SparkPlan,
      execution: String = sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY),
      written: Option[SQLMetric] = None): Unit = {
    StageMetrics.count(tasks, metrics)
    post(execution)
    query.later {
      val opened = StageMetrics.open(query, stage, tasks)
      val root = opened.find(_.getNode == translated.fragment.getRoot.getId)
      val rows = written.filter(metric => root.map(r => metric.add(r.getRows)).isDefined)
      val counted = fragment.count(opened, translated.nodes, ran)
      posting.post(sparkContext, execution, counted ++ rows)
    }
  }

  /** Tells the SQL tab of this node's metrics as they are now. */
  protected def post(execution: String =
    sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)): Unit =
    posting.post(sparkContext, execution, metrics.values.toSeq)

  @transient private lazy val posting = new StageMetrics.Posting
}

object StageMetrics extends Logging {
  private val threads: ExecutorService = ThreadUtils.newDaemonCachedThreadPool("coffer-metrics", 4)
  val executor: ExecutionContext = ExecutionContext.fromExecutorService(threads)

  def counters(sc: SparkContext): Map[String, SQLMetric] = Map(
    "sealTime" -> SQLMetrics.createTimingMetric(sc, "time to translate and seal"),
    "crossings" -> SQLMetrics.createMetric(sc, "messages between executors and engines"),
    "framesSealed" -> SQLMetrics.createMetric(sc, "frames sealed"),
    "bytesIn" -> SQLMetrics.createSizeMetric(sc, "bytes into engines"),
    "bytesOut" -> SQLMetrics.createSizeMetric(sc, "bytes out of engines"),
    "bytesSealed" -> SQLMetrics.createSizeMetric(sc, "bytes sealed"),
    "bytesOpened" -> SQLMetrics.createSizeMetric(sc, "bytes opened"),
    "bytesRead" -> SQLMetrics.createSizeMetric(sc, "bytes read from tables"),
    "bytesSpilled" -> SQLMetrics.createSizeMetric(sc, "bytes spilled, sealed"),
    "engineTime" -> SQLMetrics.createNanoTimingMetric(sc, "time of tasks in engines"))

  private[exec] def count(tasks: Seq[TaskReport], into: Map[String, SQLMetric]): Unit = {
    val counted = tasks.flatMap(t => parsed(t.counters))
    def add(name: String)(of: Counters => Long): Unit =
      into.get(name).foreach(_.add(counted.map(of).sum))
    add("crossings")(_.getCrossings)
    add("framesSealed")(_.getFramesSealed)
    add("bytesIn")(_.getBytesIn)
    add("bytesOut")(_.getBytesOut)
    add("bytesSealed")(_.getBytesSealed)
    add("bytesOpened")(_.getBytesOpened)
    add("bytesRead")(_.getBytesRead)
    add("bytesSpilled")(_.getBytesSpilled)
    add("engineTime")(_.getEngineNanos)
  }

  private def parsed(counters: Array[Byte]): Option[Counters] =
    try Some(Counters.parseFrom(counters))
    catch {
      case e: InvalidProtocolBufferException =>
        logDebug("a task's counters cannot be read", e)
        None
    }

  /** Spark's SQL tab adds up what it is told of a metric: so it is told what is new. */
  private[exec] final class Posting {
    private var execution: Option[String] = None
    private val reported = mutable.Map.empty[Long, Long]

    def post(sc: SparkContext, of: String, metrics: Seq[SQLMetric]): Unit = synchronized {
      if (!execution.contains(of)) reported.clear()
      execution = Option(of)
      val news = metrics.filterNot(m => reported.get(m.id).contains(m.value)).map(m =>
        m.id ->
          (m.value - reported.getOrElse(m.id, 0L)))
      metrics.foreach(m => reported(m.id) = m.value)
      execution.flatMap(_.toLongOption).filter(_ => news.nonEmpty).foreach { id =>
        sc.listenerBus.post(SparkListenerDriverAccumUpdates(id, news))
      }
    }
  }

  /** By node of the fragment, summed over tasks. */
  private[exec] def open(
      query: CofferQuery,
      stage: Int,
      tasks: Seq[TaskReport]): Seq[NodeMetrics] = {
    val request = OpenMetrics.newBuilder.setSession(query.session).setStage(stage)
    tasks.filter(_.metrics.nonEmpty).foreach { t =>
      request.addTasks(
        OpenMetrics.TaskMetricsBlob.newBuilder.setPartition(t.partition).setSealed(
          ByteString.copyFrom(t.metrics)))
    }
    if (request.getTasksCount == 0) Nil
    else query.client.openMetrics(request.build()).getNodesList.asScala.toSeq
  }
}
