package org.apache.spark.sql.coffer.transport

import java.nio.file.Path
import java.util.{Base64, UUID}
import java.util.concurrent.{ConcurrentHashMap, ExecutorService}
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import com.codahale.metrics.MetricRegistry
import com.google.protobuf.ByteString

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.{Client, ClientEngine, CofferConf, CofferException}
import org.apache.spark.sql.coffer.exec.CofferQuery
import org.apache.spark.sql.coffer.proto.wire.{
  AdmitEngine,
  EngineEvidence,
  Hello,
  ReleaseKeys,
  Welcome
}
import org.apache.spark.util.{ThreadUtils, Utils}

/**
 * The driver's half of the plugin: the client engine beside it, and a desk that answers executors.
 * One for each SparkContext.
 */
final class CofferDriver private (
    val application: String,
    process: Option[EngineProcess],
    client: ClientConnections,
    val welcome: Welcome)
    extends Client
    with AutoCloseable
    with Logging {

  /** What Spark is about to hand out. */
  private val settings = new Settings(client)

  override def engine: ClientEngine = client
  override def checkSettings(settings: Iterable[(String, String)]): Unit =
    this.settings.check(settings)

  private val workers: ExecutorService = ThreadUtils.newDaemonCachedThreadPool("coffer-driver", 16)
  private val tickets = new AtomicLong()
  private val answers = new ConcurrentHashMap[Long, Answer]()
  @volatile private var simulated = false

  override def simulatedEvidence: Boolean = simulated

  private val known = new AdmittedEngines

  /** Those that were admitted last, as far as this process can say. */
  def engines: Seq[AdmittedEngine] = known.last

  @volatile private var counts: Option[DriverMetrics] = None

  /** From now on, this is counted in Spark's metrics. */
  def countIn(registry: MetricRegistry): Unit = counts = Some(
    new DriverMetrics(registry, () => process.fold(0L)(_.residentBytes),
      () => CofferQuery.liveSessions.toLong, () => known.admissions))

  /** Runs in the plugin endpoint's only thread: never waits for the client engine. */
  def receive(message: Any): Array[Byte] = {
    val ask = message match {
      case bytes: Array[Byte] => Ask.decode(bytes)
      case _ => None
    }
    val answer = ask match {
      case Some(Ask.Poll(ticket)) => poll(ticket)
      // Whoever holds an executor may ask as often as it likes and never come for an answer.
      case Some(_) if answers.size >= CofferDriver.MOST_ASKED =>
        Answer.Refused("COFFER_DRIVER", "the driver has too many questions of executors before it",
          "let Spark try again")
      case Some(question) =>
        val ticket = tickets.incrementAndGet()
        answers.put(ticket, Answer.NotYet)
        workers.execute(() => answers.put(ticket, answerTo(question)))
        Answer.Ticket(ticket)
      case None => Answer.Refused("COFFER_RPC", "a message of unknown kind",
          "use one build of the jar on all nodes")
    }
    answer.encode
  }

  private def poll(ticket: Long): Answer = answers.get(ticket) match {
    case null =>
      Answer.Refused("COFFER_TICKET", "this ticket is not known, or was answered before", "")
    case Answer.NotYet => Answer.NotYet
    case answer =>
      answers.remove(ticket)
      answer
  }

  private def answerTo(ask: Ask): Answer =
    try ask match {
        case Ask.NewChallenge() => Answer.Bytes(client.newChallenge().toByteArray)
        case Ask.Admit(evidence, challenge) =>
          val admitted = client.admitEngine(
            AdmitEngine.newBuilder
              .setEvidence(ByteString.copyFrom(evidence))
              .setChallenge(ByteString.copyFrom(challenge))
              .build())
          if (admitted.getSimulated) {
            if (!simulated)
              logWarning("Engines run on simulated evidence: nothing proves what code they are.")
            simulated = true
          }
          known.admitted(EngineEvidence.parseFrom(evidence), admitted)
          Answer.Bytes(admitted.getEngineIdBytes.toByteArray)
        case Ask.Keys(session, engineId) =>
          val release = client.releaseKeys(
            ReleaseKeys.newBuilder.setSession(ByteString.copyFrom(session)).setEngineId(
              engineId).build())
          Answer.Bytes(release.toByteArray)
        case Ask.Attempts(session, producers) =>
          CofferQuery.bySession(ByteString.copyFrom(session)) match {
            case Some(query) => Answer.Many(producers.map(query.currentAttempts(_).toByteArray))
            case None =>
              Answer.Refused("COFFER_SESSION_ENDED", "the query of this task has ended", "")
          }
        case Ask.Poll(ticket) => poll(ticket)
      }
    catch {
      case e: CofferException =>
        counts.foreach(_.refused(e.code))
        Answer.Refused(e.code, e.plain, e.hint)
      case NonFatal(e) =>
        logWarning("A request of an executor failed", e)
        Answer.Refused("COFFER_DRIVER", "the driver could not answer an executor; see its log", "")
    }

  override def close(): Unit = {
    workers.shutdownNow()
    client.close()
    process.foreach(_.close())
  }
}

object CofferDriver extends Logging {
  private val MOST_ASKED = 4096

  def start(sc: SparkContext): CofferDriver = {
    val conf = sc.conf
    val application = s"coffer-${UUID.randomUUID}"
    val service = conf.getOption(CofferConf.CLIENT_SOCKET)
    if (service.isDefined && conf.contains(CofferConf.CLIENT_ADDRESS)) throw new CofferException(
      "COFFER_CONF",
      s"both ${CofferConf.CLIENT_SOCKET} and ${CofferConf.CLIENT_ADDRESS} are set",
      "set one of them: a key service is reached here or over the network")
    val process =
      if (conf.contains(CofferConf.CLIENT_ADDRESS)) Some(startRelay(conf))
      else if (service.isDefined) None
      else Some(startClient(conf))
    try {
      val greeting = Hello.newBuilder
        .setProtocol(CofferConf.PROTOCOL)
        .setApplication(application)
        .setClusterDeployMode(sc.deployMode == "cluster")
        .setLocalMaster(CofferConf.isLocal(conf))
        .setNetworkSealed(CofferConf.networkSealed(conf))
        .setHostEngines(CofferConf.hostEngines(conf))
        .build()
      val address =
        process.map(_.address).orElse(service.map(path => Address.parse(s"unix:$path"))).get
      val client =
        new ClientConnections(address, greeting, () => process.flatMap(_.exitReport),
          () => sc.hadoopConfiguration)
      val welcome = client.hello()
      val driver = new CofferDriver(application, process, client, welcome)
      driver.settings.checkAll(sc)
      Client.start(driver)
      if (CofferConf.hostEngines(conf))
        logWarning(
          "No enclaves (spark.coffer.enclave=none): engines hold no keys, and nothing verifies " +
            "that results are right.")
      driver
    } catch {
      case e: Throwable =>
        process.foreach(_.close())
        throw e
    }
  }

  /** What the client engine starts, from beside itself. */
  private val HELPERS = Seq("coffer-attest", "coffer-aws", Programs.RELAY)

  private def clientProgram(conf: SparkConf): Path = {
    def folders = Seq(Utils.getLocalDir(conf), sys.props("java.io.tmpdir"))
    Programs.locate("coffer-client", conf.getOption(CofferConf.CLIENT_PATH),
      CofferConf.CLIENT_PATH,
      name =>
        CarriedPrograms.here.unpack(name +: HELPERS, Utils.getContextOrSparkClassLoader, folders))
  }

  /**
   * What brings this driver's requests to a key service on another machine. It has the user's
   * certificate, and no key of data.
   */
  private def startRelay(conf: SparkConf): EngineProcess = {
    def file(key: String) = conf.getOption(key).getOrElse(throw new CofferException(
        "COFFER_CONF",
        s"${CofferConf.CLIENT_ADDRESS} is set and $key is not",
        s"set ${CofferConf.CLIENT_CERTIFICATE}, ${CofferConf.CLIENT_KEY} and " +
          s"${CofferConf.CLIENT_AUTHORITY} to files in PEM form"))
    val arguments = Seq(
      "--connect", conf.get(CofferConf.CLIENT_ADDRESS),
      "--certificate", file(CofferConf.CLIENT_CERTIFICATE),
      "--key", file(CofferConf.CLIENT_KEY),
      "--authority", file(CofferConf.CLIENT_AUTHORITY),
      "--lifeline", "stdin")
    EngineProcess.start("relay", clientProgram(conf).resolveSibling(Programs.RELAY),
      passphrase = false)((_: Path) => arguments)
  }

  private def startClient(conf: SparkConf): EngineProcess = {
    val binary = clientProgram(conf)
    val arguments = Seq("--lifeline", "stdin") ++ CofferConf.CONFIG_DIR.get(conf).toSeq.flatMap(
      Seq("--config-dir", _)) ++
      conf.getOption(CofferConf.PASSPHRASE_FILE).toSeq.flatMap(Seq("--passphrase-file", _)) ++
      conf.getOption(CofferConf.USER).toSeq.flatMap(Seq("--user", _))
    EngineProcess.start("client engine", binary, passphrase = true)((_: Path) => arguments)
  }

  def stop(driver: CofferDriver): Unit = {
    Client.stop(driver)
    driver.close()
  }

  private[coffer] def encode(bytes: ByteString): String =
    Base64.getEncoder.encodeToString(bytes.toByteArray)
}
