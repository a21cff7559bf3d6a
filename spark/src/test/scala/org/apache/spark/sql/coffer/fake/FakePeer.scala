package org.apache.spark.sql.coffer.fake

import java.io.EOFException
import java.net.{StandardProtocolFamily, UnixDomainSocketAddress}
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.channels.{ServerSocketChannel, SocketChannel}
import java.nio.file.{Files, Path}
import java.nio.file.attribute.PosixFilePermissions

import scala.util.control.NonFatal

import com.google.protobuf.MessageLite

/** One end of a connection, for peers that tests make up. */
final class FakeConnection(socket: SocketChannel) {
  private def exactly(n: Int): ByteBuffer = {
    val b = ByteBuffer.allocate(n).order(ByteOrder.LITTLE_ENDIAN)
    while (b.hasRemaining) if (socket.read(b) < 0) throw new EOFException
    b.flip()
    b
  }

  def receive(): (Int, Array[Byte]) = {
    val length = exactly(4).getInt()
    val kind = exactly(1).get() & 0xff
    (kind, exactly(length - 1).array())
  }

  def send(kind: Int, payload: Array[Byte]): Unit = {
    val b = ByteBuffer.allocate(5 + payload.length).order(ByteOrder.LITTLE_ENDIAN)
    b.putInt(payload.length + 1).put(kind.toByte).put(payload).flip()
    while (b.hasRemaining) socket.write(b)
  }

  def send(kind: Int, message: MessageLite): Unit = send(kind, message.toByteArray)
}

/**
 * A program that Spark's plugin starts and that leads to this JVM: a script that says it is ready
 * and waits for its lifeline, and a socket on which the test answers.
 */
abstract class FakePeer(folder: Path, program: String) extends AutoCloseable {
  private val socket = folder.resolve(s"$program.socket")
  private val server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)
  server.bind(UnixDomainSocketAddress.of(socket))

  val binary: Path = {
    val ready =
      s"""{"listening":"unix:$socket","engine_id":"fake","evidence":"simulated","version":"0"}"""
    val script =
      s"""#!/bin/sh
         |echo '$ready'
         |cat > /dev/null
         |""".stripMargin
    val path = folder.resolve(program)
    Files.writeString(path, script)
    Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rwx------"))
    path
  }

  /** Serves one connection until it ends. */
  protected def serve(connection: FakeConnection): Unit

  private val accepting = thread(s"fake-$program") {
    while (server.isOpen) {
      val socket = server.accept()
      thread(s"fake-$program-connection") {
        try while (true) serve(new FakeConnection(socket))
        finally socket.close()
      }
    }
  }

  private def thread(name: String)(body: => Unit): Thread = {
    val t = new Thread(
      () =>
        try body
        catch { case NonFatal(_) => },
      name)
    t.setDaemon(true)
    t.start()
    t
  }

  override def close(): Unit = {
    server.close()
    accepting.join(1000)
  }
}
