package org.apache.spark.sql.coffer

import org.apache.spark.api.python.PythonRDD
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.coffer.exec.{ArrowRows, CofferRootExec, SealedPlans}
import org.apache.spark.sql.coffer.plugin.{QueryProfile, Statements, Vouched}
import org.apache.spark.sql.execution.SQLExecution

/** What the Python package asks of this JVM. */
object PythonBridge {

  /** Where the time of the query that ran last has gone, and what was counted: for benchmarks. */
  def profile(df: Dataset[_]): String = QueryProfile.of(df.queryExecution)

  /** Every kind of statement about sealed tables, with examples, as JSON: for tests. */
  def statements: String = Statements.json

  /** Whether a query reads a sealed table. */
  def isSealed(df: Dataset[_]): Boolean = SealedPlans.mentions(df.queryExecution.analyzed)

  /** Whether there is a proof of the answer: see [[Vouched]]. */
  def isVerified(df: Dataset[_]): Boolean = Vouched.verified(df.queryExecution.executedPlan)

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
