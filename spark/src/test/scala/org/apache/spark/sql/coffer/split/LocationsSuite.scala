package org.apache.spark.sql.coffer.split

import java.net.URI
import java.nio.file.Paths

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.common.CofferException

/** What storage is served, by the vectors that Rust reads too. */
class LocationsSuite extends AnyFunSuite {
  private val vectors = new ObjectMapper().readTree(
    Paths.get("../engine/crates/owner/custody/vectors/locations.json").toFile).asScala.toSeq

  private def settings(default: String): Configuration = {
    val conf = new Configuration(false)
    if (default.nonEmpty) conf.set("fs.defaultFS", default)
    conf
  }

  private def refused(code: String)(body: => Any): Unit = {
    val e = intercept[CofferException](body)
    assert(e.code == code, e.getMessage)
    assert(e.hint.nonEmpty)
  }

  test("vectors") {
    assert(vectors.size > 40)
    vectors.foreach { v =>
      val want =
        Option(v.get("refused")).map(_.asText).toLeft(Option(v.get("local")).fold("")(_.asText))
      assert(Locations.local(v.get("text").asText).left.map(_.kind) === want, v.get("name").asText)
    }
  }

  test("what is served is what Hadoop reads as a file of this machine") {
    vectors.filter(_.has("local")).foreach { v =>
      val text = v.get("text").asText
      val path = new HadoopPath(text).toUri
      assert(path.getScheme == null || path.getScheme.equalsIgnoreCase("file"), text)
      assert(path.getAuthority == null, text)
    }
  }

  test("a path without a scheme means the default file system") {
    Seq("", "file:///", "file:/", "FILE:///").foreach(d =>
      assert(Locations.served("/data/t", settings(d)) == "/data/t", d))
    Seq("hdfs://nn:8020", "hdfs:///", "s3a://bucket", "viewfs://cluster/", "file://host/").foreach {
      d =>
        refused("COFFER_STORAGE_SCHEME")(Locations.served("/data/t", settings(d)))
        refused("COFFER_STORAGE_SCHEME")(Locations.served("data/t", settings(d)))
        assert(Locations.served("file:/data/t", settings(d)) == "/data/t", d)
    }
  }

  test("paths are made absolute without a look at storage") {
    val here = Paths.get("").toAbsolutePath.toString
    assert(Locations.served("a/../t", settings("")) == s"$here/t")
    assert(Locations.served("./a:b", settings("")) == s"$here/a:b")
    assert(Locations.served("file:///data//none/../a%20b", settings("")) == "/data/a%20b")
    refused("COFFER_LOCATION")(Locations.served("file:t", settings("")))
  }

  test("a catalog's location is a URI") {
    def uri(text: String) = Locations.served(new URI(text))
    assert(uri("file:/data/a%20b") == "/data/a b")
    assert(uri("file:/data/a%2520b") == "/data/a%20b")
    assert(uri("FILE:///data/t") == "/data/t")
    refused("COFFER_LOCATION")(uri("file://host/data"))
    refused("COFFER_LOCATION")(uri("file:data"))
    Seq("s3a://b/t", "hdfs:///t", "s3a:t", "jar:file:/a!/b").foreach(t =>
      refused("COFFER_STORAGE_SCHEME")(uri(t)))
  }
}
