package org.apache.spark.sql.coffer.hostile

import java.nio.ByteBuffer

import scala.util.Random

import gadget.Gadget

import org.apache.spark.{InternalAccumulator, SparkEnv}
import org.apache.spark.sql.coffer.exec.TaskOutcome
import org.apache.spark.sql.coffer.task.MapCommit
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.util.{AccumulatorContext, AccumulatorMetadata, AccumulatorV2, DoubleAccumulator, LongAccumulator}

/** Lies in accumulators: the sealed records of map tasks, which travel in one; row counts and sizes, which AQE could believe. */
object RecordLies {

  val all: Map[String, Random => Lie] = Map(
    "record-flipped" -> records((c, rng) => c.copy(commit = Bytes.flipped(c.commit, rng))),
    "record-cut" -> records((c, rng) => c.copy(commit = Bytes.cut(c.commit, rng))),
    "record-empty" -> records((c, _) => c.copy(commit = Array.emptyByteArray)),
    "record-without-bytes" -> records((c, _) => c.copy(commit = null)),
    "record-of-an-earlier-map" -> records((c, rng) => Museum.commit(rng).fold(c)(old => c.copy(commit = old.commit))),
    "record-of-a-result" -> records((c, rng) => Museum.outcome(rng).fold(c)(old => c.copy(commit = old.commit))),
    "record-of-another-partition" -> records((c, rng) => c.copy(partition = c.partition + 1 + rng.nextInt(2))),
    "record-of-another-map" -> records((c, rng) => c.copy(mapId = c.mapId + 1 + rng.nextInt(2))),
    "record-missing" -> (rng => new Told(rng)({ end => end.tells(Nil); "no record" })),
    "record-for-other-maps-too" -> (rng =>
      new Told(rng)({ end =>
        val own = end.commits.toSeq.flatMap(_.value.values)
        end.tells(own ++ own.flatMap(c => Seq(-1L, 1L, 2L).map(by => c.copy(mapId = c.mapId + by))))
        "its record for its neighbours"
      })),
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
    "row-counts-zero" -> (_ => new RowCounts(m => -m.value)),
    "row-counts-one" -> (_ => new RowCounts(m => 1L - m.value)),
    "row-counts-huge" -> (_ => new RowCounts(_ => 1L << 50)),
    "gadget-as-accumulator" -> (_ =>
      new Lie {
        override def atEnd(end: TaskEnd): Unit = {
          end.counts(end.accumulators :+ new GadgetAccumulator)
          Hostile.did("an accumulator of a class of its own")
        }
      })
  )

  private def records(lie: (MapCommit, Random) => MapCommit): Random => Lie = rng =>
    new Told(rng)({ end =>
      end.tells(end.commits.toSeq.flatMap(_.value.values).map(lie(_, rng)))
      end.commits.toSeq.flatMap(_.value.values).map(c =>
        s"map ${c.mapId}, partition ${c.partition}, ${Option(c.commit).map(_.length)} bytes").mkString("; ")
    })

  /** Told of every map task's record, or of one only. */
  private final class Told(rng: Random)(lie: TaskEnd => String) extends Lie {
    private val always = rng.nextBoolean()
    private var told = false

    override def atEnd(end: TaskEnd): Unit = if ((always || !told) && end.commits.isDefined) {
      told = true
      Hostile.did(lie(end))
    }
  }

  /** Counters and sealed metrics, which a task of either kind brings. */
  private final class Counted(rng: Random, map: (MapCommit, Random) => MapCommit, result: (TaskOutcome, Random) => TaskOutcome)
      extends Lie {
    override def atEnd(end: TaskEnd): Unit = {
      end.commits.foreach { c =>
        end.tells(c.value.values.toSeq.map(map(_, rng)))
        Hostile.did("what a map task counted")
      }
      end.value match {
        case o: TaskOutcome =>
          end.returns(result(o, rng))
          Hostile.did("what a result's task counted")
        case _ =>
      }
    }
  }

  /** Every number that a task reports is this one, or is missing. */
  private final class Numbers(number: Option[Long]) extends Lie {
    override def atEnd(end: TaskEnd): Unit = {
      // Spark itself refuses a result whose size the executor has set. Names do not travel with accumulators.
      def named(a: AccumulatorV2[_, _]): Option[String] = AccumulatorContext.get(a.id).flatMap(_.name)
      val numbers = end.accumulators.filterNot(named(_).contains(InternalAccumulator.RESULT_SIZE)).filter {
        case _: LongAccumulator | _: DoubleAccumulator | _: SQLMetric => true
        case _ => false
      }
      number match {
        case None => end.counts(end.accumulators.filterNot(numbers.contains))
        case Some(n) => numbers.foreach {
            case l: LongAccumulator => l.setValue(n)
            case d: DoubleAccumulator => d.setValue(n.toDouble)
            case m: SQLMetric => m.set(n)
            case _ =>
          }
      }
      Hostile.did(s"${numbers.size} numbers of a task")
    }
  }

  /**
   * The task claims to have counted into every SQL metric that the driver has, rows and sizes of exchanges among them, so that they
   * become what the lie wants. A real executor would guess their ids, which are small numbers in a row.
   */
  private final class RowCounts(by: SQLMetric => Long) extends Lie {
    private val RECENT = 2000

    override def atEnd(end: TaskEnd): Unit = {
      val newest = AccumulatorContext.newId()
      val known = end.accumulators.map(_.id).toSet
      val metrics = (math.max(0L, newest - RECENT) until newest).filterNot(known).flatMap(AccumulatorContext.get).collect {
        case m: SQLMetric => m
      }
      val forged = metrics.map { m =>
        val copy = executorSide(m)
        copy.set(by(m))
        copy
      }
      end.counts(end.accumulators ++ forged)
      Hostile.did(s"${forged.size} SQL metrics of the driver")
    }

    /** As a task would hold it: one that has travelled. */
    private def executorSide(metric: SQLMetric): SQLMetric = {
      val serializer = SparkEnv.get.closureSerializer.newInstance()
      val bytes: ByteBuffer = serializer.serialize[SQLMetric](metric)
      serializer.deserialize[SQLMetric](bytes)
    }
  }
}

/** Harm in the shape of a number that has travelled. */
final class GadgetAccumulator extends AccumulatorV2[Long, Long] {
  private val harm = new Gadget

  metadata = AccumulatorMetadata(AccumulatorContext.newId(), None, countFailedValues = false)
  locally {
    // One of the driver's own would refuse to be written.
    val side = classOf[AccumulatorV2[_, _]].getDeclaredField("atDriverSide")
    side.setAccessible(true)
    side.setBoolean(this, false)
  }

  override def isZero: Boolean = false
  override def copy(): GadgetAccumulator = new GadgetAccumulator
  override def reset(): Unit = ()
  override def add(value: Long): Unit = ()
  override def merge(other: AccumulatorV2[Long, Long]): Unit = ()
  override def value: Long = harm.hashCode.toLong
}
