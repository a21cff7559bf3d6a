package org.apache.spark.sql.coffer.hostile

import java.util.{HashMap => JHashMap}

import scala.util.Random

import gadget.Gadget

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.sql.coffer.exec.TaskOutcome

/**
 * Mutations about what a task returns: map statuses, and the sealed streams and records of results.
 */
object ResultMutations {

  val all: Map[String, Random => Mutation] = Map(
    "map-sizes-zero" -> statuses((sizes, _) => sizes.map(_ => 0L)),
    "map-sizes-one-zero" ->
      statuses((sizes, rng) =>
        if (sizes.isEmpty) sizes else sizes.updated(rng.nextInt(sizes.length), 0L)),
    "map-sizes-huge" -> statuses((sizes, rng) => sizes.map(_ => 1L << (40 + rng.nextInt(22)))),
    "map-sizes-swapped" -> statuses((sizes, rng) => rng.shuffle(sizes.toSeq).toArray),
    "map-sizes-more" -> statuses((sizes, rng) => sizes ++ Array.fill(1 + rng.nextInt(9))(1000L)),
    "map-of-another-id" -> (rng =>
      new Applied(rng,
        {
          case s: MapStatus => MapStatus(s.location, TaskEnd.sizes(s),
              Museum.commit(rng).map(_.mapId).getOrElse(s.mapId + 1))
        })),
    "map-of-no-id" -> (rng =>
      new Applied(rng,
        { case s: MapStatus => MapStatus(s.location, TaskEnd.sizes(s), rng.nextLong()) })),
    "result-stream-flipped" -> streams(Bytes.flipped),
    "result-stream-cut" -> streams(Bytes.cut),
    "result-stream-extended" -> streams(Bytes.extended),
    "result-stream-empty" -> streams((_, _) => Array.emptyByteArray),
    "result-stream-noise" -> streams(Bytes.noise),
    "result-stream-twice" -> streams((bytes, _) => bytes ++ bytes),
    "result-commit-flipped" -> outcomes((o, rng) => o.copy(commit = Bytes.flipped(o.commit, rng))),
    "result-commit-missing" -> outcomes((o, _) => o.copy(commit = Array.emptyByteArray)),
    "result-commit-of-a-map" ->
      outcomes((o, rng) => Museum.commit(rng).fold(o)(c => o.copy(commit = c.commit))),
    "result-of-another-partition" ->
      outcomes((o, rng) => o.copy(partition = o.partition + 1 + rng.nextInt(3))),
    "result-of-no-partition" -> outcomes((o, rng) => o.copy(partition = rng.nextInt())),
    "result-of-an-earlier-query" ->
      outcomes((o, rng) => Museum.outcome(rng).fold(o)(_.copy(partition = o.partition))),
    "result-of-an-earlier-task" -> outcomes((o, rng) => Museum.outcome(rng).getOrElse(o)),
    "result-stream-of-an-earlier-query" ->
      outcomes((o, rng) => Museum.outcome(rng).fold(o)(old => o.copy(stream = old.stream))),
    "result-commit-of-an-earlier-query" ->
      outcomes((o, rng) => Museum.outcome(rng).fold(o)(old => o.copy(commit = old.commit))),
    "result-without-bytes" ->
      outcomes((o, _) => o.copy(stream = null, commit = null, counters = null, metrics = null)),
    "result-missing" -> (rng => new Applied(rng, { case _: TaskOutcome => null })),
    "result-of-another-class" ->
      (rng => new Applied(rng, { case _: TaskOutcome => Seq("a result") })),
    "gadget-as-result" -> (rng => new Applied(rng, { case _: TaskOutcome => new Gadget })),
    "gadget-as-map-status" -> (rng => new Applied(rng, { case _: MapStatus => new Gadget })),
    "gadget-inside-a-result" -> (rng =>
      new Applied(rng,
        {
          case value @ (_: TaskOutcome |
              _: MapStatus) => inside(value, rng)
        }))
  )

  private def inside(value: Any, rng: Random): Any = {
    val map = new JHashMap[AnyRef, AnyRef]()
    map.put(new Gadget, "value")
    Seq[Any](Some(List[Any](value, new Gadget)), Array[AnyRef](new Gadget), map,
      (value, new Gadget))(rng.nextInt(4))
  }

  private def statuses(mutation: (Array[Long], Random) => Array[Long]): Random => Mutation = rng =>
    new Applied(rng,
      { case s: MapStatus => MapStatus(s.location, mutation(TaskEnd.sizes(s), rng), s.mapId) })

  private def outcomes(mutation: (TaskOutcome, Random) => TaskOutcome): Random => Mutation = rng =>
    new Applied(rng, { case o: TaskOutcome => mutation(o, rng) })

  private def streams(mutation: (Array[Byte], Random) => Array[Byte]): Random => Mutation =
    outcomes((o, rng) => o.copy(stream = mutation(o.stream, rng)))

  /** Told of every task that fits, or of one only. */
  private final class Applied(rng: Random, mutation: PartialFunction[Any, Any]) extends Mutation {
    private val always = rng.nextBoolean()
    private var applied = false

    override def atEnd(end: TaskEnd): Unit =
      if ((always || !applied) &&
        mutation.isDefinedAt(end.value)) {
        val other = mutation(end.value)
        if (!ResultMutations.same(other, end.value)) {
          end.returns(other)
          applied = true
          Hostile.did(s"${ResultMutations.shape(end.value)} became ${ResultMutations.shape(other)}")
        }
      }
  }

  private def same(a: Any, b: Any): Boolean = (a, b) match {
    case (x: MapStatus, y: MapStatus) => x.mapId == y.mapId &&
      TaskEnd.sizes(x).sameElements(TaskEnd.sizes(y))
    case (x: TaskOutcome, y: TaskOutcome) if x.isWhole && y.isWhole =>
      x.partition == y.partition && Seq(x.stream -> y.stream,
        x.commit ->
          y.commit).forall { case (p, q) => p.sameElements(q) }
    case _ => a == b
  }

  private def shape(value: Any): String = value match {
    case null => "nothing"
    case s: MapStatus => s"map ${s.mapId} of sizes ${TaskEnd.sizes(s).mkString(",")}"
    case o: TaskOutcome => s"result ${o.partition} of ${Option(o.stream).map(_.length)} and " +
        s"${Option(o.commit).map(_.length)} bytes"
    case other => other.getClass.getName
  }
}
