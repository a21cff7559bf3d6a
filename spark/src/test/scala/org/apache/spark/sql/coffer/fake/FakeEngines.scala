package org.apache.spark.sql.coffer.fake

import java.io.ByteArrayOutputStream
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.file.Path
import java.util.concurrent.{ConcurrentHashMap, CopyOnWriteArrayList, CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import com.google.protobuf.ByteString

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Literal}
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.coffer.exec.ArrowRows
import org.apache.spark.sql.coffer.proto.plan.{
  Fragment,
  Literal => ProtoLiteral,
  Node,
  Partitioning,
  Schema,
  Sink
}
import org.apache.spark.sql.coffer.proto.wire.{ClientMessage => C, TaskMessage => M}
import org.apache.spark.sql.coffer.proto.wire._
import org.apache.spark.sql.coffer.split.CofferTable
import org.apache.spark.sql.internal.SQLConf

/**
 * A stand-in for both engines that seals nothing and computes nothing, but checks what the JVM is
 * answerable for: that every stream of every task's list arrives whole and once, that stages,
 * partitions and commits fit together. Each task's stream to target t is the 16 bytes (stage,
 * partition, t, fingerprint); a result has one row of zeros for each partition.
 */
object FakeStreams {
  val SIZE = 16

  /** What no setting may hold. */
  val SECRET = "correct horse of the fake"

  def stream(stage: Int, partition: Int, target: Int): Array[Byte] =
    ByteBuffer.allocate(SIZE).order(ByteOrder.LITTLE_ENDIAN)
      .putInt(stage).putInt(partition).putInt(target).putInt(
        0x5eed ^ stage ^ partition << 8 ^ target << 16).array()

  def commit(stage: Int, partition: Int): Array[Byte] = s"commit $stage $partition".getBytes
}

/** Descriptor of a fake task: the request's TaskSpec, and where it belongs. */
final class FakeClientEngine(folder: Path, tables: Map[String, TableInfo])
    extends FakePeer(folder, "coffer-client") {
  val stages = new CopyOnWriteArrayList[SealStage]()
  val accepted = new CopyOnWriteArrayList[AcceptCommits]()
  val opened = new CopyOnWriteArrayList[OpenResult]()
  val values = new CopyOnWriteArrayList[SealValue]()
  val bounds = new CopyOnWriteArrayList[PickBounds]()
  val ended = new CopyOnWriteArrayList[ByteString]()
  val begun = new CopyOnWriteArrayList[BeginWrite]()
  val published = new CopyOnWriteArrayList[PublishWrite]()
  val aborted = new CopyOnWriteArrayList[AbortWrite]()
  val ran = new CopyOnWriteArrayList[RunAtClient]()
  val checkedPlain = new CopyOnWriteArrayList[CheckPlain]()

  /**
   * What sealed commits are said to tell: rows of a stage by its maps, unpacked bytes by reduce
   * partition.
   */
  @volatile var rows: Int => Long = _.toLong
  @volatile var bytes: Int => Long = _ => 100L

  /** Whether fragments are described for EXPLAIN, which else shows the names of their operators. */
  @volatile var describes = false

  /** Of which stages it is said that a repeated task may bring other rows. */
  @volatile var indeterminate: SealStage => Boolean = _ => false
  @volatile var mayChange: Boolean = false
  private val sessions = new AtomicInteger()
  private val epochs = new AtomicInteger()

  override protected def serve(c: FakeConnection): Unit = {
    val (kind, payload) = c.receive()
    kind match {
      case C.HELLO_VALUE => c.send(C.WELCOME_VALUE,
          Welcome.newBuilder.setEngineVersion("0").setOwnerKey(zeros(32)).build())
      case C.SERVE_STORAGE_VALUE => c.send(C.STORAGE_SERVED_VALUE, Blank.getDefaultInstance)
      case C.NEW_CHALLENGE_VALUE =>
        c.send(C.CHALLENGE_VALUE, Challenge.newBuilder.setChallenge(zeros(32)).build())
      case C.ADMIT_ENGINE_VALUE =>
        c.send(C.ADMITTED_VALUE, Admitted.newBuilder.setEngineId("fake").setSimulated(true).build())
      case C.OPEN_TABLE_VALUE =>
        val request = OpenTable.parseFrom(payload)
        val name = request.getPath
        tables.get(name) match {
          case Some(info) => c.send(C.TABLE_INFO_VALUE, info)
          case None
              if request.getIfThere &&
                !name.startsWith("/sealed/") =>
            c.send(C.TABLE_INFO_VALUE, TableInfo.getDefaultInstance)
          case None => problem(c, "COFFER_NO_TABLE", s"no sealed table at $name")
        }
      case C.NEW_SESSION_VALUE =>
        val id = ByteBuffer.allocate(16).putInt(sessions.incrementAndGet()).array()
        c.send(C.SESSION_VALUE, Session.newBuilder.setSession(ByteString.copyFrom(id)).build())
      case C.SEAL_STAGE_VALUE => seal(c, SealStage.parseFrom(payload))
      case C.ACCEPT_COMMITS_VALUE => accept(c, AcceptCommits.parseFrom(payload))
      case C.OPEN_RESULT_VALUE => open(c, OpenResult.parseFrom(payload))
      case C.PICK_BOUNDS_VALUE =>
        bounds.add(PickBounds.parseFrom(payload))
        c.send(C.BOUNDS_PICKED_VALUE, BoundsPicked.newBuilder.setBounds(1).build())
      case C.SEAL_VALUE_VALUE =>
        values.add(SealValue.parseFrom(payload))
        c.send(C.VALUE_SEALED_VALUE, ValueSealed.getDefaultInstance)
      case C.BEGIN_WRITE_VALUE =>
        begun.add(BeginWrite.parseFrom(payload))
        c.send(C.WRITE_BEGUN_VALUE,
          WriteBegun.newBuilder.setWrite(begun.size).setName("fake").build())
      case C.PUBLISH_WRITE_VALUE => publish(c, PublishWrite.parseFrom(payload))
      case C.ABORT_WRITE_VALUE =>
        aborted.add(AbortWrite.parseFrom(payload))
        c.send(C.WRITE_ABORTED_VALUE, WriteAborted.getDefaultInstance)
      case C.RELEASE_KEYS_VALUE =>
        c.send(C.KEYS_RELEASED_VALUE, KeysReleased.newBuilder.setRelease(release).build())
      case C.OPEN_ERROR_VALUE =>
        val detail = ErrorDetail.newBuilder.setCode("DIVIDE_BY_ZERO").setLocation("here")
          .setMessage("Division by zero. Use `try_divide` to tolerate divisor being 0 and return " +
            "NULL instead. If necessary set \"spark.sql.ansi.enabled\" to \"false\" to bypass " +
            "this error.")
        c.send(C.ERROR_OPENED_VALUE, ErrorOpened.newBuilder.setDetail(detail).build())
      case C.OPEN_METRICS_VALUE => c.send(C.METRICS_OPENED_VALUE, MetricsOpened.getDefaultInstance)
      case C.ENCRYPT_LITERALS_VALUE => encrypt(c, EncryptLiterals.parseFrom(payload))
      case C.DESCRIBE_FRAGMENT_VALUE if describes =>
        c.send(C.FRAGMENT_DESCRIBED_VALUE,
          FragmentDescribed.newBuilder.setText("(a fragment)\n").build())
      case C.CHECK_SETTINGS_VALUE =>
        val leaked = CheckSettings.parseFrom(payload).getSettingsList.asScala.find(
          _.getValue.contains(FakeStreams.SECRET))
        leaked match {
          case Some(setting) => problem(c, "COFFER_SECRET_IN_CONF",
              s"${setting.getKey} holds a " +
                s"secret")
          case None => c.send(C.SETTINGS_CHECKED_VALUE, SettingsChecked.getDefaultInstance)
        }
      case C.CHECK_PLAIN_VALUE =>
        checkedPlain.add(CheckPlain.parseFrom(payload))
        c.send(C.PLAIN_CHECKED_VALUE, PlainChecked.getDefaultInstance)
      case C.RUN_AT_CLIENT_VALUE => toClient(c, RunAtClient.parseFrom(payload))
      case C.END_SESSION_VALUE =>
        ended.add(EndSession.parseFrom(payload).getSession)
        c.send(C.SESSION_ENDED_VALUE, SessionEnded.getDefaultInstance)
      case other => problem(c, "COFFER_FAKE", s"message $other")
    }
  }

  private def stage(session: ByteString, id: Int): SealStage =
    stages.asScala.find(s => s.getSession == session && s.getStage == id).get

  private def publish(c: FakeConnection, request: PublishWrite): Unit = {
    published.add(request)
    val whole = request.getSession.isEmpty || {
      val sealedStage = stage(request.getSession, request.getStage)
      sealedStage.getWrite == request.getWrite &&
      sealedStage.getTasksCount == request.getCommitsCount &&
      request.getCommitsList.asScala.zipWithIndex.forall { case (commit, partition) =>
        commit.toByteArray.sameElements(FakeStreams.commit(request.getStage, partition))
      }
    }
    if (whole) c.send(C.WRITE_PUBLISHED_VALUE, WritePublished.newBuilder.setVersion(2).build())
    else problem(c, "COFFER_PUBLISH", "not the commits of the write's stage")
  }

  private def release = Release.newBuilder.setSequence(1).build()
  private def zeros(n: Int) = ByteString.copyFrom(new Array[Byte](n))
  private def problem(c: FakeConnection, code: String, message: String): Unit =
    c.send(C.PROBLEM_VALUE,
      Problem.newBuilder.setCode(code).setMessage(message).setHint("none").build())

  private def seal(c: FakeConnection, request: SealStage): Unit = {
    stages.add(request)
    val answer = SealedStage.newBuilder.setSealedFragment(request.getFragment).setIndeterminate(
      indeterminate(request))
    request.getTasksList.asScala.zipWithIndex.foreach { case (task, partition) =>
      val descriptor = TaskDescriptor.newBuilder.setStage(request.getStage).setPartition(partition)
        .setPartitions(request.getTasksCount).setExecution(request.getExecution)
      task.getRectanglesList.asScala.foreach { r =>
        val input = request.getInputsList.asScala.find(_.getInputId == r.getInputId).get
        descriptor.addInputs(
          InputTask.newBuilder.setInputId(r.getInputId).setProducerStage(input.getProducerStage)
            .setMapBegin(r.getMapBegin).setMapEnd(r.getMapEnd).setReduceBegin(r.getReduceBegin)
            .setReduceEnd(r.getReduceEnd).setProducerMaps(input.getMaps))
      }
      answer.addSealedDescriptors(descriptor.build().toByteString)
    }
    uncovered(request) match {
      case Some(why) => problem(c, "COFFER_COVERAGE", why)
      case None => c.send(C.SEALED_STAGE_VALUE, answer.build())
    }
  }

  /**
   * Each (map, reduce) pair of each input exactly once over all tasks; of a broadcast by each task;
   * of a group tiled.
   */
  private def uncovered(request: SealStage): Option[String] = {
    val tasks = request.getTasksList.asScala.toSeq
    def pairs(t: TaskSpec, input: Int): Seq[(Int, Int)] = for {
      r <- t.getRectanglesList.asScala.toSeq if r.getInputId == input
      p <- r.getReduceBegin until r.getReduceEnd
      m <- r.getMapBegin until r.getMapEnd
    } yield (p, m)
    def all(i: StageInput) = for (p <- 0 until i.getReduces; m <- 0 until i.getMaps) yield (p, m)
    val inputs = request.getInputsList.asScala.toSeq
    val (grouped, single) = inputs.filterNot(_.getBroadcast).partition(_.getGroup != 0)
    val broadcasts =
      inputs.filter(_.getBroadcast).filterNot(i => tasks.forall(pairs(_, i.getInputId) == all(i)))
    // Below a side of a product, tasks of one position read the same.
    def readers(i: StageInput): Seq[TaskSpec] =
      if (i.getSide == 0) tasks
      else {
        val byPosition = tasks.groupBy(
          _.getPositionsList.asScala.find(_.getSide == i.getSide).map(_.getPartition).getOrElse(-1))
        byPosition.values.filter(_.map(pairs(_, i.getInputId)).distinct.size == 1).map(_.head).toSeq
      }
    val cells =
      request.getProductsList.asScala.flatMap(_.getSidesList.asScala).map(_.getPartitions).product
    require(request.getProductsCount != 1 || tasks.size == cells,
      "the tasks are not the " +
        "product's cells")
    val singles = single.filterNot(i => readers(i).flatMap(pairs(_, i.getInputId)).sorted == all(i))
    val groups = grouped.groupBy(_.getGroup).values.filterNot { of =>
      // (reduce, map of the first, map of the second, …) of each task: each combination once.
      def tiles(sides: Seq[Seq[(Int, Int)]]): Seq[(Int, Seq[Int])] =
        sides.tail.foldLeft(sides.head.map { case (p, m) => (p, Seq(m)) }) {
          (done, side) => for ((p, ms) <- done; (q, m) <- side if p == q) yield (p, ms :+ m)
        }
      val key = (t: (Int, Seq[Int])) => t._1.toString + t._2.mkString(",", ",", "")
      tasks.flatMap(t => tiles(of.map(i => pairs(t, i.getInputId)))).sortBy(key) == tiles(
        of.map(all)).sortBy(key)
    }
    (broadcasts ++ singles ++ groups.flatten).headOption.map(i =>
      s"input ${i.getInputId} is not " +
        s"covered")
  }

  private def accept(c: FakeConnection, request: AcceptCommits): Unit = {
    accepted.add(request)
    val right = request.getCommitsList.asScala.zipWithIndex.forall { case (commit, partition) =>
      commit.toByteArray.sameElements(FakeStreams.commit(request.getStage, partition))
    }
    val sealedStage = stage(request.getSession, request.getStage)
    val maps = sealedStage.getTasksCount
    if (!right || request.getMaps != maps ||
      request.getCommitsCount != maps) problem(c, "COFFER_COMMITS", "wrong commits")
    else {
      val answer = CommitsAccepted.newBuilder.setEpoch(epochs.incrementAndGet()).setMayChange(
        mayChange).setRows(rows(maps))
        .setSealedAttempts(ByteString.copyFromUtf8("attempts"))
      val reduces = FakeEngine.targets(Fragment.parseFrom(sealedStage.getFragment))
      (0 until reduces).foreach(r => answer.addRowsByReduce(1L).addBytesByReduce(bytes(r)))
      c.send(C.COMMITS_ACCEPTED_VALUE, answer.build())
    }
  }

  private def open(c: FakeConnection, request: OpenResult): Unit = {
    opened.add(request)
    val sealedStage = stage(request.getSession, request.getStage)
    val right = request.getResultsList.asScala.forall { r =>
      r.getStream.toByteArray.sameElements(FakeStreams.stream(request.getStage, r.getPartition,
          0)) &&
      r.getCommit.toByteArray.sameElements(FakeStreams.commit(request.getStage, r.getPartition))
    }
    if (!right) problem(c, "COFFER_RESULT", "a stream or commit of the wrong task")
    else {
      val fragment = Fragment.parseFrom(
        if (request.getFinish.isEmpty) sealedStage.getFragment else request.getFinish)
      val output = attributes(fragment.getOutput)
      val zero =
        new GenericInternalRow(output.map(a => Literal.default(a.dataType).value).toArray[Any])
      val rows =
        Iterator.fill[InternalRow](math.min(request.getResultsCount, limit(fragment.getRoot)))(zero)
      ArrowRows.stream(rows, output, new SQLConf).foreach(c.send(C.RESULT_ARROW_VALUE, _))
      c.send(C.RESULT_END_VALUE,
        ResultEnd.newBuilder.setRows(request.getResultsCount.toLong).build())
    }
  }

  /** One row of zeros. */
  private def toClient(c: FakeConnection, request: RunAtClient): Unit = {
    ran.add(request)
    val output = attributes(Fragment.parseFrom(request.getFragment).getOutput)
    val zero =
      new GenericInternalRow(output.map(a => Literal.default(a.dataType).value).toArray[Any])
    ArrowRows.stream(Iterator.single[InternalRow](zero), output, new SQLConf).foreach(
      c.send(C.RESULT_ARROW_VALUE, _))
    c.send(C.RESULT_END_VALUE, ResultEnd.newBuilder.setRows(1).build())
  }

  /**
   * Ciphertexts that say what they are: 1000 + N under ope, whose domain is 0 to 150; else the
   * protection and the value as text.
   */
  private def encrypt(c: FakeConnection, request: EncryptLiterals): Unit = {
    val table = tables.values.find(_.getHandle == request.getHandle).get
    val stored = table.getStoredList.asScala.find(_.getName == request.getStored).get
    val answer = LiteralsEncrypted.newBuilder
    request.getLiteralsList.asScala.foreach { l =>
      val value = if (l.hasString) l.getString else l.getInt.toString
      val one = LiteralsEncrypted.Ciphertext.newBuilder
      stored.getProtection match {
        case "ope" if l.hasInt && l.getInt < 0 => one.setBelow(true)
        case "ope" if l.hasInt && l.getInt > 150 => one.setAbove(true)
        case "ope" if l.hasInt =>
          one.setLiteral(ProtoLiteral.newBuilder.setType(stored.getType).setInt(1000 + l.getInt))
        case protection =>
          val bytes = ByteString.copyFromUtf8(s"$protection:$value")
          one.setLiteral(ProtoLiteral.newBuilder.setType(stored.getType).setBinary(bytes))
      }
      answer.addCiphertexts(one)
    }
    c.send(C.LITERALS_ENCRYPTED_VALUE, answer.build())
  }

  private def limit(node: Node): Int = node.getOpCase match {
    case Node.OpCase.LIMIT if node.getLimit.hasFetch =>
      math.min(node.getLimit.getFetch.toInt, limit(node.getLimit.getChild))
    case Node.OpCase.PROJECT => limit(node.getProject.getChild)
    case _ => Int.MaxValue
  }

  private def attributes(schema: Schema): Seq[AttributeReference] =
    schema.getFieldsList.asScala.toSeq.map { f =>
      AttributeReference(f.getName, CofferTable.dataType(f.getType), f.getNullable)()
    }
}

object FakeEngine {
  def targets(fragment: Fragment): Int = fragment.getSink.getKindCase match {
    case Sink.KindCase.SHUFFLE =>
      val p = fragment.getSink.getShuffle
      p.getKindCase match {
        case Partitioning.KindCase.HASH => p.getHash.getPartitions
        case Partitioning.KindCase.ROUND_ROBIN => p.getRoundRobin.getPartitions
        case Partitioning.KindCase.RANGE => p.getRange.getPartitions
        case _ => 1
      }
    case Sink.KindCase.WRITE => 0
    case _ => 1
  }
}

final class FakeEngine(folder: Path) extends FakePeer(folder, "coffer-engine") {
  val tasks = new AtomicInteger()

  /** Task attempts of these (stage, partition) fail once more for each count. */
  val failures = new ConcurrentHashMap[(Int, Int), Integer]()
  @volatile var needKeys = false

  /** Tasks wait for it. */
  @volatile var held: Option[CountDownLatch] = None
  val released = new AtomicInteger()
  val starts = new CopyOnWriteArrayList[Start]()

  override protected def serve(c: FakeConnection): Unit = c.receive() match {
    case (M.ATTEST_VALUE, payload) =>
      val attest = Attest.parseFrom(payload)
      c.send(
        M.EVIDENCE_VALUE,
        EngineEvidence.newBuilder.setProtocol(attest.getProtocol).setKind(
          "simulated").setEngineVersion("fake").build())
    case (M.START_VALUE, payload) => task(c, Start.parseFrom(payload))
    case (other, _) => throw new IllegalStateException(s"message $other")
  }

  private def task(c: FakeConnection, start: Start): Unit = {
    tasks.incrementAndGet()
    starts.add(start)
    val descriptor = TaskDescriptor.parseFrom(start.getSealedDescriptor)
    val fragment = Fragment.parseFrom(start.getSealedFragment)
    val (stage, partition) = (descriptor.getStage, descriptor.getPartition)
    if (needKeys) {
      c.send(M.NEED_KEYS_VALUE, NeedKeys.newBuilder.setSession(start.getSession).build())
      val (kind, _) = c.receive()
      if (kind == M.RELEASE_VALUE) released.incrementAndGet()
    }
    val wrong = descriptor.getInputsList.asScala.flatMap(i => check(i, read(c, i.getInputId)))
    held.foreach(h => assert(h.await(5, TimeUnit.MINUTES), "it is held for ever"))
    val mustFail = Option(failures.get((stage, partition))).exists(_ > 0)
    if (mustFail) failures.merge((stage, partition), -1, (a, b) => a + b)
    if (wrong.nonEmpty || mustFail) {
      c.send(
        M.FAILED_VALUE,
        Failed.newBuilder.setCode("failed").setSealedError(
          ByteString.copyFromUtf8(s"sealed ${wrong.mkString}")).build())
    } else {
      (0 until FakeEngine.targets(fragment)).foreach { target =>
        val stream = FakeStreams.stream(stage, partition, target)
        // In two pieces, as large streams come.
        Seq(stream.take(5), stream.drop(5)).foreach(piece =>
          c.send(M.OUT_VALUE,
            u32(target) ++
              piece))
      }
      val done =
        Done.newBuilder.setSealedCommit(ByteString.copyFrom(FakeStreams.commit(stage, partition)))
      c.send(M.DONE_VALUE, done.build())
    }
  }

  private def u32(value: Int): Array[Byte] =
    ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array()

  private def read(c: FakeConnection, input: Int): Array[Byte] = {
    val all = new ByteArrayOutputStream()
    var more = true
    while (more) {
      c.send(M.NEED_VALUE, Need.newBuilder.setInputId(input).build())
      val (kind, payload) = c.receive()
      val id = ByteBuffer.wrap(payload).order(ByteOrder.LITTLE_ENDIAN).getInt
      if (id != input) throw new IllegalStateException(s"input $id for $input")
      if (kind == M.IN_VALUE) all.write(payload, 4, payload.length - 4) else more = false
    }
    all.toByteArray
  }

  private def check(task: InputTask, bytes: Array[Byte]): Option[String] = {
    val got = bytes.grouped(FakeStreams.SIZE).map(_.toSeq).toSet
    val must = (for {
      m <- task.getMapBegin until task.getMapEnd
      r <- task.getReduceBegin until task.getReduceEnd
    } yield FakeStreams.stream(task.getProducerStage, m, r).toSeq).toSet
    if (got == must && bytes.length == must.size * FakeStreams.SIZE) None
    else Some(s"input ${task.getInputId}: ${bytes.length} bytes of ${must.size} streams")
  }
}
