package org.apache.spark.sql.coffer.e2e

import java.nio.file.{Files, Path, Paths}

import scala.concurrent.duration._
import scala.sys.process.{Process, ProcessBuilder, ProcessLogger}

/**
 * The programs that `make` builds. Suites that need them fail without them: a skipped suite would
 * be taken for a passed one. COFFER_BIN or the system property coffer.bin names their folder.
 */
object Programs {
  val PASSPHRASE = "correct horse battery staple"
  private val DEADLINE = 5.minutes

  lazy val folder: Path = {
    val candidates =
      sys.props.get("coffer.bin").orElse(sys.env.get("COFFER_BIN")).map(Paths.get(_)).toSeq ++
        sys.env.get("CARGO_TARGET_DIR").map(Paths.get(_, "release")) ++
        Seq(Paths.get(sys.props("user.home"), ".cache", "coffer", "target", "release"))
    candidates.find(f =>
      Seq("coffer", "coffer-client", "coffer-engine").forall(b => Files.isExecutable(f.resolve(b))))
      .getOrElse(throw new IllegalStateException(
          s"coffer, coffer-client and coffer-engine are not in ${candidates.mkString(" or ")}: " +
            s"run `make engine`, or set COFFER_BIN"))
  }

  def binary(name: String): String = folder.resolve(name).toString

  /** Runs the command line tool with a config directory; throws with its messages if it fails. */
  def coffer(configDir: Path, arguments: String*): String = {
    val out = new StringBuilder
    val err = new StringBuilder
    val command = binary("coffer") +: (arguments ++ Seq("--config-dir", configDir.toString))
    val code = ended(Process(command, None, "COFFER_PASSPHRASE" -> PASSPHRASE),
      ProcessLogger(l => out.append(l).append('\n'), l => err.append(l).append('\n')))
    if (code != 0) throw new IllegalStateException(s"${command.mkString(" ")}: code $code\n$err")
    out.toString
  }

  /** Runs a program to its end; throws where that has not come by the deadline. */
  def ended(program: ProcessBuilder, log: ProcessLogger): Int = {
    val running = program.run(log)
    val deadline = DEADLINE.fromNow
    while (running.isAlive() && deadline.hasTimeLeft()) Thread.sleep(20)
    if (running.isAlive()) {
      running.destroy()
      throw new IllegalStateException(s"$program has not ended within $DEADLINE")
    }
    running.exitValue()
  }

  /** A config directory with a keyring, and a file with its passphrase. */
  def makeConfigDir(folder: Path): Path = {
    val configDir = folder.resolve("config")
    coffer(configDir, "init")
    Files.writeString(passphraseFile(configDir), PASSPHRASE)
    configDir
  }

  def passphraseFile(configDir: Path): Path = configDir.resolveSibling("passphrase")
}
