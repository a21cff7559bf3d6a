package org.apache.spark.sql.coffer.common

/** An error that a user is meant to read: a stable code, what happened, and what to do about it. */
class CofferException(
    val code: String,
    val plain: String,
    val hint: String,
    cause: Throwable = null)
    extends RuntimeException(CofferException.text(code, plain, hint), cause)

object CofferException {

  /** Of a query that cannot run sealed: all that is missing, at once. */
  def refusal(reasons: Seq[String]): CofferException = new CofferException(
    "COFFER_UNSUPPORTED",
    if (reasons.size == 1) s"this query cannot run sealed: ${reasons.head}"
    else reasons.mkString("this query cannot run sealed:\n  - ", "\n  - ", ""),
    "rewrite this part of the query, or run it on the result at the client")

  private def text(code: String, message: String, hint: String): String =
    if (hint.isEmpty) s"[$code] $message" else s"[$code] $message\nhint: $hint"
}
