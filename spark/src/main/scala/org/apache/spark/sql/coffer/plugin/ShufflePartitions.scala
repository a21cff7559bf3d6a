package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.coffer.exec.{CofferFragmentExec, SealedScan}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.exchange.{
  ENSURE_REQUIREMENTS,
  ShuffleExchangeExec,
  ValidateRequirements
}
import org.apache.spark.sql.internal.SQLConf

/**
 * How many partitions AQE starts from. Each map task seals a stream for each of them, so Spark's
 * 200 cost more than AQE can save by joining them again; as many as the query's tables have shares
 * of the advisory size are enough. Not where the user has said a number.
 */
private[coffer] object ShufflePartitions {

  /** Stored columns unpack to more than they take on disk. */
  private val UNPACKED = 2

  def rewrite(plan: SparkPlan): SparkPlan = {
    val conf = plan.conf
    val isSet = conf.getConf(SQLConf.COALESCE_PARTITIONS_INITIAL_PARTITION_NUM).isDefined
    if (isSet || !conf.adaptiveExecutionEnabled || !conf.coalesceShufflePartitionsEnabled) plan
    else {
      val default = conf.numShufflePartitions
      val advisory = math.max(1L, conf.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES))
      val cores = math.max(1, plan.session.sparkContext.defaultParallelism)
      val wanted = number(bytes(plan) * UNPACKED, advisory, cores, default)
      if (wanted == default) plan else renumber(plan, default, wanted)
    }
  }

  /** A multiple of the cores, so that none of them is idle for the last ones. */
  private[plugin] def number(bytes: Long, advisory: Long, cores: Int, most: Int): Int = {
    val rounds = math.max(1L, (bytes + advisory - 1) / advisory + cores - 1) / cores
    math.min(most.toLong, math.max(1L, rounds) * cores).toInt
  }

  /**
   * Only if every join's sides still fit together: a side may keep a number that the user gave to a
   * repartition.
   */
  private def renumber(plan: SparkPlan, from: Int, to: Int): SparkPlan = {
    val changed = plan.transformUp {
      case e @ ShuffleExchangeExec(h: HashPartitioning, _, ENSURE_REQUIREMENTS, _)
          if h.numPartitions == from =>
        e.copy(outputPartitioning = h.copy(numPartitions = to))
    }
    if ((changed eq plan) || ValidateRequirements.validate(changed)) changed else plan
  }

  /** Stored bytes of the columns read, below what is planned and what is written already. */
  private def bytes(plan: SparkPlan): Long = plan match {
    case SealedScan(_, scan) => scan.bytes
    case q: QueryStageExec => bytes(q.plan)
    case f: CofferFragmentExec => bytes(f.template)
    case other => other.children.map(bytes).sum
  }
}
