package org.apache.spark.sql.coffer.transport

import java.io.{ByteArrayInputStream, IOException, InputStream}
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentLinkedDeque

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.config
import org.apache.spark.sql.coffer.exec.Rectangle
import org.apache.spark.storage.{BlockId, ShuffleBlockFetcherIterator}

/**
 * Sealed streams on their way from Spark's shuffle to the engine. Blocks are fetched as Spark
 * fetches them, but neither decompressed nor parsed: past Spark's own stream wrapper. Their order
 * does not matter; each stream names itself.
 */
final class TaskInputs(
    rectangles: Seq[Rectangle],
    broadcasts: Map[Int, Broadcast[Array[Array[Byte]]]],
    context: TaskContext)
    extends AutoCloseable {
  // A broadcast is fetched only if the engine asks for it: it needs one task's answer for all
  // tasks.
  private val readers =
    rectangles.groupBy(_.input).map { case (input, of) =>
      input ->
        new Reader(of.iterator.flatMap(fetch))
    } ++
      broadcasts.map { case (input, of) =>
        input ->
          new Reader(of.value.iterator.map(new ByteArrayInputStream(_)))
      }
  private var buffer = Option.empty[Array[Byte]]
  private var fault: Option[IOException] = None

  /** The next piece of an input, up to 1 MiB, valid until the next call; none at its end. */
  def next(input: Int): Option[ByteBuffer] = readers.get(input).flatMap { reader =>
    val into = buffer.getOrElse {
      val taken = TaskInputs.take()
      buffer = Some(taken)
      taken
    }
    val n =
      try reader.fill(into)
      catch {
        case e: IOException =>
          fault = Some(e)
          throw e
      }
    if (n == 0) None else Some(ByteBuffer.wrap(into, 0, n))
  }

  /** Nothing that was given is valid afterwards. */
  override def close(): Unit = {
    buffer.foreach(TaskInputs.spare.addFirst)
    buffer = None
  }

  /** Whether an exception came from reading blocks rather than from the engine's socket. */
  def isFault(e: IOException): Boolean = fault.exists(_ eq e)

  private final class Reader(open: => Iterator[InputStream]) {
    private lazy val streams: Iterator[InputStream] = open
    private var current: Option[InputStream] = None

    def fill(into: Array[Byte]): Int = {
      var filled = 0
      var more = true
      while (more && filled < into.length) {
        if (current.isEmpty) {
          if (streams.hasNext) current = Some(streams.next()) else more = false
        }
        current.foreach { in =>
          val n = in.read(into, filled, into.length - filled)
          if (n < 0) {
            in.close()
            current = None
          } else filled += n
        }
      }
      filled
    }
  }

  private def fetch(r: Rectangle): Iterator[InputStream] = {
    val env = SparkEnv.get
    val conf = env.conf
    val metrics = context.taskMetrics().createTempShuffleReadMetrics()
    context.addTaskCompletionListener[Unit](_ => context.taskMetrics().mergeShuffleReadMetrics())
    val blocks = env.mapOutputTracker
      .getMapSizesByExecutorId(r.shuffle, r.mapBegin, r.mapEnd, r.reduceBegin, r.reduceEnd)
    new ShuffleBlockFetcherIterator(
      context,
      env.blockManager.blockStoreClient,
      env.blockManager,
      env.mapOutputTracker,
      blocks,
      TaskInputs.asStored,
      conf.get(config.REDUCER_MAX_SIZE_IN_FLIGHT) * 1024 * 1024,
      conf.get(config.REDUCER_MAX_REQS_IN_FLIGHT),
      conf.get(config.REDUCER_MAX_BLOCKS_IN_FLIGHT_PER_ADDRESS),
      conf.get(config.MAX_REMOTE_BLOCK_SIZE_FETCH_TO_MEM),
      conf.get(config.SHUFFLE_MAX_ATTEMPTS_ON_NETTY_OOM),
      false, // detectCorrupt: an altered stream does not open
      false,
      false,
      conf.get(config.SHUFFLE_CHECKSUM_ALGORITHM),
      metrics,
      // neighbours of one map arrive as one block: streams end by themselves
      r.reduceEnd - r.reduceBegin > 1
    ).toCompletionIterator.map(_._2)
  }
}

object TaskInputs {
  val CHUNK: Int = 1 << 20

  /** Buffers of tasks that have ended: no more than have run at once. */
  private val spare = new ConcurrentLinkedDeque[Array[Byte]]()
  private def take(): Array[Byte] =
    Option(spare.pollFirst()).getOrElse(new Array[Byte](CHUNK))

  private val asStored: (BlockId, InputStream) => InputStream = (_, in) => in
}
