package org.apache.spark.sql.coffer

/** An error that a user is meant to read: a stable code, what happened, and what to do about it. */
class CofferException(val code: String, val plain: String, val hint: String, cause: Throwable = null)
    extends RuntimeException(CofferException.text(code, plain, hint), cause)

object CofferException {

  private def text(code: String, message: String, hint: String): String =
    if (hint.isEmpty) s"[$code] $message" else s"[$code] $message\nhint: $hint"
}
