package org.apache.spark.sql.coffer.transport

import java.io.{
  ByteArrayInputStream,
  ByteArrayOutputStream,
  DataInputStream,
  EOFException,
  FileNotFoundException,
  InterruptedIOException
}
import java.net.{StandardProtocolFamily, URI, UnixDomainSocketAddress}
import java.nio.channels.{Channels, ServerSocketChannel}
import java.nio.file.Files
import java.util.concurrent.{CountDownLatch, TimeUnit}

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
  PositionedReadable,
  RemoteIterator,
  Seekable
}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.proto.storage.{StorageAnswer, StorageRequest}
import org.apache.spark.sql.coffer.proto.wire.{TaskMessage => M}
import org.apache.spark.util.Utils

/** What a storage's JVM answers where the storage itself is hostile, or the task was cancelled. */
class StorageServerSuite extends AnyFunSuite {
  private val conf = new Configuration(false)
  conf.set("fs.odd.impl", classOf[OddStore].getName)

  private def serving[T](body: StorageServer => T): T = serving(ofTask = false)(body)

  private def serving[T](ofTask: Boolean)(body: StorageServer => T): T = {
    val server = new StorageServer(() => conf, ofTask)
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

  test("of this machine's files those of tables are given, and only to an engine apart") {
    val folder = Utils.createTempDir(namePrefix = "coffer-local").toPath
    val name = s"part-${"0a" * 16}.parquet"
    val file = Files.write(folder.resolve(name), "sealed".getBytes)
    val secret = Files.write(folder.resolve("secret"), "not for anybody".getBytes)
    val link = folder.resolve("linked").resolve(name)
    Files.createDirectories(link.getParent)
    Files.createSymbolicLink(link, secret)

    def size(server: StorageServer, path: Any): StorageAnswer = server.answer(
      StorageRequest.newBuilder.setSize(
        StorageRequest.Size.newBuilder.setPath(s"file://$path")).build())
    def put(server: StorageServer, path: Any): StorageAnswer = server.answer(
      StorageRequest.newBuilder.setPut(StorageRequest.Put.newBuilder.setPath(s"file://$path")
          .setBytes(ByteString.copyFromUtf8("new")).setLast(true)).build())

    assert(serving(ofTask = true)(size(_, file)).hasFailure, "an engine beside reads by itself")
    val apart = new StorageServer(() => conf, ofTask = true, localFiles = true)
    try {
      assert(size(apart, file).getSize.getBytes == 6)
      val written = folder.resolve(s"part-${"0b" * 16}.parquet")
      assert(!put(apart, written).hasFailure)
      assert(new String(Files.readAllBytes(written)) == "new")
      assert(put(apart, file).hasFailure, "one that is there is not written over")
      val others = Seq(secret, link, folder, s"$folder/../${folder.getFileName}/$name",
        s"$folder/$name/../secret", folder.resolve(name.toUpperCase))
      others.foreach { path =>
        assert(size(apart, path).hasFailure, path)
        assert(put(apart, path).hasFailure, path)
        assert(list(apart, s"file://$path").hasFailure, path)
      }
    } finally apart.close()
    assert(new String(Files.readAllBytes(secret)) == "not for anybody")
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
    serving(ofTask = true) { server =>
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

/** Answers of a task, on their way to its engine. */
class StorageAnswersSuite extends AnyFunSuite {
  private val conf = new Configuration(false)
  conf.set("fs.odd.impl", classOf[OddStore].getName)

  private def ranges(name: String, parts: (Long, Long)*): StorageRequest = {
    val of = StorageRequest.Ranges.newBuilder.setPath(s"odd://slow/$name")
    parts.foreach { case (start, end) =>
      of.addRanges(StorageRequest.Range.newBuilder.setStart(start).setEnd(end))
    }
    StorageRequest.newBuilder.setRanges(of).build()
  }

  private def talking[T](body: (StorageAnswers, () => StorageAnswer) => T): T = {
    val folder = Files.createTempDirectory("answers")
    val address = UnixDomainSocketAddress.of(folder.resolve("s"))
    val listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(address)
    val channel = Channel.connect(Address.Unix(address.getPath.toString))
    val engine = new DataInputStream(Channels.newInputStream(listener.accept()))
    val server = new StorageServer(() => conf, ofTask = true)
    try body(
        new StorageAnswers(channel, server),
        () => {
          val message = new Array[Byte](Integer.reverseBytes(engine.readInt()) - 1)
          assert(engine.readByte() == M.STORED.getNumber)
          engine.readFully(message)
          StorageAnswer.parseFrom(message)
        })
    finally {
      server.close()
      channel.close()
      listener.close()
      Files.delete(address.getPath)
      Files.delete(folder)
    }
  }

  private def texts(answer: StorageAnswer): Seq[String] =
    answer.getRanges.getRangesList.asScala.map(_.toStringUtf8).toSeq

  test("ranges are read at the same time, and given in the order in which they were asked for") {
    talking { (answers, next) =>
      // The first is not open before the second is.
      answers.answer(ranges("waits", (3, 5), (1, 1), (0, 2)))
      answers.answer(ranges("frees", (1, 2)))
      answers.answer(ranges("none", (1, 2)))
      answers.answer(StorageRequest.newBuilder.setSize(
          StorageRequest.Size.newBuilder.setPath("odd://slow/no-file")).build())
      assert(texts(next()) == Seq("ts", "", "wa"))
      assert(texts(next()) == Seq("r"))
      assert(next().getFailure.getKind == StorageAnswer.Kind.NOT_FOUND)
      assert(next().hasSize)
    }
  }

  test("a long answer comes whole") {
    talking { (answers, next) =>
      val reading =
        new Thread(() => answers.answer(ranges("long", (0, 5000000), (5500000, 5799999))))
      reading.start()
      val found = next().getRanges
      assert(found.getRangesList.asScala.map(_.size).toSeq == Seq(5000000, 299999))
      reading.join()
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
  override def open(at: Path, buffer: Int): FSDataInputStream = at.getName match {
    case "waits" =>
      assert(OddStore.freed.await(60, TimeUnit.SECONDS), "one was read after the other")
      new FSDataInputStream(new OddBytes("waits".getBytes))
    case "frees" =>
      OddStore.freed.countDown()
      new FSDataInputStream(new OddBytes("frees".getBytes))
    case "long" => new FSDataInputStream(new OddBytes(new Array[Byte](6000000)))
    case _ => throw new FileNotFoundException(at.toString)
  }
  override def append(at: Path, buffer: Int, progress: Progressable): FSDataOutputStream =
    throw new UnsupportedOperationException
  override def rename(from: Path, to: Path): Boolean = throw new UnsupportedOperationException
  override def mkdirs(at: Path, permission: FsPermission): Boolean = true
  override def setWorkingDirectory(at: Path): Unit = ()
  override def getWorkingDirectory: Path = new Path("/")
}

/** A file in memory. */
private final class OddBytes(bytes: Array[Byte])
    extends ByteArrayInputStream(bytes)
    with Seekable
    with PositionedReadable {
  override def seek(to: Long): Unit = pos = to.toInt
  override def getPos: Long = pos
  override def seekToNewSource(to: Long): Boolean = false
  override def read(at: Long, into: Array[Byte], offset: Int, length: Int): Int = {
    val size = math.min(length, bytes.length - at.toInt)
    System.arraycopy(bytes, at.toInt, into, offset, size)
    size
  }
  override def readFully(at: Long, into: Array[Byte], offset: Int, length: Int): Unit =
    if (read(at, into, offset, length) < length) throw new EOFException
  override def readFully(at: Long, into: Array[Byte]): Unit = readFully(at, into, 0, into.length)
}

object OddStore {
  val freed = new CountDownLatch(1)
  val BACKWARDS = 230000

  /** Entries that were given, by host. */
  val listed: TrieMap[String, Long] = TrieMap.empty
  val files: TrieMap[String, Unit] = TrieMap.empty
}
