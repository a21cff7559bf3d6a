package org.apache.spark.sql.coffer.exec

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.sql.coffer.common.CofferException

/**
 * What a task of a result or sample stage brings to the client: one sealed stream and its sealed
 * records.
 */
final case class TaskOutcome(
    partition: Int,
    stream: Array[Byte],
    commit: Array[Byte],
    counters: Array[Byte],
    metrics: Array[Byte]) {
  def report: TaskReport = TaskReport(partition, counters, metrics)

  /**
   * Whether it is all there: an executor's object of this class need not have been made by our
   * constructor.
   */
  def isWhole: Boolean = Seq(stream, commit, counters, metrics).forall(_ != null)
}

/** Runs a sealed stage whose streams come to the driver. */
object ResultJob {

  def run(sc: SparkContext, rdd: SealedRDD, partitions: Seq[Int]): Seq[TaskOutcome] =
    NeutralJob.run(sc) {
      // As what they are said to be only after a look: Spark would take any object for one.
      sc.runJob[SealedTask, Any](rdd, CollectStream, partitions).toSeq.map(checked)
    }

  private[exec] def checked(result: Any): TaskOutcome = result match {
    case outcome: TaskOutcome if outcome.isWhole => outcome
    case _ => throw somethingElse
  }

  private[exec] def somethingElse: CofferException = new CofferException(
    "COFFER_TASK_RESULT",
    "a task came to the client with something else than the result of a sealed task",
    "run the query again; if it persists, an executor tampers with task results")

  /** An object, not a closure: it can capture nothing. */
  private object CollectStream extends ((TaskContext, Iterator[SealedTask]) => TaskOutcome)
      with Serializable {
    override def apply(context: TaskContext, runs: Iterator[SealedTask]): TaskOutcome = {
      val run = runs.next()
      // Spark copies it to send it, and other tasks do the same.
      val streams = new ResultStreams(Runtime.getRuntime.maxMemory / 8)
      val done = run.run { (target, bytes) =>
        if (target != 0) throw new CofferException(
          "COFFER_ENGINE_PROTOCOL",
          s"the engine sent target $target of a result",
          "use the engine and the jar of one build")
        streams.write(target, bytes)
      }
      TaskOutcome(
        run.partition,
        streams.closed().getOrElse(0, Array.emptyByteArray),
        done.getSealedCommit.toByteArray,
        done.getCounters.toByteArray,
        done.getSealedMetrics.toByteArray)
    }
  }
}
