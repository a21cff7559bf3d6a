package org.apache.spark.sql.coffer.transport

import java.io.IOException
import java.nio.file.{Files, Path, Paths}
import java.util.Base64
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.LockSupport

import com.google.protobuf.ByteString
import org.apache.hadoop.conf.Configuration

import org.apache.spark.SparkEnv
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.exec.{SealedTasks, WholeJob}
import org.apache.spark.sql.coffer.proto.wire.{Attest, EngineEvidence, Refused, TaskMessage => M}
import org.apache.spark.util.Utils

/** An engine that the driver has admitted, and the connections to it. */
final class AttestedEngine(
    val id: String,
    val address: Address,
    val pool: ChannelPool,
    process: Option[EngineProcess]) {

  /** When it proved itself last, by System.nanoTime. */
  @volatile private[transport] var proved: Long = System.nanoTime()

  def isAlive: Boolean = process.forall(_.isAlive)
  def exitReport: Option[String] = process.flatMap(_.exitReport)

  /** Bytes in RAM; 0 where it runs elsewhere. */
  def residentBytes: Long = process.fold(0L)(_.residentBytes)

  def close(): Unit = {
    pool.close()
    process.foreach(_.close())
  }
}

/**
 * The executor's half of the plugin. It carries opaque bytes between Spark and the engine beside
 * it: keys, fragments and rows are sealed for the engine, and nothing here could open them.
 */
final class CofferExecutor private (context: PluginContext, extra: Map[String, String])
    extends Logging {
  private val conf = context.conf
  private val application = setting(CofferConf.APPLICATION)
  private val ownerKey = Base64.getDecoder.decode(setting(CofferConf.OWNER_KEY))
  @volatile private var current: Option[AttestedEngine] = None
  private var closed = false

  val metrics = new ExecutorMetrics(context.metricRegistry,
    () => current.fold(0L)(_.residentBytes))

  private def setting(key: String): String = extra.getOrElse(
    key,
    throw new CofferException(
      "COFFER_EXECUTOR",
      s"the driver's plugin did not hand over its $key",
      "use one build of the jar on all nodes"))

  /** What Spark's own tasks here would read files by. */
  lazy val hadoop: Configuration = SparkHadoopUtil.get.newConfiguration(SparkEnv.get.conf)

  /** The engine, started and attested at need: at first use, and again after it died. */
  def engine(): AttestedEngine = synchronized {
    if (closed) throw new CofferException("COFFER_EXECUTOR", "this executor is shutting down", "")
    current.filterNot(_.isAlive).foreach { dead =>
      logWarning(s"${dead.exitReport.getOrElse("the engine has ended")}; starting another")
      dead.close()
      current = None
    }
    current match {
      case Some(engine) =>
        // In time: once it is too late, the sessions whose keys it has are ended.
        if (renewNanos > 0 && System.nanoTime() - engine.proved > renewNanos / 2) renew(engine)
        engine
      case None =>
        val engine = start()
        metrics.started()
        current = Some(engine)
        engine
    }
  }

  private val renewNanos =
    TimeUnit.SECONDS.toNanos(extra.get(CofferConf.RENEW_SECONDS).fold(0L)(_.toLong))

  /**
   * What it proved before still counts, or the driver says that it does not when keys are asked
   * for.
   */
  private def renew(engine: AttestedEngine): Unit =
    try attestAgain(engine, engine.proved)
    catch {
      case e: CofferException => logWarning(s"the engine could not prove itself again: " +
          s"${e.getMessage}")
    }

  /**
   * Has an engine prove itself again that did so last at `proved`, as far as the caller knows:
   * others may have been faster.
   */
  def attestAgain(engine: AttestedEngine, proved: Long): Unit = engine.synchronized {
    if (engine.proved == proved) {
      attest(engine.address, engine.pool)
      engine.proved = System.nanoTime()
    }
  }

  /**
   * The session's keys for an engine. One that the driver does not know any more, by its age or by
   * a policy that changed, proves itself anew.
   */
  def keys(session: Array[Byte], engine: AttestedEngine): Array[Byte] = {
    val proved = engine.proved
    try bytes(ask(Ask.Keys(session, engine.id)))
    catch {
      case e: CofferException if e.code == CofferExecutor.ENGINE_UNKNOWN =>
        attestAgain(engine, proved)
        bytes(ask(Ask.Keys(session, engine.id)))
    }
  }

  /**
   * A connection to this engine broke, or it has no keys. One that is not this executor's child
   * says nothing when it ends: whatever listens at its address now has yet to prove itself.
   */
  def lost(engine: AttestedEngine): Unit = synchronized {
    if (configured.isDefined && current.exists(_ eq engine)) {
      engine.close()
      current = None
    }
  }

  private val configured = conf.getOption(CofferConf.ENGINE_ADDRESS).map(Address.parse)

  /** Whether the engine has a machine of its own, where this one's files are not. */
  val isApart: Boolean = configured.exists(_.isInstanceOf[Address.Vsock])

  /** Brings connections into the engine's machine. It holds no key. */
  private var relay: Option[EngineProcess] = None

  private def throughRelay(address: Address): Address = {
    val open = relay.filter(_.isAlive).getOrElse {
      relay.foreach(_.close())
      val started = EngineProcess.start("relay", relayProgram, passphrase = false)((_: Path) =>
        Seq("--engine", address.toString, "--lifeline", "stdin"))
      relay = Some(started)
      started
    }
    open.address
  }

  private def start(): AttestedEngine = {
    val process = if (configured.isEmpty) Some(startProcess()) else None
    process.foreach(ofThisBuild)
    val address = configured match {
      case Some(machine: Address.Vsock) => throughRelay(machine)
      case Some(address) => address
      case None => process.get.address
    }
    val pool = new ChannelPool(address)
    try new AttestedEngine(attest(address, pool), address, pool, process)
    catch {
      case e: Throwable =>
        pool.close()
        process.foreach(_.close())
        throw e
    }
  }

  // Plugins are made with the application's jars in sight; whose thread asks for an engine later is
  // not said.
  private val jars = Utils.getContextOrSparkClassLoader

  /** Unpacked once in this JVM where a jar carries it. */
  private def program(name: String, configured: Option[String]): Path = {
    def folders = Seq(Utils.getLocalDir(conf), sys.props("user.dir"), sys.props("java.io.tmpdir"))
    Programs.locate(name, configured, CofferConf.ENGINE_PATH,
      name => CarriedPrograms.here.unpack(Seq(name), jars, folders))
  }

  /** Beside the engine or the client engine where their places are configured. */
  private def relayProgram: Path = {
    val beside = Seq(CofferConf.ENGINE_PATH, CofferConf.CLIENT_PATH).flatMap(conf.getOption(_))
      .map(Paths.get(_).resolveSibling(Programs.RELAY)).find(Programs.isProgram)
    program(Programs.RELAY, beside.map(_.toString))
  }

  private def startProcess(): EngineProcess = {
    val engine = program("coffer-engine", conf.getOption(CofferConf.ENGINE_PATH))
    EngineProcess.start("engine", engine, passphrase = false) { (_: Path) =>
      val spill = Files.createTempDirectory(Paths.get(Utils.getLocalDir(conf)), "coffer-spill-")
      Seq(
        "--memory", conf.get(CofferConf.ENGINE_MEMORY, CofferConf.DEFAULT_ENGINE_MEMORY),
        "--spill-dir", spill.toString,
        "--evidence", conf.get(CofferConf.ENGINE_EVIDENCE, "auto"),
        "--lifeline", "stdin")
    }
  }

  /**
   * Says early and plainly what the client engine would refuse anyway: an engine of another version
   * has another protocol.
   */
  private def ofThisBuild(process: EngineProcess): Unit = {
    val wanted = setting(CofferConf.ENGINE_VERSION)
    if (process.ready.version != wanted) {
      process.close()
      throw new CofferException(
        "COFFER_ENGINE_VERSION",
        s"the engine on this executor is version ${process.ready.version}, the driver's client " +
          s"engine is $wanted",
        s"install one build on all nodes, or point ${CofferConf.ENGINE_PATH} at the engine of " +
          s"version $wanted")
    }
  }

  /**
   * Challenge from the driver, evidence from the engine, verdict from the driver; both ends' bytes
   * are opaque here.
   */
  private def attest(address: Address, pool: ChannelPool): String = {
    val start = System.nanoTime()
    val challenge = bytes(ask(Ask.NewChallenge()))
    val message =
      try pool.lend { channel =>
          channel.send(
            M.ATTEST.getNumber,
            Attest.newBuilder
              .setProtocol(CofferConf.PROTOCOL)
              .setOwnerKey(ByteString.copyFrom(ownerKey))
              .setChallenge(ByteString.copyFrom(challenge))
              .setApplication(application)
              .build())
          channel.receive()
        }
      catch {
        case e: IOException =>
          throw new CofferException(
            "COFFER_ENGINE_LOST",
            s"no engine answers at $address: ${e.getMessage}",
            s"see the engine's messages in the executor's log, or check " +
              s"${CofferConf.ENGINE_ADDRESS}",
            e)
      }
    val evidence = message.kind match {
      case M.EVIDENCE_VALUE => message.bytes
      case M.REFUSED_VALUE =>
        val refused = Refused.parseFrom(message.payload)
        throw new CofferException(refused.getCode, "the engine refused to attest", refused.getHint)
      case other => throw CofferExecutor.outOfTurn(other)
    }
    val id = new String(bytes(ask(Ask.Admit(evidence, challenge))), "UTF-8")
    val engine = EngineEvidence.parseFrom(evidence)
    val millis = (System.nanoTime() - start) / 1000000
    logInfo(s"engine $id (${AdmittedEngines.kinds(engine)} evidence, version " +
      s"${engine.getEngineVersion}) is admitted, in $millis ms")
    id
  }

  /**
   * Asks the driver and polls for its answer: its endpoint has one thread, which must not wait for
   * anything.
   */
  def ask(question: Ask): Answer = {
    val asked = System.nanoTime()
    val deadline = asked + TimeUnit.SECONDS.toNanos(CofferExecutor.ASK_SECONDS)
    var answer = send(question)
    answer match {
      case Answer.Ticket(ticket) =>
        answer = send(Ask.Poll(ticket))
        while (answer == Answer.NotYet && System.nanoTime() < deadline &&
          !Thread.currentThread.isInterrupted) {
          // An answer is seen an eighth later than it is there, at most.
          val pause = (System.nanoTime() - asked) / 8
          LockSupport.parkNanos(math.max(TimeUnit.MILLISECONDS.toNanos(1),
              math.min(pause, TimeUnit.MILLISECONDS.toNanos(50))))
          answer = send(Ask.Poll(ticket))
        }
      case _ =>
    }
    answer match {
      case Answer.Refused(code, message, hint) => throw new CofferException(code, message, hint)
      case Answer.NotYet =>
        throw new CofferException("COFFER_DRIVER",
          "the driver did not answer in " +
            "time", "see the driver's log")
      case answer => answer
    }
  }

  private def send(question: Ask): Answer = {
    val answer = context.ask(question.encode) match {
      case bytes: Array[Byte] => Answer.decode(bytes)
      case _ => None
    }
    answer.getOrElse(throw new CofferException("COFFER_RPC",
        "the driver's answer is of unknown " +
          "kind", "use one build"))
  }

  def bytes(answer: Answer): Array[Byte] = answer match {
    case Answer.Bytes(value) => value
    case _ => throw new CofferException("COFFER_RPC",
        "the driver's answer is of the wrong " +
          "kind", "use one build")
  }

  def close(): Unit = synchronized {
    closed = true
    current.foreach(_.close())
    current = None
    relay.foreach(_.close())
    relay = None
  }
}

object CofferExecutor extends Logging {
  private val ASK_SECONDS = 120L
  private val ENGINE_UNKNOWN = "engine_unknown"

  /** Of an engine's failures: the session's keys are not there, or do not open. */
  val NO_KEYS = "session"
  @volatile private var running: Option[CofferExecutor] = None

  def get: CofferExecutor = running.getOrElse(throw SealedTasks.notRunning)

  def start(context: PluginContext, extra: Map[String, String]): CofferExecutor = {
    val conf = context.conf
    val foreign = !CofferConf.isLocal(conf) && !CofferConf.isLocalCluster(conf)
    if (foreign && sys.env.contains(EngineProcess.PASSPHRASE_VARIABLE)) throw new CofferException(
      "COFFER_SECRET_ON_EXECUTOR",
      s"${EngineProcess.PASSPHRASE_VARIABLE} is set in an executor's environment",
      "set it for the driver only; change the passphrase if the executor's machine is not trusted")
    if (!CofferConf.isLocal(conf)) SentFailures.install(conf)
    val executor = new CofferExecutor(context, extra)
    running = Some(executor)
    SealedTasks.startBy(new TaskRun(_, _, _))
    WholeJob.startBy(new QueryRun(_, _))
    // Attestation takes a round trip or two; the first task should not wait for the engine to
    // start.
    val warm = new Thread(
      () =>
        try executor.engine()
        catch {
          case e: CofferException => logWarning(s"the engine could not be started yet: " +
              s"${e.getMessage}")
          case e: Exception => logWarning("the engine could not be started yet", e)
        },
      "coffer-engine-start")
    warm.setDaemon(true)
    warm.start()
    executor
  }

  def stop(executor: CofferExecutor): Unit = {
    if (running.contains(executor)) running = None
    executor.close()
  }

  def outOfTurn(kind: Int): CofferException = new CofferException(
    "COFFER_ENGINE_PROTOCOL",
    s"the engine does not speak this plugin's protocol: it sent a message of type $kind out of " +
      s"turn",
    "use the engine and the jar of one build")
}
