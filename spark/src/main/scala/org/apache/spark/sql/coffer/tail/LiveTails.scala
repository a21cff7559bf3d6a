package org.apache.spark.sql.coffer.tail

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SQLExecution

/**
 * The tails that run. Spark cancels jobs, and a tail is none: whoever cancels a group or a tag asks
 * here too. Each call returns the ids of the executions that it ended, as `SparkSession.interrupt*`
 * does.
 */
private[coffer] object LiveTails {

  /** Of a thread's id in a session's tags. */
  private val UUID_LENGTH = 36
  private val running = ConcurrentHashMap.newKeySet[TailTask]()

  private[tail] def begin(task: TailTask): Unit = running.add(task)
  private[tail] def end(task: TailTask): Unit = running.remove(task)

  /** For tests. */
  def count: Int = running.size

  def cancelAll(): Seq[String] = cancel("as part of cancellation of all jobs")(_ => true)

  def cancelGroup(group: String): Seq[String] =
    cancel(s"part of cancelled job group $group")(
      _.local(SparkContext.SPARK_JOB_GROUP_ID).contains(group))

  def cancelTag(tag: String): Seq[String] =
    cancel(s"part of cancelled job tags $tag")(tags(_).contains(tag))

  def interruptAll(session: SparkSession): Seq[String] =
    cancel("as part of cancellation of all jobs")(tags(_).contains(session.sessionJobTag))

  /** A session's tags stand in those of its jobs, behind the session and the thread. */
  def interruptTag(session: SparkSession, tag: String): Seq[String] =
    cancel(s"part of cancelled job tags $tag") { task =>
      val of = tags(task)
      val thread = s"spark-session-${session.sessionUUID}-thread-"
      of.contains(session.sessionJobTag) && of.exists(t =>
        t.startsWith(thread) && t.drop(thread.length + UUID_LENGTH) == s"-$tag")
    }

  def interruptExecution(session: SparkSession, id: String): Seq[String] =
    cancel("as part of cancellation of its operation") { task =>
      tags(task).contains(session.sessionJobTag) && execution(task).contains(id)
    }

  private def cancel(reason: String)(which: TailTask => Boolean): Seq[String] = {
    val found = running.asScala.toSeq.filter(which)
    found.foreach(_.cancel(reason))
    found.flatMap(execution).distinct
  }

  private def tags(task: TailTask): Set[String] =
    task.local(SparkContext.SPARK_JOB_TAGS).toSet[String]
      .flatMap(_.split(SparkContext.SPARK_JOB_TAGS_SEP)).filter(_.nonEmpty)

  private def execution(task: TailTask): Option[String] =
    task.local(SQLExecution.EXECUTION_ROOT_ID_KEY).orElse(task.local(SQLExecution.EXECUTION_ID_KEY))
}
