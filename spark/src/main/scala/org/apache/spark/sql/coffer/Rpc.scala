package org.apache.spark.sql.coffer

/**
 * What executors ask of the driver, over Spark's plugin RPC. The driver's endpoint has one thread, so it answers an [[Ask]] with a
 * [[Ticket]] at once, works elsewhere, and is polled. All content is bytes that only the engines read, and ids.
 */
private[coffer] sealed trait Ask extends Serializable

private[coffer] object Ask {

  /** A fresh challenge for attestation. Answered by [[Answer.Bytes]]. */
  final case class NewChallenge() extends Ask

  /** An encoded EngineEvidence with the challenge it answers. Answered by [[Answer.Bytes]]: the engine's id in UTF-8. */
  final case class Admit(evidence: Array[Byte], challenge: Array[Byte]) extends Ask

  /** A fresh release of a session's keys to an engine. Answered by [[Answer.Bytes]]: an encoded Release. */
  final case class Keys(session: Array[Byte], engineId: String) extends Ask

  /** The lists of attempts that count now for the shuffles a task reads. Answered by [[Answer.Many]]: sealed objects. */
  final case class Attempts(session: Array[Byte], producers: Seq[Int]) extends Ask
}

private[coffer] final case class Ticket(id: Long) extends Serializable

/** Asks whether the answer to a ticket is there; answered by an [[Answer]]. */
private[coffer] final case class Poll(ticket: Ticket) extends Serializable

private[coffer] sealed trait Answer extends Serializable

private[coffer] object Answer {
  case object NotYet extends Answer
  final case class Bytes(value: Array[Byte]) extends Answer
  final case class Many(values: Seq[Array[Byte]]) extends Answer
  final case class Refused(code: String, message: String, hint: String) extends Answer
}
