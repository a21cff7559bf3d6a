package org.apache.spark.sql.coffer

import java.io.DataOutputStream

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.api.python.{PythonRDD, SerDeUtil}
import org.apache.spark.sql.Row
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.coffer.exec.{
  ArrowRows,
  Closing,
  CofferRootExec,
  NeutralJob,
  SealedPlans
}
import org.apache.spark.sql.coffer.plugin.{Caching, QueryProfile, Statements, Vouched}
import org.apache.spark.sql.coffer.tail.{ClientFrames, LiveTails}
import org.apache.spark.sql.coffer.versions.pickledRows
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.python.EvaluatePython

/** What the Python package asks of this JVM. */
object PythonBridge {

  /** Where the time of the query that ran last has gone, and what was counted: for benchmarks. */
  def profile(df: Dataset[_]): String = QueryProfile.of(df.queryExecution)

  /** Every kind of statement about sealed tables, with examples, as JSON: for tests. */
  def statements: String = Statements.json

  /** Whether a query reads a sealed table. */
  def isSealed(df: Dataset[_]): Boolean = SealedPlans.mentions(df.queryExecution.analyzed)

  /** The same rows without what they were computed from, sealed. */
  def checkpoint(df: Dataset[_], eager: Boolean): Dataset[Row] = Caching.checkpoint(df, eager)

  /** Whether there is a proof of the answer: see [[Vouched]]. */
  def isVerified(df: Dataset[_]): Boolean = Vouched.verified(df.queryExecution.executedPlan)

  /** See [[ClientFrames]]. */
  def local(df: Dataset[_]): Dataset[_] = ClientFrames.local(df)

  // What a query does in the driver is no job, and is cancelled here: the ids of what was ended.
  def cancelAll(): Array[String] = LiveTails.cancelAll().toArray
  def cancelGroup(group: String): Array[String] = {
    SparkContext.getActive.foreach(NeutralJob.cancelGroup(_, group))
    LiveTails.cancelGroup(group).toArray
  }
  def cancelTag(tag: String): Array[String] = LiveTails.cancelTag(tag).toArray
  def interruptAll(session: SparkSession): Array[String] = LiveTails.interruptAll(session).toArray
  def interruptTag(session: SparkSession, tag: String): Array[String] =
    LiveTails.interruptTag(session, tag).toArray
  def interruptExecution(session: SparkSession, id: String): Array[String] =
    LiveTails.interruptExecution(session, id).toArray

  /** The names of what is in the driver's block manager: for tests. */
  def driverBlocks: Array[String] =
    SparkEnv.get.blockManager.getMatchingBlockIds(_ => true).map(_.name).toArray

  /** How many queries run in the driver now: for tests. */
  def liveTails: Int = LiveTails.count

  /**
   * Serves the rows as Spark's own local iterator does, each partition when it is asked for:
   * address, secret, and the server, whose `getResult` throws what went wrong.
   */
  def iterateRows(df: Dataset[_]): Array[Any] = {
    EvaluatePython.registerPicklers()
    val query = df.queryExecution
    val toPython = pickledRows(df.schema, query.sparkSession.sessionState.conf)
    PythonRDD.serveToStream("serve-coffer-rows") { out =>
      SQLExecution.withNewExecutionId(query, Some("toLocalIterator")) {
        val plan = query.executedPlan
        plan.resetMetrics()
        val rows = plan match {
          case root: CofferRootExec => root.executeToIterator()
          case local => local.executeCollect().iterator
        }
        // Whoever reads may leave before the end.
        try {
          val pickled = new SerDeUtil.AutoBatchedPickler(
            rows.map(toPython))
          PythonRDD.writeIteratorToStream(pickled, new DataOutputStream(out))
        } finally Closing.end(rows)
      }
    }
  }

  /**
   * Serves the result as one Arrow IPC stream on a local socket, as Spark serves its own to Python:
   * address, secret, and the server, whose `getResult` throws what went wrong.
   */
  def collectArrow(df: Dataset[_]): Array[Any] = {
    val query = df.queryExecution
    PythonRDD.serveToStream("serve-coffer-arrow") { out =>
      SQLExecution.withNewExecutionId(query, Some("collectArrow")) {
        val plan = query.executedPlan
        plan.resetMetrics()
        val stream = plan match {
          case root: CofferRootExec => root.collectArrow()
          case local => ArrowRows.stream(local.executeCollect().iterator, local.output,
              query.sparkSession.sessionState.conf)
        }
        try stream.foreach(out.write)
        finally Closing.end(stream)
      }
    }
  }
}
