package org.apache.spark.sql.coffer.transport

import java.io.File
import java.nio.file.{Files, Path, Paths}

import scala.util.control.NonFatal

import org.apache.spark.sql.coffer.common.CofferException

/** Where Coffer's programs are on this machine. */
object Programs {

  /** Brings connections to where the JVM has no sockets, or speaks no TLS. */
  val RELAY = "coffer-relay"

  /**
   * Finds a program: the configured path; else the folder in COFFER_BIN, what a jar carries, the
   * folder of our jar, the folder `bin` beside that (as the wheel has it), then PATH.
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
          in(
            jarFolder.toSeq.flatMap(jars => Seq(jars.toString, jars.resolveSibling("bin").toString))
              ++ sys.env.getOrElse("PATH", "").split(File.pathSeparator).filter(_.nonEmpty))
    }
    candidates.find(isProgram).getOrElse {
      throw new CofferException(
        "COFFER_ENGINE_MISSING",
        configured.fold(
          s"$program is neither in COFFER_BIN, nor in a jar, nor beside Coffer's jar, nor on PATH")(
          p =>
            s"$setting is $p, which is no executable file"),
        s"use the jar that carries the programs (docs/guides/install.md), or set COFFER_BIN to " +
          s"their folder or $setting to its path")
    }
  }

  private[transport] def isProgram(path: Path) =
    Files.isRegularFile(path) && Files.isExecutable(path)

  private def jarFolder: Option[Path] =
    try Option(getClass.getProtectionDomain.getCodeSource)
        .map(s => Paths.get(s.getLocation.toURI).getParent)
    catch { case NonFatal(_) => None }
}
