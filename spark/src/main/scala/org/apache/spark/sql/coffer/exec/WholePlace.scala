package org.apache.spark.sql.coffer.exec

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.internal.config.{
  CORES_MAX,
  DYN_ALLOCATION_MAX_EXECUTORS,
  EXECUTOR_CORES,
  EXECUTOR_INSTANCES
}
import org.apache.spark.scheduler.{ExecutorCacheTaskLocation, TaskSchedulerImpl}
import org.apache.spark.sql.coffer.common.CofferConf
import org.apache.spark.util.Utils

/**
 * Where a query may run whole: an executor that has least to do.
 *
 * @param executor its id and its host, or none where all have enough to do
 * @param cores that have nothing to do there, and of the executors of the same machine
 * @param all cores that the cluster has, or comes to have
 */
private[exec] final case class WholePlace(
    executor: Option[(String, String)],
    cores: Int,
    all: Long) {

  /** As Spark names it. */
  def location: Option[String] =
    executor.map { case (id, host) => ExecutorCacheTaskLocation(host, id).toString }

  /**
   * Whether it is done with what a query reads before all of the cluster would be, where machines
   * wait for each other's rows.
   *
   * @param bytes of stored columns
   * @param each bytes that a core reads in the time that an exchange takes
   */
  def isSooner(bytes: Long, exchanges: Int, each: Long): Boolean =
    bytes * (1.0 / cores - 1.0 / all) <= each.toDouble * exchanges

  /** Whether exchanges would take longer than reading these bytes once more. */
  def repays(bytes: Long, exchanges: Int, each: Long): Boolean =
    bytes.toDouble / cores <= each.toDouble * exchanges
}

private[exec] object WholePlace {

  def of(sc: SparkContext): WholePlace =
    if (CofferConf.isLocal(sc.conf)) {
      val cores = sc.defaultParallelism
      WholePlace(None, cores, cores.toLong)
    } else {
      val executors = sc.env.blockManager.master.getMemoryStatus.keys.filterNot(_.isDriver).toSeq
      val all = sc.maxNumConcurrentTasks(sc.resourceProfileManager.defaultResourceProfile)
      val each =
        if (executors.isEmpty) sc.conf.get(EXECUTOR_CORES) else math.max(1, all / executors.size)
      val tasks = sc.taskScheduler match {
        case scheduler: TaskSchedulerImpl => scheduler.runningTasksByExecutors
        case _ => Map.empty[String, Int]
      }
      val busy = executors.map(_.executorId).map(id =>
        id -> (tasks.getOrElse(id, 0) + each * taken.getOrDefault(id, 0))).toMap
      among(executors.map(e => e.executorId -> e.host), busy, each, expected(sc.conf, each))
    }

  /** Queries that run whole, by executor: Spark does not know of all their threads. */
  private val taken = new ConcurrentHashMap[String, Int]()

  /** To be called when a query begins to run there, and again when it has ended. */
  def begins(place: WholePlace): Unit = count(place, 1)
  def ended(place: WholePlace): Unit = count(place, -1)

  private def count(place: WholePlace, by: Int): Unit = place.executor.foreach { case (id, _) =>
    taken.merge(id, by, (before, more) => before + more)
    taken.remove(id, 0)
  }

  /** Executors that come as a cluster starts or has more to do; none where nobody says so. */
  private[exec] def expected(conf: SparkConf, each: Int): Option[Int] =
    if (Utils.isDynamicAllocationEnabled(conf)) Some(conf.get(DYN_ALLOCATION_MAX_EXECUTORS))
    else conf.get(EXECUTOR_INSTANCES).orElse(conf.get(CORES_MAX).map(_ / each))

  /**
   * @param executors id and host of each that is there
   * @param busy by id, how many cores have something to do
   * @param each cores of one
   */
  private[exec] def among(
      executors: Seq[(String, String)],
      busy: Map[String, Int],
      each: Int,
      expected: Option[Int]): WholePlace = {
    val come = expected.getOrElse(if (executors.isEmpty) Int.MaxValue else 0)
    val all = each.toLong * Seq(executors.size, come, 1).max
    def free(executor: (String, String)) = math.max(0, each - busy.getOrElse(executor._1, 0))
    val idle = executors.sorted.filter(free(_) > 0).groupBy(_._2).values
    if (idle.isEmpty) WholePlace(None, each, all)
    else {
      val together = idle.maxBy(_.map(free).sum)
      WholePlace(Some(together.maxBy(free)), together.map(free).sum, all)
    }
  }
}
