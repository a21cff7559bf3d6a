package org.apache.spark.sql.coffer.exec

import java.io.OutputStream
import java.nio.ByteBuffer

import scala.reflect.ClassTag

import org.apache.spark.{
  Dependency,
  MapOutputTrackerMaster,
  Partition,
  ShuffleDependency,
  SparkContext,
  SparkEnv,
  TaskContext
}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.proto.wire.Done

/**
 * What the tasks of one stage share, as it travels: sealed bytes and ids. Nothing in here is of use
 * without a session key.
 */
final case class SealedWork(
    session: Array[Byte],
    stage: Int,
    fragment: Array[Byte],
    objects: Seq[Array[Byte]],
    /**
     * Encoded releases by engine id: for the engines that were admitted when the stage was sealed.
     */
    releases: Map[String, Array[Byte]],
    /** Sealed streams by input: for those inputs of which every task reads all. */
    broadcasts: Map[Int, Broadcast[Array[Array[Byte]]]] = Map.empty)

/**
 * The streams of producers [mapBegin, mapEnd) × targets [reduceBegin, reduceEnd) of one of the
 * RDD's shuffles, which a task feeds to its engine as `input`. In clear, because the host moves the
 * blocks; what must be complete is in the sealed descriptor.
 */
final case class Rectangle(
    input: Int,
    shuffle: Int,
    producerStage: Int,
    mapBegin: Int,
    mapEnd: Int,
    reduceBegin: Int,
    reduceEnd: Int)

/** Shared by all attempts of a task, so nothing of an attempt is in it. */
final class SealedPartition(
    override val index: Int,
    val descriptor: Array[Byte],
    val rectangles: Seq[Rectangle])
    extends Partition

/** One attempt of a task, not yet started. */
trait SealedTask {
  def partition: Int

  /**
   * Runs to the end. `out` is given each piece of each target's sealed stream, targets ascending;
   * the buffer is one over an array, and valid during the call only.
   */
  def run(out: (Int, ByteBuffer) => Unit): Done
}

object SealedTask {

  /** All that is left of a piece, without a copy between. */
  def write(piece: ByteBuffer, to: OutputStream): Unit = {
    to.write(piece.array, piece.arrayOffset + piece.position(), piece.remaining)
    piece.position(piece.limit())
  }
}

/** How tasks reach the engine beside this executor: the plugin says, when it starts there. */
object SealedTasks {
  type Start = (SealedWork, SealedPartition, TaskContext) => SealedTask

  @volatile private var start: Option[Start] = None

  private[coffer] def startBy(how: Start): Unit = start = Some(how)

  def of(work: SealedWork, split: SealedPartition, context: TaskContext): SealedTask =
    start.getOrElse(throw notRunning)(work, split, context)

  private[coffer] def notRunning = new CofferException(
    "COFFER_NOT_RUNNING",
    "the Coffer plugin is not running in this executor",
    s"start Spark with spark.plugins=${CofferConf.PLUGIN}")
}

/**
 * The tasks of one sealed stage. Its only element per partition is the run itself, not yet started:
 * who consumes it (a shuffle write or a result) says where the engine's streams go.
 *
 * @param indeterminate whether a repeated task may bring other rows
 */
final class SealedRDD(
    @transient sc: SparkContext,
    work: SealedWork,
    @transient parts: Array[SealedPartition],
    shuffles: Seq[ShuffleDependency[_, _, _]],
    indeterminate: Boolean = false)
    extends RDD[SealedTask](sc, Nil)(ClassTag(classOf[SealedTask])) {

  override protected def getPartitions: Array[Partition] = parts.toArray[Partition]

  override protected def getDependencies: Seq[Dependency[_]] = shuffles

  override def compute(split: Partition, context: TaskContext): Iterator[SealedTask] =
    Iterator.single(SealedTasks.of(work, split.asInstanceOf[SealedPartition], context))

  /**
   * Where the client engine says so, a repeated task may bring other rows: Spark then runs all
   * readers of a repeated map again.
   */
  override protected def getOutputDeterministicLevel: DeterministicLevel.Value =
    if (indeterminate) DeterministicLevel.INDETERMINATE else super.getOutputDeterministicLevel

  override protected def getPreferredLocations(split: Partition): Seq[String] = {
    val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    split.asInstanceOf[SealedPartition].rectangles.flatMap { r =>
      shuffles.find(_.shuffleId == r.shuffle).toSeq.flatMap { dependency =>
        if (r.mapBegin == 0 && r.mapEnd == dependency.rdd.getNumPartitions) {
          (r.reduceBegin until r.reduceEnd).flatMap(
            tracker.getPreferredLocationsForShuffle(dependency, _))
        } else tracker.getMapLocation(dependency, r.mapBegin, r.mapEnd)
      }
    }.distinct
  }
}
