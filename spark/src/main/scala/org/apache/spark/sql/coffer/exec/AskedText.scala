package org.apache.spark.sql.coffer.exec

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.{QueryExecution, SQLExecution}

/**
 * What a query asks in words: its SQL text, or the plan of one that was not written as SQL.
 * Literals and all: it stays at the client site.
 */
private[exec] object AskedText {
  private val MAX_CHARACTERS = 32 << 10

  def of(sc: SparkContext): String =
    try running(sc).fold("")(text).take(MAX_CHARACTERS)
    // A plan that cannot be shown is no reason to fail: the log says that there was no text.
    catch { case NonFatal(_) => "" }

  private def running(sc: SparkContext): Option[QueryExecution] =
    Option(sc.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)).flatMap(_.toLongOption).flatMap(id =>
      Option(SQLExecution.getQueryExecution(id)))

  private def text(query: QueryExecution): String =
    query.logical.origin.sqlText.filter(_.nonEmpty).getOrElse(query.analyzed.toString)
}
