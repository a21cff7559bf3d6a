package org.apache.spark.sql.coffer.transport

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8

/**
 * What executors ask of the driver, over Spark's plugin RPC, and what it answers. The driver's endpoint has one thread, so it answers a
 * question with a ticket at once, works elsewhere, and is polled.
 *
 * They travel as byte arrays, not as objects of classes of ours: nothing is deserialised, and Spark's RPC on executors does not see
 * classes that come with `spark.jars`.
 */
private[coffer] sealed trait Ask {
  final def encode: Array[Byte] = Rpc.write { out =>
    this match {
      case Ask.NewChallenge() => out.writeByte(1)
      case Ask.Admit(evidence, challenge) =>
        out.writeByte(2)
        Rpc.put(out, evidence)
        Rpc.put(out, challenge)
      case Ask.Keys(session, engineId) =>
        out.writeByte(3)
        Rpc.put(out, session)
        Rpc.put(out, engineId.getBytes(UTF_8))
      case Ask.Attempts(session, producers) =>
        out.writeByte(4)
        Rpc.put(out, session)
        out.writeInt(producers.size)
        producers.foreach(out.writeInt)
      case Ask.Poll(ticket) =>
        out.writeByte(5)
        out.writeLong(ticket)
    }
  }
}

private[coffer] object Ask {

  /** A fresh challenge for attestation. Answered by [[Answer.Bytes]]. */
  final case class NewChallenge() extends Ask

  /** An encoded EngineEvidence with the challenge it answers. Answered by [[Answer.Bytes]]: the engine's id in UTF-8. */
  final case class Admit(evidence: Array[Byte], challenge: Array[Byte]) extends Ask

  /** A fresh release of a session's keys to an engine. Answered by [[Answer.Bytes]]: an encoded Release. */
  final case class Keys(session: Array[Byte], engineId: String) extends Ask

  /** The lists of attempts that count now for the shuffles a task reads. Answered by [[Answer.Many]]: sealed objects. */
  final case class Attempts(session: Array[Byte], producers: Seq[Int]) extends Ask

  /** Whether the answer to a ticket is there. */
  final case class Poll(ticket: Long) extends Ask

  def decode(bytes: Array[Byte]): Option[Ask] = Rpc.read(bytes) { in =>
    in.readByte() match {
      case 1 => NewChallenge()
      case 2 => Admit(Rpc.get(in), Rpc.get(in))
      case 3 => Keys(Rpc.get(in), new String(Rpc.get(in), UTF_8))
      case 4 => Attempts(Rpc.get(in), Seq.fill(Rpc.count(in, 4))(in.readInt()))
      case 5 => Poll(in.readLong())
      case other => throw new IOException(s"question $other")
    }
  }
}

private[coffer] sealed trait Answer {
  final def encode: Array[Byte] = Rpc.write { out =>
    this match {
      case Answer.Ticket(id) =>
        out.writeByte(1)
        out.writeLong(id)
      case Answer.NotYet => out.writeByte(2)
      case Answer.Bytes(value) =>
        out.writeByte(3)
        Rpc.put(out, value)
      case Answer.Many(values) =>
        out.writeByte(4)
        out.writeInt(values.size)
        values.foreach(Rpc.put(out, _))
      case Answer.Refused(code, message, hint) =>
        out.writeByte(5)
        Seq(code, message, hint).foreach(s => Rpc.put(out, s.getBytes(UTF_8)))
    }
  }
}

private[coffer] object Answer {
  final case class Ticket(id: Long) extends Answer
  case object NotYet extends Answer
  final case class Bytes(value: Array[Byte]) extends Answer
  final case class Many(values: Seq[Array[Byte]]) extends Answer
  final case class Refused(code: String, message: String, hint: String) extends Answer

  def decode(bytes: Array[Byte]): Option[Answer] = Rpc.read(bytes) { in =>
    in.readByte() match {
      case 1 => Ticket(in.readLong())
      case 2 => NotYet
      case 3 => Bytes(Rpc.get(in))
      case 4 => Many(Seq.fill(Rpc.count(in, 4))(Rpc.get(in)))
      case 5 =>
        val texts = Seq.fill(3)(new String(Rpc.get(in), UTF_8))
        Refused(texts.head, texts(1), texts(2))
      case other => throw new IOException(s"answer $other")
    }
  }
}

private object Rpc {
  def write(body: DataOutputStream => Unit): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    body(new DataOutputStream(bytes))
    bytes.toByteArray
  }

  /** None: not a message of ours, whole and with nothing after it. */
  def read[T](bytes: Array[Byte])(body: DataInputStream => T): Option[T] = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    try Some(body(in)).filter(_ => in.available() == 0)
    catch { case _: IOException => None }
  }

  def put(out: DataOutputStream, bytes: Array[Byte]): Unit = {
    out.writeInt(bytes.length)
    out.write(bytes)
  }

  def get(in: DataInputStream): Array[Byte] = {
    val bytes = new Array[Byte](count(in, 1))
    in.readFully(bytes)
    bytes
  }

  /** A number of things of at least `size` bytes each: checked against what is there before anything is allocated. */
  def count(in: DataInputStream, size: Int): Int = {
    val n = in.readInt()
    if (n < 0 || n > in.available() / size) throw new IOException(s"a length of $n")
    n
  }
}
