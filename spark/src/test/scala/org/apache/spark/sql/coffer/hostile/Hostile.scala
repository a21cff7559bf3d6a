package org.apache.spark.sql.coffer.hostile

import java.util.{Map => JMap}

import scala.collection.mutable
import scala.reflect.ClassTag
import scala.util.Random

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.scheduler.DirectTaskResult
import org.apache.spark.serializer.{DeserializationStream, SerializationStream, Serializer, SerializerInstance}

/**
 * An executor that lies, for the attack harness. Test code: it is in no jar that users get.
 *
 * `spark.plugins=…CofferPlugin,…hostile.HostilePlugin` puts it where a hostile executor is: before each task it may change what lies
 * on the executor's disk and in its block store, and it may change the task's result (map statuses, accumulators, sealed records)
 * on its way to the driver. The harness arms one lie for one query.
 */
class HostilePlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = null
  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    override def init(context: PluginContext, extra: JMap[String, String]): Unit = Hostile.install()
    override def onTaskStart(): Unit = Hostile.taskStarts(TaskContext.get())
  }
}

/** One lie, told while one query runs. Tasks run side by side, so a lie is told under a lock. */
abstract class Lie {

  /** Before the task reads anything. All outputs of the stages that it reads are there. */
  def atStart(context: TaskContext): Unit = ()

  /** After the task, before its result leaves. */
  def atEnd(result: TaskEnd): Unit = ()

  /** When the query has ended. What can be seen only then to have been done is noted now. */
  def atDisarm(): Unit = ()
}

/** What the harness says to the lying executor, through Py4J. */
object Hostile {
  private val lies: Map[String, Random => Lie] =
    ResultLies.all ++ RecordLies.all ++ ShuffleFileLies.all ++ BroadcastLies.all ++ ReadProperties.all
  private var lie: Option[Lie] = None
  private val deeds = mutable.ArrayBuffer.empty[String]

  /** The names of all lies. */
  def names(): Array[String] = lies.keys.toArray.sorted

  /** From now on this lie is told, wherever `seed` has it. */
  def arm(name: String, seed: Long): Unit = synchronized {
    deeds.clear()
    lie = Some(lies(name)(new Random(seed)))
  }

  /** Ends the lie. Gives what was done; nothing, if there was no occasion. */
  def disarm(): Array[String] = synchronized {
    lie.foreach(_.atDisarm())
    lie = None
    deeds.toArray
  }

  private[hostile] def did(what: String): Unit = synchronized { deeds += what }

  private[hostile] def install(): Unit = {
    val env = SparkEnv.get
    env.closureSerializer match {
      case _: LyingSerializer =>
      case honest =>
        val field = classOf[SparkEnv].getDeclaredField("closureSerializer")
        field.setAccessible(true)
        field.set(env, new LyingSerializer(honest))
    }
  }

  private[hostile] def taskStarts(context: TaskContext): Unit = synchronized(lie.foreach(_.atStart(context)))

  private[hostile] def taskEnds(result: DirectTaskResult[Any]): Unit = synchronized {
    val end = new TaskEnd(result)
    val records = end.records
    lie.foreach(_.atEnd(end))
    Museum.keep(records, end.value)
  }
}

/** Executors send results through the environment's closure serializer, and nothing else of the kind: there the lie is told. */
private final class LyingSerializer(honest: Serializer) extends Serializer {
  override def setDefaultClassLoader(loader: ClassLoader): Serializer = {
    honest.setDefaultClassLoader(loader)
    this
  }
  override def newInstance(): SerializerInstance = new LyingInstance(honest.newInstance())
}

private final class LyingInstance(honest: SerializerInstance) extends SerializerInstance {
  private def told[T](value: T): T = {
    value match {
      case result: DirectTaskResult[_] => Hostile.taskEnds(result.asInstanceOf[DirectTaskResult[Any]])
      case _ =>
    }
    value
  }

  override def serialize[T: ClassTag](value: T): java.nio.ByteBuffer = honest.serialize(told(value))
  override def deserialize[T: ClassTag](bytes: java.nio.ByteBuffer): T = honest.deserialize(bytes)
  override def deserialize[T: ClassTag](bytes: java.nio.ByteBuffer, loader: ClassLoader): T = honest.deserialize(bytes, loader)
  override def deserializeStream(in: java.io.InputStream): DeserializationStream = honest.deserializeStream(in)

  override def serializeStream(out: java.io.OutputStream): SerializationStream = {
    val stream = honest.serializeStream(out)
    new SerializationStream {
      override def writeObject[T: ClassTag](value: T): SerializationStream = {
        stream.writeObject(told(value))
        this
      }
      override def flush(): Unit = stream.flush()
      override def close(): Unit = stream.close()
    }
  }
}
