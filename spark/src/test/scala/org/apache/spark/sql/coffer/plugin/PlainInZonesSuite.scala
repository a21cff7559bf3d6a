package org.apache.spark.sql.coffer.plugin

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.fake.FakeSession
import org.apache.spark.sql.coffer.transport.DeserializationFilter

/**
 * Of which places the client engine is asked before something plain is made there. Whether they are
 * in a zone it alone knows.
 */
class PlainInZonesSuite extends AnyFunSuite with FakeSession {

  private def asked(body: => Any): Set[String] = {
    val before = client.checkedPlain.size
    body
    client.checkedPlain.asScala.drop(before).flatMap(_.getPathsList.asScala).toSet
  }

  private def at(name: String): String = folder.resolve(name).toString

  private def one = spark.range(1).selectExpr("1 AS a", "2 AS p")

  private def mount(view: String, target: String): (String, String) =
    s"fs.viewfs.mounttable.$view.link./z" -> s"file://${at(target)}"

  test("a mount that a write brings along leads where it says") {
    val (link, target) = mount("options", "by_option")
    assert(asked(one.write.option(link, target).parquet("viewfs://options/z/t")) == Set(
      at("by_option/t")))
    assert(folder.resolve("by_option/t").toFile.isDirectory)
  }

  test("so does one that a table has") {
    val (link, target) = mount("table", "by_table")
    val create = s"CREATE TABLE viewed USING parquet OPTIONS (`$link` '$target') LOCATION " +
      s"'viewfs://table/z/t' AS SELECT 1 AS a"
    assert(asked(spark.sql(create)).contains(at("by_table/t")))
    val inserted = asked(spark.sql("INSERT INTO viewed VALUES (2)"))
    assert(inserted.contains(at("by_table/t")), inserted)
    val (linked, there) = mount("folder", "by_folder")
    val directory = s"INSERT OVERWRITE DIRECTORY 'viewfs://folder/z/t' USING json OPTIONS " +
      s"(`$linked` '$there') SELECT 1 AS a"
    assert(asked(spark.sql(directory)).contains(at("by_folder/t")))
  }

  test("and one of the session's") {
    withConf(mount("session", "by_session")) {
      assert(asked(one.write.json("viewfs://session/z/t")) == Set(at("by_session/t")))
    }
  }

  test("partitions that an INSERT writes, where they are elsewhere") {
    spark.sql(s"CREATE TABLE parted (a INT, p INT, q INT) USING parquet PARTITIONED BY (p, q) " +
      s"LOCATION '${at("parted")}'")
    spark.sql("INSERT INTO parted VALUES (1, 1, 1), (1, 2, 1), (1, 2, 2), (1, 3, 1)")
    for (p <- Seq(1, 2)) spark.sql(s"ALTER TABLE parted PARTITION (p = $p, q = 1) SET LOCATION " +
      s"'${at(s"elsewhere$p")}'")
    val static = asked(spark.sql("INSERT INTO parted PARTITION (p = 2, q) VALUES (7, 1)"))
    assert(static == Set(at("parted"), at("elsewhere2")))
    val dynamic = asked(spark.sql("INSERT INTO parted VALUES (7, 3, 1)"))
    assert(dynamic == Set(at("parted"), at("elsewhere1"), at("elsewhere2")))
  }

  test("outside of zones every format of Spark's is written by a local master, whose tasks the " +
    "filter sees") {
    DeserializationFilter.install(spark.sparkContext.getConf)
    for (format <- Seq("parquet", "orc", "json", "csv", "xml")) {
      val writer = one.write.format(format).option("rowTag", "row")
      assert(asked(writer.save(at(s"as_$format"))) == Set(at(s"as_$format")), format)
      assert(spark.read.format(format).option("rowTag", "row").load(at(s"as_$format")).count() == 1,
        format)
    }
    asked(spark.range(1).selectExpr("'x' AS value").write.text(at("as_text")))
    assert(spark.read.text(at("as_text")).count() == 1)
  }

  test("what a command without a plain table makes is not asked about") {
    assert(asked(spark.sql("SELECT 1").collect()).isEmpty)
    assert(asked(spark.sql("INSERT INTO t VALUES (1, 2.0, 'x')")).isEmpty)
  }
}
