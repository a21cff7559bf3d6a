package org.apache.spark.sql.coffer.exec

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets
import java.security.MessageDigest
import java.util.{Base64, Properties}

import scala.concurrent.Future

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.{SparkConf, SparkContext, SparkException}
import org.apache.spark.sql.coffer.common.{CofferException, EngineMemory}
import org.apache.spark.sql.coffer.proto.wire.{Done, QueryDone, StageDone, TableInfo}
import org.apache.spark.sql.coffer.split.CofferScan
import org.apache.spark.sql.coffer.split.CofferScan.Slice
import org.apache.spark.sql.coffer.transport.{Answer, Ask}
import org.apache.spark.util.AccumulatorV2

/** An accumulator as it comes from an executor that puts into it what it likes. */
private final class Sent(what: Map[Long, MapCommit])
    extends AccumulatorV2[MapCommit, Map[Long, MapCommit]] {
  override def isZero: Boolean = false
  override def copy(): Sent = new Sent(what)
  override def reset(): Unit = ()
  override def add(commit: MapCommit): Unit = ()
  override def merge(other: AccumulatorV2[MapCommit, Map[Long, MapCommit]]): Unit = ()
  override def value: Map[Long, MapCommit] = what
}

/** The parts of sealed plans that need neither Spark nor engines. */
class PiecesSuite extends AnyFunSuite {

  test("a sealed job takes along only what scheduling needs") {
    val before = new Properties()
    Seq(
      "spark.job.description" -> "SELECT secret FROM t WHERE name = 'Eve'",
      "callSite.short" -> "collect at Secret.scala:1",
      "callSite.long" -> "at Secret.main",
      "spark.sql.shuffle.partitions" -> "7",
      "spark.rdd.scope" -> "{}",
      "user.note" -> "Eve",
      "spark.jobGroup.id" -> "Eve's group",
      "spark.sql.execution.id" -> "12",
      "spark.scheduler.pool" -> "fast",
      "spark.job.interruptOnCancel" -> "true").foreach { case (k, v) => before.setProperty(k, v) }
    val after = NeutralJob.clean(before)
    assert(!after.toString.contains("Eve") && !after.toString.contains("Secret") &&
      !after.toString.contains("SELECT"))
    assert(after.getProperty("spark.sql.execution.id") == "12")
    assert(after.getProperty("spark.scheduler.pool") == "fast")
    assert(after.getProperty("spark.job.interruptOnCancel") == "true")
    assert(after.getProperty("spark.jobGroup.id").matches("[0-9a-f]{32}"))
    assert(after.getProperty("spark.sql.shuffle.partitions") == null)
    assert(after.getProperty("spark.rdd.scope") == null)
  }

  test("a host cannot try a group's name: its hash takes a secret") {
    def group(name: String): String = {
      val before = new Properties()
      before.setProperty("spark.jobGroup.id", name)
      NeutralJob.clean(before).getProperty("spark.jobGroup.id")
    }
    val name = "salaries of 2026"
    val sent = group(name)
    assert(sent == group(name) && sent != group("salaries of 2025"), "it groups")
    val guesses = for {
      algorithm <- Seq("MD5", "SHA-1", "SHA-256", "SHA-512")
      charset <- Seq(StandardCharsets.UTF_8, StandardCharsets.UTF_16LE, StandardCharsets.UTF_16BE)
      text <- Seq(name, SparkContext.getActive.fold("")(_.applicationId) + name)
    } yield MessageDigest.getInstance(algorithm).digest(text.getBytes(charset)).map(b =>
      f"$b%02x").mkString
    guesses.foreach(g => assert(!g.startsWith(sent) && !g.contains(sent.take(16))))
    // What makes the difference.
    def keyed(key: Byte, application: String) =
      NeutralJob.grouped(Array.fill(32)(key), application, name)
    assert(keyed(1, "a") == keyed(1, "a"))
    assert(Set(keyed(1, "a"), keyed(2, "a"), keyed(1, "b"), sent).size == 4)
  }

  test("an engine's memory is read as the engine reads it") {
    assert(EngineMemory.parse("512MiB") == (512L << 20))
    assert(EngineMemory.parse("2GiB") == (2L << 30))
    assert(EngineMemory.parse("1073741824") == (1L << 30))
    assert(EngineMemory.parse("64 KiB") == (64L << 10))
    Seq("", "much", "1.5GiB", "-1").foreach { text =>
      assert(intercept[CofferException](EngineMemory.parse(text)).code == "COFFER_CONF", text)
    }
  }

  private def table(groups: Int*): TableInfo = {
    val info = TableInfo.newBuilder
    groups.foreach { n =>
      val file = TableInfo.FileInfo.newBuilder
      (0 until n).foreach(_ =>
        file.addRowGroups(TableInfo.FileInfo.RowGroup.newBuilder.setRows(10).setBytes(1000)))
      info.addFiles(file)
    }
    info.build()
  }

  private def groups(tasks: Seq[Seq[Slice]]): Seq[(Int, Int)] =
    tasks.flatten.flatMap(s => (s.first until s.end).map(s.file -> _))

  test("scan tasks hold each row group once, as many tasks as cores if there are as many groups") {
    for (files <- Seq(Seq(1), Seq(8), Seq(3, 5), Seq(1, 1, 1), Seq(0, 2)); cores <- 1 to 9) {
      val tasks = CofferScan.plan(table(files: _*), 1000L * files.sum, cores, 1L << 40)
      val all = files.zipWithIndex.flatMap { case (n, f) => (0 until n).map(f -> _) }
      assert(groups(tasks) == all, s"$files on $cores")
      assert(tasks.size == math.min(cores, files.sum), s"$files on $cores")
      assert(tasks.forall(_.nonEmpty))
    }
  }

  test("scan tasks follow the target size when it asks for more of them; an empty table has one " +
    "empty task") {
    assert(CofferScan.plan(table(8), 8000, 1, 1000).size == 8)
    assert(CofferScan.plan(table(8), 8000, 1, 4000).size == 2)
    assert(CofferScan.plan(table(), 0, 4, 1000) == Seq(Nil))
    assert(CofferScan.plan(table(4, 4), 8000, 2, 1L << 40) == Seq(Seq(Slice(0, 0, 4)),
      Seq(Slice(1, 0, 4))))
    assert(CofferScan.plan(table(1, 1), 2000, 1, 1L << 40) == Seq(Seq(Slice(0, 0, 1),
        Slice(1, 0, 1))))
  }

  test("questions and answers come through as bytes; cut, longer or foreign bytes are none") {
    val asks = Seq(
      Ask.NewChallenge(), Ask.Admit(Array(1, 2), Array(3)), Ask.Keys(Array(4), "engine"),
      Ask.Attempts(Array(5), Seq(6, 7)),
      Ask.Poll(8L))
    val answers = Seq(
      Answer.Ticket(1L), Answer.NotYet, Answer.Bytes(Array(2)),
      Answer.Many(Seq(Array(3), Array.emptyByteArray)),
      Answer.Refused("A", "b", "c"))
    asks.foreach { a =>
      assert(Ask.decode(a.encode).map(_.encode.toSeq).contains(a.encode.toSeq))
      (0 until a.encode.length).foreach(n => assert(Ask.decode(a.encode.take(n)).isEmpty))
      assert(Ask.decode(a.encode :+ 0.toByte).isEmpty)
    }
    answers.foreach { a =>
      assert(Answer.decode(a.encode).map(_.encode.toSeq).contains(a.encode.toSeq))
      (0 until a.encode.length).foreach(n => assert(Answer.decode(a.encode.take(n)).isEmpty))
      assert(Answer.decode(a.encode :+ 0.toByte).isEmpty)
    }
    assert(Ask.decode(Array(9)).isEmpty && Answer.decode(Array(9)).isEmpty)
    // A length that is not there is refused before it is allocated.
    assert(Answer.decode(Array(3, 127, -1, -1, -1)).isEmpty)
  }

  test("commits are kept by the id of the output that Spark registers, duplicates of a map side " +
    "by side") {
    val driver = new Commits
    val task1 = new Commits
    task1.add(MapCommit(10L, 0, Array(1), Array.emptyByteArray, Array.emptyByteArray))
    val speculative = new Commits
    speculative.add(MapCommit(11L, 0, Array(2), Array.emptyByteArray, Array.emptyByteArray))
    driver.merge(task1)
    driver.merge(speculative)
    assert(driver.value.keySet == Set(10L, 11L))
    assert(driver.copyAndReset().isZero)
    assert(!driver.isZero)
  }

  test("records that are none, or not whole, count as missing") {
    val whole = MapCommit(10L, 0, Array(1), Array.emptyByteArray, Array.emptyByteArray)
    val sent = Map[Any, Any](10L -> whole, 11L -> whole.copy(commit = null),
      12L ->
        "a record", "13" -> whole, 14L -> null)
    val driver = new Commits
    driver.merge(new Sent(sent.asInstanceOf[Map[Long, MapCommit]]))
    assert(driver.value.keySet == Set(10L))
  }

  test("a task's result is taken for one only if it is one, and whole") {
    val whole = TaskOutcome(0, Array(1), Array(2), Array(3), Array(4))
    assert(ResultJob.checked(whole) eq whole)
    Seq[Any](null, "a result", Seq(whole), whole.copy(stream = null),
      whole.copy(metrics = null)).foreach { other =>
      assert(intercept[CofferException](ResultJob.checked(other)).code == "COFFER_TASK_RESULT")
    }
  }

  test("so is what a whole query's task brings, be it that there was no memory") {
    val whole = WholeOutcome(Array(1), Array(Array[Byte](2)), "")
    assert(WholeJob.checked(whole) eq whole)
    Seq[Any](null, Seq(whole), whole.copy(done = null), whole.copy(streams = null),
      whole.copy(streams = Array(null)), whole.copy(tooLarge = null)).foreach { other =>
      assert(intercept[CofferException](WholeJob.checked(other)).code == "COFFER_TASK_RESULT")
    }
    assert(
      intercept[CofferException](WholeJob.done(whole)).code == "COFFER_ENGINE_PROTOCOL")
    val failed = new CofferTaskException("memory", 7, 3, "AQID")
    val said =
      intercept[CofferTaskException](WholeJob.checked(whole.copy(tooLarge = failed.getMessage)))
    assert(WholeQuery.isTooLarge(said) && said.getMessage == failed.getMessage)
    val other = intercept[CofferException](WholeJob.checked(whole.copy(tooLarge = "too large")))
    assert(other.code == "COFFER_ENGINE_PROTOCOL" && !WholeQuery.isTooLarge(other))
  }

  test("a whole query's outcome has all tasks of its stages, or none of one that was not needed") {
    def outcomes(streams: Int, tasks: Int*): Int = {
      val done = QueryDone.newBuilder
      tasks.foreach { n =>
        val stage = StageDone.newBuilder
        (0 until n).foreach(_ => stage.addTasks(Done.getDefaultInstance))
        done.addStages(stage)
      }
      val job = new WholeJob {
        override def give(work: WholeWork, place: WholePlace): Unit = ()
        override def giveUp(): Unit = ()
        override def ended: Future[Unit] = Future.unit
        override def brought(): Any = WholeOutcome(done.build().toByteArray,
          Array.fill(streams)(Array.emptyByteArray), "")
      }
      new WholeRun(job, Seq(2 -> (_ => ()), 3 -> (_ => ()))).outcomes.size
    }
    assert(outcomes(3, 2, 3) == 3 && outcomes(3, 0, 3) == 3)
    Seq(3 -> Seq(1, 3), 3 -> Seq(2, 2), 0 -> Seq(2, 0), 2 -> Seq(2, 3), 4 -> Seq(2, 3),
      3 -> Seq(3), 0 -> Nil, 3 -> Seq(2, 3, 1)).foreach { case (streams, tasks) =>
      assert(
        intercept[CofferException](outcomes(streams, tasks: _*)).code == "COFFER_ENGINE_PROTOCOL")
    }
  }

  test("what has no room in one engine, or at one executor, is told and not repeated") {
    def ended(e: Exception): String = WholeJob.orTooLarge(throw e).tooLarge
    val failed = new CofferTaskException("memory", 7, 3, "AQID")
    assert(ended(new SparkException("a task failed", failed)) == failed.getMessage)
    val streams = new ResultStreams(10)
    val tooMuch = WholeJob.orTooLarge {
      streams.write(0, ByteBuffer.wrap(new Array[Byte](11)))
      fail("it was taken")
    }
    assert(WholeQuery.isTooLarge(intercept[CofferTaskException](WholeJob.checked(tooMuch))))
    val other = new CofferTaskException("failed", 7, 3, "AQID")
    assert(intercept[CofferTaskException](ended(other)) eq other)
  }

  test("a query runs whole where most cores of one machine have nothing to do") {
    val executors = Seq("0" -> "a", "1" -> "b", "2" -> "a", "3" -> "b")
    def place(busy: (String, Int)*) = WholePlace.among(executors, busy.toMap, 4, None)
    assert(place("2" -> 4) == WholePlace(Some("1" -> "b"), 8, 16))
    assert(place("0" -> 1, "1" -> 2, "3" -> 9) == WholePlace(Some("2" -> "a"), 7, 16))
    assert(place("2" -> 4).location.contains("executor_b_1"))
    assert(place("0" -> 4, "1" -> 4, "2" -> 5, "3" -> 4) == WholePlace(None, 4, 16))
    // What is not there yet counts: it would be used if the query ran on all.
    assert(WholePlace.among(executors, Map.empty, 4, Some(10)).all == 40)
    assert(WholePlace.among(Nil, Map.empty, 4, Some(10)) == WholePlace(None, 4, 40))
    assert(WholePlace.among(Nil, Map.empty, 4, None).all > Int.MaxValue)
  }

  test("executors that are to come are those that settings name") {
    def expected(settings: (String, String)*) =
      WholePlace.expected(new SparkConf(false).setAll(settings), each = 4)
    assert(expected().isEmpty)
    assert(expected("spark.executor.instances" -> "7").contains(7))
    assert(expected("spark.cores.max" -> "40").contains(10))
    val dynamic = "spark.dynamicAllocation.enabled" -> "true"
    assert(expected(dynamic).contains(Int.MaxValue))
    assert(expected(dynamic, "spark.dynamicAllocation.maxExecutors" -> "9").contains(9))
  }

  test("a query runs whole where exchanges between machines would take longer") {
    val place = WholePlace(None, 4, 16)
    assert(place.isSooner(160L << 20, exchanges = 2, each = 15L << 20))
    assert(!place.isSooner(161L << 20, exchanges = 2, each = 15L << 20))
    assert(WholePlace(None, 4, 4).isSooner(Long.MaxValue, exchanges = 1, each = 0))
  }

  test("what Spark says of executors' objects and lost blocks in words only gets a code") {
    val rejected = new SparkException("Exception while getting task result: " +
      "java.io.InvalidClassException: filter status: REJECTED")
    assert(CofferRootExec.coded(rejected).map(_.code).contains("COFFER_DESERIALIZATION_FILTER"))
    val unread = new SparkException("Job aborted: Exception while getting task result: " +
      "java.io.EOFException")
    assert(CofferRootExec.coded(unread).map(_.code).contains("COFFER_TASK_RESULT"))
    val lost = new SparkException("ShuffleMapStage 3 has failed the maximum allowable number of " +
      "times: 4.")
    assert(CofferRootExec.coded(new SparkException("Job aborted", lost)).map(_.code).contains(
        "COFFER_SHUFFLE_LOST"))
    val full = new SparkException("Lost task: java.io.IOException: No space left on device")
    assert(CofferRootExec.coded(full).map(_.code).contains("COFFER_DISK_FULL"))
    assert(CofferRootExec.coded(new SparkException("Job aborted", null)).isEmpty)
    assert(CofferRootExec.coded(new RuntimeException(null: String)).isEmpty)
  }

  test("a sealed error is found by its text through any chain of causes, and nothing else is " +
    "taken for one") {
    val bytes = Array[Byte](1, 2, 3)
    val task = new CofferTaskException("failed", 7, 3, Base64.getEncoder.encodeToString(bytes))
    val wrapped = new SparkException("Job aborted", new RuntimeException("x", task))
    val found = CofferTaskException.find(wrapped).get
    assert((found.code, found.stage, found.partition) == (("failed", 7, 3)))
    assert(found.error.sameElements(bytes))
    val byText = new SparkException(s"Job aborted due to stage failure: Lost task: " +
      s"${task.getMessage}\n\tat …")
    assert(CofferTaskException.find(byText).exists(_.error.sameElements(bytes)))
    assert(CofferTaskException.find(new SparkException("[COFFER_TASK] stage x")).isEmpty)
    assert(CofferTaskException.find(new RuntimeException(null: String)).isEmpty)
  }
}
