package org.apache.spark.sql.coffer.plugin

import java.io.{InputStream, InvalidClassException, OutputStream}
import java.nio.ByteBuffer

import scala.reflect.ClassTag

import org.apache.spark.{ExceptionFailure, SparkContext, SparkEnv, TaskKilled}
import org.apache.spark.api.python.PythonAccumulatorV2
import org.apache.spark.scheduler.{DirectTaskResult, TaskResultGetter, TaskSchedulerImpl}
import org.apache.spark.serializer.{DeserializationStream, SerializationStream, SerializerInstance}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.transport.InJvm
import org.apache.spark.util.AccumulatorV2

/**
 * How the ends of a cluster's tasks are read: as everywhere, but for updates of a Python
 * accumulator. Such an update is a list of pickles, which the driver's Python would open, and
 * PySpark registers one such accumulator in every context. Each task of a function in Python sends
 * it, mostly empty: empty updates pass, and no others.
 *
 * Here is the only place to look. Spark merges updates into its accumulators in
 * `DAGScheduler.updateAccumulators` alone, of what comes by these three ends of tasks; what
 * heartbeats bring is copied for the UI. An accumulator of Python's takes no update of another
 * class, and the list in an update is of a listed class, which none of the driver's code adds to.
 */
private[coffer] object TaskEnds {

  /** Has this context's task ends read so. */
  def guard(sc: SparkContext): Unit = sc.taskScheduler match {
    case scheduler: TaskSchedulerImpl =>
      val old = scheduler.taskResultGetter
      scheduler.taskResultGetter = new GuardedResults(sc.env, scheduler)
      old.stop()
    case other => throw new CofferException(
        InJvm.CODE,
        s"the scheduler ${other.getClass.getName} reads tasks' results in a way that Coffer does " +
          s"not know",
        "use a cluster manager that Spark brings: standalone, YARN or Kubernetes")
  }

  private final class GuardedResults(env: SparkEnv, scheduler: TaskSchedulerImpl)
      extends TaskResultGetter(env, scheduler) {
    override protected val serializer: ThreadLocal[SerializerInstance] =
      ThreadLocal.withInitial(() => new GuardedInstance(env.closureSerializer.newInstance()))
  }

  private[coffer] final class GuardedInstance(under: SerializerInstance)
      extends SerializerInstance {
    override def serialize[T: ClassTag](value: T): ByteBuffer = under.serialize(value)
    override def deserialize[T: ClassTag](bytes: ByteBuffer): T =
      checked(under.deserialize[T](bytes))
    override def deserialize[T: ClassTag](bytes: ByteBuffer, loader: ClassLoader): T =
      checked(under.deserialize[T](bytes, loader))
    override def serializeStream(out: OutputStream): SerializationStream =
      under.serializeStream(out)

    override def deserializeStream(in: InputStream): DeserializationStream = {
      val stream = under.deserializeStream(in)
      new DeserializationStream {
        override def readObject[T: ClassTag](): T = checked(stream.readObject[T]())
        override def close(): Unit = stream.close()
      }
    }
  }

  private def checked[T](end: T): T = {
    val updates: Iterable[AccumulatorV2[_, _]] = end match {
      case r: DirectTaskResult[_] => r.accumUpdates
      case f: ExceptionFailure => f.accums
      case k: TaskKilled => k.accums
      case _ => Nil
    }
    updates.foreach {
      case python: PythonAccumulatorV2 if !python.isZero =>
        // As the filter itself would put it: what is refused is refused in one way.
        throw new InvalidClassException(
          "filter status: REJECTED (an update of a Python accumulator, which the driver's Python " +
            "would run)")
      case _ =>
    }
    end
  }
}
