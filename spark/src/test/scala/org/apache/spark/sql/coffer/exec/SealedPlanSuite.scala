package org.apache.spark.sql.coffer.exec

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkArithmeticException
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.coffer.PythonBridge
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.fake.FakeSession
import org.apache.spark.sql.coffer.proto.plan.{Fragment, Partitioning}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.functions.{broadcast, col, count, lit, udf}

/** Sealed plans in Spark itself, with engines that only check what they are handed. */
class SealedPlanSuite extends AnyFunSuite with FakeSession {
  private def refused(code: String)(body: => Any): CofferException = {
    def ours(e: Throwable): Option[CofferException] =
      Iterator.iterate(e)(_.getCause).takeWhile(_ != null).collectFirst { case c: CofferException =>
        c
      }
    val e = intercept[Exception](body)
    val found = ours(e).getOrElse(fail(s"not refused by us", e))
    assert(found.code == code, found.getMessage)
    assert(found.hint.nonEmpty)
    found
  }

  test("a scan becomes one fragment whose tasks hold each row group once") {
    val df = spark.sql("SELECT v FROM t WHERE k > 41")
    assert(df.collect().length == 2)
    val stage = client.stages.asScala.last
    assert(stage.getTasksList.asScala.flatMap(_.getSlicesList.asScala).map(s =>
      s.getEndRowGroup - s.getFirstRowGroup).sum == 6)
    assert(stage.getScansList.asScala.flatMap(_.getColumnsList.asScala).toSet == Set("k", "v"))
  }

  Seq("true", "false").foreach { aqe =>
    def withAqe[T](body: => T): T = {
      spark.conf.set("spark.sql.adaptive.enabled", aqe)
      try body
      finally spark.conf.unset("spark.sql.adaptive.enabled")
    }

    test(s"aggregates, sorts, limits, repartitions run through sealed exchanges (adaptive: $aqe)") {
      withAqe {
        Seq(
          "SELECT s, sum(v) FROM t GROUP BY s",
          "SELECT count(*) FROM t",
          "SELECT count(DISTINCT s), sum(v) FROM t",
          "SELECT s, sum(v) x FROM t GROUP BY s ORDER BY x DESC",
          "SELECT s, k FROM t ORDER BY k LIMIT 3",
          "SELECT s FROM t UNION ALL SELECT s FROM t",
          "SELECT /*+ REPARTITION(3) */ s FROM t",
          "SELECT /*+ REPARTITION(3, s) */ s FROM t",
          "SELECT /*+ REPARTITION_BY_RANGE(3, k) */ s FROM t",
          "SELECT /*+ REBALANCE */ s FROM t",
          "SELECT k FROM t WHERE v > (SELECT avg(v) FROM t)",
          "SELECT k, k - (SELECT max(k) FROM t) FROM t ORDER BY v LIMIT 3",
          "SELECT k FROM (SELECT k, v FROM t ORDER BY v LIMIT 3) WHERE k >= (SELECT min(k) FROM " +
            "t) AND v >= (SELECT max(v) FROM t)",
          "SELECT x, count(*) FROM (SELECT s, count(*) x FROM t GROUP BY s) GROUP BY x",
          "SELECT s, sum(v) FROM t GROUP BY s UNION ALL SELECT s, sum(v) FROM t GROUP BY " +
            "s").foreach { sql =>
          val df = spark.sql(sql)
          assert(df.collect().nonEmpty, sql)
          // A second run is a result stage of its own over the same shuffles.
          assert(df.collect().nonEmpty, sql)
        }
      }
    }

    test(s"every way to the client is served: take, tail, head, show, count, isEmpty, the local " +
      s"iterator (adaptive: $aqe)") {
      withAqe {
        Seq("SELECT s, k FROM t", "SELECT s, sum(v) FROM t GROUP BY s",
          "SELECT s FROM t ORDER " +
            "BY s").foreach { sql =>
          def df: DataFrame = spark.sql(sql)
          assert(df.take(1).length == 1)
          assert(df.tail(1).length == 1)
          assert(df.head() != null)
          assert(df.limit(1).collect().nonEmpty)
          assert(!df.isEmpty)
          df.count()
          df.show()
          assert(df.toLocalIterator().asScala.nonEmpty)
        }
      }
    }
  }

  test("the last ORDER BY sorts in the tasks and merges at the client: no range exchange, no " +
    "sampling") {
    val before = client.bounds.size
    val df = spark.sql("SELECT s, sum(v) x FROM t GROUP BY s ORDER BY x")
    df.collect()
    assert(client.bounds.size == before)
    val opened = client.opened.asScala.last
    val finish = Fragment.parseFrom(opened.getFinish)
    assert(finish.toString.contains("merge"))
  }

  test("a range exchange samples first and pins its bounds") {
    val before = client.bounds.size
    spark.sql("SELECT /*+ REPARTITION_BY_RANGE(3, k) */ s, k FROM t").collect()
    assert(client.bounds.size == before + 1)
    val picked = client.bounds.asScala.last
    assert(picked.getPartitions == 3 && picked.getKeysCount == 1 &&
      picked.getSamplesCount == picked.getSampledPartitions)
    val ranged = client.stages.asScala.filter(s =>
      s.getSession == picked.getSession &&
        Fragment.parseFrom(
          s.getFragment).getSink.getShuffle.getKindCase == Partitioning.KindCase.RANGE)
    assert(ranged.exists(_.getObjectsList.asScala.map(_.intValue).contains(picked.getBoundsId)))
  }

  test("a scalar subquery's value is sealed once and pinned by the fragments that name it") {
    val before = client.values.size
    spark.sql("SELECT k FROM t WHERE v > (SELECT max(v) FROM t)").collect()
    assert(client.values.size == before + 1)
  }

  test("the result comes as Arrow") {
    val df = spark.sql("SELECT k, s FROM t").asInstanceOf[org.apache.spark.sql.classic.DataFrame]
    assert(PythonBridge.isSealed(df))
    assert(!PythonBridge.isSealed(spark.range(3).toDF()))
    df.queryExecution.executedPlan match {
      case root: CofferRootExec =>
        val bytes = root.collectArrow().flatten.toArray
        assert(bytes.nonEmpty)
        assert(ArrowRows.of(Iterator(bytes), root.output, () => ()).size == 2)
      case other => fail(s"the root is ${other.nodeName}")
    }
  }

  test("an engine without keys gets them by way of the driver") {
    engine.needKeys = true
    val before = engine.released.get
    try spark.sql("SELECT k FROM t").collect()
    finally engine.needKeys = false
    assert(engine.released.get > before)
  }

  test("a task that failed is repeated with the list of attempts that counts now; one that goes " +
    "on failing says why") {
    val df = spark.sql("SELECT s, sum(v) FROM t GROUP BY s")
    df.collect()
    // Stages are numbered by the session: the shuffle is 1, runs of the result follow.
    engine.failures.put((3, 0), 1)
    df.collect()
    val again = engine.starts.asScala.filter(s => s.getStage == 3 && s.getPartition == 0)
    assert(again.exists(_.getSealedObjectsList.asScala.exists(_.toStringUtf8 == "attempts")))
    engine.failures.put((4, 0), 100)
    val e = intercept[SparkArithmeticException](df.collect())
    engine.failures.clear()
    // Empty errors are told by their place only; this one was not empty or the client would not
    // have opened it.
    assert(e.getCondition == "DIVIDE_BY_ZERO" && e.getMessage.startsWith("[DIVIDE_BY_ZERO]"))
  }

  test("Spark hears which stages may bring other rows when they run again, and what reads them " +
    "may too") {
    import DeterministicLevel._
    def levels(): Seq[DeterministicLevel.Value] = withConf("spark.sql.adaptive.enabled" ->
      "false") {
      val df = spark.sql("SELECT x, count(*) FROM (SELECT s, count(*) x FROM t GROUP BY s) GROUP " +
        "BY x")
      df.collect()
      val exchanges = df.queryExecution.executedPlan.collect { case e: CofferShuffleExchangeExec =>
        e
      }
      exchanges.map(_.sealedShuffle.dependency.rdd.outputDeterministicLevel)
    }
    assert(levels() == Seq(UNORDERED, DETERMINATE))
    client.indeterminate = _.getScansCount > 0
    try assert(levels() == Seq(INDETERMINATE, INDETERMINATE))
    finally client.indeterminate = _ => false
  }

  private object WithinStages extends AdaptiveSparkPlanHelper

  test("of rows that may come out otherwise when they are made again Spark gets no count to plan " +
    "by") {
    def counts(): Seq[Option[BigInt]] = {
      val df = spark.sql("SELECT /*+ BROADCAST(y) */ x.s, count(*) FROM t x JOIN t y ON x.k = " +
        "y.k GROUP BY x.s")
      df.collect()
      val exchanges = WithinStages.collect(df.queryExecution.executedPlan) {
        case e: CofferShuffleExchangeExec => e.runtimeStatistics.rowCount
        case b: CofferBroadcastExchangeExec => b.runtimeStatistics.rowCount
      }
      assert(exchanges.size == 2)
      exchanges
    }
    assert(counts().forall(_.isDefined))
    client.mayChange = true
    try assert(counts().forall(_.isEmpty))
    finally client.mayChange = false
  }

  test("ways that would open rows on executors are refused before a task starts") {
    val df = spark.sql("SELECT k, s FROM t")
    val before = engine.tasks.get
    // With the client tail, a local master's tasks may have rows: they run in this process.
    spark.conf.set("spark.coffer.client.tail", "off")
    try {
      refused("COFFER_ROWS_ON_EXECUTORS")(df.rdd.count())
      refused("COFFER_ROWS_ON_EXECUTORS")(df.foreach((_: Row) => ()))
    } finally spark.conf.unset("spark.coffer.client.tail")
    refused("COFFER_ROWS_ON_EXECUTORS")(df.localCheckpoint())
    refused("COFFER_PLAINTEXT_SINK")(df.write.parquet(folder.resolve("out").toString))
    refused("COFFER_PLAINTEXT_SINK")(df.write.format("noop").mode("overwrite").save())
    refused("COFFER_PLAINTEXT_SINK")(df.write.csv(folder.resolve("out").toString))
    refused("COFFER_PLAINTEXT_SINK")(df.write.saveAsTable("plain"))
    refused("COFFER_PLAINTEXT_SINK")(spark.sql("CREATE TABLE plain USING parquet AS SELECT * " +
        "FROM t"))
    assert(engine.tasks.get == before)
    assert(!Files.exists(folder.resolve("out")))
  }

  test("what is cached of a sealed query is a leaf of the plans that read it") {
    def query = spark.sql("SELECT k + 1 AS cached FROM t")
    def reads(df: DataFrame): Boolean =
      df.queryExecution.optimizedPlan.exists(_.isInstanceOf[CachedRelation])
    val before = engine.tasks.get
    val cached = query.cache()
    spark.sql("CACHE LAZY TABLE t")
    try {
      assert(spark.catalog.isCached("t"))
      Seq(query, query.join(query, "cached"), spark.table("t").where("k > 1")).foreach { df =>
        assert(reads(df))
        val plan = df.queryExecution.executedPlan
        assert(plan.isInstanceOf[CofferRootExec])
        assert(!plan.toString.contains("InMemory"))
      }
      assert(engine.tasks.get == before, "nothing is computed before it is asked for")
    } finally {
      cached.unpersist()
      spark.catalog.clearCache()
    }
    assert(!reads(query))
    assert(query.collect().nonEmpty)
  }

  private def beside(rows: DataFrame): Unit = {
    rows.createOrReplaceTempView("rows")
    spark.sql("SELECT k FROM t UNION ALL SELECT k FROM rows")
    spark.sql("SELECT k FROM rows WHERE k > (SELECT max(k) FROM t)")
  }

  private def frame(rows: RDD[Row]): DataFrame =
    spark.createDataFrame(rows, spark.range(1).toDF("k").schema)

  test("what is foreign beside sealed tables is refused at analysis, with its reason") {
    val file = folder.resolve("numbers").toString
    spark.range(3).toDF("k").write.parquet(file)
    val stored = spark.read.parquet(file)
    val sc = spark.sparkContext
    val list = sc.parallelize(Seq(Row(1L)))
    Seq(
      stored.rdd,
      sc.textFile(file).map(_ => Row(1L)),
      // Its lineage has no file: what was read comes by a broadcast.
      spark.range(3).toDF("k").join(broadcast(stored), "k").rdd,
      list.union(stored.rdd),
      list.repartition(2),
      list.map(identity).cache(),
      list.map(identity).localCheckpoint()).foreach { rows =>
      val e = refused("COFFER_UNSUPPORTED")(beside(frame(rows)))
      assert(e.getMessage.contains("rows of an RDD are plain"))
    }
    refused("COFFER_UNSUPPORTED")(beside(stored.localCheckpoint()))
    val twice = udf((x: Long) => 2 * x)
    withConf("spark.coffer.client.tail" -> "off") {
      refused("COFFER_UNSUPPORTED")(beside(frame(list)))
      val e = refused("COFFER_UNSUPPORTED")(spark.table("t").select(twice(col("k"))))
      assert(e.getMessage.contains("user-defined"))
    }
  }

  test("rows of the driver's own lists are beside sealed tables, and functions in the driver") {
    val sc = spark.sparkContext
    Seq(sc.parallelize(Seq(Row(1L))).map(identity), sc.parallelize(Seq(Row(1L)), 3).coalesce(1),
      sc.parallelize(Seq(Row(1L))).union(sc.emptyRDD[Row])).foreach(rows => beside(frame(rows)))
    val twice = udf((x: Long) => 2 * x)
    val shown = spark.table("t").select(twice(col("k"))).queryExecution.executedPlan.toString
    assert(shown.contains("CofferClientTail"))
  }

  test("an unsupported operator is named at planning, before a task starts") {
    val before = engine.tasks.get
    val observed = spark.table("t").observe("rows", count(lit(1)))
    val e = withConf("spark.coffer.client.tail" -> "off") {
      refused("COFFER_UNSUPPORTED")(observed.collect())
    }
    assert(e.getMessage.contains("observed metrics"))
    assert(engine.tasks.get == before)
  }

  test("a table in the catalog, by location and by option, and its statistics") {
    spark.sql("CREATE TABLE named USING coffer LOCATION '/sealed/t'")
    try {
      assert(spark.table("named").schema.fieldNames.toSeq == Seq("k", "v", "s"))
      assert(spark.sql("SELECT k FROM named").collect().length == 2)
      assert(spark.table("named").queryExecution.optimizedPlan.stats.rowCount.contains(BigInt(60)))
      spark.sql("DESCRIBE TABLE named").collect()
    } finally spark.sql("DROP TABLE named")
  }

  test("a table that is none is refused") {
    val e = intercept[CofferException](spark.read.format("coffer").load("/sealed/nothing"))
    assert(e.code == "COFFER_NO_TABLE")
    refused("COFFER_NO_PATH")(spark.read.format("coffer").load())
  }

  test("EXPLAIN lists the fragments and says that evidence is simulated") {
    val df = spark.sql("SELECT s, sum(v) FROM t GROUP BY s")
    df.collect()
    val text = df.queryExecution.explainString(
      org.apache.spark.sql.execution.ExplainMode.fromString("simple"))
    assert(text.contains("Extended Information (Coffer)"))
    assert(text.contains("SIMULATED"))
    assert(text.contains("fragment → shuffle " +
      "HashPartitioning") && text.contains("fragment → result"))
  }

  test("plans without sealed tables are Spark's own") {
    val df = spark.range(10).selectExpr("id % 3 AS k").groupBy("k").count()
    assert(df.collect().length == 3)
    assert(!df.queryExecution.executedPlan.toString.contains("Coffer"))
  }

  test("a session ends when its query's plan is no longer reachable") {
    val before = client.ended.size
    def run(): Unit = spark.sql("SELECT s, max(v) FROM t GROUP BY s").collect()
    run()
    val deadline = System.nanoTime() + 30L * 1000 * 1000 * 1000
    while (client.ended.size == before && System.nanoTime() < deadline) {
      System.gc()
      java.util.concurrent.locks.LockSupport.parkNanos(50L * 1000 * 1000)
    }
    assert(client.ended.size > before)
  }
}
