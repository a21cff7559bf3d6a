package org.apache.spark.sql.coffer.transport

import java.nio.ByteBuffer
import java.util.concurrent.{CompletableFuture, CompletionException, Executor, Semaphore}

import scala.jdk.CollectionConverters._

import com.google.protobuf.{CodedOutputStream, WireFormat}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.proto.storage.{StorageAnswer, StorageRequest}
import org.apache.spark.sql.coffer.proto.wire.{TaskMessage => M}
import org.apache.spark.util.ThreadUtils

/**
 * A task's answers of storage. Ranges are read at the same time, on threads that all tasks share,
 * and given in the order in which they were asked for; all else is done at once. One thread asks.
 */
private[transport] final class StorageAnswers(
    channel: Channel,
    storage: StorageServer,
    readers: Executor = StorageAnswers.readers)
    extends Logging {
  import StorageAnswers._

  private val room = new Semaphore(ROOM_KIB)

  /** Done when all that was asked for so far is given. */
  private var sent: CompletableFuture[Void] = CompletableFuture.completedFuture(null)

  def answer(request: StorageRequest): Unit =
    if (request.hasRanges) read(request)
    else {
      settle()
      channel.send(M.STORED.getNumber, storage.answer(request))
    }

  /** Waits until nothing is to be given: for what is sent next. */
  def settle(): Unit =
    try sent.join()
    catch { case e: CompletionException => throw Option(e.getCause).getOrElse(e) }

  private def read(request: StorageRequest): Unit = {
    val size = math.min(kib(request), ROOM_KIB)
    room.acquire(size)
    val read = CompletableFuture.supplyAsync(() => storage.answer(request), readers)
    sent = sent
      .thenAcceptBoth[StorageAnswer](
        read,
        (_: Void, answer: StorageAnswer) => channel.send(M.STORED.getNumber, parts(answer): _*))
      .whenComplete { (_, failure) =>
        room.release(size)
        // Whoever waits for the engine's next message would wait in vain.
        if (failure != null) {
          logDebug("storage's answer was not given", failure)
          channel.close()
        }
      }
  }
}

private[transport] object StorageAnswers {

  /** Of what one task has read and not given yet: four of the largest questions. */
  private val ROOM_KIB = 32 << 10

  /** Most of the time they wait for storage. */
  private val THREADS = 64

  private lazy val readers: Executor =
    ThreadUtils.newDaemonCachedThreadPool("coffer-storage", THREADS, 60)

  private def kib(request: StorageRequest): Int = {
    val bytes = request.getRanges.getRangesList.asScala.map(r => r.getEnd - r.getStart).sum
    math.max(0L, math.min(bytes / 1024 + 1, ROOM_KIB.toLong)).toInt
  }

  /** The message's bytes, without a copy of those that were read. */
  private[transport] def parts(answer: StorageAnswer): Seq[ByteBuffer] =
    if (!answer.hasRanges) Seq(ByteBuffer.wrap(answer.toByteArray))
    else {
      val ranges = answer.getRanges.getRangesList.asScala.toSeq
      def field(number: Int, length: Int) = {
        val head = new Array[Byte](
          CodedOutputStream.computeTagSize(number) + CodedOutputStream.computeUInt32SizeNoTag(
            length))
        val out = CodedOutputStream.newInstance(head)
        out.writeTag(number, WireFormat.WIRETYPE_LENGTH_DELIMITED)
        out.writeUInt32NoTag(length)
        ByteBuffer.wrap(head)
      }
      field(StorageAnswer.RANGES_FIELD_NUMBER, answer.getRanges.getSerializedSize) +:
        ranges.flatMap { bytes =>
          field(StorageAnswer.Ranges.RANGES_FIELD_NUMBER, bytes.size) +:
            bytes.asReadOnlyByteBufferList.asScala.toSeq
        }
    }
}
