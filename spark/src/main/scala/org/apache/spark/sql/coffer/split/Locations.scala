package org.apache.spark.sql.coffer.split

import java.io.IOException
import java.net.URI
import java.nio.file.{InvalidPathException, Paths}
import java.util.Locale

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  CommonConfigurationKeysPublic,
  FileSystem,
  HarFileSystem,
  LocalFileSystem,
  Path,
  RawLocalFileSystem
}
import org.apache.hadoop.fs.viewfs.ViewFileSystem

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.common.CofferException

/**
 * Where a sealed table lies, as people and catalogs write it: a path, a `file:` URL, or the URL of
 * a storage for which the Hadoop configuration names a file system. One place has one name, by
 * which policy and register know it. What is neither is refused before anything is made.
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
   * The name of a place on other storage, `scheme://authority/path`: without `.`, `..`, repeated
   * slashes and one at the end. Of schemes that mean one storage it has always the same; hosts are
   * in lower case and end with no dot, and ports are numbers, left out where they go without
   * saying. Nothing is decoded or looked at.
   */
  def remote(text: String): Either[Refusal, String] = {
    val refusal = local(text).left.toOption
      .getOrElse(Refusal("location_scheme", s"$text is a path of this machine"))
    val head = text.takeWhile(_ != ':')
    val rest = text.drop(head.length)
    val scheme = head.toLowerCase(Locale.ROOT)
    if (refusal.kind != "location_scheme" || !rest.startsWith("://") ||
      !head.matches("[A-Za-z][A-Za-z0-9+.-]*") || NOT_STORAGE(scheme)) Left(refusal)
    else {
      val known = SAME.getOrElse(scheme, scheme)
      val (authority, path) = rest.drop(3).span(_ != '/')
      // Of Azure's the part before is a container; of Oracle's a bucket, in a namespace.
      val named = AZURE(known) ||
        known == "oci" && !authority.contains(':') && authority.count(_ == '@') == 1
      if (authority.contains('@') && !named) Left(Refusal("location_credentials",
          s"a location of the scheme $known holds a user's name or password"))
      else if (authority.isEmpty || authority.contains('%') ||
        authority.codePoints.anyMatch(c => blank(c) || Character.isISOControl(c))) Left(refusal)
      else {
        val parts = path.split("/").foldLeft(Vector.empty[String]) {
          case (above, "" | ".") => above
          case (above, "..") => above.dropRight(1)
          case (above, part) => above :+ part
        }
        // A bucket is no host, and old ones have capitals.
        val at = if (known == "s3a" || known == "gs") Some(authority)
        else if (known == "oci") Some(authority).filter(_.matches("[^@]+@[^@]+"))
        else server(authority, PORTS.get(known))
        // There HDFS has every file a second time, by inode or as it is stored.
        val again = HDFS(known) && parts.headOption.contains(".reserved")
        at.filterNot(_ => again).map(at => (s"$known://$at" +: parts).mkString("/")).toRight(
          refusal)
      }
    }
  }

  /**
   * A host, with what stands before its `@` and with its port, as one name has them; none where it
   * is no host.
   *
   * @param default the port that goes without saying
   */
  private def server(authority: String, default: Option[Int]): Option[String] = {
    val lower = asciiLower(authority)
    val (before, named) = lower.splitAt(lower.lastIndexOf('@') + 1)
    // The colons of an IPv6 address.
    val colon = if (named.endsWith("]")) -1 else named.lastIndexOf(':')
    val (written, digits) =
      if (colon < 0) (named, "") else (named.take(colon), named.drop(colon + 1))
    val port = if (digits.isEmpty) None else Some(Try(BigInt(digits)).getOrElse(BigInt(-1)))
    val host = written.stripSuffix(".")
    val isAddress = host.startsWith("[") && host.endsWith("]")
    if (!digits.forall(c => c >= '0' && c <= '9') || port.exists(_ > 0xffff) || host.isEmpty ||
      host.endsWith(".") || host.contains(":") && !isAddress) None
    else Some(before + host +
      port.map(_.toInt).filterNot(default.contains).fold("")(":" + _))
  }

  /** The name of a place: as [[remote]], or a local path as it is written. */
  def of(text: String): Either[Refusal, String] = local(text) match {
    case Left(refusal) if refusal.kind == "location_scheme" => remote(text)
    case local => local
  }

  /**
   * The place that a name means to Hadoop: by the first of the schemes that mean this storage for
   * which there is a file system. None where there is none, or where it leads back to local disks,
   * or where two name services differ in capitals alone.
   */
  def reached(url: String, settings: Configuration): Option[Path] = {
    val (scheme, written) = url.span(_ != ':')
    for {
      rest <- if (HDFS(scheme)) asConfigured(written, settings) else Some(written)
      path <- byFileSystem(scheme, rest, settings)
    } yield path
  }

  /** A name service by its key in the configuration, which may have capitals. */
  private def asConfigured(rest: String, settings: Configuration): Option[String] = {
    val (authority, path) = rest.drop("://".length).span(_ != '/')
    val services = settings.getTrimmedStringCollection("dfs.nameservices").asScala.toSet
    services.filter(_.equalsIgnoreCase(authority)).toSeq match {
      case Seq() => Some(rest)
      case Seq(service) => Some(s"://$service$path")
      case _ => None
    }
  }

  private def byFileSystem(scheme: String, rest: String, settings: Configuration) =
    (scheme +: SAME.collect { case (other, `scheme`) => other }.toSeq.sorted).find { scheme =>
      Try(FileSystem.getFileSystemClass(scheme, settings)).toOption.exists(kind =>
        !ELSEWHERE.exists(_.isAssignableFrom(kind)))
    }.map(scheme => new Path(scheme + rest))

  /**
   * The name of a folder that can be served: an absolute path, or a URL. A path without a scheme
   * means the default file system to Spark, and so here. A relative one counts from where the
   * driver runs, or from the user's folder there.
   */
  def served(text: String, settings: => Configuration): String = local(text) match {
    case Right(path) if path != text || defaultIsLocal(settings) => onThisMachine(path)
    case Right(_) => onStorage(qualified(text, settings), settings)
    case Left(refusal) if refusal.kind == "location_scheme" =>
      onStorage(qualified(text, settings), settings)
    case Left(refusal) => throw refused(refusal)
  }

  private def onStorage(text: String, settings: Configuration): String = {
    val url = remote(text).fold(refusal => throw refused(refusal), identity)
    if (reached(url, settings).isEmpty) throw refused(unserved(text))
    url
  }

  private def unserved(text: String) = Refusal("location_scheme",
    s"$text names storage by the scheme ${text.takeWhile(_ != ':')}, which is not served")

  /** With what the default file system adds: scheme, authority, and the user's folder. */
  private def qualified(text: String, settings: Configuration): String = {
    val default = Try(FileSystem.getDefaultUri(settings)).toOption
      .filter(uri =>
        uri.getScheme != null && !isFile(uri.getScheme) && uri.getAuthority != null)
    val head = text.takeWhile(_ != ':')
    val written = text.drop(head.length)
    if (local(text).isRight) default match {
      case None => throw refused(Refusal("location_scheme",
            s"$text means a path of the default file system (" +
              s"${CommonConfigurationKeysPublic.FS_DEFAULT_NAME_KEY}), which is not served"))
      case Some(uri) if text.startsWith("/") =>
        s"${uri.getScheme}://${uri.getAuthority}/$text"
      case Some(uri) =>
        val fs =
          try FileSystem.get(uri, settings)
          catch { case _: IOException => throw refused(unserved(uri.toString)) }
        val folder = fs.getWorkingDirectory.toUri.getPath
        s"${uri.getScheme}://${uri.getAuthority}/$folder/$text"
    }
    else default match {
      case Some(uri)
          if written.startsWith(":///") && uri.getScheme.equalsIgnoreCase(head) =>
        s"$head://${uri.getAuthority}${written.drop(3)}"
      case _ => text
    }
  }

  private def onThisMachine(path: String): String =
    try Paths.get(path).toAbsolutePath.normalize.toString
    catch {
      case e: InvalidPathException => throw refused(Refusal("location_nul",
            s"$path is no path " +
              s"here: ${e.getReason}"))
    }

  def served(text: String): String = served(text, ofSession)

  /** The same of a catalog's location, which is a URI: there `%20` is a blank. */
  def served(uri: URI, settings: => Configuration): String =
    if (uri.getScheme == null && uri.getAuthority == null && uri.getPath != null)
      served(uri.getPath, settings)
    else if (uri.getScheme != null && isFile(uri.getScheme) && uri.getAuthority == null &&
      uri.getPath != null) served("file:" + uri.getPath, settings)
    else if (uri.getScheme != null && uri.getAuthority != null && uri.getPath != null)
      served(s"${uri.getScheme}://${uri.getAuthority}${uri.getPath}", settings)
    else served(uri.toString, settings)

  def served(uri: URI): String = served(uri, ofSession)

  /** A name as catalogs write it, by which Spark reaches the place too. */
  def uri(served: String, settings: => Configuration = ofSession): URI = {
    val (scheme, rest) = served.span(_ != ':')
    if (served.startsWith("/")) new Path(new URI("file", null, served, null)).toUri
    else if (HDFS(scheme)) new Path(scheme + asConfigured(rest, settings).getOrElse(rest)).toUri
    else new Path(served).toUri
  }

  private def ofSession: Configuration = SparkSession.active.sessionState.newHadoopConf()

  private def defaultIsLocal(settings: Configuration): Boolean =
    Try(FileSystem.getDefaultUri(settings)).toOption.exists(uri =>
      uri.getScheme != null && isFile(uri.getScheme) &&
        Option(uri.getAuthority).forall(_.isEmpty))

  /** Schemes of one storage, and the one that names it. */
  private val SAME = Map("s3" -> "s3a", "s3n" -> "s3a", "abfs" -> "abfss", "wasb" -> "wasbs")
  private val HDFS = Set("hdfs", "webhdfs", "swebhdfs")
  private val AZURE = Set("abfss", "wasbs")
  private val PORTS = Map("hdfs" -> 8020, "webhdfs" -> 9870, "swebhdfs" -> 9871, "abfss" -> 443,
    "wasbs" -> 443)

  /** What lies behind other storages' URLs, or behind none. */
  private val NOT_STORAGE = Set("viewfs", "har", "http", "https", "ftp", "sftp", "jar", "local",
    "raw", "data", "mailto", "javascript", "nullscan", "classpath")
  private val ELSEWHERE: Seq[Class[_]] = Seq(classOf[LocalFileSystem], classOf[RawLocalFileSystem],
    classOf[ViewFileSystem], classOf[HarFileSystem])

  private def asciiLower(text: String): String =
    text.map(c => if (c >= 'A' && c <= 'Z') (c + 32).toChar else c)

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
        "name a folder that driver and executors share, by its path or as file:/path, or of a " +
          "storage that Spark's Hadoop configuration has a file system for; ./ before a relative " +
          "path whose first name has a colon")
    case "location_credentials" => new CofferException("COFFER_LOCATION", refusal.what,
        "give credentials to Spark's Hadoop configuration")
    case _ =>
      new CofferException("COFFER_LOCATION", refusal.what,
        "name a folder that driver and " +
          "executors share, as /path or file:///path")
  }
}
