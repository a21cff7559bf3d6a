package org.apache.spark.sql.coffer.plugin

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, FilterFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.viewfs.ViewFileSystem

/**
 * Where a path leads, as the client engine is asked of it: the path of a local folder, whatever
 * scheme leads there, else the URL. What a scheme means is settings' word, so the file system that
 * they make is asked, not the scheme. Settings cannot be trusted to say all: the client engine
 * refuses every URL whose scheme it does not know as a remote one's.
 */
private[plugin] object PathTargets {

  /** Views of views, at most. */
  private val DEPTH = 8

  /**
   * More than one where the file system depends on who makes it, or a mount has several targets.
   */
  def of(path: Path, settings: Configuration): Seq[String] = reached(path, settings, DEPTH).distinct

  private def reached(path: Path, settings: Configuration, depth: Int): Seq[String] = {
    val cached = Try(path.getFileSystem(settings)).toOption
    val whole =
      cached.map(fs => path.makeQualified(fs.getUri, fs.getWorkingDirectory)).getOrElse(path)
    cached.toSeq.flatMap(leads(_, whole, settings, depth)) ++
      made(whole, cached, settings, depth) match {
      case Nil => Seq(spelled(path, whole))
      case some => some
    }
  }

  /**
   * The driver's file systems are kept by scheme and host, under the settings of who asked first.
   * Executors that ask now make their own, by these settings.
   */
  private def made(
      whole: Path,
      cached: Option[FileSystem],
      settings: Configuration,
      depth: Int): Seq[String] = {
    val named = Option(whole.toUri.getScheme).flatMap(s =>
      Try(FileSystem.getFileSystemClass(s, settings)).toOption)
    val differs = cached.exists(_.isInstanceOf[ViewFileSystem]) ||
      named.exists(c => !cached.exists(_.getClass == c))
    if (!differs) Nil
    else
      Try(FileSystem.newInstance(whole.toUri, settings)).toOption.toSeq.flatMap { fs =>
        try leads(fs, whole, settings, depth)
        finally fs.close()
      }
  }

  private def leads(fs: FileSystem, whole: Path, settings: Configuration, depth: Int): Seq[String] =
    fs match {
      case _: RawLocalFileSystem => Seq(whole.toUri.getPath)
      case view: ViewFileSystem => mounted(view, whole, settings, depth)
      case filter: FilterFileSystem if filter.getRawFileSystem != null =>
        leads(filter.getRawFileSystem, whole, settings, depth)
      case _ => Seq(spelled(whole, whole))
    }

  /**
   * What no mount of a view has (its fallback, patterns) is spelled as a view's, for the client
   * engine to refuse.
   */
  private def mounted(
      view: ViewFileSystem,
      whole: Path,
      settings: Configuration,
      depth: Int): Seq[String] = {
    val path = whole.toUri.getPath
    val mounts = view.getMountPoints.toSeq.map(m =>
      m.getMountedOnPath.toUri.getPath.stripSuffix("/") -> m.getTargetFileSystemURIs.toSeq)
    mounts.filter { case (at, _) =>
      path == at ||
      path.startsWith(s"$at/")
    }.maxByOption(_._1.length) match {
      case Some((at, targets)) if depth > 0 && targets.nonEmpty =>
        val rest = path.drop(at.length)
        targets
          .map(to =>
            if (rest.isEmpty) new Path(to)
            else Path.mergePaths(new Path(to), new Path(null, null, rest)))
          .flatMap(reached(_, settings, depth - 1))
      case _ => Seq(s"viewfs://$path")
    }
  }

  /** Without a scheme it is taken to be local, where nothing is known of it. */
  private def spelled(path: Path, whole: Path): String = {
    val scheme = path.toUri.getScheme
    if (scheme == null || scheme.equalsIgnoreCase("file")) whole.toUri.getPath else whole.toString
  }
}
