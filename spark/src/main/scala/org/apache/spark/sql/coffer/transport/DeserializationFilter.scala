package org.apache.spark.sql.coffer.transport

import java.io.{InvalidClassException, ObjectInputFilter, ObjectInputStream}
import java.lang.reflect.Proxy
import java.net.URL

import io.netty.util.concurrent.FastThreadLocalThread

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.internal.{config, Logging}
import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.util.ByteBufferInputStream

/**
 * The driver's allow-list for Java deserialisation (JEP 290), sealing section 6: executors are
 * hostile, and Spark's RPC reads Java objects from them.
 *
 * What comes from a cluster is held to a list of exact classes ([[ListedClasses]]), each of which
 * only holds data. A package is no such thing: a `PriorityQueue` whose comparator is one of
 * Catalyst's calls any method of any class. The list holds before a context is made and between
 * contexts too: [[FilterFactory]] is asked for every object stream from the JVM's first one on.
 *
 * With a local master tasks run in this JVM and their closures are read here, so there packages are
 * allowed; but never to a thread of the network, to which nobody but a stranger sends objects then.
 */
object DeserializationFilter extends ObjectInputFilter with Logging {

  /** Whom the filter protects now. */
  private sealed trait Mode

  /** No context of Coffer's runs: it is before the first, or between two. */
  private case object Waiting extends Mode
  private final case class Cluster(allows: String => Boolean, limits: Limits) extends Mode
  private final case class Local(extra: Set[String]) extends Mode

  @volatile private var mode: Mode = Waiting

  override def checkInput(info: ObjectInputFilter.FilterInfo): ObjectInputFilter.Status =
    mode match {
      case Cluster(allows, limits) => held(info, allows, limits)
      case Local(extra) if !onNetwork => verdict(info, LocalClasses.contains(_, extra))
      case Waiting if plainSpark => ObjectInputFilter.Status.UNDECIDED
      case Local(_) | Waiting => held(info, ListedClasses.contains, Limits.default)
    }

  /** Whether this thread is one of those that Spark's RPC and block servers read with. */
  private def onNetwork: Boolean = Thread.currentThread.isInstanceOf[FastThreadLocalThread]

  /**
   * A context without Coffer is not ours to judge. As long as nobody knows whose it will be, the
   * list holds.
   */
  private def plainSpark: Boolean = Option(SparkEnv.get).exists(env => !hasPlugin(env.conf))

  private def hasPlugin(conf: SparkConf): Boolean =
    conf.get(config.PLUGINS).contains(CofferConf.PLUGIN)

  /** Of a stream that may come from elsewhere. */
  private[transport] def held(
      info: ObjectInputFilter.FilterInfo,
      allows: String => Boolean,
      limits: Limits): ObjectInputFilter.Status =
    if (limits.exceeded(info.depth, info.references, Limits.bytes(info))) {
      logWarning(
        s"an object of depth ${info.depth}, with ${info.references} references and an array of " +
          s"${info.arrayLength}, is too large")
      ObjectInputFilter.Status.REJECTED
    } else {
      val status = verdict(info, allows)
      ClassRecorder.saw(info, status)
      status
    }

  /**
   * The JVM asks for each class that a stream describes: of objects and of their superclasses, of
   * arrays, of enums, of `Class` objects, of the interfaces of proxies and of the proxies
   * themselves.
   */
  private def verdict(
      info: ObjectInputFilter.FilterInfo,
      allows: String => Boolean): ObjectInputFilter.Status =
    Option(info.serialClass).map(element) match {
      // A reference to what was read, or a class that is not there and so not made.
      case None => ObjectInputFilter.Status.UNDECIDED
      case Some(c)
          if c.isPrimitive || !Proxy.isProxyClass(c) &&
            allows(c.getName) => ObjectInputFilter.Status.ALLOWED
      case Some(c) =>
        if (c != classOf[URL]) logWarning(
          s"class ${c.getName} is not on the deserialisation allow-list; " +
            s"${CofferConf.ALLOW_CLASSES} adds to it")
        ObjectInputFilter.Status.REJECTED
    }

  private[coffer] def element(c: Class[_]): Class[_] =
    Iterator.iterate[Class[_]](c)(_.getComponentType).dropWhile(_.isArray).next()

  /** Whether any cluster may send objects of the class of that name. */
  private[coffer] def lists(name: String): Boolean = ListedClasses.contains(name)

  /**
   * Takes the side of a context that begins, or refuses to: proved by an object that must not be
   * read.
   */
  def install(conf: SparkConf): Unit = synchronized {
    val extra = AllowedClasses.of(conf)
    if (CofferConf.isLocal(conf)) {
      if (!InJvm.factory) InJvm.setFilter()
      mode = Local(extra)
      logInfo(
        "local master: tasks run in this JVM, so closures and Spark's own classes are " +
          "deserialised from it; what comes " +
          "over the network is held to the list of exact classes")
    } else {
      InJvm.requireFactory()
      val listed: String => Boolean =
        if (CofferConf.isLocalCluster(conf)) n =>
          ListedClasses.contains(n) ||
            ListedClasses.ofLocalClusters(n)
        else ListedClasses.contains
      mode = Cluster(n => listed(n) || extra(n), Limits.of(conf))
    }
    if (!bites(conf)) {
      release()
      throw new CofferException(
        InJvm.CODE,
        "the deserialisation allow-list does not hold in this JVM, so the driver cannot be " +
          "protected from its executors",
        "start the driver without code that sets a filter of its own for object streams")
    }
  }

  /** The context has ended, or did not begin: until the next the list of exact classes holds. */
  def release(): Unit = synchronized { mode = Waiting }

  /**
   * Sends a class that is on no list (a URL in a map resolves names on reading) the way an
   * executor's bytes come.
   */
  private def bites(conf: SparkConf): Boolean = {
    val serializer = new JavaSerializer(conf).newInstance()
    val bytes = serializer.serialize[AnyRef](new URL("http://localhost/"))
    def refused(read: => AnyRef): Boolean =
      try {
        read
        false
      } catch { case _: InvalidClassException => true }
    refused(serializer.deserialize[AnyRef](bytes.duplicate())) && (!InJvm.factory || refused {
      // A stream with a filter of its own is filtered by both.
      val stream = new ObjectInputStream(new ByteBufferInputStream(bytes.duplicate()))
      stream.setObjectInputFilter(_ => ObjectInputFilter.Status.ALLOWED)
      stream.readObject()
    })
  }
}
