package org.apache.spark.sql.coffer.plugin

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkContext, TaskFailedReason}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext}
import org.apache.spark.sql.coffer.common.CofferConf
import org.apache.spark.sql.coffer.transport.{
  Answer,
  CofferDriver,
  CofferExecutor,
  DeserializationFilter,
  DriverKryo
}
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}

/**
 * Starts and ends the client engine with the context, and sets what sealed queries need of Spark.
 */
private[coffer] final class CofferDriverPlugin extends DriverPlugin {
  private var driver: Option[CofferDriver] = None
  private var context: Option[SparkContext] = None

  override def init(sc: SparkContext, context: PluginContext): JMap[String, String] = {
    Guards.check(sc.conf)
    DeserializationFilter.install(sc.conf)
    if (!CofferConf.isLocal(sc.conf)) DriverKryo.guard(sc.conf)
    this.context = Some(sc)
    try start(sc)
    catch {
      case e: Throwable =>
        // Spark does not call `shutdown` of a plugin that did not start.
        DeserializationFilter.release()
        throw e
    }
  }

  private def start(sc: SparkContext): JMap[String, String] = {
    extended(sc)
    explainToo(sc)
    withoutPartitionPruning(sc)
    filteringSooner(sc)
    listingHere(sc)
    val started = CofferDriver.start(sc)
    driver = Some(started)
    Map(
      CofferConf.APPLICATION -> started.application,
      CofferConf.OWNER_KEY -> CofferDriver.encode(started.welcome.getOwnerKey),
      CofferConf.ENGINE_VERSION -> started.welcome.getEngineVersion,
      CofferConf.RENEW_SECONDS -> started.welcome.getRenewEvidenceAfterSeconds.toString
    ).asJava
  }

  /** The first call after Spark has made its scheduler, and before it takes a job. */
  override def registerMetrics(appId: String, plugin: PluginContext): Unit = {
    context.filterNot(sc => CofferConf.isLocal(sc.conf)).foreach(TaskEnds.guard)
    driver.foreach(_.countIn(plugin.metricRegistry))
    for (ui <- context.flatMap(_.ui); started <- driver) ui.attachTab(new CofferTab(ui, started))
  }

  /** Sessions of this context plan sealed queries, also where nobody has named the extension. */
  private def extended(sc: SparkContext): Unit =
    among(sc, StaticSQLConf.SPARK_SESSION_EXTENSIONS.key, CofferConf.EXTENSIONS)

  /** EXPLAIN shows what is sealed, beside whatever else the user has asked it to show. */
  private def explainToo(sc: SparkContext): Unit =
    among(sc, SQLConf.EXTENDED_EXPLAIN_PROVIDERS.key, classOf[CofferExplain].getName)

  /** Adds a class to a list of classes. */
  private def among(sc: SparkContext, key: String, ours: String): Unit = {
    val set = sc.conf.get(key, "").split(',').map(_.trim).filter(_.nonEmpty)
    if (!set.contains(ours)) sc.conf.set(key, (set :+ ours).mkString(","))
  }

  /**
   * It would carry values of one table to the scans of another in clear. Engines prune by the keys
   * of a broadcast themselves.
   */
  private def withoutPartitionPruning(sc: SparkContext): Unit =
    sc.conf.setIfMissing(SQLConf.DYNAMIC_PARTITION_PRUNING_ENABLED.key, "false")

  /**
   * Spark's default is a table of 10 GB; query 72 of TPC-DS at scale 1 needs them already. But a
   * side as large as that of queries 5, 20 and 21 of TPC-H is not worth being read twice.
   */
  private def filteringSooner(sc: SparkContext): Unit = {
    val key = SQLConf.RUNTIME_BLOOM_FILTER_APPLICATION_SIDE_SCAN_SIZE_THRESHOLD.key
    sc.conf.setIfMissing(key, "8MB")
    sc.conf.setIfMissing(SQLConf.RUNTIME_BLOOM_FILTER_CREATION_SIDE_THRESHOLD.key, "1MB")
  }

  /**
   * Many folders would be listed by a job, whose result is Hadoop's objects: the driver lists them
   * itself, as it does few.
   */
  private def listingHere(sc: SparkContext): Unit = if (!CofferConf.isLocal(sc.conf))
    sc.conf.setIfMissing(SQLConf.PARALLEL_PARTITION_DISCOVERY_THRESHOLD.key, Int.MaxValue.toString)

  override def receive(message: AnyRef): AnyRef = driver match {
    case Some(d) => d.receive(message)
    case None => Answer.Refused("COFFER_NOT_RUNNING",
        "the driver's plugin is not " +
          "running", "").encode
  }

  override def shutdown(): Unit = {
    driver.foreach(CofferDriver.stop)
    driver = None
    context = None
    DeserializationFilter.release()
  }
}

/** Starts and ends the engine beside an executor. */
private[coffer] final class CofferExecutorPlugin extends ExecutorPlugin {
  private var executor: Option[CofferExecutor] = None

  override def init(context: PluginContext, extra: JMap[String, String]): Unit =
    executor = Some(CofferExecutor.start(context, extra.asScala.toMap))

  override def onTaskFailed(reason: TaskFailedReason): Unit = ()

  override def shutdown(): Unit = {
    executor.foreach(CofferExecutor.stop)
    executor = None
  }
}
