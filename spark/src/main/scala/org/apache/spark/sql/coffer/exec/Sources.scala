package org.apache.spark.sql.coffer.exec

import scala.jdk.CollectionConverters._

/** What stands behind an input of a fragment: another stage of the query. */
sealed trait Source {
  def stage: Int
  def maps: Int
  def reduces: Int
}

/** @param as the stage as the reading query has it: cached rows are another query's exchange */
final class ShuffleSource(val exchange: CofferShuffleExchangeExec, as: AcceptedStage)
    extends Source {
  override def stage: Int = as.stage
  override def maps: Int = exchange.numMappers
  override def reduces: Int = exchange.numPartitions

  /** Unpacked bytes of each reduce partition, from sealed commits. */
  lazy val bytes: Vector[Long] =
    exchange.sealedShuffle.known().getBytesByReduceList.asScala.map(_.longValue).toVector
}

/** Of a query that is sealed as a whole: nothing is written yet, and no size known. */
final class PlannedSource(
    override val stage: Int,
    override val maps: Int,
    override val reduces: Int,
    val broadcast: Boolean)
    extends Source

final class BroadcastSource(val broadcast: SealedBroadcast) extends Source {
  override def stage: Int = broadcast.stage
  override def maps: Int = broadcast.maps
  override def reduces: Int = 1
}
