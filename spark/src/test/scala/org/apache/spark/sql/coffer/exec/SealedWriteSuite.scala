package org.apache.spark.sql.coffer.exec

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkArithmeticException
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.fake.FakeSession
import org.apache.spark.sql.coffer.proto.plan.{Fragment, Node, Sink}
import org.apache.spark.sql.coffer.proto.wire.{BeginWrite, SealStage}
import org.apache.spark.sql.coffer.proto.wire.BeginWrite.Mode
import org.apache.spark.sql.functions.lit

/**
 * Writes as the client engine sees them: begun, sealed as the last fragment's sink, published whole
 * or given up.
 */
class SealedWriteSuite extends AnyFunSuite with FakeSession {

  private def written(body: => Any): (BeginWrite, SealStage, Fragment) = {
    val (begun, published) = (client.begun.size, client.published.size)
    body
    assert(client.begun.size == begun + 1 && client.published.size == published + 1)
    val publish = client.published.asScala.last
    val stage = client.stages.asScala.filter(s =>
      s.getSession == publish.getSession &&
        s.getStage == publish.getStage).last
    val fragment = Fragment.parseFrom(stage.getFragment)
    assert(fragment.getSink.getKindCase == Sink.KindCase.WRITE &&
      stage.getWrite == publish.getWrite)
    (client.begun.asScala.last, stage, fragment)
  }

  private def refused(code: String)(body: => Any): CofferException = {
    val e = intercept[Exception](body)
    val ours = Iterator.iterate[Throwable](e)(_.getCause).takeWhile(_ != null).collectFirst {
      case c: CofferException => c
    }
    val found = ours.getOrElse(fail(s"not refused by us", e))
    assert(found.code == code, found.getMessage)
    found
  }

  Seq("true", "false").foreach { aqe =>
    test(s"an insert is its query's last fragment (adaptive: $aqe)") {
      withConf("spark.sql.adaptive.enabled" -> aqe) {
        val (begin, stage, fragment) = written(spark.sql("INSERT INTO t SELECT k, v, s FROM u"))
        assert(begin.getMode == Mode.APPEND && begin.getHandle == 1)
        assert(stage.getTasksCount > 1 && fragment.getOutput.getFieldsCount == 3)
        written(spark.sql("INSERT INTO t SELECT max(k), sum(v), s FROM u GROUP BY s"))
        written(spark.sql("INSERT INTO t SELECT k, v, s FROM u ORDER BY k"))
        written(spark.sql("INSERT INTO t SELECT k, v, s FROM u WHERE v > (SELECT avg(v) FROM u)"))
        val values = written(spark.sql("INSERT INTO t VALUES (1, 2.0, 'x')"))._3
        assert(values.getRoot.hasValues)
        written(spark.sql("INSERT INTO t SELECT 1, 2.0, 'x'"))
        written(spark.sql("INSERT INTO t SELECT k, v, s FROM u WHERE false"))
      }
    }
  }

  test("rows come sorted by the partition columns, which the sink names") {
    val (_, _, fragment) = written(spark.sql("INSERT INTO p SELECT k, v, s FROM u"))
    assert(fragment.getSink.getWrite.getPartitionColumnsList.asScala.map(_.intValue) == Seq(2))
    assert(fragment.getRoot.getOpCase == Node.OpCase.SORT &&
      fragment.getRoot.getSort.getKeys(0).getExpr.getColumn == 2)
  }

  test("overwrites say what they replace") {
    assert(written(spark.sql("INSERT OVERWRITE p SELECT k, v, s FROM u"))._1.getOnlyCount == 0)
    val only = written(spark.sql("INSERT OVERWRITE p PARTITION (s = 'x') SELECT k, v FROM u"))._1
    assert(only.getMode == Mode.OVERWRITE && only.getOnly(0).getColumn == "s" &&
      only.getOnly(0).getValue.getValue == "x")
    withConf("spark.sql.sources.partitionOverwriteMode" -> "dynamic") {
      assert(written(spark.sql("INSERT OVERWRITE p SELECT k, v, s FROM " +
          "u"))._1.getMode == Mode.OVERWRITE_PARTITIONS)
      assert(written(spark.sql("INSERT OVERWRITE t SELECT k, v, s FROM " +
          "u"))._1.getMode == Mode.OVERWRITE)
    }
    refused("COFFER_WRITE")(
      spark.table("u").writeTo("t").overwrite(org.apache.spark.sql.functions.col("k") > lit(3)))
  }

  test("save in every mode, to a folder with a table and to one without") {
    def save(mode: String, path: String): Unit =
      spark.table("u").write.format("coffer").mode(mode).save(path)
    assert(written(save("append", "/sealed/t"))._1.getMode == Mode.APPEND)
    assert(written(save("overwrite", "/sealed/t"))._1.getMode == Mode.OVERWRITE)
    Seq("append", "overwrite", "errorifexists", "ignore").foreach { mode =>
      val begin = written(save(mode, "/new/a"))._1
      assert(begin.getMode == Mode.CREATE && begin.getPath == "/new/a" &&
        begin.getSchema.getFieldsCount == 3)
    }
    val before = client.begun.size
    save("ignore", "/sealed/t")
    assert(intercept[AnalysisException](save("errorifexists",
        "/sealed/t")).getCondition == "PATH_ALREADY_EXISTS")
    assert(client.begun.size == before)
    val parted = written(spark.table("u").write.format("coffer").partitionBy("s").save("/new/b"))._1
    assert(parted.getPartitionColumnsList.asScala == Seq("s"))
    refused("COFFER_PARTITIONING")(
      spark.table("u").write.format("coffer").mode("append").partitionBy("s").save("/sealed/t"))
    refused("COFFER_NO_PATH")(spark.table("u").write.format("coffer").save())
    refused("COFFER_NO_TABLE")(spark.read.format("coffer").load("/new/c").collect())
  }

  test("CREATE TABLE names the table by its folder only after it was published") {
    val location = folder.resolve("made").toString
    val begin = written(spark.sql(s"CREATE TABLE made USING coffer PARTITIONED BY (s) LOCATION " +
        s"'$location' AS SELECT * FROM u"))._1
    assert(begin.getName == "made" && begin.getPath == location &&
      begin.getPartitionColumnsList.asScala == Seq("s"))
    assert(spark.catalog.tableExists("made"))
    spark.sql("DROP TABLE made")
    engine.failures.put((1, 0), 100)
    val failed =
      try intercept[SparkArithmeticException](
          spark.sql("CREATE TABLE unmade USING coffer AS SELECT " +
            "* FROM u"))
      finally engine.failures.clear()
    assert(failed.getCondition == "DIVIDE_BY_ZERO")
    assert(!spark.catalog.tableExists("unmade"))
    val published = client.published.size
    spark.sql("CREATE TABLE empty (a INT NOT NULL, b STRING) USING coffer")
    assert(client.published.size == published + 1 &&
      client.published.asScala.last.getSession.isEmpty)
    assert(!client.begun.asScala.last.getSchema.getFields(0).getNullable)
  }

  test("a failed task gives the write up; one that is repeated does not count twice") {
    val (aborted, published) = (client.aborted.size, client.published.size)
    engine.failures.put((1, 0), 100)
    val failed =
      try intercept[SparkArithmeticException](spark.sql("INSERT INTO t SELECT * FROM u"))
      finally engine.failures.clear()
    assert(failed.getCondition == "DIVIDE_BY_ZERO")
    assert(client.aborted.size == aborted + 1 && client.published.size == published)
    assert(client.aborted.asScala.last.getWrite == client.begun.size)
    engine.failures.put((1, 0), 1)
    val stage = written(spark.sql("INSERT INTO t SELECT * FROM u"))._2
    assert(client.published.asScala.last.getCommitsCount == stage.getTasksCount)
  }

  test("rows of a list are sealed with the query") {
    val rows = spark.createDataFrame(spark.sparkContext.parallelize(Seq(1L)).map(
        org.apache.spark.sql.Row(_)), spark.range(1).schema)
    val fragment = written(rows.write.format("coffer").save("/new/l"))._3
    assert(fragment.getRoot.hasValues)
  }

  test("plain rows, and other changes of a sealed table, are refused before a task starts") {
    val before = engine.tasks.get
    val file = folder.resolve("plain").toString
    java.nio.file.Files.writeString(java.nio.file.Path.of(file), "1")
    val rows = spark.createDataFrame(spark.sparkContext.textFile(file).map(line =>
        org.apache.spark.sql.Row(line.toLong)), spark.range(1).schema)
    refused("COFFER_UNSUPPORTED")(rows.write.format("coffer").save("/new/r"))
    Seq("DELETE FROM t WHERE k = 1",
      "UPDATE t SET k = " +
        "2").foreach(sql => refused("COFFER_PLAINTEXT_SINK")(spark.sql(sql)))
    assert(engine.tasks.get == before)
  }
}
