package org.apache.spark.sql.coffer.transport

import scala.jdk.CollectionConverters._

import com.google.protobuf.{
  ByteString,
  InvalidProtocolBufferException,
  Message => ProtoMessage,
  Parser
}

import org.apache.spark.sql.coffer.proto.wire.{DriverAnswer, ExecutorAsk, Blank}

/**
 * What executors ask of the driver, over Spark's plugin RPC, and what it answers. The driver's
 * endpoint has one thread, so it answers a question with a ticket at once, works elsewhere, and is
 * polled.
 *
 * They travel as byte arrays (`wire/executors.proto`), not as objects of classes of ours: nothing
 * is deserialised, and Spark's RPC on executors does not see classes that come with `spark.jars`.
 */
private[coffer] sealed trait Ask {
  final def encode: Array[Byte] = {
    val ask = ExecutorAsk.newBuilder
    this match {
      case Ask.NewChallenge() => ask.setNewChallenge(Blank.getDefaultInstance)
      case Ask.Admit(evidence, challenge) =>
        ask.getAdmitBuilder.setEvidence(ByteString.copyFrom(evidence)).setChallenge(
          ByteString.copyFrom(challenge))
      case Ask.Keys(session, engineId) =>
        ask.getKeysBuilder.setSession(ByteString.copyFrom(session)).setEngineId(engineId)
      case Ask.Attempts(session, producers) =>
        ask.getAttemptsBuilder.setSession(ByteString.copyFrom(session)).addAllProducers(
          producers.map(Int.box).asJava)
      case Ask.Poll(ticket) => ask.getPollBuilder.setTicket(ticket)
    }
    ask.build().toByteArray
  }
}

private[coffer] object Ask {

  /** A fresh challenge for attestation. Answered by [[Answer.Bytes]]. */
  final case class NewChallenge() extends Ask

  /**
   * An encoded EngineEvidence with the challenge it answers. Answered by [[Answer.Bytes]]: the
   * engine's id in UTF-8.
   */
  final case class Admit(evidence: Array[Byte], challenge: Array[Byte]) extends Ask

  /**
   * A fresh release of a session's keys to an engine. Answered by [[Answer.Bytes]]: an encoded
   * Release.
   */
  final case class Keys(session: Array[Byte], engineId: String) extends Ask

  /**
   * The lists of attempts that count now for the shuffles a task reads. Answered by
   * [[Answer.Many]]: sealed objects.
   */
  final case class Attempts(session: Array[Byte], producers: Seq[Int]) extends Ask

  /** Whether the answer to a ticket is there. */
  final case class Poll(ticket: Long) extends Ask

  def decode(bytes: Array[Byte]): Option[Ask] = Rpc.read(bytes, ExecutorAsk.parser).flatMap { ask =>
    ask.getKindCase match {
      case ExecutorAsk.KindCase.NEW_CHALLENGE => Some(NewChallenge())
      case ExecutorAsk.KindCase.ADMIT =>
        Some(Admit(ask.getAdmit.getEvidence.toByteArray, ask.getAdmit.getChallenge.toByteArray))
      case ExecutorAsk.KindCase.KEYS =>
        Some(Keys(ask.getKeys.getSession.toByteArray, ask.getKeys.getEngineId))
      case ExecutorAsk.KindCase.ATTEMPTS =>
        Some(Attempts(ask.getAttempts.getSession.toByteArray,
            ask.getAttempts.getProducersList.asScala.map(Int.unbox).toSeq))
      case ExecutorAsk.KindCase.POLL => Some(Poll(ask.getPoll.getTicket))
      case ExecutorAsk.KindCase.KIND_NOT_SET => None
    }
  }
}

private[coffer] sealed trait Answer {
  final def encode: Array[Byte] = {
    val answer = DriverAnswer.newBuilder
    this match {
      case Answer.Ticket(id) => answer.getTicketBuilder.setId(id)
      case Answer.NotYet => answer.setNotYet(Blank.getDefaultInstance)
      case Answer.Bytes(value) => answer.getOneBuilder.setValue(ByteString.copyFrom(value))
      case Answer.Many(values) =>
        answer.getManyBuilder.addAllValues(values.map(ByteString.copyFrom).asJava)
      case Answer.Refused(code, message, hint) =>
        answer.getRefusedBuilder.setCode(code).setMessage(message).setHint(hint)
    }
    answer.build().toByteArray
  }
}

private[coffer] object Answer {
  final case class Ticket(id: Long) extends Answer
  case object NotYet extends Answer
  final case class Bytes(value: Array[Byte]) extends Answer
  final case class Many(values: Seq[Array[Byte]]) extends Answer
  final case class Refused(code: String, message: String, hint: String) extends Answer

  def decode(bytes: Array[Byte]): Option[Answer] = Rpc.read(bytes, DriverAnswer.parser).flatMap {
    answer =>
      answer.getKindCase match {
        case DriverAnswer.KindCase.TICKET => Some(Ticket(answer.getTicket.getId))
        case DriverAnswer.KindCase.NOT_YET => Some(NotYet)
        case DriverAnswer.KindCase.ONE => Some(Bytes(answer.getOne.getValue.toByteArray))
        case DriverAnswer.KindCase.MANY =>
          Some(Many(answer.getMany.getValuesList.asScala.map(_.toByteArray).toSeq))
        case DriverAnswer.KindCase.REFUSED =>
          Some(Refused(answer.getRefused.getCode, answer.getRefused.getMessage,
              answer.getRefused.getHint))
        case DriverAnswer.KindCase.KIND_NOT_SET => None
      }
  }
}

private object Rpc {

  /** None: not a message of ours, whole and with nothing after it. */
  def read[T <: ProtoMessage](bytes: Array[Byte], parser: Parser[T]): Option[T] =
    try Some(parser.parseFrom(bytes)).filter(_.getUnknownFields.asMap.isEmpty)
    catch { case _: InvalidProtocolBufferException => None }
}
