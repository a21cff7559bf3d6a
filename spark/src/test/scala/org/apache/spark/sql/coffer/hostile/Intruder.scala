package org.apache.spark.sql.coffer.hostile

import java.net.URL
import java.nio.file.{Files, Path}
import java.util.{HashMap => JHashMap}

import scala.concurrent.duration._
import scala.reflect.ClassTag
import scala.util.Random
import scala.util.control.NonFatal

import gadget.{Chain, Chains, Gadget}

import org.apache.spark.{SecurityManager, SparkEnv}
import org.apache.spark.internal.plugin.PluginMessage
import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.rpc.{RpcEnv, RpcTimeout}
import org.apache.spark.storage.{StorageLevel, TestBlockId}

/**
 * Somebody who reaches the driver's ports, as each executor does, and sends it objects over the
 * socket.
 */
object Intruder {
  private val targets = Seq("plugin", "heartbeat", "tracker", "blocks", "upload")
  private val harms: Seq[(String, () => AnyRef)] = Seq(
    "gadget" -> (() => new Gadget),
    "gadget in a list" -> (() => Some(List(new Gadget))),
    "gadget in an array" -> (() => Array[AnyRef]("a", new Gadget)),
    "gadget as a key" -> (() => keyed(new Gadget)),
    "URL as a key" -> (() => keyed(new URL("http://127.0.0.1:9/"))),
    "management exception" -> (() => new javax.management.BadAttributeValueExpException("a")),
    "object name" -> (() => new javax.management.ObjectName("a:b=c")),
    "change support" -> (() =>
      new java.beans.PropertyChangeSupport(new java.util.ArrayList[String]())),
    "random source" -> (() => new java.security.SecureRandom()),
    "naming exception" -> (() => new javax.naming.NamingException("a"))
  ) ++ Chains.all.map(built)

  private def built(chain: Chain): (String, () => AnyRef) =
    chain.name -> (() => chain.build(chain.mark, file(chain.name)))

  private lazy val folder: Path = Files.createTempDirectory("coffer-chains")
  private def file(chain: String): Path = folder.resolve(chain)

  /** Whether a gadget's own code, or a chain's, has ever run in this JVM. */
  def ran(): Boolean = Gadget.ran ||
    telling.exists(c => Chains.ran(c.mark, file(c.name), wait = false))

  /** Chains whose mark nothing else leaves: in a driver other classes may. */
  private def telling: Seq[Chain] = Chains.all.filter(_.sign.isEmpty)

  /** The same, of a chain of classes that are Java's, Scala's and Spark's own. */
  def sendChain(seed: Long): Array[String] =
    sent(seed, telling.map(built))

  /**
   * Sends one object that does harm when it is read. Gives what was sent where, and how the driver
   * answered, in two lines.
   */
  def send(seed: Long): Array[String] = sent(seed, harms)

  private def sent(seed: Long, from: Seq[(String, () => AnyRef)]): Array[String] = {
    val rng = new Random(seed)
    val target = targets(rng.nextInt(targets.size))
    val (name, harm) = from(rng.nextInt(from.size))
    val answer =
      try if (target == "upload") upload(harm()) else ask(target, harm())
      catch {
        case NonFatal(e) =>
          Iterator.iterate[Throwable](e)(_.getCause).takeWhile(_ != null).take(20).mkString("; ")
      }
    Array(s"$name to $target", answer)
  }

  private def ask(target: String, harm: AnyRef): String = {
    val env = SparkEnv.get
    val (endpoint: String, message: AnyRef) = target match {
      case "plugin" => "org.apache.spark.internal.plugin.PluginEndpoint" ->
          PluginMessage("org.apache.spark.sql.coffer.CofferPlugin", harm)
      case "heartbeat" => "HeartbeatReceiver" -> harm
      case "tracker" => "MapOutputTracker" -> harm
      case _ => "BlockManagerMaster" -> harm
    }
    val own = RpcEnv.create("intruder", "127.0.0.1", "127.0.0.1", 0, env.conf,
      new SecurityManager(env.conf), 1, clientMode = true)
    try {
      val there = own.setupEndpointRef(env.rpcEnv.address, endpoint)
      s"accepted: ${there.askSync[Any](message, new RpcTimeout(20.seconds, "intruder"))}"
    } finally {
      own.shutdown()
      own.awaitTermination()
    }
  }

  /**
   * A block whose class tag is the harm: the driver's block server reads it before it looks at the
   * block.
   */
  private def upload(harm: AnyRef): String = {
    val blocks = SparkEnv.get.blockManager
    val to = blocks.blockManagerId
    blocks.blockTransferService.uploadBlockSync(
      to.host,
      to.port,
      to.executorId,
      TestBlockId("intruder"),
      new NioManagedBuffer(java.nio.ByteBuffer.wrap(Array[Byte](1))),
      StorageLevel.MEMORY_ONLY,
      new HarmfulTag(harm))
    "accepted: block"
  }

  private def keyed(harm: AnyRef): AnyRef = {
    val map = new JHashMap[AnyRef, AnyRef]()
    map.put(harm, "value")
    map
  }
}

/** Travels as the metadata of a block. */
final class HarmfulTag(val harm: AnyRef) extends ClassTag[AnyRef] {
  override def runtimeClass: Class[_] = classOf[AnyRef]
}
