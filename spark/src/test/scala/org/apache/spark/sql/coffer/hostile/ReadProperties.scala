package org.apache.spark.sql.coffer.hostile

import scala.util.Random

import org.apache.spark.TaskContext

/**
 * What a task's local properties tell its executor: nothing is changed, what was seen is reported.
 */
private[hostile] object ReadProperties {
  val all: Map[String, Random => Mutation] = Map("job-groups-read" -> (_ => new JobGroups))

  private final class JobGroups extends Mutation {
    override def atStart(context: TaskContext): Unit =
      Option(context.getLocalProperty("spark.jobGroup.id")).foreach(Hostile.did)
  }
}
