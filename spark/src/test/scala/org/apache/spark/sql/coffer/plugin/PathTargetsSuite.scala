package org.apache.spark.sql.coffer.plugin

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FilterFileSystem, LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.util.Utils

/** Local files that call themselves something else, as settings can have them. */
final class PosingFileSystem extends RawLocalFileSystem {
  private var uri: URI = _
  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    uri = URI.create(s"${name.getScheme}://${Option(name.getAuthority).getOrElse("")}/")
  }
  override def getUri: URI = if (uri == null) super.getUri else uri
}

/** The same behind a filter. */
final class PosingFilter extends FilterFileSystem(new PosingFileSystem)

/** Where paths lead, whatever their schemes are. */
class PathTargetsSuite extends AnyFunSuite {

  private def settings(pairs: (String, String)*): Configuration = {
    val set = new Configuration(false)
    pairs.foreach { case (key, value) => set.set(key, value) }
    set
  }

  private def targets(path: String, pairs: (String, String)*): Seq[String] =
    PathTargets.of(new Path(path), settings(pairs: _*))

  test("local paths, however they are spelled") {
    for (spelled <- Seq("/z/t", "file:/z/t", "file:///z/t", "file://localhost/z/t", "FILE:/z/t",
        "/z//t/", "/a/../z/t"))
      assert(targets(spelled) == Seq("/z/t"), spelled)
    assert(targets("raw:/z/t", "fs.raw.impl" -> classOf[RawLocalFileSystem].getName) == Seq("/z/t"))
  }

  test("what is not known to be local is told as it is spelled") {
    for (spelled <- Seq("nothing:/z/t", "s3a://bucket/z/t", "jar:/z/t"))
      assert(targets(spelled) == Seq(spelled))
  }

  test("a remote scheme whose file system is a local one leads to local files") {
    for (kind <- Seq(classOf[LocalFileSystem], classOf[RawLocalFileSystem],
        classOf[PosingFileSystem], classOf[PosingFilter]))
      assert(targets("s3a://bucket/z/t", "fs.s3a.impl" -> kind.getName).contains("/z/t"), kind)
  }

  // File systems are kept by scheme and host: each view here has a host of its own.
  test("a view's mounts lead where they say, by the settings of the one who asks") {
    def mount(host: String, at: String, to: String) = s"fs.viewfs.mounttable.$host.link.$at" ->
      s"file://$to"
    assert(targets("viewfs:///z/t/deep", mount("default", "/z", "/data/pay")) == Seq(
      "/data/pay/t/deep"))
    assert(targets("viewfs://one/z", mount("one", "/z", "/data/pay")) == Seq("/data/pay"))
    assert(targets("viewfs://two/z/t", mount("two", "/z", "/data"),
      mount("two", "/zz", "/other")) == Seq("/data/t"))
    assert(targets("/z/t",
      "fs.defaultFS" ->
        "viewfs://three", mount("three", "/z", "/data/pay")) == Seq("/data/pay/t"))
    val twice = Seq(mount("four", "/z", "/data/pay"),
      "fs.viewfs.mounttable.five.link./y" ->
        "viewfs://four/z/inner")
    assert(targets("viewfs://five/y/t", twice: _*) == Seq("/data/pay/inner/t"))
    // The same view asked with other settings: a file system of before may still be in use here,
    // but not on executors.
    val host = "fs.viewfs.mounttable.host.link./z"
    new Path("viewfs://host/z").getFileSystem(settings(host -> "file:///first"))
    assert(targets("viewfs://host/z/t",
      host ->
        "file:///second").toSet == Set("/first/t", "/second/t"))
  }

  test("what a view does not name is a view's, whatever it calls itself") {
    val folder = Utils.createTempDir(namePrefix = "fallback")
    val found = targets(
      "viewfs://back/other/t",
      "fs.viewfs.mounttable.back.link./z" -> "file:///data",
      "fs.viewfs.mounttable.back.linkFallback" -> folder.toURI.toString)
    assert(found == Seq("viewfs:///other/t"))
    val over = Seq(
      "fs.hdfs.impl" -> classOf[ViewFileSystemOverloadScheme].getName,
      "fs.viewfs.overload.scheme.target.hdfs.impl" -> classOf[LocalFileSystem].getName,
      "fs.viewfs.mounttable.cluster.link./z" -> "file:///data/pay")
    assert(targets("hdfs://cluster/z/t", over: _*) == Seq("/data/pay/t"))
    assert(targets("hdfs://cluster/other/t", over: _*) == Seq("viewfs:///other/t"))
  }
}
