package org.apache.spark.sql.coffer.split

import java.net.URI
import java.nio.file.{InvalidPathException, Paths}

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{CommonConfigurationKeysPublic, FileSystem}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.common.CofferException

/**
 * Where a sealed table lies, as people and catalogs write it: a path, or a `file:` URL. Whatever
 * names another storage is refused before anything is made; as a path, `s3a://bucket/t` would be a
 * folder `s3a:` below the working directory.
 *
 * What is a scheme is decided as Hadoop's `Path` does. The other half of this rule is
 * `engine/crates/owner/custody/src/location.rs`; both read its vectors, `locations.json`.
 */
object Locations {

  /** Why a location is none that can be served; `kind` is the vectors' word. */
  final case class Refusal(kind: String, what: String)

  /**
   * The path that a location names, as it is written there: nothing is decoded, made absolute, or
   * looked at.
   */
  def local(text: String): Either[Refusal, String] = {
    val colon = text.indexOf(':')
    val slash = text.indexOf('/')
    if (text.codePoints.allMatch(blank(_))) Left(Refusal("location_empty", "a location is empty"))
    else if (text.indexOf('\u0000') >= 0) Left(Refusal("location_nul",
        s"the location $text has " +
          s"a NUL character"))
    // As Hadoop does: a colon before the first slash ends a scheme, whatever its characters.
    else if (colon >= 0 && (slash < 0 || colon < slash)) {
      val scheme = text.substring(0, colon)
      val rest = text.substring(colon + 1)
      if (!isFile(scheme)) Left(Refusal("location_scheme",
          s"$text names storage by the scheme " +
            s"$scheme, which is not served"))
      else if (isHost(rest)) Left(host(text))
      // The path of file:// is empty, not the root.
      else if (!rest.startsWith("/") ||
        rest == "//") Left(Refusal("location_relative", s"$text has a scheme and no absolute path"))
      else Right(rest)
      // Hadoop reads //name/rest as a host and its path; of /// it keeps one slash.
    } else if (isHost(text)) Left(host(text))
    else Right(text)
  }

  /**
   * The absolute path of a folder that can be served. A path without a scheme means the default
   * file system to Spark: where that is none of this machine, such a path is refused too. A
   * relative one counts from where the driver runs.
   */
  def served(text: String, settings: => Configuration): String = {
    val path = local(text).fold(refusal => throw refused(refusal), identity)
    if (path == text) onlyIfDefaultIsLocal(text, settings)
    try Paths.get(path).toAbsolutePath.normalize.toString
    catch {
      case e: InvalidPathException => throw refused(Refusal("location_nul",
            s"$text is no path " +
              s"here: ${e.getReason}"))
    }
  }

  def served(text: String): String = served(text, ofSession)

  /** The same of a catalog's location, which is a URI: there `%20` is a blank. */
  def served(uri: URI): String =
    if (uri.getScheme == null && uri.getAuthority == null &&
      uri.getPath != null) served(uri.getPath)
    else if (uri.getScheme != null && isFile(uri.getScheme) && uri.getAuthority == null &&
      uri.getPath != null)
      served("file:" + uri.getPath)
    else served(uri.toString)

  private def ofSession: Configuration = SparkSession.active.sessionState.newHadoopConf()

  private def onlyIfDefaultIsLocal(text: String, settings: Configuration): Unit = {
    val default = Try(FileSystem.getDefaultUri(settings)).toOption
    val here = default.exists(uri =>
      uri.getScheme != null && isFile(uri.getScheme) &&
        Option(uri.getAuthority).forall(_.isEmpty))
    if (!here) {
      val key = CommonConfigurationKeysPublic.FS_DEFAULT_NAME_KEY
      throw refused(Refusal(
          "location_scheme",
          s"$text means a path of ${default.fold("what " + key + " says")(_.toString)} ($key), " +
            s"which is not served"))
    }
  }

  private def isFile(scheme: String): Boolean = scheme.length == 4 &&
    scheme.equalsIgnoreCase("file")

  private def isHost(text: String): Boolean = text.startsWith("//") && text.length > 2 &&
    text.charAt(2) != '/'

  private def host(text: String) = Refusal("location_host",
    s"$text names a host, and only files " +
      s"of this machine are served")

  /** Unicode's White_Space, as in Rust. */
  private def blank(c: Int): Boolean = Character.isSpaceChar(c) || (c >= 0x09 && c <= 0x0d) ||
    c == 0x85

  private def refused(refusal: Refusal): CofferException = refusal.kind match {
    case "location_scheme" => new CofferException(
        "COFFER_STORAGE_SCHEME",
        refusal.what,
        "name a folder that driver and executors share, by its path or as file:/path; ./ before " +
          "a relative path whose first name has a colon")
    case _ =>
      new CofferException("COFFER_LOCATION", refusal.what,
        "name a folder that driver and " +
          "executors share, as /path or file:///path")
  }
}
