package org.apache.spark.sql.coffer.transport

import java.io.{Closeable, EOFException, IOException}
import java.net.{
  InetSocketAddress,
  StandardProtocolFamily,
  StandardSocketOptions,
  UnixDomainSocketAddress
}
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.channels.SocketChannel

import com.google.protobuf.MessageLite

import org.apache.spark.sql.coffer.common.CofferException

/**
 * Where an engine listens: `unix:PATH`, `tcp:HOST:PORT` or `vsock:MACHINE:PORT`, as its ready line
 * and the configuration write it.
 */
sealed trait Address

object Address {
  final case class Unix(path: String) extends Address {
    override def toString: String = s"unix:$path"
  }
  final case class Tcp(host: String, port: Int) extends Address {
    override def toString: String = s"tcp:$host:$port"
  }

  /**
   * In a virtual machine, which `machine` names by its context id, or by the Unix socket that its
   * hypervisor has for it. The JVM has no such sockets: a relay has.
   */
  final case class Vsock(machine: String, port: Long) extends Address {
    override def toString: String = s"vsock:$machine:$port"
  }

  def parse(text: String): Address = text.split(":", 2) match {
    case Array("unix", path) if path.nonEmpty => Unix(path)
    case Array("tcp", hostPort) if hostPort.contains(':') =>
      val (host, port) = hostPort.splitAt(hostPort.lastIndexOf(':'))
      port.drop(1).toIntOption match {
        case Some(p)
            if p > 0 && p < 65536 &&
              host.nonEmpty => Tcp(host.stripPrefix("[").stripSuffix("]"), p)
        case _ => refuse(text)
      }
    case Array("vsock", at) if at.contains(':') =>
      val (machine, port) = at.splitAt(at.lastIndexOf(':'))
      port.drop(1).toLongOption match {
        case Some(p)
            if p >= 0 && p < MOST_VSOCK && (machine.startsWith("/") ||
              machine.toLongOption.exists(cid => cid > 0 && cid < MOST_VSOCK)) => Vsock(machine, p)
        case _ => refuse(text)
      }
    case _ => refuse(text)
  }

  /** Of context ids and ports: one more means any. */
  private val MOST_VSOCK = 0xffffffffL

  private def refuse(text: String): Nothing = throw new CofferException(
    "COFFER_ADDRESS",
    s"'$text' is not an engine address",
    "write unix:PATH, tcp:HOST:PORT, vsock:CID:PORT or vsock:SOCKET:PORT")
}

/** One message as it came: its type and its payload, positioned at the payload's first byte. */
final case class Message(kind: Int, payload: ByteBuffer) {
  def bytes: Array[Byte] = {
    val out = new Array[Byte](payload.remaining)
    payload.duplicate().get(out)
    out
  }
}

/**
 * Messages `length: u32 LE ‖ type: u8 ‖ payload` over a stream socket (`wire/task.proto`). The
 * length counts type and payload; it is checked before anything is allocated. One thread at a time
 * sends, and one receives; an interrupted thread closes the channel, which is the protocol's
 * cancel.
 */
final class Channel private (socket: SocketChannel, val peer: Address, longest: Long)
    extends Closeable {
  import Channel._

  private val header = ByteBuffer.allocate(HEADER).order(ByteOrder.LITTLE_ENDIAN)
  private var incoming = ByteBuffer.allocateDirect(BUFFER)
  private val outgoing = ByteBuffer.allocateDirect(BUFFER).order(ByteOrder.LITTLE_ENDIAN)
  private var lent = ByteBuffer.allocate(0)

  def send(kind: Int, message: MessageLite): Unit = send(kind, ByteBuffer.wrap(message.toByteArray))

  def send(kind: Int, payload: ByteBuffer*): Unit = {
    val length = 1L + payload.map(_.remaining.toLong).sum
    if (length > longest) throw tooLong(length, longest)
    outgoing.clear()
    outgoing.putInt(length.toInt).put(kind.toByte)
    payload.foreach(write)
    flush()
  }

  /** Through one direct buffer, as what is received. */
  private def write(payload: ByteBuffer): Unit = {
    val rest = payload.duplicate()
    while (rest.hasRemaining) {
      if (!outgoing.hasRemaining) flush()
      val part = rest.duplicate()
      part.limit(rest.position() + math.min(rest.remaining, outgoing.remaining))
      outgoing.put(part)
      rest.position(part.position())
    }
  }

  private def flush(): Unit = {
    outgoing.flip()
    while (outgoing.hasRemaining) socket.write(outgoing)
    outgoing.clear()
  }

  def receive(): Message = receive(ByteBuffer.allocate(_))

  /**
   * A message whose payload is valid until the next one is received. Most are pieces of streams as
   * large as a region of the collector's, and gone as soon as they are written: a buffer for each
   * would be what the heap is mostly collected for.
   */
  def receiveLent(): Message = receive { length =>
    if (length > LENT) ByteBuffer.allocate(length)
    else {
      if (length > lent.capacity) lent = ByteBuffer.allocate(
        math.min(LENT, math.max(LEAST_LENT, Integer.highestOneBit(length) << 1)))
      lent.duplicate().clear().limit(length)
    }
  }

  private def receive(buffer: Int => ByteBuffer): Message = {
    header.clear()
    fill(header)
    header.flip()
    val length = Integer.toUnsignedLong(header.getInt())
    if (length < 1 || length > MAX_LENGTH) throw tooLong(length, MAX_LENGTH)
    val kind = header.get() & 0xff
    val body = buffer((length - 1).toInt)
    readInto(body)
    body.flip()
    Message(kind, body)
  }

  /**
   * Small reads go through one direct buffer: a heap buffer would cost Java a copy and a cache of
   * its own for each size.
   */
  private def readInto(body: ByteBuffer): Unit = {
    while (body.hasRemaining) {
      incoming.clear()
      incoming.limit(math.min(incoming.capacity, body.remaining))
      if (socket.read(incoming) < 0) throw new EOFException(s"the engine at $peer closed the " +
        s"connection")
      incoming.flip()
      body.put(incoming)
    }
  }

  private def fill(buffer: ByteBuffer): Unit =
    while (buffer.hasRemaining) {
      if (socket.read(buffer) < 0) throw new EOFException(s"the engine at $peer closed the " +
        s"connection")
    }

  def isOpen: Boolean = socket.isOpen

  /**
   * Whether the peer is there and has said nothing, as between conversations. One that ends closes
   * its connections while they lie idle.
   */
  def isIdle: Boolean =
    try {
      socket.configureBlocking(false)
      try {
        incoming.clear().limit(1)
        socket.read(incoming) == 0
      } finally socket.configureBlocking(true)
    } catch { case _: IOException => false }

  override def close(): Unit = {
    incoming = ByteBuffer.allocate(0)
    lent = ByteBuffer.allocate(0)
    socket.close()
  }

  private def tooLong(length: Long, limit: Long): IOException =
    new IOException(s"a message of $length bytes to or from $peer; the limit is $limit")
}

object Channel {
  private val HEADER = 5
  private val BUFFER = 1 << 18
  private val LEAST_LENT = 1 << 12
  // A piece of a stream, with its header.
  private val LENT = (1 << 20) + 64
  val MAX_LENGTH: Long = 64L << 20

  /** Requests to the client engine may hold whole results. */
  val MAX_REQUEST: Long = Int.MaxValue.toLong

  def connect(address: Address, longest: Long = MAX_LENGTH): Channel = {
    val socket = address match {
      case Address.Unix(path) =>
        val s = SocketChannel.open(StandardProtocolFamily.UNIX)
        try {
          s.connect(UnixDomainSocketAddress.of(path))
          s
        } catch { case e: Throwable => s.close(); throw e }
      case Address.Tcp(host, port) =>
        val s = SocketChannel.open()
        try {
          s.setOption(StandardSocketOptions.TCP_NODELAY, java.lang.Boolean.TRUE)
          s.connect(new InetSocketAddress(host, port))
          s
        } catch { case e: Throwable => s.close(); throw e }
      case machine: Address.Vsock => throw new IOException(s"$machine is reached through a relay")
    }
    new Channel(socket, address, longest)
  }
}
