package org.apache.spark.sql.coffer.plugin

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.coffer.common.Client
import org.apache.spark.sql.execution.command.SetCommand

/**
 * A session's settings and the thread's local properties travel with every job, sealed or not, and
 * what SET says is shown and logged. So those that are new are looked at whenever a plan is
 * analysed, and before SET sets anything.
 */
private[coffer] final case class SecretSettings(session: SparkSession)
    extends (LogicalPlan => Unit) {

  override def apply(plan: LogicalPlan): Unit = if (Client.isRunning) {
    val set = plan.collect { case SetCommand(Some((key, Some(value)))) => key -> value }
    Client.checkSettings(set ++ session.sessionState.conf.getAllConfs ++ local)
  }

  private def local: Seq[(String, String)] = {
    val properties = session.sparkContext.getLocalProperties
    properties.stringPropertyNames.asScala.toSeq
      .filterNot(SecretSettings.own)
      .map(key => key -> properties.getProperty(key))
  }
}

private[coffer] object SecretSettings {

  /** Numbers that Spark gives out, new with every query. */
  private val own = Set("spark.sql.execution.id", "spark.sql.execution.root.id")
}
