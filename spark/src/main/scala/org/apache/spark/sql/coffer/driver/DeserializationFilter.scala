package org.apache.spark.sql.coffer.driver

import java.io.{InvalidClassException, ObjectInputFilter}
import java.net.URL
import java.nio.ByteBuffer

import org.apache.spark.SparkConf
import org.apache.spark.internal.{config, Logging}
import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.sql.coffer.{CofferConf, CofferException}

/**
 * The driver's allow-list for Java deserialisation (JEP 290), sealing section 6: executors are hostile, and Spark's RPC reads Java
 * objects from them. It holds for the whole JVM, can be set once in its life, and is proved to bite before the driver goes on.
 *
 * It names packages whose serialisable classes do nothing but hold data, and bounds what a few bytes can claim: an array is allocated as
 * long as it says it is, and objects in objects take stack. It is not a proof that no chain of allowed classes does harm; that remains in the
 * threat model.
 *
 * @param limits none where executors are this JVM, which reads its own closures
 */
final class DeserializationFilter private (local: Boolean, extra: Seq[String], limits: Option[Limits])
    extends ObjectInputFilter
    with Logging {
  import DeserializationFilter._

  override def checkInput(info: ObjectInputFilter.FilterInfo): ObjectInputFilter.Status =
    Option(info.serialClass) match {
      case _ if limits.exists(_.exceeded(info.depth, info.references, bytes(info))) =>
        logWarning(
          s"an object of depth ${info.depth}, with ${info.references} references and an array of ${info.arrayLength}, is too large")
        ObjectInputFilter.Status.REJECTED
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
    local && localPrefixes.exists(name.startsWith) ||
      !denied.exists(name.startsWith) && (
        inPackage.exists(p => name.startsWith(p) && name.indexOf('.', p.length) < 0) ||
          prefixes.exists(name.startsWith) || exact(name) ||
          exceptionPackages.exists(name.startsWith) && (name.endsWith("Exception") || name.endsWith("Error")) ||
          extra.exists(name.startsWith))
}

/**
 * What no object of Spark's, and no task's result, comes near.
 *
 * @param array bytes of one array
 */
private[driver] final case class Limits(array: Long, depth: Long = 1000, references: Long = 1L << 27) {
  def exceeded(depth: Long, references: Long, array: Long): Boolean =
    depth > this.depth || references > this.references || array > this.array
}

object DeserializationFilter extends Logging {

  /** Of the array that is about to be made; of a reference as many as it may have. */
  private def bytes(info: ObjectInputFilter.FilterInfo): Long = {
    val element = Option(info.serialClass).flatMap(c => Option(c.getComponentType))
    element.filter(_.isPrimitive).map(sizes).getOrElse(8L) * math.max(info.arrayLength, 0L)
  }
  private val sizes: Map[Class[_], Long] = Map(
    classOf[Boolean] -> 1L, classOf[Byte] -> 1L, classOf[Short] -> 2L, classOf[Char] -> 2L, classOf[Int] -> 4L,
    classOf[Float] -> 4L, classOf[Long] -> 8L, classOf[Double] -> 8L)

  /** A task's result is at most so long, or Spark drops it unread. */
  private def limits(conf: SparkConf): Limits = conf.get(config.MAX_RESULT_SIZE) match {
    case 0 => Limits(array = Long.MaxValue)
    case some => Limits(array = math.max(some, 1L << 30))
  }

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
      "org.apache.parquet.", "com.univocity.parsers.csv.")

  @volatile private var installed: Option[DeserializationFilter] = None

  /** Installs the filter, or proves that the one of an earlier SparkContext of this JVM stands. */
  def install(conf: SparkConf): Unit = synchronized {
    if (installed.isEmpty) {
      val extra = conf.get(CofferConf.ALLOW_CLASSES, "").split(',').map(_.trim).filter(_.nonEmpty).toSeq
      val local = CofferConf.isLocal(conf)
      val filter = new DeserializationFilter(local, extra, if (local) None else Some(limits(conf)))
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
    new DeserializationFilter(local, extra, None)

  private[driver] def forTest(limits: Limits): DeserializationFilter = new DeserializationFilter(false, Nil, Some(limits))

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
