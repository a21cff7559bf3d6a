package org.apache.spark.sql.coffer.driver

import java.io.{InvalidClassException, ObjectInputFilter}
import java.net.URL
import java.nio.ByteBuffer

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.sql.coffer.{CofferConf, CofferException}

/**
 * The driver's allow-list for Java deserialisation (JEP 290), sealing section 6: executors are hostile, and Spark's RPC reads Java
 * objects from them. It holds for the whole JVM, can be set once in its life, and is proved to bite before the driver goes on.
 *
 * It names packages whose serialisable classes do nothing but hold data. It is not a proof that no chain of allowed classes does
 * harm; that remains in the threat model.
 */
final class DeserializationFilter private (local: Boolean, extra: Seq[String])
    extends ObjectInputFilter
    with Logging {
  import DeserializationFilter._

  override def checkInput(info: ObjectInputFilter.FilterInfo): ObjectInputFilter.Status =
    Option(info.serialClass) match {
      case None => ObjectInputFilter.Status.UNDECIDED
      case Some(c) if allowed(c) => ObjectInputFilter.Status.ALLOWED
      case Some(c) =>
        if (c != classOf[URL])
          logWarning(s"class ${c.getName} is not on the deserialisation allow-list; ${CofferConf.ALLOW_CLASSES} adds to it")
        ObjectInputFilter.Status.REJECTED
    }

  private def allowed(c: Class[_]): Boolean = {
    val element = Iterator.iterate[Class[_]](c)(_.getComponentType).dropWhile(_.isArray).next()
    element.isPrimitive || allowedName(element.getName)
  }

  private[driver] def allowedName(name: String): Boolean =
    !denied.exists(name.startsWith) && (
      inPackage.exists(p => name.startsWith(p) && name.indexOf('.', p.length) < 0) ||
        prefixes.exists(name.startsWith) || exact(name) ||
        exceptionPackages.exists(name.startsWith) && (name.endsWith("Exception") || name.endsWith("Error")) ||
        local && localPrefixes.exists(name.startsWith) ||
        extra.exists(name.startsWith))
}

object DeserializationFilter extends Logging {

  // The package itself, not what is below it.
  private val inPackage = Seq("java.lang.", "java.util.", "java.util.concurrent.", "java.util.concurrent.atomic.",
    "java.util.concurrent.locks.", "java.math.", "java.time.")
  private val prefixes = Seq("scala.", "org.apache.spark.", "org.roaringbitmap.", "java.time.")
  private val exact = Set("java.io.File", "java.net.URI", "java.net.InetAddress", "java.net.Inet4Address",
    "java.net.Inet6Address", "java.net.InetSocketAddress", "java.sql.Date", "java.sql.Timestamp", "java.sql.Time")
  private val exceptionPackages = Seq("java.io.", "java.net.", "java.nio.", "java.sql.", "io.netty.", "org.apache.hadoop.")
  // Holders that call code which a stream names, whatever package they are in. SerializableWritable makes any Hadoop Writable.
  private val denied = Seq("scala.sys.", "scala.tools.",
    "org.apache.spark.SerializableWritable", "org.apache.spark.sql.hive.")
  // With a local master tasks run in this JVM: closures, the shell's classes and the filters of plain sources are
  // read back here.
  private val localPrefixes =
    Seq("java.lang.invoke.SerializedLambda", "$line", "org.apache.spark.SerializableWritable", "org.apache.hadoop.",
      "org.apache.parquet.")

  @volatile private var installed: Option[DeserializationFilter] = None

  /** Installs the filter, or proves that the one of an earlier SparkContext of this JVM stands. */
  def install(conf: SparkConf): Unit = synchronized {
    if (installed.isEmpty) {
      val extra = conf.get(CofferConf.ALLOW_CLASSES, "").split(',').map(_.trim).filter(_.nonEmpty).toSeq
      val filter = new DeserializationFilter(CofferConf.isLocal(conf), extra)
      try ObjectInputFilter.Config.setSerialFilter(filter)
      catch {
        case e: IllegalStateException =>
          throw new CofferException(
            "COFFER_DESERIALIZATION_FILTER",
            "another deserialisation filter is set in this JVM, so the driver cannot be protected from its executors",
            "start the driver without jdk.serialFilter (and without code that sets one)",
            e)
      }
      installed = Some(filter)
    }
    if (!(ObjectInputFilter.Config.getSerialFilter eq installed.orNull) || !bites(conf)) throw new CofferException(
      "COFFER_DESERIALIZATION_FILTER",
      "the deserialisation allow-list does not hold in this JVM, so the driver cannot be protected from its executors",
      "start the driver without jdk.serialFilterFactory (and without code that sets one)")
  }

  private[driver] def forTest(local: Boolean, extra: String*): DeserializationFilter =
    new DeserializationFilter(local, extra)

  /** Sends a class that is not on the list (a URL in a map resolves names on reading) the way an executor's bytes come. */
  private def bites(conf: SparkConf): Boolean = {
    val serializer = new JavaSerializer(conf).newInstance()
    val bytes: ByteBuffer = serializer.serialize[AnyRef](new URL("http://localhost/"))
    try {
      serializer.deserialize[AnyRef](bytes)
      false
    } catch { case _: InvalidClassException => true }
  }
}
