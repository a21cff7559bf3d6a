package org.apache.spark.sql.coffer.exec

import scala.jdk.CollectionConverters._

/** What stands behind an input of a fragment: another stage of the query, that has been written. */
sealed trait Source {
  def stage: Int
  def maps: Int
  def reduces: Int
}

final class ShuffleSource(val exchange: CofferShuffleExchangeExec) extends Source {
  override def stage: Int = exchange.sealedShuffle.stage
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
