package org.apache.spark.sql.coffer.transport

import com.codahale.metrics.{Counter, Gauge, MetricRegistry}

import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.CofferTaskException
import org.apache.spark.sql.coffer.proto.wire.Counters

/**
 * Counts and sizes for Spark's metrics system, all of what the host sees anyway: no value, name or
 * text of a query. `docs/guides/operate.md` lists them.
 */
private[coffer] sealed abstract class Metrics(registry: MetricRegistry) {

  protected final def gauge(name: String)(value: => Long): Unit = {
    registry.register(
      name,
      new Gauge[Long] {
        override def getValue: Long = value
      })
    ()
  }

  protected final def counter(name: String): Counter = registry.counter(name)

  /** By code; those that a stranger made up are one. */
  protected final def failure(of: String, code: String): Unit = {
    val known = code.matches("[A-Za-z_]{1,40}") && Metrics.MOST > registry.getCounters.size
    counter(s"$of.failures.${if (known) code else "other"}").inc()
  }
}

private[coffer] object Metrics {
  private val MOST = 200
}

/** Of an executor and the engine beside it. */
private[coffer] final class ExecutorMetrics(registry: MetricRegistry, resident: () => Long)
    extends Metrics(registry) {
  gauge("engine.residentBytes")(resident())

  private val starts = counter("engine.starts")
  private val tasks = counter("tasks.done")
  private val counts: Seq[(Counter, Counters => Long)] = Seq(
    counter("engine.crossings") -> (_.getCrossings),
    counter("bytes.in") -> (_.getBytesIn),
    counter("bytes.out") -> (_.getBytesOut),
    counter("bytes.sealed") -> (_.getBytesSealed),
    counter("bytes.opened") -> (_.getBytesOpened),
    counter("bytes.read") -> (_.getBytesRead),
    counter("bytes.spilled") -> (_.getBytesSpilled))

  /** An engine was admitted. */
  def started(): Unit = starts.inc()

  /** Runs a task, and counts what came of it. */
  /** `counted`: what each task said that ran. */
  def counting[D](run: => D)(counted: D => Seq[Counters]): D =
    try {
      val done = run
      counted(done).foreach { said =>
        tasks.inc()
        counts.foreach { case (counter, of) => counter.inc(of(said)) }
      }
      done
    } catch {
      case e: CofferTaskException =>
        failure("tasks", e.code)
        throw e
      case e: CofferException =>
        failure("tasks", e.code)
        throw e
    }
}

/** Of the driver and the client engine. */
private[coffer] final class DriverMetrics(
    registry: MetricRegistry,
    resident: () => Long,
    sessions: () => Long,
    admissions: () => Long)
    extends Metrics(registry) {
  gauge("client.residentBytes")(resident())
  gauge("sessions.open")(sessions())
  gauge("engines.admitted")(admissions())

  /** The driver did not do what an executor asked for. */
  def refused(code: String): Unit = failure("executors", code)
}
