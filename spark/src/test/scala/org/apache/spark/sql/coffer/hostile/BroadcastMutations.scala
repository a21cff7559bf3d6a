package org.apache.spark.sql.coffer.hostile

import scala.util.Random

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.storage.{BlockId, BroadcastBlockId}

/** Changes of broadcasts in the executor's block store, before its tasks read them. */
object BroadcastMutations {
  private type Streams = Array[Array[Byte]]

  val all: Map[String, Random => Mutation] = Map(
    "broadcast-flipped" -> stream((bytes, rng) => Bytes.flipped(bytes, rng)),
    "broadcast-cut" -> stream((bytes, rng) => Bytes.cut(bytes, rng)),
    "broadcast-extended" -> stream((bytes, rng) => Bytes.extended(bytes, rng)),
    "broadcast-stream-missing" -> stream((_, _) => Array.emptyByteArray),
    "broadcast-stream-twice" -> stream((bytes, _) => bytes ++ bytes),
    "broadcast-noise" -> stream((bytes, rng) => Bytes.noise(bytes, rng)),
    "broadcast-of-an-earlier-query" ->
      stream((bytes, rng) => Museum.broadcast(rng).getOrElse(bytes)),
    "broadcast-streams-swapped" ->
      (rng => new OfThisQuery(rng, (all, r) => exchange(all(r.nextInt(all.size)), r))),
    "broadcast-stream-of-another" -> (rng =>
      new OfThisQuery(rng,
        (all, r) =>
          if (all.size > 1) r.shuffle(all) match {
            case a +: b +: _
                if a.nonEmpty &&
                  b.nonEmpty => a(r.nextInt(a.length)) = b(r.nextInt(b.length))
            case _ =>
          })),
    "broadcast-repeats-a-stream" -> (rng =>
      new OfThisQuery(rng,
        (all, r) => {
          val streams = all(r.nextInt(all.size))
          if (streams.length > 1) r.shuffle(streams.indices.toVector) match {
            case a +: b +: _ => streams(a) = streams(b)
            case _ =>
          }
        }))
  )

  private def exchange(streams: Streams, rng: Random): Unit = {
    val mixed = rng.shuffle(streams.toSeq)
    mixed.indices.foreach(i => streams(i) = mixed(i))
  }

  private def stream(change: (Array[Byte], Random) => Array[Byte]): Random => Mutation = rng =>
    new OfThisQuery(rng,
      (all, r) => {
        val streams = all(r.nextInt(all.size))
        if (streams.nonEmpty) {
          val at = r.nextInt(streams.length)
          streams(at) = change(streams(at), r)
        }
      })

  /**
   * Changes what the query's broadcasts hold, once, when a task starts that could read them.
   * Locally, block store and tasks share the object.
   */
  private final class OfThisQuery(rng: Random, change: (Seq[Streams], Random) => Unit)
      extends Mutation {
    private val before = blocks.toSet
    private var done = false

    override def atStart(context: TaskContext): Unit = {
      val found = blocks.filterNot(before).flatMap(streams)
      if (!done && found.nonEmpty) {
        val was = found.map(_.map(_.toSeq).toSeq)
        found.foreach(Museum.keep)
        change(found, rng)
        done = found.map(_.map(_.toSeq).toSeq) != was
        if (done) Hostile.did(s"one of ${found.size} broadcasts")
      }
    }

    private def blocks: Seq[BlockId] = SparkEnv.get.blockManager.getMatchingBlockIds {
      case BroadcastBlockId(_, "") => true
      case _ => false
    }

    private def streams(id: BlockId): Option[Streams] = SparkEnv.get.blockManager.getLocalValues(
      id).flatMap { block =>
      // Read to its end, or the block stays locked.
      block.data.toList match {
        case List(streams: Array[_]) if streams.getClass == classOf[Array[Array[Byte]]] =>
          Some(streams.asInstanceOf[Streams])
        case _ => None
      }
    }
  }
}
