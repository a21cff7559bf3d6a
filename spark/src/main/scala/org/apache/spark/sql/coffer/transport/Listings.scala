package org.apache.spark.sql.coffer.transport

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.util

/**
 * What folders hold, a page at a time in the order of names' UTF-8 bytes. Stores list in orders of
 * their own, so a folder is listed whole for its first page; the names behind it are kept for what
 * is asked next, as far as that is little. Of a folder whose listing does not end nothing is kept.
 */
private[transport] final class Listings {
  import Listings._

  /** By folder and the last name that was given: what comes next, and whether that is all. */
  private val waiting = new util.LinkedHashMap[(String, String), (Names, Boolean)]

  /**
   * The names behind one, each with whether it is a folder, and whether there are more.
   *
   * @param list
   *   gives each entry of the folder once, or once as a file and once as a folder: an object store
   *   may have both under one name, and the file counts
   */
  def page(folder: String, after: String)(list: ((String, Boolean) => Unit) => Unit)
      : (Seq[(String, Boolean)], Boolean) = {
    val kept = synchronized(Option(waiting.remove((folder, after))))
    val (names, whole) = kept.getOrElse(behind(after, list))
    val page = Vector.newBuilder[(String, Boolean)]
    var last = after
    var count = 0
    while (count < PAGE && !names.isEmpty) {
      val first = names.pollFirstEntry()
      last = new String(first.getKey, UTF_8)
      page += last -> first.getValue
      count += 1
    }
    if (!names.isEmpty) synchronized {
      waiting.put((folder, last), (names, whole))
      if (waiting.size > FOLDERS) waiting.remove(waiting.keySet.iterator.next())
    }
    (page.result(), !names.isEmpty || !whole)
  }

  /** The first names behind one, and whether these are all. */
  private def behind(
      after: String,
      list: ((String, Boolean) => Unit) => Unit): (Names, Boolean) = {
    val names = new Names((a: Array[Byte], b: Array[Byte]) => util.Arrays.compareUnsigned(a, b))
    val start = after.getBytes(UTF_8)
    var seen, bytes = 0L
    var whole = true
    list { (text, folder) =>
      val name = text.getBytes(UTF_8)
      seen += 1
      bytes += name.length
      if (seen > ENTRIES_MOST || bytes > NAMES_MOST) throw new IOException("a folder without end")
      if (util.Arrays.compareUnsigned(name, start) > 0) {
        names.merge(name, folder, (a: Boolean, b: Boolean) => a && b)
        if (names.size > KEPT) {
          names.pollLastEntry()
          whole = false
        }
      }
    }
    (names, whole)
  }
}

private[transport] object Listings {
  private type Names = util.TreeMap[Array[Byte], Boolean]

  /** Entries of one answer. */
  val PAGE = 10000

  /** Names that are kept of one folder. */
  val KEPT: Int = 10 * PAGE

  /** Folders of which names are kept. */
  private val FOLDERS = 4

  /** As whoever asks bounds a folder (`core/protocol`, `storage.rs`). */
  val ENTRIES_MOST = 1000000L
  private val NAMES_MOST = 128L << 20
}
