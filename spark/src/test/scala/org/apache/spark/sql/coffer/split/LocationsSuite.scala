package org.apache.spark.sql.coffer.split

import java.net.URI
import java.nio.file.Paths

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  FilterFileSystem,
  LocalFileSystem,
  Path => HadoopPath,
  RawLocalFileSystem
}
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
      val place = Option(v.get("local")).orElse(Option(v.get("remote"))).fold("")(_.asText)
      val want = Option(v.get("refused")).map(_.asText).toLeft(place)
      assert(Locations.of(v.get("text").asText).left.map(_.kind) === want, v.get("name").asText)
      // A name names itself.
      if (v.has("remote")) assert(Locations.of(place) === Right(place), v.get("name").asText)
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
    Seq("hdfs:///", "s3a://bucket", "viewfs://cluster/", "file://host/").foreach {
      d =>
        refused("COFFER_STORAGE_SCHEME")(Locations.served("/data/t", settings(d)))
        refused("COFFER_STORAGE_SCHEME")(Locations.served("data/t", settings(d)))
        assert(Locations.served("file:/data/t", settings(d)) == "/data/t", d)
    }
  }

  test("a storage is served for which Hadoop names a file system") {
    val conf = settings("hdfs://NN:8020")
    conf.set("fs.hdfs.impl", classOf[Elsewhere].getName)
    conf.set("fs.s3.impl", classOf[Elsewhere].getName)
    conf.set("fs.gs.impl", classOf[LocalFileSystem].getName)
    assert(Locations.served("/data//t/", conf) == "hdfs://nn/data/t")
    assert(Locations.served("hdfs:///data/t", conf) == "hdfs://nn/data/t")
    assert(Locations.served("hdfs://other:9000/t", conf) == "hdfs://other:9000/t")
    assert(Locations.served("data/t", conf) == "hdfs://nn/user/ann/data/t")
    assert(Locations.served("s3n://b/./t", conf) == "s3a://b/t")
    assert(Locations.reached("s3a://b/a b%20", conf).map(_.toString) == Some("s3://b/a b%20"))
    assert(Locations.uri("s3a://b/a b").toString == "s3a://b/a%20b")
    assert(Locations.uri("/a b").toString == "file:/a%20b")
    // What leads back to this machine would have two names.
    refused("COFFER_STORAGE_SCHEME")(Locations.served("gs://b/t", conf))
    refused("COFFER_STORAGE_SCHEME")(Locations.served("abfss://c@a/t", conf))
    refused("COFFER_LOCATION")(Locations.served("s3a://key:secret@b/t", conf))
  }

  test("a name service is reached as the configuration writes it") {
    val conf = settings("")
    conf.set("fs.hdfs.impl", classOf[Elsewhere].getName)
    conf.set("dfs.nameservices", "other, MyCluster,TWICE,Twice")
    def reached(url: String) = Locations.reached(url, conf).map(_.toString)
    val name = Locations.served("hdfs://MYCLUSTER/a b/t", conf)
    assert(name == "hdfs://mycluster/a b/t")
    assert(reached(name) == Some("hdfs://MyCluster/a b/t"))
    assert(reached("hdfs://mycluster") == Some("hdfs://MyCluster"))
    assert(Locations.uri(name, conf).toString == "hdfs://MyCluster/a%20b/t")
    assert(reached("hdfs://other/t") == Some("hdfs://other/t"))
    // A host of that name, whose port says that it is none.
    assert(reached("hdfs://mycluster:9000/t") == Some("hdfs://mycluster:9000/t"))
    // One name for two places.
    assert(reached("hdfs://twice/t") == None)
    refused("COFFER_STORAGE_SCHEME")(Locations.served("hdfs://Twice/t", conf))
  }

  test("paths are made absolute without a look at storage") {
    val here = Paths.get("").toAbsolutePath.toString
    assert(Locations.served("a/../t", settings("")) == s"$here/t")
    assert(Locations.served("./a:b", settings("")) == s"$here/a:b")
    assert(Locations.served("file:///data//none/../a%20b", settings("")) == "/data/a%20b")
    refused("COFFER_LOCATION")(Locations.served("file:t", settings("")))
  }

  test("a catalog's location is a URI") {
    def uri(text: String) = Locations.served(new URI(text), settings(""))
    assert(uri("file:/data/a%20b") == "/data/a b")
    assert(uri("file:/data/a%2520b") == "/data/a%20b")
    assert(uri("FILE:///data/t") == "/data/t")
    refused("COFFER_LOCATION")(uri("file://host/data"))
    refused("COFFER_LOCATION")(uri("file:data"))
    Seq("s3a://b/t", "hdfs:///t", "s3a:t", "jar:file:/a!/b").foreach(t =>
      refused("COFFER_STORAGE_SCHEME")(uri(t)))
  }
}

/** A file system that has one folder, and is none of this machine. */
final class Elsewhere extends FilterFileSystem(new RawLocalFileSystem) {
  private var uri: URI = _
  override def initialize(name: URI, conf: Configuration): Unit = uri = name
  override def getUri: URI = uri
  override def getWorkingDirectory: HadoopPath = new HadoopPath(uri.toString + "/user/ann")
}
