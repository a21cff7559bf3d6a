package org.apache.spark.sql.coffer.transport

import java.io.ObjectInputFilter
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths, StandardOpenOption}

import scala.collection.mutable
import scala.io.Source
import scala.util.Using

import org.apache.spark.SparkConf
import org.apache.spark.internal.config

/**
 * The classes of which a cluster may send objects: exact names, from reviewed files of this jar.
 * `ListedClassesSuite` says when they are stale, and that none of them calls code;
 * docs/decisions/0018 how they were made.
 */
private[transport] object ListedClasses {

  /**
   * A line of a file. `carriers`: which messages have it. `unseen`: why it is there although no
   * test sends it.
   */
  final case class Entry(name: String, carriers: String, unseen: Option[String])

  val EVERYWHERE = "coffer/deserialization-classes.txt"
  val LOCAL_CLUSTER = "coffer/deserialization-classes-local-cluster.txt"

  def contains(name: String): Boolean = everywhere(name)

  /**
   * With a master of `local-cluster` the daemons run in the driver's JVM and talk to each other
   * there. For tests.
   */
  def ofLocalClusters(name: String): Boolean = localCluster(name)

  private lazy val everywhere: Set[String] = read(EVERYWHERE).map(_.name).toSet
  private lazy val localCluster: Set[String] = read(LOCAL_CLUSTER).map(_.name).toSet

  private val line = """(\S+)\s+# (.*?)(?:; unseen: (.*))?""".r

  def read(resource: String): Seq[Entry] =
    Using.resource(Source.fromInputStream(getClass.getClassLoader.getResourceAsStream(resource),
        UTF_8.name)) { file =>
      file.getLines().map(_.trim).filterNot(l => l.isEmpty || l.startsWith("#")).map {
        case line(name, carriers, unseen) => Entry(name, carriers, Option(unseen))
        case other => throw new IllegalStateException(s"$resource: $other")
      }.toSeq
    }
}

/**
 * With a local master: closures, the shell's classes and the filters of plain sources are read back
 * in this JVM.
 */
private[transport] object LocalClasses {
  private val inPackage =
    Seq("java.lang.", "java.util.", "java.util.concurrent.", "java.util.concurrent.atomic.",
      "java.util.concurrent.locks.", "java.math.", "java.time.")
  private val prefixes =
    Seq("scala.", "org.apache.spark.", "org.roaringbitmap.", "java.time.", "$line",
      "org.apache.hadoop.", "org.apache.parquet.", "com.univocity.parsers.csv.")
  private val exact = Set("java.lang.invoke.SerializedLambda", "java.io.File", "java.net.URI",
    "java.net.InetAddress",
    "java.net.Inet4Address", "java.net.Inet6Address", "java.net.InetSocketAddress", "java.sql.Date",
    "java.sql.Timestamp", "java.sql.Time")
  private val exceptionPackages =
    Seq("java.io.", "java.net.", "java.nio.", "java.sql.", "io.netty.")
  private val denied = Seq("scala.sys.", "scala.tools.", "org.apache.spark.sql.hive.")

  def contains(name: String, extra: Set[String]): Boolean =
    exact(name) || extra(name) || !denied.exists(name.startsWith) && (
      inPackage.exists(p => name.startsWith(p) && name.indexOf('.', p.length) < 0) ||
        prefixes.exists(name.startsWith) ||
        exceptionPackages.exists(name.startsWith) && (name.endsWith("Exception") ||
          name.endsWith("Error")))
}

/**
 * What no object of Spark's, and no task's result, comes near: an array is allocated as long as it
 * says it is, and objects in objects take stack.
 *
 * @param array bytes of one array
 */
private[transport] final case class Limits(
    array: Long,
    depth: Long = 1000,
    references: Long = 1L << 27) {
  def exceeded(depth: Long, references: Long, array: Long): Boolean =
    depth > this.depth || references > this.references || array > this.array
}

private[transport] object Limits {
  val default: Limits = Limits(array = 1L << 30)

  /** A task's result is at most so long, or Spark drops it unread. */
  def of(conf: SparkConf): Limits = conf.get(config.MAX_RESULT_SIZE) match {
    case 0 => Limits(array = Long.MaxValue)
    case some => Limits(array = math.max(some, default.array))
  }

  /** Of the array that is about to be made; of a reference as many as it may have. */
  def bytes(info: ObjectInputFilter.FilterInfo): Long = {
    val element = Option(info.serialClass).flatMap(c => Option(c.getComponentType))
    element.filter(_.isPrimitive).map(sizes).getOrElse(8L) * math.max(info.arrayLength, 0L)
  }
  private val sizes: Map[Class[_], Long] = Map(
    classOf[Boolean] -> 1L, classOf[Byte] -> 1L, classOf[Short] -> 2L,
    classOf[Char] ->
      2L, classOf[Int] -> 4L,
    classOf[Float] -> 4L, classOf[Long] -> 8L, classOf[Double] -> 8L)
}

/**
 * Notes the classes that a cluster's streams ask for, in the file that the system property names:
 * how the lists are made and checked. It decides nothing.
 */
private[transport] object ClassRecorder {
  val FILE = "coffer.deserialization.record"

  private val seen = mutable.Set.empty[(String, String, String)]
  private val root = new ThreadLocal[String]

  def saw(info: ObjectInputFilter.FilterInfo, status: ObjectInputFilter.Status): Unit =
    for (file <- sys.props.get(FILE); c <- Option(info.serialClass)) {
      if (info.depth <= 1) root.set(c.getName)
      val element = DeserializationFilter.element(c)
      if (!element.isPrimitive)
        note(file, element.getName, status.toString, Option(root.get).getOrElse(""))
    }

  private def note(file: String, name: String, status: String, carrier: String): Unit =
    synchronized {
      if (seen.add((file, name, carrier))) Files.writeString(
        Paths.get(file),
        s"$name\t$status\t$carrier\n",
        StandardOpenOption.CREATE,
        StandardOpenOption.APPEND)
    }
}
