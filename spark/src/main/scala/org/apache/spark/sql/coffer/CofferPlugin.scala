package org.apache.spark.sql.coffer

import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, SparkPlugin}
import org.apache.spark.sql.coffer.plugin.{CofferDriverPlugin, CofferExecutorPlugin}

/**
 * `spark.plugins=org.apache.spark.sql.coffer.CofferPlugin`: engines beside the driver and beside
 * each executor.
 */
class CofferPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new CofferDriverPlugin
  override def executorPlugin(): ExecutorPlugin = new CofferExecutorPlugin
}
