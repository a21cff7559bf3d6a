package org.apache.spark.sql.coffer.transport

import java.io.{BufferedReader, IOException, InputStreamReader}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicReference

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.util.Utils

/** What an engine says of itself on its first line of output. */
final case class ReadyLine(listening: Address, engineId: String, evidence: String, version: String)

/**
 * An engine beside this JVM. Its standard input is its lifeline: when this JVM ends, however it
 * ends, the pipe closes and the engine exits. Its standard error goes to this JVM's log, line by
 * line.
 */
final class EngineProcess private (
    process: Process,
    name: String,
    scratch: Path,
    val ready: ReadyLine)
    extends AutoCloseable
    with Logging {

  def address: Address = ready.listening

  def isAlive: Boolean = process.isAlive

  /** Of its memory that is in RAM; 0 where that cannot be known. */
  def residentBytes: Long =
    try Files.readAllLines(Paths.get(s"/proc/${process.pid}/status")).asScala.collectFirst {
        case EngineProcess.resident(kilobytes) => kilobytes.toLong * 1024
      }.getOrElse(0L)
    catch { case _: IOException => 0L }

  /** Why calls fail, if the process is gone. */
  def exitReport: Option[String] =
    if (process.isAlive) None else Some(s"the $name has ended with code ${process.exitValue}")

  override def close(): Unit = {
    try process.getOutputStream.close()
    catch { case _: IOException => }
    if (!process.waitFor(EngineProcess.GRACE_SECONDS, TimeUnit.SECONDS)) {
      process.destroyForcibly()
      process.waitFor(EngineProcess.GRACE_SECONDS, TimeUnit.SECONDS)
    }
    Utils.deleteRecursively(scratch.toFile)
  }
}

object EngineProcess extends Logging {

  /**
   * Hash tables of joins and groups are read at random: with large pages most of those reads find
   * their address at once.
   */
  private val HUGE_PAGES = "glibc.malloc.hugetlb=1"
  val PASSPHRASE_VARIABLE = "COFFER_PASSPHRASE"

  private val resident = """VmRSS:\s*(\d+) kB""".r
  private val GRACE_SECONDS = 5L
  private val START_SECONDS = 60L
  // sun_path holds 108 bytes, the closing zero included.
  private val MAX_SOCKET_PATH = 107
  private val ERROR_LINES = 40
  // What a JVM says of a process that SIGILL ended.
  private val ILLEGAL_INSTRUCTION = 128 + 4

  /**
   * Starts `binary` listening on a socket in a new folder of its own.
   *
   * @param arguments of the command line, given the scratch folder
   * @param passphrase whether the process may inherit COFFER_PASSPHRASE; an enclave never does
   */
  def start(
      name: String,
      binary: Path,
      passphrase: Boolean)(arguments: Path => Seq[String]): EngineProcess = {
    val scratch = scratchFolder()
    try {
      val command = Seq(binary.toString, "--listen", s"unix:${scratch.resolve("s")}") ++
        arguments(scratch)
      val builder = new ProcessBuilder(command.asJava)
      if (!passphrase) builder.environment().remove(PASSPHRASE_VARIABLE)
      builder.environment().putIfAbsent("GLIBC_TUNABLES", HUGE_PAGES)
      val process =
        try builder.start()
        catch {
          case e: IOException =>
            throw new CofferException(
              "COFFER_ENGINE_START",
              s"cannot start the $name at $binary: ${e.getMessage}",
              "build it with `make`, or point COFFER_BIN at the folder that holds it",
              e)
        }
      val errors = new ErrorLines(name, process)
      try new EngineProcess(process, name, scratch, awaitReady(name, process, errors))
      catch {
        case e: Throwable =>
          process.destroyForcibly()
          throw e
      }
    } catch {
      case e: Throwable =>
        Utils.deleteRecursively(scratch.toFile)
        throw e
    }
  }

  private def scratchFolder(): Path = {
    val preferred = Files.createTempDirectory("coffer-")
    if (preferred.resolve("s").toString.getBytes(UTF_8).length <= MAX_SOCKET_PATH) preferred
    else {
      Files.delete(preferred)
      Files.createTempDirectory(Paths.get("/tmp"), "coffer-")
    }
  }

  private def awaitReady(name: String, process: Process, errors: ErrorLines): ReadyLine = {
    val line = new AtomicReference[String]()
    val seen = new CountDownLatch(1)
    val reader = new Thread(
      () => {
        val out = new BufferedReader(new InputStreamReader(process.getInputStream, UTF_8))
        try {
          line.set(out.readLine())
          seen.countDown()
          // Nothing more is promised on standard output; draining keeps the engine from blocking on
          // it.
          while (out.readLine() != null) {}
        } catch { case _: IOException => }
        finally seen.countDown()
      },
      s"coffer-$name-stdout")
    reader.setDaemon(true)
    reader.start()
    val inTime = seen.await(START_SECONDS, TimeUnit.SECONDS)
    Option(line.get).flatMap(parseReady) match {
      case Some(ready) => ready
      case None if inTime && process.waitFor(GRACE_SECONDS, TimeUnit.SECONDS) =>
        errors.await()
        throw failedStart(name, process.exitValue, errors.lines)
      case None =>
        throw new CofferException(
          "COFFER_ENGINE_START",
          s"the $name did not say within $START_SECONDS s that it is ready",
          "see its messages in this process's log")
    }
  }

  /**
   * The engine says `error: …` and `hint: …` on standard error: pass them on rather than only the
   * code.
   */
  private def failedStart(name: String, code: Int, lines: Seq[String]): CofferException = {
    val parts = Seq("error:", "hint:")
    // What is said may go on over several lines, until the other word or the end.
    def message(prefix: String) = lines.lastIndexWhere(_.startsWith(prefix)) match {
      case -1 => None
      case at =>
        val more = lines.drop(at + 1).takeWhile(l => !parts.exists(l.startsWith))
        Some((lines(at).stripPrefix(prefix).trim +: more).mkString("\n").trim)
    }
    if (code == ILLEGAL_INSTRUCTION) throw new CofferException(
      "COFFER_ENGINE_PROCESSOR",
      s"this machine's processor lacks instructions for which the $name was built",
      "use machines of 2015 or later, or build Coffer for older ones: make dist DIST_CPU=x86-64")
    new CofferException(
      "COFFER_ENGINE_START",
      s"the $name did not start (code $code): " +
        s"${message("error:").getOrElse(lines.lastOption.getOrElse("it said nothing"))}",
      message("hint:").getOrElse("see its messages in this process's log"))
  }

  private[transport] def parseReady(line: String): Option[ReadyLine] =
    try {
      val json = new ObjectMapper().readTree(line)
      def field(key: String) = Option(json.get(key)).map(_.asText).filter(_.nonEmpty)
      for {
        listening <- field("listening")
        version <- field("version")
      } yield ReadyLine(Address.parse(listening), field("engine_id").getOrElse(""),
        field("evidence").getOrElse(""), version)
    } catch { case NonFatal(_) => None }

  private final class ErrorLines(name: String, process: Process) {
    private val kept = new java.util.ArrayDeque[String]()
    private val thread = new Thread(
      () => {
        val in = new BufferedReader(new InputStreamReader(process.getErrorStream, UTF_8))
        try Iterator.continually(in.readLine()).takeWhile(_ != null).foreach { l =>
            logInfo(s"$name: $l")
            kept.synchronized {
              kept.addLast(l)
              if (kept.size > ERROR_LINES) kept.removeFirst()
            }
          }
        catch { case _: IOException => }
      },
      s"coffer-$name-stderr")
    thread.setDaemon(true)
    thread.start()

    def await(): Unit = thread.join(TimeUnit.SECONDS.toMillis(GRACE_SECONDS))
    def lines: Seq[String] = kept.synchronized(kept.asScala.toVector)
  }
}
