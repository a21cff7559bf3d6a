package org.apache.spark.sql.coffer.transport

import java.io.{ByteArrayOutputStream, FileNotFoundException, InterruptedIOException}
import java.net.URI

import scala.collection.concurrent.TrieMap
import scala.jdk.CollectionConverters._

import com.google.protobuf.ByteString
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  FSDataInputStream,
  FSDataOutputStream,
  FileStatus,
  FileSystem,
  Path,
  RemoteIterator
}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.proto.storage.{StorageAnswer, StorageRequest}

/** What a storage's JVM answers where the storage itself is hostile, or the task was cancelled. */
class StorageServerSuite extends AnyFunSuite {
  private val conf = new Configuration(false)
  conf.set("fs.odd.impl", classOf[OddStore].getName)

  private def serving[T](body: StorageServer => T): T = {
    val server = new StorageServer(() => conf, keepsOpen = false)
    try body(server)
    finally server.close()
  }

  private def list(server: StorageServer, path: String, after: String = ""): StorageAnswer =
    server.answer(StorageRequest.newBuilder.setList(
        StorageRequest.List.newBuilder.setPath(path).setAfter(after)).build())

  private def all(server: StorageServer, path: String): Seq[(String, Boolean)] = {
    var page = list(server, path).getList
    val found = Vector.newBuilder[(String, Boolean)]
    found ++= page.getEntriesList.asScala.map(e => (e.getName, e.getFolder))
    while (page.getMore) {
      page = list(server, path, page.getEntries(page.getEntriesCount - 1).getName).getList
      found ++= page.getEntriesList.asScala.map(e => (e.getName, e.getFolder))
    }
    found.result()
  }

  test("a listing that does not end is given up") {
    val answer = serving(list(_, "odd://endless/t"))
    assert(answer.getFailure.getMessage.contains("without end"))
    assert(OddStore.listed.get("endless").exists(_ <= Listings.ENTRIES_MOST + 1))
  }

  test("a folder is listed once for many pages, in the order of names' bytes") {
    val names = serving(all(_, "odd://backwards/t")).map(_._1)
    assert(names.size == OddStore.BACKWARDS)
    assert(names == names.sorted)
    // What is more than is kept is listed again.
    val times = OddStore.listed("backwards") / OddStore.BACKWARDS
    assert(times == (OddStore.BACKWARDS + Listings.KEPT - 1) / Listings.KEPT)
  }

  test("a file beside a folder of its name is one entry") {
    assert(serving(all(_, "odd://both/t")) == Seq("other" -> true, "x" -> false))
  }

  test("what a cancelled task began is removed, and the interrupt stays") {
    serving { server =>
      def put(name: String, last: Boolean) = server.answer(
        StorageRequest.newBuilder.setPut(StorageRequest.Put.newBuilder.setPath(s"odd://files/$name")
            .setBytes(ByteString.copyFromUtf8("bytes")).setLast(last)).build())
      assert(put("whole", last = true).hasDone && put("begun", last = false).hasDone)
      assert(OddStore.files.keySet == Set("/whole", "/begun"))
      Thread.currentThread.interrupt()
      server.abandon()
      assert(Thread.interrupted())
      assert(OddStore.files.isEmpty)
    }
  }
}

/** Storage as none should be: what it does is said by the URL's host. */
final class OddStore extends FileSystem {
  private var uri: URI = _
  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    uri = URI.create(s"${name.getScheme}://${name.getAuthority}")
  }
  override def getUri: URI = uri

  private def entry(at: Path, name: String, folder: Boolean) =
    new FileStatus(1, folder, 1, 1, 0, new Path(at, name))

  override def listStatusIterator(at: Path): RemoteIterator[FileStatus] = {
    val host = uri.getHost
    val entries = host match {
      case "endless" => Iterator.from(0).map(n => entry(at, s"part-$n", folder = false))
      case "backwards" =>
        Iterator.range(OddStore.BACKWARDS, 0, -1).map(n =>
          entry(at, f"part-$n%09d", folder = false))
      case "both" =>
        Iterator(entry(at, "x", folder = true), entry(at, "x", folder = false),
          entry(at, "other", folder = true))
      case _ => throw new FileNotFoundException(at.toString)
    }
    new RemoteIterator[FileStatus] {
      override def hasNext: Boolean = entries.hasNext
      override def next(): FileStatus = {
        OddStore.listed(host) = OddStore.listed.getOrElse(host, 0L) + 1
        entries.next()
      }
    }
  }
  override def listStatus(at: Path): Array[FileStatus] =
    throw new AssertionError("a listing as one array may have no end")

  /** As clients of real storage do. */
  private def look(): Unit =
    if (Thread.currentThread.isInterrupted) throw new InterruptedIOException("interrupted")

  override def create(
      at: Path,
      permission: FsPermission,
      overwrite: Boolean,
      buffer: Int,
      replication: Short,
      block: Long,
      progress: Progressable): FSDataOutputStream = {
    look()
    OddStore.files(at.toUri.getPath) = ()
    new FSDataOutputStream(
      new ByteArrayOutputStream {
        override def close(): Unit = look()
      },
      null)
  }
  override def delete(at: Path, recursive: Boolean): Boolean = {
    look()
    OddStore.files.remove(at.toUri.getPath).isDefined
  }
  override def getFileStatus(at: Path): FileStatus =
    if (OddStore.files.contains(at.toUri.getPath)) entry(at.getParent, at.getName, folder = false)
    else throw new FileNotFoundException(at.toString)
  override def open(at: Path, buffer: Int): FSDataInputStream =
    throw new FileNotFoundException(at.toString)
  override def append(at: Path, buffer: Int, progress: Progressable): FSDataOutputStream =
    throw new UnsupportedOperationException
  override def rename(from: Path, to: Path): Boolean = throw new UnsupportedOperationException
  override def mkdirs(at: Path, permission: FsPermission): Boolean = true
  override def setWorkingDirectory(at: Path): Unit = ()
  override def getWorkingDirectory: Path = new Path("/")
}

object OddStore {
  val BACKWARDS = 230000

  /** Entries that were given, by host. */
  val listed: TrieMap[String, Long] = TrieMap.empty
  val files: TrieMap[String, Unit] = TrieMap.empty
}
