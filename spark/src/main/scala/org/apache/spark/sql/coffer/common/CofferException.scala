package org.apache.spark.sql.coffer.common

import java.util.{Collections, Map => JMap}

import org.apache.spark.SparkRuntimeException

/**
 * An error that a user is meant to read: a stable code, what happened, and what to do about it. One
 * of Spark's, so that PySpark makes one of its own exceptions of it, without the JVM's stack.
 */
class CofferException(
    val code: String,
    val plain: String,
    val hint: String,
    cause: Throwable = null)
    extends SparkRuntimeException("INTERNAL_ERROR", Map("message" -> ""), cause) {
  // What Spark's constructor makes of its own condition is not what happened.
  override def getMessage: String = CofferException.text(code, plain, hint)
  override def getCondition: String = code
  override def getErrorClass: String = code
  override def getSqlState: String = if (code == "COFFER_UNSUPPORTED") "0A000" else "58000"
  override def getMessageParameters: JMap[String, String] = Collections.emptyMap()
  override def isInternalError: Boolean = false
}

object CofferException {
  // An error is at most five lines: its first, these, and the hint.
  private val LINES = 3

  /** Of a query that cannot run sealed: all that is missing, at once. */
  def refusal(reasons: Seq[String]): CofferException = {
    val listed =
      if (reasons.size <= LINES) reasons
      else reasons.take(LINES - 1) :+ reasons.drop(LINES - 1).mkString("; ")
    new CofferException(
      "COFFER_UNSUPPORTED",
      if (reasons.size == 1) s"this query cannot run sealed: ${reasons.head}"
      else listed.mkString("this query cannot run sealed:\n  - ", "\n  - ", ""),
      "rewrite this part of the query, or run it on the result at the client")
  }

  private def text(code: String, message: String, hint: String): String =
    if (hint.isEmpty) s"[$code] $message" else s"[$code] $message\nhint: $hint"
}
