package org.apache.spark.sql.coffer.transport

import java.io.IOException
import java.nio.{ByteBuffer, ByteOrder}
import java.util.Base64

import scala.jdk.CollectionConverters._

import com.google.protobuf.{ByteString, MessageLite}

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.exec.{
  CofferTaskException,
  SealedPartition,
  SealedTask,
  SealedWork,
  WholeTask,
  WholeWork
}
import org.apache.spark.sql.coffer.proto.storage.StorageRequest
import org.apache.spark.sql.coffer.proto.wire.{
  Counters,
  Done,
  Failed,
  Need,
  NeedKeys,
  QueryDone,
  Release,
  RunQuery,
  Start,
  TaskMessage => M
}

/**
 * A conversation with the engine about what it runs. The engine drives; this thread answers.
 *
 * @tparam D what it says at the end
 */
private[transport] abstract class Conversation[D](context: TaskContext) extends Logging {

  /** What the engine is asked to run. */
  protected def opening(executor: CofferExecutor, engine: AttestedEngine): (M, MessageLite)

  /** What it may need. */
  protected def needed: TaskInputs

  protected def done: M
  protected def parsed(payload: ByteBuffer): D
  protected def counted(done: D): Seq[Counters]

  /** The stage and the partition that failed. */
  protected def place(failure: Failed): (Int, Int)

  def run(out: (Int, ByteBuffer) => Unit): D = {
    val executor = CofferExecutor.get
    executor.metrics.counting(converse(executor, out))(counted)
  }

  private def converse(executor: CofferExecutor, out: (Int, ByteBuffer) => Unit): D = {
    val engine = executor.engine()
    val inputs = needed
    val channel =
      try engine.pool.take()
      catch { case e: IOException => throw lost(executor, engine, e) }
    val storage =
      new StorageServer(() => executor.hadoop, ofTask = true, localFiles = executor.isApart)
    val answers = new StorageAnswers(channel, storage)
    var sound = false
    // Spark asks a task to end by a flag, or by interrupting it; closing the channel is how the
    // engine learns of either.
    context.addTaskCompletionListener[Unit](_ => if (!sound) channel.close())
    try {
      val (kind, message) = opening(executor, engine)
      channel.send(kind.getNumber, message)
      val done = answering(executor, engine, channel, inputs, answers, out)
      sound = true
      engine.pool.give(channel)
      done
    } catch {
      case e: IOException if !context.isInterrupted() && !inputs.isFault(e) =>
        throw lost(executor, engine, e)
    } finally {
      if (!sound) {
        channel.close()
        storage.abandon()
      }
      storage.close()
      inputs.close()
    }
  }

  private def answering(
      executor: CofferExecutor,
      engine: AttestedEngine,
      channel: Channel,
      inputs: TaskInputs,
      storage: StorageAnswers,
      out: (Int, ByteBuffer) => Unit): D = {
    var ended: Option[D] = None
    while (ended.isEmpty) {
      context.killTaskIfInterrupted()
      val message = channel.receiveLent()
      message.kind match {
        case M.OUT_VALUE =>
          val target = u32(message)
          out(target, message.payload)
        case M.NEED_VALUE =>
          val input = Need.parseFrom(message.payload).getInputId
          storage.settle()
          answer(channel, input, inputs)
        case M.NEED_KEYS_VALUE =>
          val session = NeedKeys.parseFrom(message.payload).getSession.toByteArray
          val release = executor.keys(session, engine)
          storage.settle()
          channel.send(M.RELEASE.getNumber, ByteBuffer.wrap(release))
        case M.STORAGE_VALUE =>
          storage.answer(StorageRequest.parseFrom(message.payload))
        case kind if kind == done.getNumber => ended = Some(parsed(message.payload))
        case M.FAILED_VALUE =>
          val failure = Failed.parseFrom(message.payload)
          // Keys were sealed for the engine that was there before.
          if (failure.getCode == CofferExecutor.NO_KEYS) executor.lost(engine)
          throw failed(failure)
        case other => throw CofferExecutor.outOfTurn(other)
      }
    }
    ended.get
  }

  private val inputHeader = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN)

  private def answer(channel: Channel, input: Int, inputs: TaskInputs): Unit = {
    inputHeader.clear()
    inputHeader.putInt(input).flip()
    inputs.next(input) match {
      case Some(bytes) => channel.send(M.IN.getNumber, inputHeader, bytes)
      case None => channel.send(M.IN_END.getNumber, inputHeader)
    }
  }

  private def u32(message: Message): Int = {
    if (message.payload.remaining < 4) throw CofferExecutor.outOfTurn(message.kind)
    message.payload.order(ByteOrder.LITTLE_ENDIAN).getInt()
  }

  private def failed(failure: Failed): CofferTaskException = {
    val (stage, partition) = place(failure)
    new CofferTaskException(
      failure.getCode,
      stage,
      partition,
      Base64.getEncoder.encodeToString(failure.getSealedError.toByteArray))
  }

  private def lost(
      executor: CofferExecutor,
      engine: AttestedEngine,
      e: IOException): CofferException = {
    executor.lost(engine)
    new CofferException(
      "COFFER_ENGINE_LOST",
      engine.exitReport.getOrElse(s"the connection to the engine broke: ${e.getMessage}"),
      "the task may be repeated with a new engine; the executor's log has the engine's last " +
        "messages",
      e)
  }
}

/** One attempt of a task. */
private[transport] final class TaskRun(
    work: SealedWork,
    split: SealedPartition,
    context: TaskContext)
    extends Conversation[Done](context)
    with SealedTask {

  override def partition: Int = split.index

  override protected def needed: TaskInputs =
    new TaskInputs(split.rectangles, work.broadcasts, context)

  override protected def done: M = M.DONE
  override protected def parsed(payload: ByteBuffer): Done = Done.parseFrom(payload)
  override protected def counted(done: Done): Seq[Counters] = Seq(done.getCounters)
  override protected def place(failure: Failed): (Int, Int) = (work.stage, split.index)

  override protected def opening(
      executor: CofferExecutor,
      engine: AttestedEngine): (M, MessageLite) = (M.START, start(executor, engine))

  private def start(executor: CofferExecutor, engine: AttestedEngine): Start = {
    val start = Start.newBuilder
      .setProtocol(CofferConf.PROTOCOL)
      .setSession(ByteString.copyFrom(work.session))
      .setSealedFragment(ByteString.copyFrom(work.fragment))
      .setSealedDescriptor(ByteString.copyFrom(split.descriptor))
      .setStage(work.stage)
      .setPartition(split.index)
    work.objects.foreach(o => start.addSealedObjects(ByteString.copyFrom(o)))
    work.releases.get(engine.id).foreach(r => start.setRelease(Release.parseFrom(r)))
    // A repeated task may read maps that were repeated too: which attempts count has changed since
    // the stage was sealed.
    if (split.rectangles.nonEmpty && (context.attemptNumber() > 0 ||
        context.stageAttemptNumber() > 0)) {
      executor.ask(Ask.Attempts(work.session,
          split.rectangles.map(_.producerStage).distinct)) match {
        case Answer.Many(lists) =>
          lists.foreach(l => start.addSealedObjects(ByteString.copyFrom(l)))
        case _ => throw new CofferException("COFFER_RPC",
            "the driver's answer is of the wrong " +
              "kind", "use one build")
      }
    }
    start.build()
  }
}

/** All stages of a query. */
private[transport] final class QueryRun(work: WholeWork, context: TaskContext)
    extends Conversation[QueryDone](context)
    with WholeTask {

  override protected def needed: TaskInputs = new TaskInputs(Nil, Map.empty, context)

  override protected def done: M = M.QUERY_DONE
  override protected def parsed(payload: ByteBuffer): QueryDone = QueryDone.parseFrom(payload)
  override protected def counted(done: QueryDone): Seq[Counters] =
    done.getStagesList.asScala.flatMap(_.getTasksList.asScala).map(_.getCounters).toSeq
  override protected def place(failure: Failed): (Int, Int) =
    (failure.getStage, failure.getPartition)

  override protected def opening(
      executor: CofferExecutor,
      engine: AttestedEngine): (M, MessageLite) = {
    val query = RunQuery.newBuilder.mergeFrom(work.query)
    work.releases.get(engine.id).foreach(r => query.setRelease(Release.parseFrom(r)))
    (M.RUN_QUERY, query.build())
  }
}
