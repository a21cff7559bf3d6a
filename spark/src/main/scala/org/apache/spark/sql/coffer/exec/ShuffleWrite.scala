package org.apache.spark.sql.coffer.exec

import java.io.OutputStream
import java.nio.ByteBuffer

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.{Partitioner, ShuffleDependency, SparkEnv, TaskContext}
import org.apache.spark.network.shuffle.checksum.ShuffleChecksumHelper
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.{ShuffleDataIOUtils, ShuffleWriteProcessor, ShuffleWriter}
import org.apache.spark.shuffle.api.{ShuffleExecutorComponents, ShuffleMapOutputWriter}
import org.apache.spark.sql.coffer.common.CofferException

/**
 * Which reduce partition a row goes to is decided inside the engine; Spark needs only their number.
 */
final class SealedPartitioner(override val numPartitions: Int) extends Partitioner {
  override def getPartition(key: Any): Int =
    throw new UnsupportedOperationException("sealed rows are partitioned by the engine")
}

/**
 * Stores the engine's streams as the blocks of a map output, one stream for each reduce partition.
 */
final class SealedShuffleWrite(commits: Commits) extends ShuffleWriteProcessor {

  override def write(
      inputs: Iterator[_],
      dependency: ShuffleDependency[_, _, _],
      mapId: Long,
      mapIndex: Int,
      context: TaskContext): MapStatus = {
    val run = inputs.next() match {
      case t: SealedTask => t
      case _ => throw new CofferException("COFFER_SHUFFLE",
          "a sealed shuffle got something else " +
            "than a sealed task", "")
    }
    registerForCleanup(dependency, mapId, context)
    val targets = dependency.partitioner.numPartitions
    val output =
      SealedShuffleWrite.components.createMapOutputWriter(dependency.shuffleId, mapId, targets)
    try {
      val streams = new Streams(output, targets)
      val started = System.nanoTime()
      val done = run.run(streams.take)
      streams.finish()
      val lengths =
        output.commitAllPartitions(ShuffleChecksumHelper.EMPTY_CHECKSUM_VALUE).getPartitionLengths
      val metrics = createMetricsReporter(context)
      metrics.incBytesWritten(lengths.sum)
      metrics.incWriteTime(System.nanoTime() - started)
      commits.add(
        MapCommit(
          mapId,
          mapIndex,
          done.getSealedCommit.toByteArray,
          done.getCounters.toByteArray,
          done.getSealedMetrics.toByteArray))
      // A stream that stands for kept rows has next to no length: skew is cut by theirs.
      val kept = done.getKeptList.asScala
      val sizes = lengths.zipAll(kept.map(_.longValue), 0L, 0L).map { case (a, b) => a.max(b) }
      MapStatus(SparkEnv.get.blockManager.shuffleServerId, sizes, mapId)
    } catch {
      case e: Throwable =>
        abort(output, e)
        throw e
    }
  }

  /**
   * Deletes what was written. On a full disk the first attempt ends in the buffer, which does not
   * go on it either, before the file is deleted; the second finds the buffer closed.
   */
  private def abort(output: ShuffleMapOutputWriter, why: Throwable): Unit =
    try output.abort(why)
    catch {
      case NonFatal(first) =>
        why.addSuppressed(first)
        try output.abort(why)
        catch { case NonFatal(second) => why.addSuppressed(second) }
    }

  /**
   * Spark deletes the files of those map outputs for which a writer was asked; the writer itself
   * stays unused.
   */
  private def registerForCleanup(
      dependency: ShuffleDependency[_, _, _],
      mapId: Long,
      context: TaskContext): Unit = {
    val writer: ShuffleWriter[Any, Any] = SparkEnv.get.shuffleManager
      .getWriter[Any, Any](dependency.shuffleHandle, mapId, context, createMetricsReporter(context))
    writer.stop(success = false)
  }

  private final class Streams(output: ShuffleMapOutputWriter, targets: Int) {
    private var target = -1
    private var stream = Option.empty[OutputStream]

    val take: (Int, ByteBuffer) => Unit = (next, bytes) => {
      if (next != target) advance(next)
      stream.foreach(SealedTask.write(bytes, _))
    }

    private def advance(next: Int): Unit = {
      if (next != target + 1 || next >= targets) throw new CofferException(
        "COFFER_ENGINE_PROTOCOL",
        s"the engine sent target $next after target $target of $targets",
        "use the engine and the jar of one build")
      close()
      stream = Some(output.getPartitionWriter(next).openStream())
      target = next
    }

    def finish(): Unit = {
      close()
      if (target != targets - 1) throw new CofferException(
        "COFFER_ENGINE_PROTOCOL",
        s"the engine ended after target $target of $targets",
        "use the engine and the jar of one build")
    }

    private def close(): Unit = {
      stream.foreach(_.close())
      stream = None
    }
  }
}

object SealedShuffleWrite {

  @volatile private var made: Option[(SparkEnv, ShuffleExecutorComponents)] = None

  /**
   * Spark's shuffle storage, as its own shuffle manager sets it up; one for each executor's
   * environment.
   */
  private def components: ShuffleExecutorComponents = {
    val env = SparkEnv.get
    made.collect { case (of, components) if of eq env => components }.getOrElse {
      val components = ShuffleDataIOUtils.loadShuffleDataIO(env.conf).executor()
      val extra = env.conf.getAllWithPrefix(ShuffleDataIOUtils.SHUFFLE_SPARK_CONF_PREFIX).toMap
      components.initializeExecutor(env.conf.getAppId, env.executorId, extra.asJava)
      made = Some((env, components))
      components
    }
  }
}
