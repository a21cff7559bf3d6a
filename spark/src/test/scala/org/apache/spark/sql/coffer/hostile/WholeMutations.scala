package org.apache.spark.sql.coffer.hostile

import scala.util.Random

import org.apache.spark.sql.coffer.exec.{CofferTaskException, WholeOutcome}

/** Mutations about what the one task of a query that runs whole returns. */
object WholeMutations {

  val all: Map[String, Random => Mutation] = Map(
    "whole-outcome-stream-flipped" -> streams(Bytes.flipped),
    "whole-outcome-stream-cut" -> streams(Bytes.cut),
    "whole-outcome-stream-extended" -> streams(Bytes.extended),
    "whole-outcome-stream-empty" -> streams((_, _) => Array.emptyByteArray),
    "whole-outcome-stream-noise" -> streams(Bytes.noise),
    "whole-outcome-stream-twice" -> streams((bytes, _) => bytes ++ bytes),
    "whole-outcome-stream-of-an-earlier-query" -> outcomes((o, rng) =>
      Museum.whole(rng).filter(_.streams.nonEmpty).fold(o)(old =>
        o.copy(streams = o.streams.map(_ => old.streams(rng.nextInt(old.streams.length)))))),
    "whole-outcome-streams-fewer" -> outcomes((o, _) => o.copy(streams = o.streams.drop(1))),
    "whole-outcome-streams-more" ->
      outcomes((o, rng) => o.copy(streams = o.streams :+ Bytes.noise(new Array[Byte](90), rng))),
    "whole-outcome-done-flipped" ->
      outcomes((o, rng) => o.copy(done = Bytes.flipped(o.done, rng))),
    "whole-outcome-done-noise" ->
      outcomes((o, rng) => o.copy(done = Bytes.noise(o.done, rng))),
    "whole-outcome-done-empty" -> outcomes((o, _) => o.copy(done = Array.emptyByteArray)),
    "whole-outcome-of-an-earlier-query" -> outcomes((o, rng) => Museum.whole(rng).getOrElse(o)),
    "whole-outcome-without-bytes" -> outcomes((o, _) => o.copy(done = null, streams = null)),
    "whole-outcome-missing" -> (rng => new Applied(rng, (_, _) => null)),
    "whole-outcome-of-another-class" -> (rng => new Applied(rng, (_, _) => Seq("a result"))),
    "whole-outcome-no-memory" -> outcomes((o, _) =>
      o.copy(tooLarge = new CofferTaskException("memory", 1, 0, "AQID").getMessage)),
    "whole-outcome-no-memory-of-noise" ->
      outcomes((o, rng) => o.copy(tooLarge = s"[COFFER_TASK] stage ${rng.nextInt()}"))
  )

  private def outcomes(mutation: (WholeOutcome, Random) => WholeOutcome): Random => Mutation =
    rng => new Applied(rng, mutation)

  /** Of one of the streams. */
  private def streams(mutation: (Array[Byte], Random) => Array[Byte]): Random => Mutation =
    outcomes((o, rng) =>
      if (o.streams.isEmpty) o
      else {
        val at = rng.nextInt(o.streams.length)
        o.copy(streams = o.streams.updated(at, mutation(o.streams(at), rng)))
      })

  private final class Applied(rng: Random, mutation: (WholeOutcome, Random) => Any)
      extends Mutation {
    override def atEnd(end: TaskEnd): Unit = end.value match {
      case own: WholeOutcome if own.isWhole =>
        val other = mutation(own, rng)
        if (!same(own, other)) {
          end.returns(other)
          Hostile.did(s"${shape(own)} became ${shape(other)}")
        }
      case _ =>
    }
  }

  private def same(a: WholeOutcome, b: Any): Boolean = b match {
    case o: WholeOutcome if o.isWhole =>
      a.tooLarge == o.tooLarge &&
      a.done.sameElements(o.done) && a.streams.length == o.streams.length &&
      a.streams.zip(o.streams).forall { case (x, y) => x.sameElements(y) }
    case _ => false
  }

  private def shape(value: Any): String = value match {
    case null => "nothing"
    case o: WholeOutcome if o.isWhole =>
      s"${o.done.length} bytes and streams of " +
        s"${o.streams.map(_.length).mkString(", ")} ${o.tooLarge}"
    case other => other.getClass.getName
  }
}
