package org.apache.spark.sql.coffer.exec

import org.apache.spark.SparkContext
import org.apache.spark.internal.config.EXECUTOR_CORES
import org.apache.spark.scheduler.{ExecutorCacheTaskLocation, TaskSchedulerImpl}
import org.apache.spark.sql.coffer.common.CofferConf

/**
 * Where a query may run whole: an executor that has nothing to do.
 *
 * @param location as Spark names it, or none where all have something to do
 * @param cores its cores, and those of the executors of the same machine that have nothing to do
 * @param all cores of the cluster
 */
private[exec] final case class WholePlace(location: Option[String], cores: Int, all: Int) {

  /**
   * Whether it is done with what a query reads before all of the cluster would be, where machines
   * wait for each other's rows.
   *
   * @param bytes of stored columns
   * @param each bytes that a core reads in the time that an exchange takes
   */
  def isSooner(bytes: Long, exchanges: Int, each: Long): Boolean =
    bytes * (1.0 / cores - 1.0 / all) <= each.toDouble * exchanges
}

private[exec] object WholePlace {

  def of(sc: SparkContext): WholePlace =
    if (CofferConf.isLocal(sc.conf)) WholePlace(None, sc.defaultParallelism, sc.defaultParallelism)
    else {
      val executors = sc.env.blockManager.master.getMemoryStatus.keys.filterNot(_.isDriver).toSeq
      val all = sc.maxNumConcurrentTasks(sc.resourceProfileManager.defaultResourceProfile)
      val each =
        if (executors.isEmpty) sc.conf.get(EXECUTOR_CORES) else math.max(1, all / executors.size)
      val busy = sc.taskScheduler match {
        case tasks: TaskSchedulerImpl => tasks.runningTasksByExecutors.filter(_._2 > 0).keySet
        case _ => executors.map(_.executorId).toSet
      }
      among(executors.map(e => e.host -> e.executorId), busy.toSet, each)
    }

  /**
   * @param executors host and id of each
   * @param busy ids of those that have something to do
   * @param each cores of one
   */
  private[exec] def among(
      executors: Seq[(String, String)],
      busy: Set[String],
      each: Int): WholePlace = {
    val all = each * math.max(1, executors.size)
    val idle = executors.filterNot { case (_, id) => busy(id) }.groupMap(_._1)(_._2)
    if (idle.isEmpty) WholePlace(None, each, all)
    else {
      val (host, ids) = idle.maxBy(_._2.size)
      WholePlace(
        Some(ExecutorCacheTaskLocation(host, ids.min).toString),
        each * ids.size,
        all)
    }
  }
}
