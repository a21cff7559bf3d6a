package org.apache.spark.sql.coffer.transport

import java.io.{IOException, InputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.nio.file.attribute.PosixFilePermissions
import java.security.{DigestInputStream, MessageDigest}

import scala.collection.mutable
import scala.util.Using

import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.util.{ShutdownHookManager, Utils}

/**
 * Programs that a jar carries, as `coffer/bin/SYSTEM-PROCESSOR/NAME`: beside each its digest
 * (`NAME.sha256`) and, where it needs more than any processor of its kind has, the names of that in
 * `/proc/cpuinfo` (`NAME.needs`).
 *
 * The jar came by the host's hands. The digest says whether a program was written whole; what an
 * engine is, its evidence says.
 */
private[transport] class CarriedPrograms(kind: String, features: => Option[Set[String]])
    extends Logging {

  private val unpacked = mutable.Map.empty[(Seq[String], String), Path]

  /**
   * Unpacks the program `names.head` with others beside it, as far as a jar has them, into a new
   * folder below the first of `folders` where programs may run. Once in this JVM while it is not
   * removed; the folder goes with the JVM. None: no jar has it for any machine.
   *
   * @param loader sees the application's jars
   */
  def unpack(names: Seq[String], loader: ClassLoader, folders: => Seq[String]): Option[Path] =
    Option(loader.getResource(resource(names.head))) match {
      case Some(found) => synchronized {
          val key = (names, found.toString)
          Some(unpacked.get(key).filter(Programs.isProgram).getOrElse {
            checkProcessor(names.head, loader)
            val at = unpackAll(names, loader, folders)
            unpacked(key) = at
            at
          })
        }
      case None =>
        val others = CarriedPrograms.KINDS.filter(k =>
          loader.getResource(CarriedPrograms.resource(k, names.head)) != null)
        if (others.nonEmpty) throw new CofferException(
          "COFFER_ENGINE_PROCESSOR",
          s"the application's jar carries ${names.head} for ${others.mkString(", ")}, and this " +
            s"machine is $kind",
          "use machines of that kind, or build Coffer on one of this kind")
        None
    }

  private def resource(name: String) = CarriedPrograms.resource(kind, name)

  /** Else the program would end by a signal, without a word. */
  private def checkProcessor(name: String, loader: ClassLoader): Unit =
    for (needed <- text(loader, s"${resource(name)}.needs"); has <- features) {
      val lacks = needed.split("\\s+").filterNot(f => f.isEmpty || has(f))
      if (lacks.nonEmpty) throw new CofferException(
        "COFFER_ENGINE_PROCESSOR",
        s"this machine's processor lacks ${lacks.mkString(", ")}, for which $name was built",
        "use machines of 2015 or later, or build Coffer for older ones: make dist DIST_CPU=x86-64")
    }

  private def unpackAll(names: Seq[String], loader: ClassLoader, folders: Seq[String]): Path = {
    val reasons = mutable.Buffer.empty[String]
    val there = folders.iterator.flatMap { folder =>
      try {
        // Random, and of this account alone.
        val made = Files.createTempDirectory(Paths.get(folder), "coffer-bin-")
        ShutdownHookManager.registerShutdownDeleteDir(made.toFile)
        try {
          names.foreach(write(_, made, loader))
          if (!Programs.isProgram(made.resolve(names.head)))
            throw new IOException("the file system is mounted so that nothing in it runs")
          Some(made.resolve(names.head))
        } catch {
          case e: IOException =>
            remove(made)
            throw e
        }
      } catch {
        case e: IOException =>
          reasons += s"$folder (${e.getMessage})"
          None
      }
    }
    val program = there.nextOption().getOrElse(throw new CofferException(
        "COFFER_ENGINE_MISSING",
        s"${names.head}, which the application's jar carries, can run in none of " +
          reasons.mkString(", "),
        "give it a local folder with space that is not mounted noexec (spark.local.dir)"))
    reasons.foreach(reason => logWarning(s"${names.head} could not be unpacked into $reason"))
    program
  }

  private def write(name: String, folder: Path, loader: ClassLoader): Unit =
    open(loader, resource(name)).foreach { in =>
      val digest = MessageDigest.getInstance("SHA-256")
      val target = folder.resolve(name)
      Using.resource(new DigestInputStream(in, digest))(Files.copy(_, target))
      val has = digest.digest().map("%02x".format(_)).mkString
      val wanted = text(loader, s"${resource(name)}.sha256").map(_.trim)
      if (!wanted.contains(has)) throw new IOException(
        s"$name is not what the jar says of it: its digest is $has, " +
          wanted.fold("and the jar names none")(other => s"not $other"))
      Files.setPosixFilePermissions(target, PosixFilePermissions.fromString("r-x------"))
    }

  private def remove(folder: Path): Unit = {
    Utils.deleteRecursively(folder.toFile)
    ShutdownHookManager.removeShutdownDeleteDir(folder.toFile)
  }

  private def text(loader: ClassLoader, name: String): Option[String] =
    open(loader, name).map(Using.resource(_)(in => new String(in.readAllBytes(), UTF_8)))

  private def open(loader: ClassLoader, name: String): Option[InputStream] =
    Option(loader.getResource(name)).map { found =>
      val connection = found.openConnection()
      // Else the JVM holds the jar open for good.
      connection.setUseCaches(false)
      connection.getInputStream
    }
}

private[transport] object CarriedPrograms {

  /** Whatever some jar may be made for; `make dist` makes the first. */
  private val KINDS = Seq("linux-x86_64", "linux-aarch64")

  /** Of this JVM. */
  val here: CarriedPrograms = new CarriedPrograms(kindHere, featuresHere)

  def resource(kind: String, name: String): String = s"coffer/bin/$kind/$name"

  private def kindHere = {
    val processor = sys.props.getOrElse("os.arch", "") match {
      case "amd64" => "x86_64"
      case other => other
    }
    val system = if (sys.props.getOrElse("os.name", "").startsWith("Linux")) "linux" else "other"
    s"$system-$processor"
  }

  private def featuresHere: Option[Set[String]] =
    try features(Files.readString(Paths.get("/proc/cpuinfo")))
    catch { case _: IOException => None }

  /** What the first processor can do. */
  def features(cpuinfo: String): Option[Set[String]] = cpuinfo.linesIterator
    .collectFirst { case line if line.startsWith("flags") => line.dropWhile(_ != ':').drop(1) }
    .map(_.split("\\s+").toSet)
}
