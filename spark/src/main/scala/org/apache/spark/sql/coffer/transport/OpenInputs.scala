package org.apache.spark.sql.coffer.transport

import java.io.IOException
import java.util

import scala.util.Try

import org.apache.hadoop.fs.{FSDataInputStream, FileStatus}

/**
 * Files that are open for reading, by URL: those that were read last stay so. Several threads may
 * read one at the same time; one that is read by nobody any more is closed when its turn comes.
 *
 * @param most
 *   that stay open
 */
private[transport] final class OpenInputs(most: Int) extends AutoCloseable {

  /** The longest unused first. */
  private val open = new util.LinkedHashMap[String, Input](16, 0.75f, true)
  private var closed = false

  private final class Input {
    @volatile private var stream: Option[FSDataInputStream] = None
    private var readers = 0
    private var dropped = false

    /** Whoever needs it first opens it, and others wait for that. */
    def opened(make: => FSDataInputStream): FSDataInputStream = synchronized {
      stream.getOrElse {
        val made = make
        stream = Some(made)
        made
      }
    }

    def enter(): Unit = OpenInputs.this.synchronized(readers += 1)

    def leave(): Unit = OpenInputs.this.synchronized {
      readers -= 1
      end()
    }

    def drop(): Unit = OpenInputs.this.synchronized {
      dropped = true
      end()
    }

    private def end(): Unit = if (dropped && readers == 0) cut()

    /** Whoever reads it fails. */
    def cut(): Unit = stream.foreach(in => Try(in.close()))
  }

  def reading[T](url: String)(make: => FSDataInputStream)(read: FSDataInputStream => T): T = {
    val input = taken(url)
    try read(input.opened(make))
    catch {
      case e: Throwable =>
        forget(url, input)
        throw e
    } finally input.leave()
  }

  private def taken(url: String): Input = synchronized {
    if (closed) throw new IOException("the task is over")
    val input = Option(open.get(url)).getOrElse {
      val made = new Input
      open.put(url, made)
      made
    }
    input.enter()
    while (open.size > most) {
      val eldest = open.entrySet.iterator.next()
      open.remove(eldest.getKey)
      eldest.getValue.drop()
    }
    input
  }

  /** What failed is opened anew by whoever comes next. */
  private def forget(url: String, input: Input): Unit = synchronized {
    if (open.get(url) eq input) {
      open.remove(url)
      input.drop()
    }
  }

  override def close(): Unit = {
    val left = synchronized {
      closed = true
      val left = new util.ArrayList(open.values)
      open.clear()
      left
    }
    left.forEach { input =>
      input.drop()
      input.cut()
    }
  }
}

/** What files were looked at and not opened yet: most are opened next, and need no second look. */
private[transport] final class LookedUp {
  private val found = new util.LinkedHashMap[String, FileStatus]

  def keep(url: String, status: FileStatus): Unit = synchronized {
    found.remove(url)
    found.put(url, status)
    if (found.size > LookedUp.MOST) found.remove(found.keySet.iterator.next())
  }

  /** Once: what is opened later is looked at anew. */
  def take(url: String): Option[FileStatus] = synchronized(Option(found.remove(url)))
}

private object LookedUp {
  private val MOST = 64
}
