package org.apache.spark.sql.coffer.exec

import scala.jdk.CollectionConverters._

/** What stands behind an input of a fragment: another stage of the query, that has been written. */
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

final class BroadcastSource(val broadcast: SealedBroadcast) extends Source {
  override def stage: Int = broadcast.stage
  override def maps: Int = broadcast.maps
  override def reduces: Int = 1
}
