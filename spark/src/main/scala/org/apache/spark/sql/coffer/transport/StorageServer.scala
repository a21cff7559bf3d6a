package org.apache.spark.sql.coffer.transport

import java.io.{EOFException, FileNotFoundException, IOException}
import java.nio.ByteBuffer
import java.nio.file.{AccessDeniedException, Files, Paths}
import java.util
import java.util.UUID
import java.util.concurrent.CompletableFuture

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.{ByteString, UnsafeByteOperations}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  CreateFlag,
  FSDataInputStream,
  FSDataOutputStream,
  FSDataOutputStreamBuilder,
  FileAlreadyExistsException,
  FileRange,
  FileStatus,
  FileSystem,
  Path,
  StreamCapabilities,
  UnsupportedFileSystemException
}
import org.apache.hadoop.fs.permission.{FsCreateModes, FsPermission}
import org.apache.hadoop.security.AccessControlException

import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.proto.storage.{StorageAnswer, StorageRequest}
import org.apache.spark.sql.coffer.proto.storage.StorageAnswer.{Failure, Kind}
import org.apache.spark.sql.coffer.split.Locations

/**
 * Answers an engine's questions for files, through the file systems of Spark's Hadoop
 * configuration. What it carries is ciphertext; it has no key, and nobody relies on its answers.
 * One for each task, or for each connection of the client engine. Ranges may be read by several
 * threads at the same time; all else one thread asks for.
 *
 * @param ofTask
 *   what is made here goes again if the task fails; and files that are read stay open for what is
 *   asked next, since a task does not live long: such a file is the one that was there first
 * @param listings
 *   shared by those that answer one asker in turn
 * @param outputs
 *   files that are being written, by URL: shared likewise, since the parts of one come one after
 *   the other, but to any of them
 * @param lookedUp
 *   shared likewise
 * @param localFiles
 *   whether data files of tables on this machine's disks may be asked for, by `file://` and their
 *   path as it is: for an engine in a virtual machine, which has no part of these disks. No other
 *   file of this machine is given, whoever asks
 */
private[transport] final class StorageServer(
    settings: () => Configuration,
    ofTask: Boolean,
    listings: Listings = new Listings,
    outputs: mutable.Map[String, FSDataOutputStream] = mutable.Map.empty,
    lookedUp: LookedUp = new LookedUp,
    localFiles: Boolean = false)
    extends AutoCloseable
    with Logging {
  import StorageServer._

  private val inputs = new OpenInputs(if (ofTask) MOST_OPEN else 0)

  /** Files that were made whole here, of a task. */
  private val made = mutable.Set.empty[String]

  def answer(request: StorageRequest): StorageAnswer =
    try
      request.getOfCase match {
        case StorageRequest.OfCase.SIZE => size(request.getSize)
        case StorageRequest.OfCase.RANGES => ranges(request.getRanges)
        case StorageRequest.OfCase.PUT => put(request.getPut)
        case StorageRequest.OfCase.PUT_IF_ABSENT => putIfAbsent(request.getPutIfAbsent)
        case StorageRequest.OfCase.LIST => list(request.getList)
        case StorageRequest.OfCase.DELETE => delete(request.getDelete)
        case StorageRequest.OfCase.OF_NOT_SET => failed(Kind.OTHER, "a question of unknown kind")
      }
    catch {
      // An interrupt ends the task, and what it comes as is no answer.
      case e: java.io.InterruptedIOException if Thread.currentThread.isInterrupted => throw e
      case NonFatal(e) => failed(kind(e), s"${e.getClass.getSimpleName}: ${e.getMessage}")
    }

  private def size(request: StorageRequest.Size): StorageAnswer = {
    val (fs, path) = at(request.getPath)
    val size = StorageAnswer.Size.newBuilder
    status(fs, path).filter(_.isFile).foreach { found =>
      size.setBytes(found.getLen)
      if (!ofTask) lookedUp.keep(request.getPath, found)
    }
    StorageAnswer.newBuilder.setSize(size).build()
  }

  private def ranges(request: StorageRequest.Ranges): StorageAnswer = {
    val ranges = request.getRangesList.asScala.map { r =>
      val length = r.getEnd - r.getStart
      require(r.getStart >= 0 && length >= 0 && length <= MOST_READ, "a range out of bounds")
      FileRange.createFileRange(r.getStart, length.toInt)
    }
    require(ranges.map(_.getLength.toLong).sum <= MOST_READ, "ranges out of bounds")
    val wanted = ranges.filter(_.getLength > 0)
    inputs.reading(request.getPath)(open(request)) { in =>
      if (wanted.nonEmpty) in.readVectored(wanted.asJava, ByteBuffer.allocate(_))
      val answer = StorageAnswer.Ranges.newBuilder
      ranges.foreach { range =>
        val bytes =
          if (range.getLength == 0) ByteString.EMPTY
          else UnsafeByteOperations.unsafeWrap(await(range.getData))
        answer.addRanges(bytes)
      }
      StorageAnswer.newBuilder.setRanges(answer).build()
    }
  }

  private def await[T](made: CompletableFuture[T]): T =
    try made.get()
    catch {
      case e: java.util.concurrent.ExecutionException => throw Option(e.getCause).getOrElse(e)
    }

  /** Without another look at what was looked at before, or whose length whoever asks knows. */
  private def open(request: StorageRequest.Ranges): FSDataInputStream = {
    val (fs, path) = at(request.getPath)
    val open = fs.openFile(path).opt("fs.option.openfile.read.policy", "parquet, vector, random")
    lookedUp.take(request.getPath) match {
      case Some(found) => open.withFileStatus(found)
      case None if request.hasSize => open.optLong("fs.option.openfile.length", request.getSize)
      case None =>
    }
    await(open.build())
  }

  private def put(request: StorageRequest.Put): StorageAnswer = {
    val url = request.getPath
    if (request.getOffset == 0 && !outputs.contains(url)) {
      val (fs, path) = at(url)
      outputs(url) = create(fs, path)
    }
    val out = outputs.getOrElse(url, throw new IOException("a part of no file"))
    if (out.getPos != request.getOffset) throw new IOException("a part out of order")
    request.getBytes.writeTo(out)
    if (request.getLast) {
      outputs.remove(url)
      if (ofTask) made += url
      end(out)
    }
    done
  }

  private def putIfAbsent(request: StorageRequest.PutIfAbsent): StorageAnswer = {
    val (fs, path) = at(request.getPath)
    val taken =
      if (status(fs, path).isDefined) true
      else if (WHOLE(path.toUri.getScheme)) byCreate(fs, path, request.getBytes)
      else byRename(fs, path, request.getBytes)
    StorageAnswer.newBuilder
      .setPutIfAbsent(StorageAnswer.PutIfAbsent.newBuilder.setTaken(taken)).build()
  }

  /**
   * Where a file may be seen while it grows. Of most such file systems a rename over a file that is
   * there fails; where it does not, the client engine's register decides all the same.
   */
  private def byRename(fs: FileSystem, path: Path, bytes: ByteString): Boolean = {
    val staged = new Path(path.getParent, f".tmp-${UUID.randomUUID.getMostSignificantBits}%016x")
    try {
      val out = create(fs, staged)
      try bytes.writeTo(out)
      catch {
        case e: Throwable =>
          giveUp(out)
          throw e
      }
      end(out)
      // Some say false, some throw, where there is one.
      val renamed =
        try fs.rename(staged, path)
        catch { case _: FileAlreadyExistsException => false }
      if (!renamed && status(fs, path).isEmpty) throw new IOException(s"$path was not renamed to")
      !renamed
    } finally if (status(fs, staged).isDefined) fs.delete(staged, false)
  }

  /** Where a file is there only once it is whole. Not every such store refuses to replace one. */
  private def byCreate(fs: FileSystem, path: Path, bytes: ByteString): Boolean =
    try {
      val create: FSDataOutputStreamBuilder[_, _] = fs.createFile(path)
      create.overwrite(false)
      create.recursive()
      create.opt("fs.option.create.conditional.overwrite", true)
      val out = create.build().asInstanceOf[FSDataOutputStream]
      try {
        bytes.writeTo(out)
        out.close()
      } catch {
        case e: Throwable =>
          // Without a way to give it up, what came so far is now a file, and no manifest.
          if (!giveUp(out)) removeShort(fs, path, bytes.size)
          throw e
      }
      false
    } catch {
      case _: FileAlreadyExistsException => true
      // What a store says whose put was conditional: somebody was faster.
      case e: IOException if status(fs, path).isDefined =>
        logInfo(s"$path was there already", e)
        true
    }

  private def removeShort(fs: FileSystem, path: Path, whole: Long): Unit =
    try if (status(fs, path).exists(found => found.isFile && found.getLen < whole))
        fs.delete(path, false)
    catch { case NonFatal(e) => logWarning(s"$path is incomplete and was not removed", e) }

  /** A new file, each of whose blocks is on disk when it is full, where that can be asked for. */
  private def create(fs: FileSystem, path: Path): FSDataOutputStream =
    if (path.toUri.getScheme != "hdfs") fs.create(path, false)
    else fs.create(
      path,
      FsCreateModes.applyUMask(FsPermission.getFileDefault, FsPermission.getUMask(fs.getConf)),
      util.EnumSet.of(CreateFlag.CREATE, CreateFlag.SYNC_BLOCK),
      fs.getConf.getInt("io.file.buffer.size", 4096),
      fs.getDefaultReplication(path),
      fs.getDefaultBlockSize(path),
      null)

  /** Makes a file whole, and durable where that takes more than closing it. */
  private def end(out: FSDataOutputStream): Unit = {
    try if (out.hasCapability(StreamCapabilities.HSYNC)) out.hsync()
    catch {
      case e: Throwable =>
        giveUp(out)
        throw e
    }
    out.close()
  }

  private def list(request: StorageRequest.List): StorageAnswer = {
    val (page, more) = listings.page(request.getPath, request.getAfter) { found =>
      val (fs, path) = at(request.getPath)
      try {
        val entries = fs.listStatusIterator(path)
        while (entries.hasNext) {
          val entry = entries.next()
          // Of a file Hadoop lists the file itself.
          if (entry.getPath != path) found(entry.getPath.getName, entry.isDirectory)
        }
      } catch { case _: FileNotFoundException => }
    }
    val answer = StorageAnswer.List.newBuilder.setMore(more)
    page.foreach { case (name, folder) =>
      answer.addEntries(StorageAnswer.Entry.newBuilder.setName(name).setFolder(folder))
    }
    StorageAnswer.newBuilder.setList(answer).build()
  }

  private def delete(request: StorageRequest.Delete): StorageAnswer = {
    val (fs, path) = at(request.getPath)
    made -= request.getPath
    if (request.getFolder) {
      if (status(fs, path).exists(_.isDirectory) && !fs.listStatusIterator(path).hasNext)
        fs.delete(path, false)
    } else if (status(fs, path).exists(_.isFile)) fs.delete(path, false)
    done
  }

  private def status(fs: FileSystem, path: Path): Option[FileStatus] =
    try Some(fs.getFileStatus(path))
    catch { case _: FileNotFoundException => None }

  private def at(url: String): (FileSystem, Path) = {
    val conf = settings()
    if (localFiles && url.startsWith(LOCAL)) return dataFile(url, conf)
    val path = Locations.reached(url, conf).getOrElse(
      throw new UnsupportedFileSystemException(s"no file system is known here for $url"))
    (path.getFileSystem(conf), path)
  }

  private def dataFile(url: String, conf: Configuration): (FileSystem, Path) = {
    val name = url.substring(url.lastIndexOf('/') + 1)
    // As it is, and not through a link of that name to another file.
    val path = Paths.get(url.stripPrefix("file://"))
    if (!DATA_FILE.matches(name) || Files.isSymbolicLink(path) || path.normalize != path)
      throw new AccessDeniedException(s"$url is no data file of a table")
    (FileSystem.getLocal(conf).getRaw, new Path("file", null, path.toString))
  }

  /**
   * What was made here is to go, and so is what was begun: also where the task was cancelled, for
   * which Spark interrupts this thread. A call to storage would fail at once then, so the interrupt
   * is held back meanwhile.
   */
  def abandon(): Unit = {
    val interrupted = Thread.interrupted()
    try remove()
    finally if (interrupted) Thread.currentThread.interrupt()
  }

  private def remove(): Unit = {
    val begun = outputs.toSeq
    outputs.clear()
    begun.foreach { case (_, out) => giveUp(out) }
    (begun.map(_._1) ++ made).foreach { url =>
      try {
        val (fs, path) = at(url)
        fs.delete(path, false)
      } catch {
        case NonFatal(e) => logWarning(s"$url was not removed, and counts for nothing", e)
      }
    }
    made.clear()
  }

  /** Whether there was a way not to make the file whole. */
  private def giveUp(out: FSDataOutputStream): Boolean = {
    val abortable = out.hasCapability(StreamCapabilities.ABORTABLE_STREAM)
    try if (abortable) out.abort() else out.close()
    catch { case NonFatal(e) => logInfo("a file that was given up was not closed", e) }
    abortable
  }

  /** What was made stays. */
  override def close(): Unit = {
    inputs.close()
    outputs.values.foreach(giveUp(_))
    outputs.clear()
  }

  private def done: StorageAnswer =
    StorageAnswer.newBuilder.setDone(StorageAnswer.Done.getDefaultInstance).build()

  private def failed(kind: Kind, message: String): StorageAnswer =
    StorageAnswer.newBuilder.setFailure(
      Failure.newBuilder.setKind(kind).setMessage(message.take(MOST_SAID))).build()

  private def kind(e: Throwable): Kind = e match {
    case _: FileNotFoundException => Kind.NOT_FOUND
    case _: EOFException => Kind.SHORT
    case _: AccessControlException | _: AccessDeniedException => Kind.DENIED
    case _: FileAlreadyExistsException => Kind.EXISTS
    case _: UnsupportedFileSystemException => Kind.UNSERVED
    case _ => Kind.OTHER
  }
}

private[transport] object StorageServer {
  private val MOST_READ = 64L << 20
  private val MOST_OPEN = 8
  private val MOST_SAID = 400
  private val LOCAL = "file:///"

  /** As engines name them (`engine/crates/enclave/format/src/writer.rs`). */
  private val DATA_FILE = "part-[0-9a-f]{32}\\.parquet".r

  /** Of object stores in which a file is there only once it is whole. */
  private val WHOLE = Set("s3a", "s3", "s3n", "gs", "oss", "cosn", "obs", "oci")
}
