package org.apache.spark.sql.coffer.transport

import java.io.IOException

import scala.collection.concurrent.TrieMap
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.{
  ByteString,
  InvalidProtocolBufferException,
  MessageLite,
  Parser,
  UnsafeByteOperations
}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FSDataOutputStream

import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.{
  ClientEngine,
  CofferException,
  OpenedResult,
  RowStream
}
import org.apache.spark.sql.coffer.proto.storage.StorageRequest
import org.apache.spark.sql.coffer.proto.wire.{ClientMessage => M}
import org.apache.spark.sql.coffer.proto.wire._

/** The client engine behind a socket: each call has a connection of its own for its duration. */
final class ClientConnections(
    address: Address,
    greeting: Hello,
    exitReport: () => Option[String],
    hadoop: () => Configuration)
    extends ClientEngine
    with AutoCloseable
    with Logging {
  // Every connection begins with HELLO.
  private val pool =
    new ChannelPool(address, channel => exchange(channel, M.HELLO, greeting), Channel.MAX_REQUEST)

  override def hello(): Welcome = call(M.HELLO, greeting, M.WELCOME, Welcome.parser)
  override def openTable(request: OpenTable): TableInfo = {
    // Where the policy's names lead is not known here.
    if (request.getName.nonEmpty && request.getPath.isEmpty) serveStorage()
    else serveStorage(request.getPath)
    request.getPlainFilesList.asScala.find(!_.startsWith("/")).foreach(serveStorage(_))
    call(M.OPEN_TABLE, request, M.TABLE_INFO, TableInfo.parser)
  }
  override def newSession(query: String, caches: Boolean, receipt: Boolean): ByteString = {
    val request =
      NewSession.newBuilder.setQuery(query).setCaches(caches).setReceipt(receipt).build()
    call(M.NEW_SESSION, request, M.SESSION, Session.parser).getSession
  }
  override def makeReceipt(session: ByteString, driverOperators: Seq[String]): ByteString = {
    val request = MakeReceipt.newBuilder.setSession(session).addAllDriverOperators(
      driverOperators.asJava).build()
    call(M.MAKE_RECEIPT, request, M.RECEIPT_MADE, ReceiptMade.parser).getReceipt
  }
  override def newChallenge(): ByteString =
    call(M.NEW_CHALLENGE, NewChallenge.getDefaultInstance, M.CHALLENGE,
      Challenge.parser).getChallenge
  override def admitEngine(request: AdmitEngine): Admitted =
    call(M.ADMIT_ENGINE, request, M.ADMITTED, Admitted.parser)
  override def sealStage(request: SealStage): SealedStage = {
    // Plain inputs are read once more.
    serveStorage("")
    call(M.SEAL_STAGE, request, M.SEALED_STAGE, SealedStage.parser)
  }
  override def sealQuery(request: SealQuery): SealedQuery = {
    serveStorage("")
    call(M.SEAL_QUERY, request, M.SEALED_QUERY, SealedQuery.parser)
  }
  override def releaseKeys(request: ReleaseKeys): Release =
    call(M.RELEASE_KEYS, request, M.KEYS_RELEASED, KeysReleased.parser).getRelease
  override def acceptCommits(request: AcceptCommits): CommitsAccepted =
    call(M.ACCEPT_COMMITS, request, M.COMMITS_ACCEPTED, CommitsAccepted.parser)
  override def readCache(request: ReadCache): CommitsAccepted =
    call(M.READ_CACHE, request, M.COMMITS_ACCEPTED, CommitsAccepted.parser)
  override def pickBounds(request: PickBounds): BoundsPicked =
    call(M.PICK_BOUNDS, request, M.BOUNDS_PICKED, BoundsPicked.parser)
  override def sealValue(request: SealValue): ValueSealed =
    call(M.SEAL_VALUE, request, M.VALUE_SEALED, ValueSealed.parser)
  override def openError(request: OpenError): ErrorDetail =
    call(M.OPEN_ERROR, request, M.ERROR_OPENED, ErrorOpened.parser).getDetail
  override def openMetrics(request: OpenMetrics): MetricsOpened =
    call(M.OPEN_METRICS, request, M.METRICS_OPENED, MetricsOpened.parser)
  override def describeFragment(fragment: ByteString): String = {
    val request = DescribeFragment.newBuilder.setFragment(fragment).build()
    call(M.DESCRIBE_FRAGMENT, request, M.FRAGMENT_DESCRIBED, FragmentDescribed.parser).getText
  }
  override def beginWrite(request: BeginWrite): WriteBegun = {
    serveStorage(request.getPath)
    call(M.BEGIN_WRITE, request, M.WRITE_BEGUN, WriteBegun.parser)
  }
  override def publishWrite(request: PublishWrite): WritePublished = {
    serveStorage("")
    call(M.PUBLISH_WRITE, request, M.WRITE_PUBLISHED, WritePublished.parser)
  }
  override def abortWrite(request: AbortWrite): WriteAborted = {
    serveStorage("")
    call(M.ABORT_WRITE, request, M.WRITE_ABORTED, WriteAborted.parser)
  }
  override def writeRows(write: Int, hostChosen: Boolean): RowStream = {
    serveStorage("")
    new Rows(guarded(pool.take()), WriteRows.newBuilder.setWrite(write).setHostChosen(hostChosen))
  }
  override def checkSources(names: Seq[String]): SourcesChecked = {
    val request = CheckSources.newBuilder.addAllNames(names.asJava).build()
    call(M.CHECK_SOURCES, request, M.SOURCES_CHECKED, SourcesChecked.parser)
  }

  override def dropTable(
      path: String,
      tableId: String,
      name: String,
      check: Boolean): TableDropped = {
    serveStorage(path)
    val request =
      DropTable.newBuilder.setPath(path).setTableId(tableId).setName(name).setCheck(check).build()
    call(M.DROP_TABLE, request, M.TABLE_DROPPED, TableDropped.parser)
  }

  override def renameTable(
      path: String,
      tableId: String,
      name: String,
      to: String,
      done: Boolean): TableRenamed = {
    val request = RenameTable.newBuilder.setPath(path).setTableId(tableId).setName(name).setTo(
      to).setDone(done).build()
    call(M.RENAME_TABLE, request, M.TABLE_RENAMED, TableRenamed.parser)
  }
  override def checkPlain(paths: Seq[String]): PlainChecked = {
    val request = CheckPlain.newBuilder.addAllPaths(paths.asJava).build()
    call(M.CHECK_PLAIN, request, M.PLAIN_CHECKED, PlainChecked.parser)
  }
  override def checkRead(handle: Int, columns: Seq[String]): ReadChecked = {
    val request = CheckRead.newBuilder.setHandle(handle).addAllColumns(columns.asJava).build()
    call(M.CHECK_READ, request, M.READ_CHECKED, ReadChecked.parser)
  }
  override def checkSettings(settings: Iterable[(String, String)]): SettingsChecked = {
    val request = CheckSettings.newBuilder
    settings.foreach { case (key, value) =>
      request.addSettings(Setting.newBuilder.setKey(key).setValue(value))
    }
    call(M.CHECK_SETTINGS, request.build(), M.SETTINGS_CHECKED, SettingsChecked.parser)
  }
  override def endSession(session: ByteString): SessionEnded =
    call(M.END_SESSION, EndSession.newBuilder.setSession(session).build(), M.SESSION_ENDED,
      SessionEnded.parser)

  override def openResult(request: OpenResult): OpenedResult = rows(M.OPEN_RESULT, request)

  override def runAtClient(request: RunAtClient): OpenedResult = rows(M.RUN_AT_CLIENT, request)

  override def keepResult(request: OpenResult): ResultKept =
    call(M.OPEN_RESULT, request, M.RESULT_KEPT, ResultKept.parser)

  override def encryptLiterals(request: EncryptLiterals): LiteralsEncrypted =
    call(M.ENCRYPT_LITERALS, request, M.LITERALS_ENCRYPTED, LiteralsEncrypted.parser)

  private def rows(kind: M, request: MessageLite): OpenedResult = {
    val channel = guarded(pool.take())
    var sound = false
    try {
      guarded(channel.send(kind.getNumber, request))
      val first = nextChunk(channel)
      sound = true
      new ResultStream(first, () => nextChunk(channel),
        whole => if (whole) pool.give(channel) else channel.close())
    } finally if (!sound) channel.close()
  }

  private def nextChunk(channel: Channel): Either[ResultEnd, Array[Byte]] = {
    val message = guarded(channel.receive())
    message.kind match {
      case M.RESULT_ARROW_VALUE => Right(message.bytes)
      case M.RESULT_END_VALUE => Left(parse(ResultEnd.parser, message))
      case M.PROBLEM_VALUE => throw problem(message)
      case other => throw unexpected(other)
    }
  }

  /** An answer is awaited only before the next message, so that both sides work at once. */
  private final class Rows(channel: Channel, request: WriteRows.Builder) extends RowStream {
    private var waiting = false
    private var open = true

    override def send(arrow: Array[Byte]): Unit = {
      answered()
      say(request.setArrow(UnsafeByteOperations.unsafeWrap(arrow)))
    }

    override def finish(): Long = {
      answered()
      say(request.clearArrow().setLast(true))
      val rows = answered()
      open = false
      pool.give(channel)
      rows
    }

    override def close(): Unit = if (open) {
      open = false
      channel.close()
    }

    private def say(message: WriteRows.Builder): Unit = {
      guarded(channel.send(M.WRITE_ROWS_VALUE, message.build()))
      waiting = true
    }

    private def answered(): Long =
      if (!waiting) 0L
      else {
        waiting = false
        val message = guarded(channel.receive())
        message.kind match {
          case M.ROWS_TAKEN_VALUE => parse(RowsTaken.parser, message).getRows
          case M.PROBLEM_VALUE => throw problem(message)
          case other => throw unexpected(other)
        }
      }
  }

  private def call[T](kind: M, request: MessageLite, answer: M, parser: Parser[T]): T = {
    val message = guarded(pool.lend(exchange(_, kind, request)))
    message.kind match {
      case k if k == answer.getNumber => parse(parser, message)
      case M.PROBLEM_VALUE => throw problem(message)
      case other => throw unexpected(other)
    }
  }

  /**
   * A refused greeting is thrown here too: the answer to what follows would only say that there was
   * none.
   */
  private def exchange(channel: Channel, kind: M, request: MessageLite): Message = {
    channel.send(kind.getNumber, request)
    val answer = channel.receive()
    if (kind == M.HELLO && answer.kind == M.PROBLEM_VALUE) throw problem(answer)
    answer
  }

  private def parse[T](parser: Parser[T], message: Message): T =
    try parser.parseFrom(message.payload)
    catch {
      case e: InvalidProtocolBufferException => throw protocol("it sent a message that " +
            "cannot be read", e)
    }

  private def problem(message: Message): CofferException = {
    val p = parse(Problem.parser, message)
    new CofferException(p.getCode, p.getMessage, p.getHint)
  }

  private def unexpected(kind: Int): CofferException = protocol(s"it sent a message of type " +
      s"$kind out of turn", null)

  private def protocol(what: String, cause: Throwable): CofferException = new CofferException(
    "COFFER_CLIENT_PROTOCOL",
    s"the client engine does not speak this plugin's protocol: $what",
    "use the client engine and the jar of one build",
    cause)

  private def guarded[T](io: => T): T =
    try io
    catch {
      case e: IOException =>
        throw new CofferException(
          "COFFER_CLIENT_LOST",
          exitReport().getOrElse(s"the connection to the client engine at $address broke: " +
            s"${e.getMessage}"),
          "start the Spark application again; the driver's log has the client engine's last " +
            "messages",
          e)
    }

  private var serving = Seq.empty[Channel]
  private val listings = new Listings
  private val outputs = TrieMap.empty[String, FSDataOutputStream]
  private val sizes = new LookedUp

  /** So that the client engine can ask for the files of a table at a URL, or go on to. */
  private def serveStorage(path: String): Unit = synchronized {
    if (serving.nonEmpty || !(path.isEmpty || path.startsWith("/"))) serveStorage()
  }

  private def serveStorage(): Unit = synchronized {
    val open = serving.filter(_.isOpen)
    val made = mutable.Buffer.empty[Channel]
    try while (open.size + made.size < ClientConnections.STORAGE) made += storageChannel()
    catch {
      case e: Throwable =>
        made.foreach(_.close())
        throw e
    }
    made.foreach { channel =>
      val thread = new Thread(() => answers(channel), "coffer-storage")
      thread.setDaemon(true)
      thread.start()
    }
    serving = open ++ made
  }

  private def storageChannel(): Channel = {
    val channel = guarded(Channel.connect(address, Channel.MAX_REQUEST))
    try {
      guarded(exchange(channel, M.HELLO, greeting))
      val answer = guarded(exchange(channel, M.SERVE_STORAGE, Blank.getDefaultInstance))
      answer.kind match {
        case M.STORAGE_SERVED_VALUE => channel
        case M.PROBLEM_VALUE => throw problem(answer)
        case other => throw unexpected(other)
      }
    } catch { case e: Throwable => channel.close(); throw e }
  }

  private def answers(channel: Channel): Unit = {
    val storage = new StorageServer(hadoop, ofTask = false, listings, outputs, sizes)
    try
      while (true) {
        val message = channel.receive()
        if (message.kind != M.CLIENT_STORAGE_VALUE) throw unexpected(message.kind)
        val answer = storage.answer(StorageRequest.parseFrom(message.payload))
        channel.send(M.CLIENT_STORED_VALUE, answer)
      }
    catch {
      case e: IOException if closed => logDebug("storage is no longer served", e)
      case NonFatal(e) => logWarning("a connection that serves storage ended", e)
    } finally {
      channel.close()
      storage.close()
    }
  }

  @volatile private var closed = false

  override def close(): Unit = {
    closed = true
    synchronized(serving.foreach(_.close()))
    pool.close()
  }
}

private object ClientConnections {

  /** Connections that serve storage: so many questions at the same time. */
  private val STORAGE = 4
}

/** A result as the client engine sends it. */
private final class ResultStream(
    first: Either[ResultEnd, Array[Byte]],
    more: () => Either[ResultEnd, Array[Byte]],
    release: Boolean => Unit)
    extends OpenedResult {

  private var current = first
  private var released = false
  settle()

  override def rows: Option[Long] = current.left.toOption.map(_.getRows)

  override def hasNext: Boolean = !released && current.isRight

  override def next(): Array[Byte] = {
    val chunk = current.getOrElse(throw new NoSuchElementException("the result has no more bytes"))
    try current = more()
    catch { case e: Throwable => close(); throw e }
    settle()
    chunk
  }

  private def settle(): Unit = if (current.isLeft && !released) {
    released = true
    release(true)
  }

  override def close(): Unit = if (!released) {
    released = true
    release(false)
  }
}
