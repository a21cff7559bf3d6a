package org.apache.spark.sql.coffer.transport

import java.io.{File, IOException}
import java.nio.file.{Files, Path, Paths}
import java.nio.file.attribute.PosixFilePermissions

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.util.Utils

/** Where Coffer's programs are on this machine. */
object Programs extends Logging {

  /**
   * Finds a program: the configured path; else the folder in COFFER_BIN, what a jar carries, the
   * folder of our jar, then PATH.
   *
   * @param setting the name of the setting that `configured` comes from
   * @param carried unpacks the program of that name from a jar, if one has it
   */
  def locate(
      program: String,
      configured: Option[String],
      setting: String,
      carried: String => Option[Path] = _ => None): Path = {
    def in(folders: Iterable[String]) = folders.iterator.map(Paths.get(_, program))
    val candidates = configured match {
      case Some(path) => Iterator(Paths.get(path))
      case None =>
        in(sys.env.get("COFFER_BIN") ++ sys.props.get("coffer.bin")) ++ carried(program) ++
          in(jarFolder ++
            sys.env.getOrElse("PATH", "").split(File.pathSeparator).filter(_.nonEmpty))
    }
    candidates.find(isProgram).getOrElse {
      throw new CofferException(
        "COFFER_ENGINE_MISSING",
        configured.fold(
          s"$program is neither in COFFER_BIN, nor in a jar, nor beside Coffer's jar, nor on PATH")(
          p =>
            s"$setting is $p, which is no executable file"),
        s"build it with `make`, then set COFFER_BIN to its folder or $setting to its path")
    }
  }

  /**
   * Unpacks the program that a jar of the application carries for machines of this kind into a new
   * folder below the first of `folders` where programs may run. The jar came by the host's hands:
   * the engine's evidence says what it is, not where it was found.
   *
   * @param loader sees the application's jars
   */
  def unpack(program: String, loader: ClassLoader, folders: Seq[String]): Option[Path] =
    Option(loader.getResource(resource(program))).map { found =>
      val unpacked = folders.iterator.flatMap { folder =>
        try {
          val target = Files.createTempDirectory(Paths.get(folder), "coffer-bin-").resolve(program)
          val in = found.openStream()
          try Files.copy(in, target)
          finally in.close()
          Files.setPosixFilePermissions(target, PosixFilePermissions.fromString("r-x------"))
          if (isProgram(target)) Some(target)
          else {
            // The file system is mounted so that nothing in it runs.
            Utils.deleteRecursively(target.getParent.toFile)
            None
          }
        } catch {
          case e: IOException =>
            logWarning(s"$program could not be unpacked into $folder: ${e.getMessage}")
            None
        }
      }
      unpacked.nextOption().getOrElse(throw new CofferException(
          "COFFER_ENGINE_MISSING",
          s"$program, which the application's jar carries, can run in none of " +
            folders.mkString(", "),
          "give executors a local folder with space that is not mounted noexec"))
    }

  /** Where a jar has a program for this machine's system and processor. */
  private[transport] def resource(program: String): String = {
    val processor = sys.props.getOrElse("os.arch", "") match {
      case "amd64" => "x86_64"
      case other => other
    }
    val system = if (sys.props.getOrElse("os.name", "").startsWith("Linux")) "linux" else "other"
    s"coffer/bin/$system-$processor/$program"
  }

  private def isProgram(path: Path) = Files.isRegularFile(path) && Files.isExecutable(path)

  private def jarFolder: Option[String] =
    try Option(getClass.getProtectionDomain.getCodeSource)
        .map(s => Paths.get(s.getLocation.toURI).getParent.toString)
    catch { case NonFatal(_) => None }
}
