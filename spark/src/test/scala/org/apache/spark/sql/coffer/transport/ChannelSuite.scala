package org.apache.spark.sql.coffer.transport

import java.io.{ByteArrayOutputStream, EOFException, IOException}
import java.net.{StandardProtocolFamily, UnixDomainSocketAddress}
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.channels.{ServerSocketChannel, SocketChannel}
import java.nio.file.Files

import scala.concurrent.{Await, Future}
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration._

import org.apache.hadoop.conf.Configuration
import com.google.protobuf.ByteString
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.SealedTask
import org.apache.spark.sql.coffer.proto.wire.{
  ClientMessage,
  Hello,
  Problem,
  ResultEnd,
  Session,
  Welcome
}

class ChannelSuite extends AnyFunSuite {

  /** A peer that does what the test says with one connection. */
  private def withPeer[T](peer: SocketChannel => Unit)(test: Address => T): T = {
    val folder = Files.createTempDirectory("coffer-test")
    val path = folder.resolve("s")
    val server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)
    server.bind(UnixDomainSocketAddress.of(path))
    val served = Future {
      val socket = server.accept()
      try peer(socket)
      finally socket.close()
    }
    try {
      val result = test(Address.Unix(path.toString))
      Await.result(served, 10.seconds)
      result
    } finally {
      server.close()
      Files.deleteIfExists(path)
      Files.delete(folder)
    }
  }

  private def message(kind: Int, payload: Array[Byte]): ByteBuffer = {
    val b = ByteBuffer.allocate(5 + payload.length).order(ByteOrder.LITTLE_ENDIAN)
    b.putInt(payload.length + 1).put(kind.toByte).put(payload).flip()
    b
  }

  private def read(socket: SocketChannel): (Int, Array[Byte]) = {
    def exactly(n: Int): ByteBuffer = {
      val b = ByteBuffer.allocate(n).order(ByteOrder.LITTLE_ENDIAN)
      while (b.hasRemaining) assert(socket.read(b) >= 0)
      b.flip()
      b
    }
    val length = exactly(4).getInt()
    val kind = exactly(1).get() & 0xff
    (kind, exactly(length - 1).array())
  }

  private def write(socket: SocketChannel, bytes: ByteBuffer): Unit =
    while (bytes.hasRemaining) socket.write(bytes)

  test("messages go out and come back whole, however large") {
    val big = Array.tabulate[Byte](3 << 20)(i => (i % 251).toByte)
    withPeer { socket =>
      val (kind, payload) = read(socket)
      write(socket, message(kind + 1, payload))
    } { address =>
      val channel = Channel.connect(address)
      channel.send(9, ByteBuffer.wrap(big, 0, 4), ByteBuffer.wrap(big, 4, big.length - 4))
      val answer = channel.receive()
      assert(answer.kind == 10)
      assert(answer.bytes.sameElements(big))
      channel.close()
    }
  }

  test("a lent message is whole until the next one, whatever came before") {
    val sizes = Seq(700000, 1, 0, 5000, 3 << 20, 4095, 1 << 20)
    def payload(size: Int) = Array.tabulate[Byte](size)(i => ((i + size) % 251).toByte)
    withPeer { socket =>
      sizes.foreach(size => write(socket, message(7, payload(size))))
    } { address =>
      val channel = Channel.connect(address)
      sizes.foreach { size =>
        val lent = channel.receiveLent().payload
        assert(lent.remaining == size)
        assert(lent.array.slice(lent.arrayOffset, lent.arrayOffset + size).sameElements(
            payload(size)))
        val written = new ByteArrayOutputStream
        SealedTask.write(lent, written)
        assert(written.toByteArray.sameElements(payload(size)) && !lent.hasRemaining)
      }
      channel.close()
    }
  }

  Seq("length_zero" -> 0, "length_over_the_limit" -> ((64 << 20) + 1),
    "length_negative" ->
      -1).foreach {
    case (name, length) =>
      test(s"$name is refused before anything is allocated") {
        withPeer { socket =>
          write(socket,
            ByteBuffer.allocate(5).order(ByteOrder.LITTLE_ENDIAN).putInt(length).put(
              1.toByte).flip())
        } { address =>
          val channel = Channel.connect(address)
          val e = intercept[IOException](channel.receive())
          assert(e.getMessage.contains("limit"))
          channel.close()
        }
      }
  }

  test("a message cut off is an end of file, not a short message") {
    withPeer { socket =>
      write(socket, message(3, Array.fill(100)(7.toByte)).limit(50))
    } { address =>
      val channel = Channel.connect(address)
      intercept[EOFException](channel.receive())
      channel.close()
    }
  }

  test("addresses are read as engines write them, and nothing else is") {
    assert(Address.parse("unix:/tmp/a:b") == Address.Unix("/tmp/a:b"))
    assert(Address.parse("tcp:127.0.0.1:43210") == Address.Tcp("127.0.0.1", 43210))
    assert(Address.parse("tcp:[::1]:5") == Address.Tcp("::1", 5))
    assert(Address.parse("vsock:3:7077") == Address.Vsock("3", 7077))
    assert(Address.parse("vsock:/run/vm:1/s:7077") == Address.Vsock("/run/vm:1/s", 7077))
    assert(Address.parse("vsock:/run/vm:1/s:7077").toString == "vsock:/run/vm:1/s:7077")
    Seq("", "unix:", "tcp:host", "tcp:host:0", "tcp:host:70000", "http://x", "vsock:3",
      "vsock:any:1", "vsock:0:1", "vsock:4294967295:1", "vsock:3:4294967295", "vsock:s:1").foreach {
      bad =>
        assert(intercept[CofferException](Address.parse(bad)).code == "COFFER_ADDRESS", bad)
    }
  }

  test("the ready line is JSON with an address and a version") {
    val line =
      """{"listening":"unix:/tmp/x","engine_id":"ab","evidence":"simulated","version":"0.1.0"}"""
    assert(EngineProcess.parseReady(line).contains(ReadyLine(Address.Unix("/tmp/x"), "ab",
          "simulated", "0.1.0")))
    assert(EngineProcess.parseReady("listening on /tmp/x").isEmpty)
    assert(EngineProcess.parseReady("""{"listening":"nowhere","version":"1"}""").isEmpty)
  }

  private def greet(socket: SocketChannel): Unit = {
    assert(read(socket)._1 == ClientMessage.HELLO_VALUE)
    write(socket, message(ClientMessage.WELCOME_VALUE, Welcome.getDefaultInstance.toByteArray))
  }

  private def client(address: Address) =
    new ClientConnections(address, Hello.getDefaultInstance, () => None, () => new Configuration())

  test("a PROBLEM, to the greeting or later, becomes an exception with its code, message and " +
    "hint") {
    withPeer { socket =>
      read(socket)
      val problem =
        Problem.newBuilder.setCode("COFFER_X").setMessage("it broke").setHint("mend it").build()
      write(socket, message(ClientMessage.PROBLEM_VALUE, problem.toByteArray))
    } { address =>
      val engine = client(address)
      val e = intercept[CofferException](engine.newSession(""))
      assert(e.code == "COFFER_X" && e.getMessage == "[COFFER_X] it broke\nhint: mend it")
      engine.close()
    }
  }

  test("one connection serves one call after the other") {
    withPeer { socket =>
      greet(socket)
      Seq("ab", "").foreach { id =>
        read(socket)
        val session = Session.newBuilder.setSession(ByteString.copyFromUtf8(id)).build()
        write(socket, message(ClientMessage.SESSION_VALUE, session.toByteArray))
      }
    } { address =>
      val engine = client(address)
      assert(engine.newSession("").size == 2)
      assert(engine.newSession("").isEmpty)
      engine.close()
    }
  }

  test("a connection that the peer closed while it lay idle, or said something on, is not used " +
    "again") {
    val folder = Files.createTempDirectory("coffer-test")
    val path = folder.resolve("s")
    val server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)
    server.bind(UnixDomainSocketAddress.of(path))
    val pool = new ChannelPool(Address.Unix(path.toString))
    try {
      val (first, second) = (pool.take(), pool.take())
      val (closing, chatting) = (server.accept(), server.accept())
      pool.give(second)
      pool.give(first)
      closing.close()
      write(chatting, message(9, Array.emptyByteArray))
      val third = pool.take()
      val serving = server.accept()
      assert(!first.isOpen && !second.isOpen)
      third.send(5, ByteBuffer.wrap(Array[Byte](1)))
      assert(read(serving)._1 == 5)
      pool.give(third)
      assert(pool.take() eq third)
    } finally {
      pool.close()
      server.close()
      Files.deleteIfExists(path)
      Files.delete(folder)
    }
  }

  test("an answer of the wrong kind, one that cannot be read, and none at all are told apart " +
    "from a refusal") {
    withPeer { socket =>
      greet(socket)
      read(socket)
      write(socket, message(ClientMessage.CHALLENGE_VALUE, Array.emptyByteArray))
    } { address =>
      val e = intercept[CofferException](client(address).newSession(""))
      assert(e.code == "COFFER_CLIENT_PROTOCOL")
    }
    withPeer { socket =>
      greet(socket)
      read(socket)
      write(socket, message(ClientMessage.SESSION_VALUE, Array.fill(9)(0xff.toByte)))
    } { address =>
      val e = intercept[CofferException](client(address).newSession(""))
      assert(e.code == "COFFER_CLIENT_PROTOCOL")
    }
    withPeer(socket => read(socket)) { address =>
      val e = intercept[CofferException](client(address).newSession(""))
      assert(e.code == "COFFER_CLIENT_LOST")
    }
  }

  test("a result is its chunks up to the end, and a problem in the middle is thrown there") {
    import org.apache.spark.sql.coffer.proto.wire.OpenResult
    withPeer { socket =>
      greet(socket)
      read(socket)
      write(socket, message(ClientMessage.RESULT_ARROW_VALUE, Array[Byte](1, 2)))
      write(socket, message(ClientMessage.RESULT_ARROW_VALUE, Array[Byte](3)))
      write(socket,
        message(ClientMessage.RESULT_END_VALUE,
          ResultEnd.newBuilder.setRows(5).build().toByteArray))
    } { address =>
      val opened = client(address).openResult(OpenResult.getDefaultInstance)
      assert(opened.toSeq.map(_.toSeq) == Seq(Seq[Byte](1, 2), Seq[Byte](3)))
      assert(opened.rows.contains(5L))
    }
    withPeer { socket =>
      greet(socket)
      read(socket)
      write(socket, message(ClientMessage.RESULT_ARROW_VALUE, Array[Byte](1)))
      write(socket,
        message(ClientMessage.PROBLEM_VALUE,
          Problem.newBuilder.setCode("COFFER_Y").build().toByteArray))
    } { address =>
      val opened = client(address).openResult(OpenResult.getDefaultInstance)
      assert(intercept[CofferException](opened.toSeq).code == "COFFER_Y")
      assert(!opened.hasNext)
    }
  }
}
