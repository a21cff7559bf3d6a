package org.apache.spark.sql.coffer.exec

import java.nio.ByteBuffer

import scala.collection.mutable

import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.util.io.ChunkedByteBufferOutputStream

/**
 * The sealed streams of a result while they come, by partition: together no more than `most` bytes.
 * They are copied once in the end.
 */
private[exec] final class ResultStreams(most: Long) {
  private val streams = mutable.Map.empty[Int, ChunkedByteBufferOutputStream]
  private var size = 0L

  def write(partition: Int, bytes: ByteBuffer): Unit = {
    size += bytes.remaining
    if (size > most) throw new CofferException(
      ClientBytes.TOO_MUCH,
      s"a task's part of a result is larger than its share of this JVM's heap ($most bytes)",
      "let the query give fewer rows or columns, or give executors (with a local master, the " +
        "driver) more memory")
    SealedTask.write(bytes, streams.getOrElseUpdate(partition, ResultStreams.stream()))
  }

  def closed(): Map[Int, Array[Byte]] = streams.view.mapValues { stream =>
    stream.close()
    stream.toChunkedByteBuffer.toArray
  }.toMap
}

private[exec] object ResultStreams {
  private val CHUNK = 1 << 16

  private def stream(): ChunkedByteBufferOutputStream =
    new ChunkedByteBufferOutputStream(CHUNK, ByteBuffer.allocate)
}
