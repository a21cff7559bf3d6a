package org.apache.spark.sql.coffer.common

import com.google.protobuf.ByteString

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.sql.coffer.proto.wire._

/**
 * The client engine as the driver sees it: one method for each request of the client protocol. Any
 * number of threads. A PROBLEM becomes a [[CofferException]]. How messages travel, `transport`
 * knows.
 */
trait ClientEngine {
  def hello(): Welcome
  def openTable(request: OpenTable): TableInfo

  /** `caches`: other sessions of the application read what it writes. */
  def newSession(query: String, caches: Boolean = false, receipt: Boolean = false): ByteString

  /** The signed receipt of a session that was begun with one, as a file's bytes. */
  def makeReceipt(session: ByteString, driverOperators: Seq[String]): ByteString
  def newChallenge(): ByteString
  def admitEngine(request: AdmitEngine): Admitted
  def sealStage(request: SealStage): SealedStage

  /** All stages of a query that one engine runs whole. */
  def sealQuery(request: SealQuery): SealedQuery
  def releaseKeys(request: ReleaseKeys): Release
  def acceptCommits(request: AcceptCommits): CommitsAccepted
  def readCache(request: ReadCache): CommitsAccepted
  def pickBounds(request: PickBounds): BoundsPicked
  def sealValue(request: SealValue): ValueSealed
  def openError(request: OpenError): ErrorDetail
  def openMetrics(request: OpenMetrics): MetricsOpened
  def describeFragment(fragment: ByteString): String
  def beginWrite(request: BeginWrite): WriteBegun
  def publishWrite(request: PublishWrite): WritePublished
  def abortWrite(request: AbortWrite): WriteAborted

  /**
   * A stream of rows that this process has, for a write that was begun: the client engine makes
   * files of them. `hostChosen`: bytes that the host may have chosen are among them, beside sealed
   * ones.
   */
  def writeRows(write: Int, hostChosen: Boolean): RowStream

  /** Errors unless plain data of these names may be read, to be sealed. */
  def checkSources(names: Seq[String]): SourcesChecked

  /**
   * `check` only asks whether it may be; no id: what the register knows at the path, which does not
   * open. `name` is what the user called it; an error where the table there is not called so.
   */
  def dropTable(path: String, tableId: String, name: String, check: Boolean): TableDropped

  /** The catalog is about to call it `to`, or has `done` so; the rest as for `dropTable`. */
  def renameTable(
      path: String,
      tableId: String,
      name: String,
      to: String,
      done: Boolean): TableRenamed
  def checkPlain(paths: Seq[String]): PlainChecked
  def checkRead(handle: Int, columns: Seq[String]): ReadChecked
  def checkSettings(settings: Iterable[(String, String)]): SettingsChecked
  def endSession(session: ByteString): SessionEnded

  /** The opened result as chunks of one Arrow IPC stream. */
  def openResult(request: OpenResult): OpenedResult

  /** The same for what the client engine computes over rows that it kept. */
  def runAtClient(request: RunAtClient): OpenedResult

  /** The result's rows stay with the client engine. */
  def keepResult(request: OpenResult): ResultKept
  def encryptLiterals(request: EncryptLiterals): LiteralsEncrypted
}

/**
 * A result on its way to the driver: chunks of one Arrow IPC stream. It holds a connection until
 * the last chunk was taken; whoever leaves it early closes it.
 */
trait OpenedResult extends Iterator[Array[Byte]] with AutoCloseable {

  /** Rows of the whole result; known once the iterator is used up. */
  def rows: Option[Long]
}

/** Rows on their way to the client engine, on a connection of their own. Closed early: given up. */
trait RowStream extends AutoCloseable {

  /** Some rows, as a whole Arrow IPC stream; it is sent while the one before is being sealed. */
  def send(arrow: Array[Byte]): Unit

  /** No more come; how many were taken. From now on publishing the write counts the stream. */
  def finish(): Long
}

/** The client engine of this JVM's SparkContext, while the plugin runs. */
trait Client {
  def engine: ClientEngine

  /** Whether an engine was admitted on simulated evidence. */
  def simulatedEvidence: Boolean

  /** Errors where one of these settings, which Spark is about to hand out, holds a secret. */
  def checkSettings(settings: Iterable[(String, String)]): Unit
}

object Client {
  @volatile private var running: Option[Client] = None

  private def current: Client = running.getOrElse(throw new CofferException(
      "COFFER_NOT_RUNNING",
      "the Coffer plugin is not running in this driver",
      s"start Spark with spark.plugins=${CofferConf.PLUGIN}"))

  def get: ClientEngine = current.engine

  def isRunning: Boolean = running.isDefined

  def simulatedEvidence: Boolean = running.exists(_.simulatedEvidence)

  def checkSettings(settings: Iterable[(String, String)]): Unit = current.checkSettings(settings)

  /** Of the application that runs; of none, nothing is set. */
  def conf: SparkConf = SparkContext.getActive.map(_.conf).getOrElse(new SparkConf(false))

  private[coffer] def start(client: Client): Unit = running = Some(client)

  /** Only the one that runs: another may have taken its place. */
  private[coffer] def stop(client: Client): Unit = if (running.contains(client)) running = None
}
