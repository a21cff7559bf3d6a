package org.apache.spark.sql.coffer.exec

import scala.collection.immutable

import org.apache.spark.util.AccumulatorV2

/**
 * What a finished map task says: sealed records, tagged with the id under which Spark registers its
 * output.
 */
final case class MapCommit(
    mapId: Long,
    partition: Int,
    commit: Array[Byte],
    counters: Array[Byte],
    metrics: Array[Byte])
    extends Serializable {

  /**
   * Whether it is all there: an executor's object of this class need not have been made by our
   * constructor.
   */
  def isWhole: Boolean = Seq(commit, counters, metrics).forall(_ != null)
}

/**
 * Carries commit records to the driver with the tasks' completion. Spark merges it before it
 * registers the output, also for outputs that it then drops (speculation, late duplicates): the
 * driver picks by `mapId`.
 */
final class Commits extends AccumulatorV2[MapCommit, immutable.Map[Long, MapCommit]] {
  private var byMapId = immutable.Map.empty[Long, MapCommit]

  override def isZero: Boolean = byMapId.isEmpty
  override def copy(): Commits = {
    val c = new Commits
    c.byMapId = synchronized(byMapId)
    c
  }
  override def reset(): Unit = synchronized { byMapId = immutable.Map.empty }
  override def add(commit: MapCommit): Unit = synchronized { byMapId += commit.mapId -> commit }
  override def merge(other: AccumulatorV2[MapCommit, immutable.Map[Long, MapCommit]]): Unit = {
    // What an executor sent, whatever the types say. One that is no record counts as missing.
    val theirs =
      other.value.asInstanceOf[immutable.Map[Any, Any]].collect {
        case (id: Long, record: MapCommit) if record.isWhole => id -> record
      }
    synchronized { byMapId ++= theirs }
  }
  override def value: immutable.Map[Long, MapCommit] = synchronized(byMapId)
}
