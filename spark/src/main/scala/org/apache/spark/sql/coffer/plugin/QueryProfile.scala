package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.coffer.exec.{
  ClientRowsExec,
  CofferFragmentExec,
  CofferRootExec,
  CountedStage
}
import org.apache.spark.sql.coffer.translate.Support
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.status.api.v1.TaskData

/**
 * One finished query by numbers, as one flat JSON object. Milliseconds are sums over tasks where
 * several run at once, so they add up to more than the time that has passed:
 *   - `planning_ms` Catalyst's phases; `sealing_ms` translating and sealing the stages
 *   - `check_us`    of planning: what is supported; `audit_us` of sealing: the audit log (micros)
 *   - `launch_ms`   what tasks waited for: scheduling, deserialising, sending results
 *   - `engine_ms`   the operators themselves, by the engines' own clocks
 *   - `wire_ms`     the rest of the tasks' run time: frames (sealing included), sockets, shuffle
 *     files, waiting for each other
 */
object QueryProfile {
  private val MAX_TASKS = 100000

  def of(query: QueryExecution): String = {
    val plan = query.executedPlan
    val sc = plan.session.sparkContext
    sc.listenerBus.waitUntilEmpty()
    val nodes = walk(plan)
    val stages = nodes.collect { case s: CountedStage => s }
    def counted(name: String): Long = stages.map(_.metrics(name).value).filter(_ > 0).sum
    val engine = nodes.collect { case f: CofferFragmentExec => f.metrics }.flatMap(_.collect {
      case (name, metric) if name.startsWith("time.") => metric.value
    }).sum / 1000000
    val tasks = lastTasks(plan)
    // Where one task waits for all of it, the engine has as many threads.
    val threads = plan match {
      case r: CofferRootExec if r.ranWhole.isDefined => sc.defaultParallelism
      case _ => 1
    }
    val running = tasks.flatMap(_.taskMetrics).map(_.executorRunTime).sum * threads
    val launch = tasks.map { t =>
      t.schedulerDelay + t.taskMetrics.map(m =>
        m.executorDeserializeTime + m.resultSerializationTime).getOrElse(0L)
    }.sum
    val numbers = Seq(
      "crossings" -> counted("crossings"),
      "bytes_sealed" -> counted("bytesSealed"),
      "bytes_opened" -> counted("bytesOpened"),
      "frames_sealed" -> counted("framesSealed"),
      "bytes_read" -> counted("bytesRead"),
      "bytes_spilled" -> counted("bytesSpilled"),
      "stages" -> stages.size.toLong,
      "tasks" -> tasks.size.toLong,
      "planning_ms" -> query.tracker.phases.values.map(_.durationMs).sum,
      "sealing_ms" -> counted("sealTime"),
      "check_us" -> Support.takeSpent() / 1000,
      "audit_us" -> nodes.collectFirst { case r: CofferRootExec => r.query.auditMicros }.getOrElse(
        0L),
      "launch_ms" -> launch,
      "engine_ms" -> engine,
      "wire_ms" -> math.max(0L, running - engine))
    numbers.map { case (name, value) => s"\"$name\": $value" }.mkString("{", ", ", "}")
  }

  /** The tasks of the execution that began last. */
  private def lastTasks(plan: SparkPlan): Seq[TaskData] = {
    val executions = plan.session.sharedState.statusStore
    val store = plan.session.sparkContext.statusStore
    val last =
      executions.executionsList(math.max(0, executions.executionsCount().toInt - 1), 1).lastOption
    last.toSeq.flatMap(_.stages).flatMap { stage =>
      // A stage that was skipped has no attempt.
      store.asOption(store.lastStageAttempt(stage)).toSeq.flatMap(s =>
        store.taskList(stage, s.attemptId, MAX_TASKS))
    }
  }

  /** Each node that ran once: what is reused was counted where it was made. */
  private def walk(plan: SparkPlan): Seq[SparkPlan] = {
    val below = plan match {
      case r: CofferRootExec if r.ranWhole.isDefined => r.ranWhole.toSeq
      case a: AdaptiveSparkPlanExec => Seq(a.executedPlan)
      case q: QueryStageExec => Seq(q.plan)
      case rows: ClientRowsExec => Seq(rows.root)
      case _: org.apache.spark.sql.execution.exchange.ReusedExchangeExec |
          _: ReusedSubqueryExec => Nil
      case p => p.children ++ p.subqueries
    }
    plan +: below.flatMap(walk)
  }
}
