package org.apache.spark.sql.coffer.transport

import java.util.concurrent.ConcurrentLinkedDeque

import scala.util.control.NonFatal

/**
 * Idle connections to one engine. A connection is lent to one user at a time and comes back only
 * between conversations.
 *
 * @param greet what is said first on a new connection
 * @param longest the longest message that this engine takes
 */
final class ChannelPool(
    address: Address,
    greet: Channel => Unit = _ => (),
    longest: Long = Channel.MAX_LENGTH)
    extends AutoCloseable {
  private val idle = new ConcurrentLinkedDeque[Channel]()
  @volatile private var closed = false

  def take(): Channel = {
    if (closed) throw new java.io.IOException(s"connections to $address are closed")
    Iterator.continually(idle.pollFirst()).takeWhile(_ != null).find(stillIdle).getOrElse {
      val channel = Channel.connect(address, longest)
      try greet(channel)
      catch {
        case e: Throwable =>
          channel.close()
          throw e
      }
      channel
    }
  }

  private def stillIdle(channel: Channel): Boolean = {
    val idle = channel.isIdle
    if (!idle) channel.close()
    idle
  }

  def give(channel: Channel): Unit =
    if (closed || !channel.isOpen) channel.close() else idle.addFirst(channel)

  /**
   * Lends a connection; it returns to the pool only when `use` ended well, else its state is
   * unknown and it is closed.
   */
  def lend[T](use: Channel => T): T = {
    val channel = take()
    var sound = false
    try {
      val result = use(channel)
      sound = true
      result
    } finally if (sound) give(channel) else channel.close()
  }

  override def close(): Unit = {
    closed = true
    Iterator.continually(idle.pollFirst()).takeWhile(_ != null).foreach { c =>
      try c.close()
      catch { case NonFatal(_) => }
    }
  }
}
