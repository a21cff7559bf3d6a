package org.apache.spark.sql.coffer.recorded

import java.nio.file.{Files, Path}
import java.util.concurrent.atomic.AtomicReference

import scala.concurrent.Await
import scala.concurrent.duration._
import scala.util.Try

import org.apache.spark.{
  BarrierTaskContext,
  QueryContext,
  SparkArithmeticException,
  SparkContext,
  SparkEnv,
  SparkException,
  TaskContext
}
import org.apache.spark.executor.CommitDeniedException
import org.apache.spark.memory.SparkOutOfMemoryError
import org.apache.spark.scheduler.{
  ExecutorDecommissionInfo,
  SparkListener,
  SparkListenerExecutorRemoved,
  SparkListenerTaskEnd
}
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend
import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.{broadcast, col, sum}
import org.apache.spark.storage.StorageLevel

/**
 * What an honest cluster sends to its driver, one kind after the other, so that the classes can be
 * recorded: results, failures of tasks and of executors, blocks, shuffles, barriers,
 * decommissioning, and what plain queries bring to the client. The cluster needs three executors of
 * one core, and loses some of them.
 */
object Kinds {
  private def within(what: String, seconds: Int)(done: => Boolean): Unit = {
    val deadline = seconds.seconds.fromNow
    while (!done) {
      if (deadline.isOverdue()) throw new IllegalStateException(s"$what: not within $seconds s")
      Thread.sleep(20)
    }
  }

  private def executors(sc: SparkContext): Seq[String] = sc.getExecutorIds()

  /** The text of a job that fails. */
  private def failure(job: => Any): String =
    try {
      job
      "did not fail"
    } catch { case e @ (_: SparkException | _: SparkArithmeticException) => e.getMessage }

  def results(sc: SparkContext): Unit = {
    within("executors", 60)(executors(sc).size >= 3)
    require(sc.parallelize(1 to 100, 3).map(_ * 2L).sum() == 10100)
    sc.parallelize(Seq("a", "b"), 2).collect()
    sc.parallelize(Seq(1.5, 2.5), 2).stats()
    sc.parallelize(Seq(Array[Byte](1), Array[Byte](2)), 2).take(2)
    sc.parallelize(1 to 10, 2).map(i => (i, Option(s"$i"), Seq(i), Map("k" -> i))).collect()
    sc.parallelize(1 to 10, 2).map(i => (i % 2, i)).reduceByKey(_ + _).collectAsMap()
    sc.parallelize(1 to 10, 2).map(i => (i % 3, i)).groupByKey(2).sortByKey().mapValues(
      _.size).collect()
    // Brought to the client by way of a block, and not at all.
    sc.parallelize(Seq(1), 1).map(_ => new Array[Byte](1 << 18)).collect()
    val large = failure(sc.parallelize(Seq(1), 1).map(_ => new Array[Byte](6 << 20)).collect())
    require(large.contains("maxResultSize"), large)
  }

  def accumulators(sc: SparkContext): Unit = {
    val (long, double, list) =
      (sc.longAccumulator("l"), sc.doubleAccumulator("d"), sc.collectionAccumulator[String]("c"))
    sc.parallelize(1 to 9, 3).foreach { i =>
      long.add(i.toLong); double.add(0.5); list.add(s"$i")
      Thread.sleep(100) // as long as some heartbeats
    }
    require(long.value == 45 && double.value == 4.5 && list.value.size == 9)
  }

  /** Each way in which a task ends badly; the text that each must leave. */
  def failures(sc: SparkContext): Unit = {
    def fails(name: String, part: String)(error: => Throwable): Unit = {
      val text = failure(sc.parallelize(Seq(1), 1).map[Int](_ => throw error).collect())
      require(text.contains(part), s"$name: $text")
    }
    fails("plain", "first cause")(new RuntimeException("outer",
        new IllegalStateException("first cause")))
    fails("i/o", "no such file")(new java.io.FileNotFoundException("no such file"))
    fails("of a class that is not " +
        "listed", "of another kind")(new UnlistedException("of another kind", new Held(1)))
    fails("that cannot be sent", "not to be sent")(new UnsendableException("not to be sent"))
    fails("memory", "UNABLE_TO_ACQUIRE_MEMORY")(new SparkOutOfMemoryError(
        "UNABLE_TO_ACQUIRE_MEMORY",
        java.util.Map.of("requestedBytes", "1", "receivedBytes", "0")))
    // Of a query it carries the query's text, of a class that is not listed, and stays behind.
    fails("arithmetic", "DIVIDE_BY_ZERO")(
      new SparkArithmeticException("DIVIDE_BY_ZERO",
        Map("config" ->
          "none"), Array.empty[QueryContext], ""))
    fails("suppressed", "with another") {
      val e = new java.io.IOException("with another")
      e.addSuppressed(new IllegalArgumentException("beside"))
      e
    }
    val denied = new AtomicReference("")
    val listener = new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = denied.updateAndGet(_ + end.reason)
    }
    sc.addSparkListener(listener)
    sc.parallelize(Seq(1), 1).map { i =>
      val context = TaskContext.get()
      if (context.attemptNumber() == 0)
        throw new CommitDeniedException("denied", context.stageId(), context.partitionId(), 0)
      i
    }.collect()
    within("a denied commit", 20)(denied.get.contains("TaskCommitDenied"))
    sc.removeSparkListener(listener)
    fetchFailure(sc)
    killed(sc)
  }

  private def fetchFailure(sc: SparkContext): Unit = {
    val shuffled = sc.parallelize(1 to 10, 2).map(i => (i % 3, i)).groupByKey(2)
    val shuffle =
      shuffled.dependencies.head.asInstanceOf[org.apache.spark.ShuffleDependency[_, _, _]].shuffleId
    val twice = shuffled.mapPartitions { rows =>
      if (TaskContext.get().stageAttemptNumber() == 0)
        throw new FetchFailedException(SparkEnv.get.blockManager.blockManagerId, shuffle, 0L, 0, 0,
          "made up")
      rows
    }
    require(twice.count() == 3)
  }

  private def killed(sc: SparkContext): Unit = {
    sc.setJobGroup("killed", "killed", interruptOnCancel = true)
    val job = sc.parallelize(1 to 3, 3).map { i => Thread.sleep(60000); i }.countAsync()
    sc.clearJobGroup()
    within("tasks", 20)(sc.statusTracker.getExecutorInfos.exists(_.numRunningTasks() > 0))
    Thread.sleep(500) // some heartbeats
    job.cancel()
    require(Try(Await.result(job, 30.seconds)).isFailure)
    within("the end of the " +
        "tasks", 20)(sc.statusTracker.getExecutorInfos.forall(_.numRunningTasks() == 0))
    // Repeated because it is slow; the other attempt is then killed.
    val slow = sc.parallelize(1 to 3, 3).mapPartitionsWithIndex { (index, rows) =>
      if (index == 0 && TaskContext.get().attemptNumber() == 0) Thread.sleep(20000)
      rows
    }
    require(slow.count() == 3)
  }

  def blocks(sc: SparkContext): Unit = {
    val twice = sc.parallelize(1 to 1000, 3).persist(StorageLevel.MEMORY_AND_DISK_2)
    val disk = sc.parallelize(1 to 1000, 3).map(_.toString).persist(StorageLevel.DISK_ONLY)
    require(twice.count() == 1000 && disk.count() == 1000)
    require(sc.getRDDStorageInfo.length >= 2)
    val shared = sc.broadcast(Array.fill(1 << 16)(7))
    require(sc.parallelize(1 to 3, 3).map(_ + shared.value(0)).sum() == 27)
    shared.destroy(blocking = true)
    val checked = sc.parallelize(1 to 10, 2)
    checked.localCheckpoint()
    checked.count()
    disk.unpersist(blocking = true)
    val master = SparkEnv.get.blockManager.master
    master.getBlockStatus(org.apache.spark.storage.RDDBlockId(twice.id, 0),
      askStorageEndpoints = true)
    executors(sc).foreach { id =>
      require(sc.getExecutorThreadDump(id).exists(_.nonEmpty))
      require(sc.getExecutorHeapHistogram(id).exists(_.nonEmpty))
    }
  }

  def barriers(sc: SparkContext): Unit = {
    val reason = sc.parallelize(1 to 2, 2).barrier().mapPartitions { rows =>
      val context = BarrierTaskContext.get()
      context.barrier()
      val all = context.allGather(s"${context.partitionId()}")
      rows.map(_ => all.mkString(","))
    }.collect()
    require(reason.forall(_ == "0,1"), reason.mkString)
  }

  def files(sc: SparkContext, folder: Path): Unit = {
    val file = Files.writeString(folder.resolve("added.txt"), "added")
    sc.addFile(file.toString)
    val read = sc.parallelize(1 to 2, 2)
      .map(_ =>
        Files.readString(
          java.nio.file.Paths.get(org.apache.spark.SparkFiles.get("added.txt")))).collect()
    require(read.forall(_ == "added"))
    sc.parallelize(1 to 10, 2).saveAsTextFile(folder.resolve("text").toString)
    require(sc.textFile(folder.resolve("text").toString).count() == 10)
  }

  /** Queries of Spark's own over plain data, in a session that has Coffer, too. */
  def plainQueries(spark: SparkSession, folder: Path): Unit = {
    val t = spark.range(0, 2000, 1, 3).selectExpr(
      "id", "id % 7 AS k", "CAST(id AS DOUBLE) / 3 AS v",
      "CAST(id AS DECIMAL(12, 2)) AS " +
        "d", "concat('s', id) AS s",
      "DATE '2020-01-01' AS day", "TIMESTAMP '2020-01-01 00:00:00' AS at",
      "CAST('x' AS BINARY) " +
        "AS b",
      "id > 3 AS even", "CAST(id AS INT) AS i",
      "CAST(id % 100 AS BYTE) AS " +
        "y", "CAST(id AS SHORT) AS h",
      "CAST(id AS FLOAT) AS f", "array(id) AS list", "map('a', id) AS m",
      "named_struct('x', id) " +
        "AS r",
      "TIMESTAMP_NTZ '2020-01-01 00:00:00' AS n")
    val path = folder.resolve("plain").toString
    t.write.parquet(path)
    t.select("id", "k", "s").write.partitionBy("k").parquet(folder.resolve("parts").toString)
    val read = spark.read.parquet(path)
    require(read.orderBy(col("v").desc).collect().length == 2000)
    require(read.groupBy("k").agg(sum("d")).collect().length == 7)
    require(read.join(broadcast(read.select("id", "k").limit(5)), "id").count() == 5)
    require(read.as("a").join(read.as("b"), "i").count() == 2000)
    require(read.orderBy("s").limit(3).collect().length == 3)
    require(read.tail(2).length == 2 && read.sample(0.5, 1).count() > 0)
    require(spark.read.parquet(
      (0 until 7).map(k => folder.resolve(s"parts/k=$k").toString): _*).count() == 2000)
    require(spark.read.option("mergeSchema", "true").parquet(
      folder.resolve("parts").toString).count() == 2000)
    read.stat.approxQuantile("v", Array(0.5), 0.1)
    read.select("id", "s", "v").write.option("header", "true").csv(folder.resolve("csv").toString)
    spark.read.option("header", "true").option("inferSchema", "true").csv(
      folder.resolve("csv").toString).count()
    read.select("id", "s", "r").write.json(folder.resolve("json").toString)
    spark.read.json(folder.resolve("json").toString).count()
    val cached = read.select("id", "v").cache()
    require(cached.count() == 2000 && cached.where("id > 1990").collect().length == 9)
    cached.unpersist(blocking = true)
    require(Try(spark.sql("SELECT id / (id - 5) FROM range(0, 10, 1, " +
          "2)").collect()).failed.get.toString.contains("BY_ZERO"))
  }

  /** At the end, for executors go: one leaves with its blocks, one by order, one at once. */
  def losses(sc: SparkContext): Unit = {
    val kept = sc.parallelize(1 to 1000, 3).persist(StorageLevel.MEMORY_ONLY)
    kept.count()
    val shuffled = kept.map(i => (i % 3, i)).reduceByKey(_ + _)
    shuffled.count()
    val gone = new AtomicReference(Set.empty[String])
    sc.addSparkListener(new SparkListener {
      override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit =
        gone.updateAndGet(_ + event.executorId)
    })
    val backend = sc.schedulerBackend.asInstanceOf[CoarseGrainedSchedulerBackend]
    val first = executors(sc).head
    require(backend.decommissionExecutors(
        Array(first -> ExecutorDecommissionInfo("to be recorded", None)),
        adjustTargetNumExecutors = false,
        triggeredByExecutor = false).nonEmpty)
    within("the decommissioned executor's end", 60)(gone.get.contains(first))
    require(shuffled.count() == 3)
    // It ends in the middle of a task; the task is repeated.
    require(sc.parallelize(1 to 2, 2).map { i =>
      if (TaskContext.get().attemptNumber() == 0 && i == 1) Runtime.getRuntime.halt(17)
      i
    }.count() == 2)
    within("the lost executor's end", 60)(gone.get.size >= 2)
    val last = executors(sc).head
    sc.killExecutor(last)
    within("the killed executor's end", 60)(gone.get.contains(last))
  }
}

/** Of a class that is on nobody's list, with a field of another. */
final class UnlistedException(message: String, val held: Held) extends RuntimeException(message)
final class Held(val number: Int) extends Serializable

/** It cannot be serialised. */
final class UnsendableException(message: String) extends RuntimeException(message) {
  val lock = new Object
}
