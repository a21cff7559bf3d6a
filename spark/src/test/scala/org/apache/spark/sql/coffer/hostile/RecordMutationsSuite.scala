package org.apache.spark.sql.coffer.hostile

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkEnv
import org.apache.spark.scheduler.DirectTaskResult
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.coffer.exec.{Commits, MapCommit, TaskOutcome}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.util.{AccumulatorContext, AccumulatorV2}
import org.apache.spark.util.io.ChunkedByteBuffer

/**
 * A mutation that changed nothing is not counted; one about row counts reaches the driver's
 * metrics.
 */
class RecordMutationsSuite extends AnyFunSuite with BeforeAndAfterAll {
  private var spark: SparkSession = _

  override def beforeAll(): Unit = {
    super.beforeAll()
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
    spark =
      SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
  }

  override def afterAll(): Unit =
    try spark.stop()
    finally super.afterAll()

  private def bytes(text: String): Array[Byte] = text.getBytes("UTF-8")
  private def commit(mapId: Long, counters: String = "counters"): MapCommit =
    MapCommit(mapId, 0, bytes(s"record of $mapId"), bytes(counters), bytes("metrics"))

  private def result(value: Any, accumulators: AccumulatorV2[_, _]*): DirectTaskResult[Any] = {
    val serializer = SparkEnv.get.serializer.newInstance()
    new DirectTaskResult[Any](new ChunkedByteBuffer(serializer.serialize[Any](value)), accumulators,
      Array.emptyLongArray)
  }

  private def map(records: MapCommit*): DirectTaskResult[Any] = {
    val commits = new Commits
    records.foreach(commits.add)
    result("a map status", commits)
  }

  /** What was done, by a mutation applied of these tasks one after the other. */
  private def deeds(mutation: String, tasks: DirectTaskResult[Any]*): Seq[String] = {
    Hostile.arm(mutation, 7)
    tasks.foreach(Hostile.taskEnds)
    Hostile.disarm().toSeq
  }

  /** As the driver does with a task's numbers. */
  private def arrives(task: DirectTaskResult[Any]): Unit = {
    val serializer = SparkEnv.get.closureSerializer.newInstance()
    serializer.deserialize[DirectTaskResult[Any]](serializer.serialize(task)).accumUpdates.foreach {
      update =>
        AccumulatorContext.get(update.id).foreach(_.asInstanceOf[AccumulatorV2[Any, Any]].merge(
            update.asInstanceOf[AccumulatorV2[Any, Any]]))
    }
  }

  test("without earlier tasks there is no earlier record to show") {
    Seq("record-of-an-earlier-map", "record-of-a-result").foreach { mutation =>
      Museum.clear()
      assert(deeds(mutation, map(commit(1))).isEmpty, mutation)
    }
    // An altered record is none of an earlier task's.
    Museum.clear()
    assert(deeds("record-empty", map(commit(1))).nonEmpty)
    assert(Museum.commit(new scala.util.Random(1)).exists(_.commit.nonEmpty))
    assert(deeds("record-of-an-earlier-map", map(commit(2))).nonEmpty)
    assert(deeds("record-of-a-result", map(commit(2))).isEmpty)
    Hostile.taskEnds(result(TaskOutcome(0, bytes("stream"), bytes("record"), bytes(""), bytes(""))))
    assert(deeds("record-of-a-result", map(commit(2))).nonEmpty)
  }

  test("a task without records has none that are missing") {
    Seq("record-missing", "record-flipped", "record-for-other-maps-too").foreach { mutation =>
      assert(deeds(mutation, result("a map status")).isEmpty, mutation)
      assert(deeds(mutation, map(commit(1))).nonEmpty, mutation)
    }
  }

  test("counters of no bytes cannot be false") {
    assert(deeds("task-counters-false", map(commit(1, ""))).isEmpty)
    assert(deeds("task-counters-false", map(commit(1))).nonEmpty)
    assert(deeds("task-counters-false",
        result(TaskOutcome(0, bytes("s"), bytes("c"), bytes(""), bytes("")))).isEmpty)
    assert(deeds("task-counters-false",
        result(TaskOutcome(0, bytes("s"), bytes("c"), bytes("more"), bytes("")))).nonEmpty)
  }

  private def sent(metric: SQLMetric, value: Long): SQLMetric = {
    val update = Forged.travelled(metric.copy())
    update.metadata = metric.metadata
    update.set(value)
    update
  }

  test("numbers that are so anyway are not changed") {
    val rows = SQLMetrics.createMetric(spark.sparkContext, "rows")
    assert(deeds("accumulators-zero", result("a map status")).isEmpty)
    assert(deeds("accumulators-zero", result("a map status", sent(rows, 0))).isEmpty)
    assert(deeds("accumulators-missing", result("a map status", sent(rows, 0))).isEmpty)
    assert(deeds("accumulators-zero", result("a map status", sent(rows, 5))).nonEmpty)
    val task = result("a map status", sent(rows, 5))
    assert(deeds("accumulators-negative", task).nonEmpty)
    rows.set(10L)
    arrives(task)
    assert(rows.value == 9)
  }

  private val targets = Map("row-counts-zero" -> 0L, "row-counts-one" -> 1L,
    "row-counts-huge" ->
      (1L << 50))

  targets.foreach { case (mutation, target) =>
    test(s"$mutation: the driver's metrics become $target and stay so") {
      Hostile.arm(mutation, 7)
      val rows = SQLMetrics.createMetric(spark.sparkContext, "rows")
      val size = SQLMetrics.createSizeMetric(spark.sparkContext, "size")
      val own = SQLMetrics.createMetric(spark.sparkContext, "what the task counts itself")
      val time = SQLMetrics.createTimingMetric(spark.sparkContext, "time")
      rows.set(120L)
      time.set(33L)
      val tasks = Seq.fill(3)(result("a map status", sent(own, 40)))
      // Two end before the driver hears of the first.
      tasks.take(2).foreach(Hostile.taskEnds)
      tasks.take(2).foreach(arrives)
      assert(Seq(rows, size, own).map(_.value) == Seq(target, target, target))
      // A number of the driver's own.
      size.set(5000L)
      Hostile.taskEnds(tasks.last)
      arrives(tasks.last)
      assert(Seq(rows, size, own).map(_.value) == Seq(target, target, target))
      assert(time.value == 33)
      val done = Hostile.disarm().mkString
      assert(done.contains("rows was 120") && done.contains("size was 5000") &&
          done.contains("counts itself was 120"), done)
    }
  }

  test("row counts that did not become false are not counted") {
    Hostile.arm("row-counts-zero", 7)
    val rows = SQLMetrics.createMetric(spark.sparkContext, "rows")
    Hostile.taskEnds(result("a map status"))
    assert(rows.value == 0 && Hostile.disarm().isEmpty)

    Hostile.arm("row-counts-zero", 7)
    val more = SQLMetrics.createMetric(spark.sparkContext, "more rows")
    more.set(120L)
    // It never arrives.
    Hostile.taskEnds(result("a map status"))
    assert(more.value == 120 && Hostile.disarm().isEmpty)
  }
}
