package org.apache.spark.sql.coffer.transport

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.e2e.{Programs, SparkHome}
import org.apache.spark.sql.coffer.recorded.Kinds
import org.apache.spark.util.Utils

/**
 * A cluster of executors in processes of their own sends all kinds of messages; what it sends is
 * what is listed.
 */
class ListedClassesSuite extends AnyFunSuite with BeforeAndAfterAll {
  private var folder: Path = _
  private var spark: SparkSession = _

  /** The build runs what is so tagged in a JVM of its own. */
  override def tags: Map[String, Set[String]] = testNames.map(name => name -> Set("cluster")).toMap

  private def record: Path = folder.resolve("recorded.txt")

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    SparkHome.prepare()
    folder = Files.createTempDirectory("coffer-listed")
    sys.props(ClassRecorder.FILE) = record.toString
    val configDir = Programs.makeConfigDir(folder)
    spark = SparkSession.builder()
      .master("local-cluster[3,1,1024]")
      .config("spark.ui.enabled", "false")
      .config("spark.plugins", "org.apache.spark.sql.coffer.CofferPlugin")
      .config("spark.sql.extensions", "org.apache.spark.sql.coffer.CofferExtensions")
      .config("spark.coffer.configDir", configDir.toString)
      .config("spark.coffer.passphraseFile", Programs.passphraseFile(configDir).toString)
      .config("spark.coffer.client.path", Programs.binary("coffer-client"))
      .config("spark.coffer.engine.path", Programs.binary("coffer-engine"))
      .config("spark.coffer.engine.memory", "512MiB")
      .config("spark.jars", s"${sys.props("coffer.jar")},${sys.props("coffer.hostile.jar")}")
      .config("spark.sql.shuffle.partitions", "3")
      .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toString)
      .config("spark.task.maxFailures", "2")
      .config("spark.task.maxDirectResultSize", "64k")
      .config("spark.driver.maxResultSize", "4m")
      .config("spark.executor.heartbeatInterval", "250ms")
      .config("spark.executor.metrics.pollingInterval", "100ms")
      .config("spark.speculation", "true")
      .config("spark.speculation.interval", "100ms")
      .config("spark.speculation.minTaskRuntime", "100ms")
      .config("spark.decommission.enabled", "true")
      .config("spark.storage.decommission.enabled", "true")
      .config("spark.storage.decommission.replicationReattemptInterval", "500ms")
      .config("spark.executor.decommission.killInterval", "10s")
      .getOrCreate()
  }

  override protected def afterAll(): Unit = {
    sys.props -= ClassRecorder.FILE
    try if (spark != null) spark.stop()
    finally {
      if (folder != null) Utils.deleteRecursively(folder.toFile)
      super.afterAll()
    }
  }

  private def sc = spark.sparkContext
  private lazy val everywhere = ListedClasses.read(ListedClasses.EVERYWHERE)
  private lazy val localCluster = ListedClasses.read(ListedClasses.LOCAL_CLUSTER)

  test("results")(Kinds.results(sc))
  test("accumulators, metrics and heartbeats")(Kinds.accumulators(sc))
  test("failures of tasks")(Kinds.failures(sc))
  test("blocks, dumps")(Kinds.blocks(sc))
  test("barriers")(Kinds.barriers(sc))
  test("files, commits")(Kinds.files(sc, folder))
  test("plain queries")(Kinds.plainQueries(spark, folder))

  test("sealed queries") {
    val plain = folder.resolve("t").toString
    spark.range(0, 1000, 1, 2).selectExpr("id", "id % 5 AS k",
      "CAST(id AS STRING) AS s").write.parquet(plain)
    Programs.coffer(folder.resolve("config"), "encrypt", plain, folder.resolve("sealed").toString,
      "--table", "t")
    val t = spark.read.format("coffer").load(folder.resolve("sealed").toString)
    for (whole <- Seq("on", "off")) {
      spark.conf.set("spark.coffer.oneMachine", whole)
      assert(t.groupBy("k").count().orderBy("k").collect().length == 5)
    }
    assert(t.join(t.select("id").limit(3), "id").count() == 3)
    assert(intercept[Exception](t.selectExpr("id / (id - 5)").collect()).getMessage.contains(
        "DIVIDE_BY_ZERO"))
  }

  test("losses of executors")(Kinds.losses(sc))

  test("the list is not stale: it has what a cluster sends, and nothing else without a reason") {
    sc.listenerBus.waitUntilEmpty(60000)
    val recorded = Files.readAllLines(record).asScala.map(_.split("\t", -1)).toSeq
    val carriers =
      recorded.groupMap(_(0))(_(2)).view.mapValues(_.distinct.sorted.mkString(", ")).toMap
    val listed = (everywhere ++ localCluster).map(_.name).toSet
    val missing = (carriers.keySet - classOf[java.net.URL].getName -- listed).toSeq.sorted
    assert(missing.isEmpty,
      missing.map(m => s"stale: missing $m (in ${carriers(m)})").mkString("\n", "\n", ""))
    val needless =
      (everywhere ++ localCluster).filter(e => e.unseen.isEmpty && !carriers.contains(e.name))
    assert(needless.isEmpty,
      needless.map(e => s"stale: nobody sends ${e.name}").mkString("\n", "\n", ""))
  }
}
