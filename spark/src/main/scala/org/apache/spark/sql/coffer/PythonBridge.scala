package org.apache.spark.sql.coffer

import java.io.DataOutputStream

import org.apache.spark.api.python.{PythonRDD, SerDeUtil}
import org.apache.spark.sql.Row
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.coffer.exec.{ArrowRows, Closing, CofferRootExec, SealedPlans}
import org.apache.spark.sql.coffer.plugin.{Caching, QueryProfile, Statements, Vouched}
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

  /**
   * Serves the rows as Spark's own local iterator does, each partition when it is asked for:
   * address, secret, and the server, whose `getResult` throws what went wrong.
   */
  def iterateRows(df: Dataset[_]): Array[Any] = {
    EvaluatePython.registerPicklers()
    val query = df.queryExecution
    val binaryAsBytes = query.sparkSession.sessionState.conf.pysparkBinaryAsBytes
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
            rows.map(EvaluatePython.toJava(_, df.schema, binaryAsBytes)))
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
        stream.foreach(out.write)
      }
    }
  }
}
