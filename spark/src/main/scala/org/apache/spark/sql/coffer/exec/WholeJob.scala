package org.apache.spark.sql.coffer.exec

import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.concurrent.{Future, Promise, TimeoutException}
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.InvalidProtocolBufferException

import org.apache.spark.{Partition, SimpleFutureAction, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.proto.wire.{Done, QueryDone}
import org.apache.spark.util.ThreadUtils

/**
 * What the engine is given: sealed bytes and ids.
 *
 * @param query a `RunQuery`, but for the release
 * @param releases encoded, by engine id
 */
final case class WholeWork(
    session: Array[Byte],
    query: Array[Byte],
    releases: Map[String, Array[Byte]])

/** One run of a query in the engine, not yet started. */
trait WholeTask {

  /** Runs to the end. `out` is given pieces of the last stage's streams, by partition. */
  def run(out: (Int, ByteBuffer) => Unit): QueryDone
}

/**
 * What the one task of a whole query brings to the client.
 *
 * @param done a `QueryDone`
 * @param streams of the last stage's tasks, in order
 * @param tooLarge that the query needs more memory than there is, or its result more room than an
 *   executor gives it, as [[CofferTaskException]] has it, where that is how it ended; else empty
 */
final case class WholeOutcome(done: Array[Byte], streams: Array[Array[Byte]], tooLarge: String) {

  /**
   * Whether it is all there: an executor's object of this class need not have been made by our
   * constructor.
   */
  def isWhole: Boolean =
    done != null && streams != null && streams.forall(_ != null) && tooLarge != null
}

/**
 * A query that is sealed and runs.
 *
 * @param ran by stage, how many tasks it has, and whom to tell what they counted
 */
final class WholeRun private[exec] (job: WholeJob, ran: Seq[(Int, Seq[TaskReport] => Unit)]) {

  /** What each of the last stage's tasks brings. */
  lazy val outcomes: Vector[TaskOutcome] = {
    val brought = WholeJob.checked(job.brought())
    val tasks = WholeJob.done(brought).getStagesList.asScala.map(_.getTasksList.asScala.toVector)
    val sizes = tasks.map(_.size)
    // A copy of a stage that nobody needed has no tasks.
    val sound = sizes.size == ran.size &&
      sizes.zip(ran).forall { case (n, (size, _)) => n == 0 || n == size }
    if (!sound || sizes.last != ran.last._1 || sizes.last != brought.streams.length)
      throw WholeJob.wrong
    tasks.zip(ran).foreach { case (done, (_, tell)) =>
      tell(done.zipWithIndex.map { case (d, p) => report(p, d) })
    }
    tasks.last.zipWithIndex.map { case (d, p) =>
      TaskOutcome(
        p,
        brought.streams(p),
        d.getSealedCommit.toByteArray,
        d.getCounters.toByteArray,
        d.getSealedMetrics.toByteArray)
    }
  }

  private def report(partition: Int, d: Done): TaskReport =
    TaskReport(partition, d.getCounters.toByteArray, d.getSealedMetrics.toByteArray)
}

/** The one task of a whole query, which waits for the engine. */
private[exec] trait WholeJob {
  def give(work: WholeWork, place: WholePlace): Unit

  /** There will be nothing to do. */
  def giveUp(): Unit

  /** As an executor sent it. */
  def brought(): Any

  /** When Spark has seen the job end too. */
  def ended: Future[Unit]
}

private[coffer] object WholeJob {
  @volatile private var start: Option[(WholeWork, TaskContext) => WholeTask] = None

  private[coffer] def startBy(how: (WholeWork, TaskContext) => WholeTask): Unit = start = Some(how)

  /** For tests: what the task brings travels as from an executor, under a local master too. */
  @volatile private[coffer] var travels = false

  private[exec] def begin(sc: SparkContext): WholeJob =
    if (CofferConf.isLocal(sc.conf) && !travels) LocalWholeJob.begin(sc)
    else new RemoteWholeJob(sc)

  def wrong: CofferException = new CofferException(
    "COFFER_ENGINE_PROTOCOL",
    "the engine did not say how the query's stages ended",
    "use the engine and the jar of one build")

  private[exec] def checked(result: Any): WholeOutcome = result match {
    case outcome: WholeOutcome if outcome.isWhole =>
      if (outcome.tooLarge.isEmpty) outcome
      else throw CofferTaskException.read(outcome.tooLarge).fold[Throwable](wrong)(_.exception)
    case _ => throw ResultJob.somethingElse
  }

  private[exec] def done(outcome: WholeOutcome): QueryDone =
    try QueryDone.parseFrom(outcome.done)
    catch { case _: InvalidProtocolBufferException => throw wrong }

  /** In the task. */
  private[exec] def run(work: WholeWork, context: TaskContext, most: Long): WholeOutcome = {
    val task = start.getOrElse(throw SealedTasks.notRunning)(work, context)
    val streams = new ResultStreams(most)
    val done = task.run(streams.write)
    val brought = streams.closed()
    val parts = done.getStagesList.asScala.lastOption.fold(0)(_.getTasksCount)
    val inOrder = Array.tabulate(parts)(p => brought.getOrElse(p, throw wrong))
    WholeOutcome(done.toByteArray, inOrder, "")
  }

  /** That there is no room is an outcome: to repeat it elsewhere would end in the same way. */
  private[exec] def orTooLarge(run: => WholeOutcome): WholeOutcome = {
    def ended(how: CofferTaskException) =
      WholeOutcome(Array.emptyByteArray, Array.empty, how.getMessage)
    try run
    catch {
      case e: CofferException if e.code == ClientBytes.TOO_MUCH =>
        ended(new CofferTaskException(WholeQuery.MEMORY, 0, 0, ""))
      case NonFatal(e) if WholeQuery.isTooLarge(e) =>
        CofferTaskException.find(e).map(_.exception).fold(throw e)(ended)
    }
  }

  private[exec] def awaited[T](job: Future[T])(cancel: => Unit): T =
    try ThreadUtils.awaitResult(job, Duration.Inf)
    catch {
      case e: InterruptedException =>
        cancel
        throw e
    }

  private[exec] object One extends Partition {
    override def index: Int = 0
  }
}

/**
 * The task runs in this process: what it is to do and what it brings stay here, and its number
 * alone travels. It is begun before there is something to do, and is there by then.
 */
private final class LocalWholeJob private (number: Long, action: SimpleFutureAction[Unit])
    extends WholeJob {
  import LocalWholeJob._

  private val waiting = runs.get(number)
  action.onComplete { ended =>
    runs.remove(number)
    waiting.brought.tryFailure(ended.failed.getOrElse(WholeJob.wrong))
  }(StageMetrics.executor)

  override def give(work: WholeWork, place: WholePlace): Unit =
    waiting.work.trySuccess(Some(work))
  override def giveUp(): Unit = waiting.work.trySuccess(None)
  override def brought(): Any = WholeJob.awaited(waiting.brought.future)(action.cancel())
  override def ended: Future[Unit] = action
}

private object LocalWholeJob {
  private val numbers = new AtomicLong()
  private val runs = new ConcurrentHashMap[Long, Waiting]()

  private final class Waiting {
    val work: Promise[Option[WholeWork]] = Promise()
    val brought: Promise[WholeOutcome] = Promise()
  }

  /** A job whose task waits for its work. */
  def begin(sc: SparkContext): WholeJob = {
    val number = numbers.incrementAndGet()
    runs.put(number, new Waiting)
    val action = NeutralJob.run(sc) {
      sc.submitJob[Int, Int, Unit](new WaitingRDD(sc, number), Await, Seq(0), (_, _) => (), ())
    }
    new LocalWholeJob(number, action)
  }

  private final class WaitingRDD(@transient sc: SparkContext, number: Long)
      extends RDD[Int](sc, Nil) {
    override protected def getPartitions: Array[Partition] = Array(WholeJob.One)
    override def compute(split: Partition, context: TaskContext): Iterator[Int] = {
      LocalWholeJob.compute(number, context)
      Iterator.empty
    }
  }

  /** An object, not a closure: it can capture nothing. */
  private object Await extends (Iterator[Int] => Int) with Serializable {
    override def apply(rows: Iterator[Int]): Int = rows.size
  }

  private def compute(number: Long, context: TaskContext): Unit = {
    val run = Option(runs.get(number)).getOrElse(throw WholeJob.wrong)
    while (!run.work.isCompleted) {
      context.killTaskIfInterrupted()
      try ThreadUtils.awaitReady(run.work.future, A_WHILE)
      catch { case _: TimeoutException => () }
    }
    run.work.future.value.flatMap(_.toOption).flatten.foreach { work =>
      run.brought.trySuccess(WholeJob.run(work, context, Runtime.getRuntime.maxMemory / 4))
    }
  }

  private val A_WHILE = 100.millis
}

/** The task runs on any executor: what it is to do goes there, and what it brings comes back. */
private final class RemoteWholeJob(sc: SparkContext) extends WholeJob {
  import RemoteWholeJob._

  private val outcome = Promise[Any]()
  @volatile private var action = Option.empty[SimpleFutureAction[Unit]]

  override def give(work: WholeWork, place: WholePlace): Unit = {
    val job = NeutralJob.run(sc) {
      // As what it is said to be only after a look: Spark would take any object for one.
      sc.submitJob[WholeOutcome, Any, Unit](
        new WholeRDD(sc, work, place.location),
        Bring,
        Seq(0),
        (_, result) => outcome.trySuccess(result),
        ())
    }
    action = Some(job)
    WholePlace.begins(place)
    job.onComplete { ended =>
      WholePlace.ended(place)
      outcome.tryFailure(ended.failed.getOrElse(WholeJob.wrong))
    }(StageMetrics.executor)
  }

  override def giveUp(): Unit = ()
  override def brought(): Any = WholeJob.awaited(outcome.future)(action.foreach(_.cancel()))
  override def ended: Future[Unit] = action.getOrElse(Future.unit)
}

private object RemoteWholeJob {

  private final class WholeRDD(
      @transient sc: SparkContext,
      work: WholeWork,
      @transient location: Option[String])
      extends RDD[WholeOutcome](sc, Nil) {
    override protected def getPartitions: Array[Partition] = Array(WholeJob.One)

    override protected def getPreferredLocations(split: Partition): Seq[String] = location.toSeq

    /** Spark copies what it brings to send it, and other tasks do the same. */
    override def compute(split: Partition, context: TaskContext): Iterator[WholeOutcome] =
      Iterator.single(WholeJob.orTooLarge(WholeJob.run(work, context,
            Runtime.getRuntime.maxMemory / 8)))
  }

  /** An object, not a closure: it can capture nothing. */
  private object Bring extends (Iterator[WholeOutcome] => Any) with Serializable {
    override def apply(outcomes: Iterator[WholeOutcome]): Any = outcomes.next()
  }
}
