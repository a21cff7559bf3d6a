package org.apache.spark.sql.coffer.hostile

import java.util.Arrays

import scala.collection.mutable
import scala.util.Random

import gadget.Gadget

import org.apache.spark.InternalAccumulator
import org.apache.spark.sql.coffer.exec.{MapCommit, TaskOutcome}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.util.{
  AccumulatorContext,
  AccumulatorMetadata,
  AccumulatorV2,
  DoubleAccumulator,
  LongAccumulator
}

/**
 * Mutations in accumulators: the sealed records of map tasks, which travel in one; row counts and
 * sizes, which AQE could believe.
 */
object RecordMutations {

  val all: Map[String, Random => Mutation] = Map(
    "record-flipped" -> records((c, rng) => c.copy(commit = Bytes.flipped(c.commit, rng))),
    "record-cut" -> records((c, rng) => c.copy(commit = Bytes.cut(c.commit, rng))),
    "record-empty" -> records((c, _) => c.copy(commit = Array.emptyByteArray)),
    "record-without-bytes" -> records((c, _) => c.copy(commit = null)),
    "record-of-an-earlier-map" ->
      records((c, rng) => Museum.commit(rng).fold(c)(old => c.copy(commit = old.commit))),
    "record-of-a-result" ->
      records((c, rng) => Museum.outcome(rng).fold(c)(old => c.copy(commit = old.commit))),
    "record-of-another-partition" ->
      records((c, rng) => c.copy(partition = c.partition + 1 + rng.nextInt(2))),
    "record-of-another-map" -> records((c, rng) => c.copy(mapId = c.mapId + 1 + rng.nextInt(2))),
    "record-missing" -> (rng => new Applied(rng, _ => Nil)),
    "record-for-other-maps-too" -> (rng =>
      new Applied(rng,
        own =>
          own ++
            own.flatMap(c => Seq(-1L, 1L, 2L).map(by => c.copy(mapId = c.mapId + by))))),
    "task-counters-false" -> (rng =>
      new Counted(rng, (c, r) => c.copy(counters = Bytes.noise(c.counters, r)),
        (o, r) => o.copy(counters = Bytes.noise(o.counters, r)))),
    "task-metrics-false" -> (rng =>
      new Counted(rng, (c, r) => c.copy(metrics = Bytes.flipped(c.metrics, r)),
        (o, r) => o.copy(metrics = Bytes.flipped(o.metrics, r)))),
    "accumulators-missing" -> (_ => new Numbers(None)),
    "accumulators-zero" -> (_ => new Numbers(Some(0L))),
    "accumulators-one" -> (_ => new Numbers(Some(1L))),
    "accumulators-negative" -> (_ => new Numbers(Some(-1L))),
    "accumulators-huge" -> (_ => new Numbers(Some(Long.MaxValue))),
    "row-counts-zero" -> (_ => new RowCounts(0L)),
    "row-counts-one" -> (_ => new RowCounts(1L)),
    "row-counts-huge" -> (_ => new RowCounts(1L << 50)),
    "gadget-as-accumulator" -> (_ =>
      new Mutation {
        override def atEnd(end: TaskEnd): Unit = {
          end.counts(end.accumulators :+ new GadgetAccumulator)
          Hostile.did("an accumulator of a class of its own")
        }
      })
  )

  private def records(mutation: (MapCommit, Random) => MapCommit): Random => Mutation =
    rng => new Applied(rng, _.map(mutation(_, rng)))

  /**
   * Told of every map task's records, or of one task's only: the first whose records the mutation
   * changes.
   */
  private final class Applied(rng: Random, mutation: Seq[MapCommit] => Seq[MapCommit])
      extends Mutation {
    private val always = rng.nextBoolean()
    private var applied = false

    override def atEnd(end: TaskEnd): Unit = if (always || !applied) {
      val own = end.records
      val other = mutation(own)
      if (!sameAll(own, other)) {
        end.tells(other)
        applied = true
        Hostile.did(s"${shape(own)} became ${shape(other)}")
      }
    }
  }

  /** Counters and sealed metrics, which a task of either kind brings. */
  private final class Counted(
      rng: Random,
      map: (MapCommit, Random) => MapCommit,
      result: (TaskOutcome, Random) => TaskOutcome)
      extends Mutation {
    override def atEnd(end: TaskEnd): Unit = {
      val other = end.records.map(map(_, rng))
      if (!sameAll(end.records, other)) {
        end.tells(other)
        Hostile.did("what a map task counted")
      }
      end.value match {
        case own: TaskOutcome =>
          val other = result(own, rng)
          if (!Arrays.equals(own.counters, other.counters) ||
            !Arrays.equals(own.metrics, other.metrics)) {
            end.returns(other)
            Hostile.did("what a result's task counted")
          }
        case _ =>
      }
    }
  }

  private def sameAll(some: Seq[MapCommit], others: Seq[MapCommit]): Boolean =
    some.size == others.size && some.zip(others).forall { case (a, b) =>
      a.mapId == b.mapId && a.partition == b.partition &&
      Seq(a.commit -> b.commit, a.counters -> b.counters,
        a.metrics ->
          b.metrics).forall { case (x, y) => Arrays.equals(x, y) }
    }

  private def shape(records: Seq[MapCommit]): String =
    if (records.isEmpty) "nothing"
    else
      records.map(c =>
        s"map ${c.mapId}, partition ${c.partition}, " +
          s"${Option(c.commit).fold("no")(_.length.toString)} bytes").mkString("; ")

  /** Every number that a task reports is this one, or is missing. */
  private final class Numbers(number: Option[Long]) extends Mutation {
    override def atEnd(end: TaskEnd): Unit = {
      // Spark itself refuses a result whose size the executor has set. Names do not travel with
      // accumulators.
      def named(a: AccumulatorV2[_, _]): Option[String] =
        AccumulatorContext.get(a.id).flatMap(_.name)
      // A number that nothing was added to is the same to the driver as none.
      val applied: Seq[(Boolean, Option[AccumulatorV2[_, _]])] = end.accumulators.map {
        case a if named(a).contains(InternalAccumulator.RESULT_SIZE) => (false, Some(a))
        case l: LongAccumulator =>
          (number.fold(!l.isZero)(_ != l.sum), number.map { n => l.setValue(n); l })
        case d: DoubleAccumulator =>
          (number.fold(!d.isZero)(_.toDouble != d.sum),
            number.map { n => d.setValue(n.toDouble); d })
        case m: SQLMetric => (number.fold(!m.isZero)(_ != m.value), number.map(Forged.metric(m, _)))
        case a => (false, Some(a))
      }
      val changed = applied.count(_._1)
      if (changed > 0) {
        end.counts(applied.flatMap(_._2))
        Hostile.did(s"$changed numbers of a task")
      }
    }
  }

  /**
   * Tasks claim to have counted into every row count and size that the driver has, those of
   * exchanges among them, so that they become `target` at the driver and stay so. A real executor
   * would guess the ids, which are small numbers in a row, and the values.
   */
  private final class RowCounts(target: Long) extends Mutation {
    // Plans have metrics of their own. Earlier ones are of queries that are over.
    private val first = AccumulatorContext.newId()
    private val KINDS = Set("sum", "size")

    /**
     * By metric: what the driver had when it was lied to last, and what it would have now but for
     * the mutation.
     */
    private val had = mutable.LinkedHashMap.empty[SQLMetric, Long]
    private val honest = mutable.Map.empty[SQLMetric, Long]

    override def atEnd(end: TaskEnd): Unit = {
      val metrics =
        (first + 1 until AccumulatorContext.newId()).flatMap(AccumulatorContext.get).collect {
          case m: SQLMetric if KINDS(m.metricType) => m
        }
      val ids = metrics.map(_.id).toSet
      val (own, others) = end.accumulators.partition(a => ids(a.id))
      val claims = metrics.flatMap { m =>
        val now = m.value
        // What else it has come to is the driver's own doing; what it had is there while a claim is
        // under way.
        if (now != target && !had.get(m).contains(now) || !honest.contains(m)) honest(m) = now
        own.collect { case update: SQLMetric if update.id == m.id => honest(m) += update.value }
        if (now == target || had.get(m).contains(now)) None
        else {
          had(m) = now
          Some(Forged.metric(m, target - now))
        }
      }
      end.counts(others ++ claims)
    }

    /** Only what has become false at the driver counts. */
    override def atDisarm(): Unit = {
      val moved = honest.collect {
        case (m, value)
            if m.value == target &&
              value != target => s"${m.name.getOrElse(m.id)} was $value"
      }
      if (moved.nonEmpty) Hostile.did(s"${moved.size} of the driver's metrics are $target: " +
        s"${moved.mkString(", ")}")
    }
  }
}

/** Numbers as no honest task sends them. */
private object Forged {

  /**
   * A value of any sign for a metric of the driver's. Spark's own setters leave out what is
   * negative.
   */
  def metric(like: SQLMetric, value: Long): SQLMetric = {
    // Its initial value is one that is never sent: the driver leaves out updates that are still at
    // theirs.
    val forged = new SQLMetric(like.metricType, Long.MinValue)
    forged.metadata = like.metadata
    set(classOf[SQLMetric], "_value", forged, value)
    travelled(forged)
  }

  /**
   * As if it had come from the driver with a task. One of the driver's own would be written without
   * its value.
   */
  def travelled[A <: AccumulatorV2[_, _]](accumulator: A): A = {
    set(classOf[AccumulatorV2[_, _]], "atDriverSide", accumulator, false)
    accumulator
  }

  private def set(of: Class[_], name: String, in: AnyRef, value: Any): Unit = {
    val field = of.getDeclaredField(name)
    field.setAccessible(true)
    field.set(in, value)
  }
}

/** Harm in the shape of a number that has travelled. */
final class GadgetAccumulator extends AccumulatorV2[Long, Long] {
  private val harm = new Gadget

  metadata = AccumulatorMetadata(AccumulatorContext.newId(), None, countFailedValues = false)
  Forged.travelled(this)

  override def isZero: Boolean = false
  override def copy(): GadgetAccumulator = new GadgetAccumulator
  override def reset(): Unit = ()
  override def add(value: Long): Unit = ()
  override def merge(other: AccumulatorV2[Long, Long]): Unit = ()
  override def value: Long = harm.hashCode.toLong
}
