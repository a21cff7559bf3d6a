package org.apache.spark.sql.coffer.transport

import java.io.{InputStream, NotSerializableException, ObjectOutputStream, OutputStream}
import java.nio.ByteBuffer

import scala.collection.mutable
import scala.reflect.ClassTag

import org.apache.spark.{ExceptionFailure, SparkConf, SparkEnv}
import org.apache.spark.internal.Logging
import org.apache.spark.serializer.{
  DeserializationStream,
  SerializationStream,
  Serializer,
  SerializerInstance
}
import org.apache.spark.sql.coffer.common.CofferConf

/**
 * A failed task sends its exception along, which may be of any class. One that the driver would not
 * read takes the text of the failure with it, so it stays here; class name, message and trace go as
 * text in any case.
 */
private[coffer] object SentFailures extends Logging {

  /** Has this executor send failures so. */
  def install(conf: SparkConf): Unit = {
    val env = SparkEnv.get
    val extra = CofferConf.allowedClasses(conf)
    try {
      // Executors send the ends of tasks through the environment's closure serializer, and nothing
      // else of the kind.
      val field = classOf[SparkEnv].getDeclaredField("closureSerializer")
      field.setAccessible(true)
      field.set(env,
        new FailureSerializer(env.closureSerializer,
          name => DeserializationFilter.lists(name) || extra(name)))
    } catch {
      case e: ReflectiveOperationException => logWarning("exceptions that the driver does not " +
            "read take their text along", e)
    }
  }

  private[coffer] def sent[T](value: T, listed: String => Boolean): T = value match {
    case f: ExceptionFailure if f.exception.exists(e => !classes(e).forall(listed)) =>
      ExceptionFailure(f.className, f.description, f.stackTrace, f.fullStackTrace, None,
        f.accumUpdates, f.accums, f.metricPeaks)
        .asInstanceOf[T]
    case _ => value
  }

  /** Of an exception and all in it; none, if it cannot be sent, with which Spark deals. */
  private def classes(e: Throwable): Set[String] = {
    val found = mutable.Set.empty[String]
    val stream = new ObjectOutputStream(OutputStream.nullOutputStream()) {
      override protected def annotateClass(c: Class[_]): Unit =
        found += DeserializationFilter.element(c).getName
      override protected def annotateProxyClass(c: Class[_]): Unit = found += c.getName
    }
    try {
      stream.writeObject(e)
      found.toSet.filterNot(primitives)
    } catch { case _: NotSerializableException => Set.empty }
  }

  private val primitives =
    Set("boolean", "byte", "char", "double", "float", "int", "long", "short", "void")
}

private final class FailureSerializer(under: Serializer, listed: String => Boolean)
    extends Serializer {
  override def setDefaultClassLoader(loader: ClassLoader): Serializer = {
    under.setDefaultClassLoader(loader)
    this
  }
  override def newInstance(): SerializerInstance = new FailureInstance(under.newInstance(), listed)
}

private final class FailureInstance(under: SerializerInstance, listed: String => Boolean)
    extends SerializerInstance {
  override def serialize[T: ClassTag](value: T): ByteBuffer =
    under.serialize(SentFailures.sent(value, listed))
  override def deserialize[T: ClassTag](bytes: ByteBuffer): T = under.deserialize(bytes)
  override def deserialize[T: ClassTag](bytes: ByteBuffer, loader: ClassLoader): T =
    under.deserialize(bytes, loader)
  override def deserializeStream(in: InputStream): DeserializationStream =
    under.deserializeStream(in)
  override def serializeStream(out: OutputStream): SerializationStream = under.serializeStream(out)
}
