package org.apache.spark.sql.coffer.hostile

import java.util.{Map => JMap}

import scala.collection.mutable
import scala.reflect.ClassTag
import scala.util.Random

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.scheduler.DirectTaskResult
import org.apache.spark.serializer.{
  DeserializationStream,
  SerializationStream,
  Serializer,
  SerializerInstance
}
import org.apache.spark.sql.coffer.exec.WholeJob

/**
 * A malicious executor, for the attack harness. Test code: it is in no jar that users get.
 *
 * `spark.plugins=…CofferPlugin,…hostile.HostilePlugin` puts it where a hostile executor is: before
 * each task it may change what lies on the executor's disk and in its block store, and it may
 * change the task's result (map statuses, accumulators, sealed records) on its way to the driver.
 * The harness arms one mutation for one query.
 */
class HostilePlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = null
  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    override def init(context: PluginContext, extra: JMap[String, String]): Unit = Hostile.install()
    override def onTaskStart(): Unit = Hostile.taskStarts(TaskContext.get())
  }
}

/**
 * One mutation, applied while one query runs. Tasks run side by side, so a mutation is applied
 * under a lock.
 */
abstract class Mutation {

  /** Before the task reads anything. All outputs of the stages that it reads are there. */
  def atStart(context: TaskContext): Unit = ()

  /** After the task, before its result leaves. */
  def atEnd(result: TaskEnd): Unit = ()

  /** When the query has ended. What can be seen only then to have been done is noted now. */
  def atDisarm(): Unit = ()
}

/** What the harness says to the malicious executor, through Py4J. */
object Hostile {
  private val mutations: Map[String, Random => Mutation] =
    ResultMutations.all ++ WholeMutations.all ++ RecordMutations.all ++ ShuffleFileMutations.all ++
      BroadcastMutations.all ++ ReadProperties.all
  private var mutation: Option[Mutation] = None
  private val deeds = mutable.ArrayBuffer.empty[String]

  /** The names of all mutations. */
  def names(): Array[String] = mutations.keys.toArray.sorted

  /** From now on this mutation is applied, wherever `seed` has it. */
  def arm(name: String, seed: Long): Unit = synchronized {
    deeds.clear()
    mutation = Some(mutations(name)(new Random(seed)))
  }

  /** Ends the mutation. Gives what was done; nothing, if there was no occasion. */
  def disarm(): Array[String] = synchronized {
    mutation.foreach(_.atDisarm())
    mutation = None
    deeds.toArray
  }

  private[hostile] def did(what: String): Unit = synchronized { deeds += what }

  private[hostile] def install(): Unit = {
    WholeJob.travels = true
    val env = SparkEnv.get
    env.closureSerializer match {
      case _: LyingSerializer =>
      case honest =>
        val field = classOf[SparkEnv].getDeclaredField("closureSerializer")
        field.setAccessible(true)
        field.set(env, new LyingSerializer(honest))
    }
  }

  private[hostile] def taskStarts(context: TaskContext): Unit =
    synchronized(mutation.foreach(_.atStart(context)))

  private[hostile] def taskEnds(result: DirectTaskResult[Any]): Unit = synchronized {
    val end = new TaskEnd(result)
    val records = end.records
    mutation.foreach(_.atEnd(end))
    Museum.keep(records, end.value)
  }
}

/**
 * Executors send results through the environment's closure serializer, and nothing else of the
 * kind: there the mutation is applied.
 */
private final class LyingSerializer(honest: Serializer) extends Serializer {
  override def setDefaultClassLoader(loader: ClassLoader): Serializer = {
    honest.setDefaultClassLoader(loader)
    this
  }
  override def newInstance(): SerializerInstance = new LyingInstance(honest.newInstance())
}

private final class LyingInstance(honest: SerializerInstance) extends SerializerInstance {
  private def applied[T](value: T): T = {
    value match {
      case result: DirectTaskResult[_] =>
        Hostile.taskEnds(result.asInstanceOf[DirectTaskResult[Any]])
      case _ =>
    }
    value
  }

  override def serialize[T: ClassTag](value: T): java.nio.ByteBuffer =
    honest.serialize(applied(value))
  override def deserialize[T: ClassTag](bytes: java.nio.ByteBuffer): T = honest.deserialize(bytes)
  override def deserialize[T: ClassTag](bytes: java.nio.ByteBuffer, loader: ClassLoader): T =
    honest.deserialize(bytes, loader)
  override def deserializeStream(in: java.io.InputStream): DeserializationStream =
    honest.deserializeStream(in)

  override def serializeStream(out: java.io.OutputStream): SerializationStream = {
    val stream = honest.serializeStream(out)
    new SerializationStream {
      override def writeObject[T: ClassTag](value: T): SerializationStream = {
        stream.writeObject(applied(value))
        this
      }
      override def flush(): Unit = stream.flush()
      override def close(): Unit = stream.close()
    }
  }
}
