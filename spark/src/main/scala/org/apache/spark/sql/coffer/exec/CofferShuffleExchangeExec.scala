package org.apache.spark.sql.coffer.exec

import java.util.concurrent.TimeUnit

import scala.concurrent.{ExecutionContext, Future}
import scala.concurrent.duration.Duration
import scala.jdk.CollectionConverters._

import com.google.protobuf.ByteString

import org.apache.spark.{MapOutputStatistics, MapOutputTrackerMaster, ShuffleDependency, SparkEnv}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.Statistics
import org.apache.spark.sql.catalyst.plans.physical.{
  Partitioning,
  RangePartitioning,
  SinglePartition
}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.proto.wire.{
  AcceptCommits,
  CommitsAccepted,
  PickBounds,
  TaskResult
}
import org.apache.spark.sql.coffer.translate.{Fragments, Result, TranslatedFragment}
import org.apache.spark.sql.execution.{ShufflePartitionSpec, SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.exchange.{
  ShuffleExchangeExec,
  ShuffleExchangeLike,
  ShuffleOrigin
}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.util.ThreadUtils

/** What a query's stages read of another stage: which of its attempts count now. */
trait AcceptedStage {
  def stage: Int
  def accepted(): CommitsAccepted
}

/**
 * A sealed shuffle of a query: its dependency in Spark, and which of its map outputs the client
 * engine has accepted.
 */
final class SealedShuffle(
    val query: CofferQuery,
    override val stage: Int,
    val translated: TranslatedFragment,
    val dependency: ShuffleDependency[Int, Array[Byte], Array[Byte]],
    val commits: Commits)
    extends AcceptedStage {

  private var last: Option[(Seq[Long], CommitsAccepted)] = None

  /**
   * The client engine's word on the map outputs that Spark has registered now. Asked again when map
   * tasks were repeated: that is a new epoch, and the consumers' repeated tasks get the new list.
   */
  override def accepted(): CommitsAccepted = synchronized {
    val mapIds = registered()
    last.collect { case (ids, accepted) if ids == mapIds => accepted }.getOrElse {
      val known = commits.value
      val records = mapIds.zipWithIndex.map { case (id, partition) =>
        known.get(id).filter(_.partition == partition).map(c =>
          ByteString.copyFrom(c.commit)).getOrElse(
          throw new CofferException(
            "COFFER_COMMIT_MISSING",
            s"map $partition of sealed stage $stage came without its commit record",
            "run the query again; if it persists, an executor tampers with task results"))
      }
      val accepted = query.client.acceptCommits(
        AcceptCommits.newBuilder
          .setSession(query.session)
          .setStage(stage)
          .setMaps(mapIds.size)
          .addAllCommits(records.asJava)
          .build())
      last = Some((mapIds, accepted))
      accepted
    }
  }

  /** Of the tasks whose outputs count. */
  def reports(): Seq[TaskReport] = {
    val known = commits.value
    registered().flatMap(known.get).map(c => TaskReport(c.partition, c.counters, c.metrics))
  }

  /**
   * The same, or its last word: of sizes and counts, which a repeated map does not change, also
   * while outputs are missing.
   */
  def known(): CommitsAccepted = synchronized(last.map(_._2)).getOrElse(accepted())

  /** Whether outputs are missing: of executors that were lost. */
  def hasGaps: Boolean = outputs().exists(_.isEmpty)

  private def outputs(): Vector[Option[Long]] = {
    val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    tracker.shuffleStatuses.get(dependency.shuffleId).map { status =>
      status.withMapStatuses(_.toVector.map(s => Option(s).map(_.mapId)))
    }.getOrElse(Vector.empty)
  }

  /** Spark's ids of the map outputs that its readers will fetch, by map partition. */
  private def registered(): Seq[Long] = {
    val ids = outputs()
    if (ids.isEmpty || ids.exists(_.isEmpty)) throw new CofferException(
      "COFFER_MAPS_MISSING",
      s"outputs of sealed stage $stage are missing: an executor was lost",
      "Spark repeats the stage; if it does not, run the query again")
    ids.flatten
  }
}

/**
 * An exchange whose rows are sealed streams. It takes the place of Spark's own exchange when a
 * query stage is created, and keeps it to be compared by: it has no ids of its own in its canonical
 * form.
 */
case class CofferShuffleExchangeExec(original: ShuffleExchangeExec, child: SparkPlan)
    extends ShuffleExchangeLike
    with CountedStage
    with SealedNode {

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "rows"),
    "dataSize" -> SQLMetrics.createSizeMetric(sparkContext, "unpacked size, where it was sealed"),
    "numPartitions" -> SQLMetrics.createMetric(sparkContext, "number of partitions")) ++
    stageCounters

  override def nodeName: String = "CofferExchange"
  override def stringArgs: Iterator[Any] =
    Iterator(original.outputPartitioning, original.shuffleOrigin)
  override def outputPartitioning: Partitioning = original.outputPartitioning
  override def shuffleOrigin: ShuffleOrigin = original.shuffleOrigin
  override def advisoryPartitionSize: Option[Long] = original.advisoryPartitionSize
  override protected def doCanonicalize(): SparkPlan = original.canonicalized

  private[exec] def fragment: CofferFragmentExec = child match {
    case f: CofferFragmentExec => f
    case other => throw CofferException.refusal(Seq(s"${other.nodeName} is no sealed fragment"))
  }

  @transient lazy val sealedShuffle: SealedShuffle = {
    val query = CofferQuery.required(sparkContext)
    fragment.ready()
    val stage = query.nextStage()
    val (translated, objects) = original.outputPartitioning match {
      case range: RangePartitioning if range.numPartitions > 1 => ranged(query, range)
      case _: RangePartitioning => (plain(query, SinglePartition), Nil)
      case other => (plain(query, other), Nil)
    }
    val rdd = sealing(StageSealer.seal(query, stage, 0L, translated, translated.fragment, fragment,
        objects))
    val commits = new Commits
    sparkContext.register(commits)
    val dependency = NeutralJob.run(sparkContext) {
      new ShuffleDependency[Int, Array[Byte], Array[Byte]](
        rdd.asInstanceOf[RDD[Product2[Int, Array[Byte]]]],
        new SealedPartitioner(numPartitions),
        SparkEnv.get.serializer,
        shuffleWriterProcessor = new SealedShuffleWrite(commits))
    }
    val shuffle = new SealedShuffle(query, stage, translated, dependency, commits)
    query.register(shuffle)
    shuffle
  }

  private def plain(query: CofferQuery, partitioning: Partitioning): TranslatedFragment =
    sealing(translated(query, partitioning))

  private def translated(query: CofferQuery, partitioning: Partitioning): TranslatedFragment =
    supported(Fragments.shuffle(partitioning, fragment.template, fragment.context(query)))

  /**
   * Range partitioning needs bounds first: a job that samples keys, sealed, and the client engine's
   * choice among them.
   */
  private def ranged(
      query: CofferQuery,
      range: RangePartitioning): (TranslatedFragment, Seq[Int]) = {
    val boundsId = query.nextObject()
    val size =
      math.min(conf.rangeExchangeSampleSizePerPartition.toLong * range.numPartitions, 1000000L)
    val perTask = math.max(1, math.ceil(3.0 * size / math.max(1, fragment.layout.size)).toInt)
    // The seed only has to be the same for each repetition of a task.
    val fragments = sealing(supported(Fragments.range(range, fragment.template,
          fragment.context(query), boundsId, perTask, 42L)))
    val execution = query.nextExecution()
    val stage = query.nextStage()
    val sample = fragments.sample
    val rdd =
      sealing(StageSealer.seal(query, stage, execution, sample, sample.fragment, fragment, Nil))
    val outcomes = ResultJob.run(sparkContext, rdd, 0 until rdd.getNumPartitions)
    val request = PickBounds.newBuilder
      .setSession(query.session)
      .setExecution(execution)
      .setStage(stage)
      .setBoundsId(boundsId)
      .setPartitions(range.numPartitions)
      .setSampledPartitions(rdd.getNumPartitions)
      .addAllKeys(fragments.sampleKeys.asJava)
      .setSchema(supported(Fragments.sampleSchema(range.ordering)))
    report(query, stage, outcomes.map(_.report), sample, fragment, fragment.template)
    outcomes.foreach { o =>
      request.addSamples(
        TaskResult.newBuilder
          .setPartition(o.partition)
          .setStream(ByteString.copyFrom(o.stream))
          .setCommit(ByteString.copyFrom(o.commit)))
    }
    query.client.pickBounds(request.build())
    (fragments.shuffle, Seq(boundsId))
  }

  private def supported[T](result: Result[T]): T =
    result.fold(u => throw CofferException.refusal(Seq(u.message)), identity)

  @transient override protected lazy val mapOutputStatisticsFuture: Future[MapOutputStatistics] = {
    val shuffle = sealedShuffle
    val action = NeutralJob.run(sparkContext)(sparkContext.submitMapStage(shuffle.dependency))
    futureAction.set(Some(action))
    val execution = sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)
    action.map(_ => statistics(shuffle, execution))(CofferShuffleExchangeExec.completions)
  }

  /**
   * Sizes from sealed commits, not from what executors report; and none of them empty, or AQE would
   * skip a partition.
   */
  private def statistics(shuffle: SealedShuffle, execution: String): MapOutputStatistics = {
    val accepted = shuffle.accepted()
    val hiding = Hiding.of(conf)
    val sizes = accepted.getBytesByReduceList.asScala.map(b => hiding.size(b.longValue)).toArray
    if (sizes.length != numPartitions) throw new CofferException(
      "COFFER_CLIENT_PROTOCOL",
      s"the client engine gave sizes of ${sizes.length} of $numPartitions partitions",
      "use the client engine and the jar of one build")
    metrics("numOutputRows").set(accepted.getRows)
    metrics("dataSize").set(sizes.sum)
    metrics("numPartitions").set(numPartitions)
    report(shuffle.query, shuffle.stage, shuffle.reports(), shuffle.translated, fragment,
      fragment.template, execution)
    new MapOutputStatistics(shuffle.dependency.shuffleId, sizes)
  }

  /** Of a query whose stages are sealed together: what this one writes. */
  private[exec] def planned(query: CofferQuery): TranslatedFragment =
    original.outputPartitioning match {
      case _: RangePartitioning => translated(query, SinglePartition)
      case other => translated(query, other)
    }

  /** What its tasks said, where it was run with all of its query. */
  private[exec] def ran(
      query: CofferQuery,
      stage: Int,
      reports: Seq[TaskReport],
      translated: TranslatedFragment): Unit = {
    metrics("numPartitions").set(numPartitions)
    report(query, stage, reports, translated, fragment, fragment.template,
      written = metrics.get("numOutputRows"))
  }

  def awaitWritten(): Unit =
    ThreadUtils.awaitResult(submitShuffleJob(), CofferShuffleExchangeExec.forever)

  // As many as its fragment is laid out for: known before it is sealed.
  @transient private lazy val mappers: Int = fragment.layout.size
  override def numMappers: Int = mappers
  override def numPartitions: Int = original.outputPartitioning.numPartitions
  override def shuffleId: Int = sealedShuffle.dependency.shuffleId

  override def getShuffleRDD(partitionSpecs: Array[ShufflePartitionSpec]): RDD[_] =
    throw CofferFragmentExec.noRows

  override def runtimeStatistics: Statistics = {
    val accepted = sealedShuffle.known()
    val bytes = accepted.getBytesByReduceList.asScala.map(_.longValue).sum
    val hiding = Hiding.of(conf)
    // What may come out otherwise when it is made again says nothing of what there is: by a count
    // Spark drops joins and limits.
    val rows = if (accepted.getMayChange) None else hiding.rows(accepted.getRows)
    Statistics(BigInt(hiding.size(bytes)), rows)
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows

  override protected def withNewChildInternal(newChild: SparkPlan): CofferShuffleExchangeExec =
    copy(child = newChild)
}

object CofferShuffleExchangeExec {
  private val forever = Duration(Long.MaxValue, TimeUnit.NANOSECONDS)

  // Accepting commits waits for the client engine: not in the scheduler's thread that completes the
  // job.
  private val completions: ExecutionContext =
    ExecutionContext.fromExecutorService(ThreadUtils.newDaemonCachedThreadPool("coffer-commits",
        16))
}
