package org.apache.spark.sql.coffer.transport

import scala.util.control.NonFatal

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.util.Utils

/** The classes that the user adds to the list, by their exact names. */
private[transport] object AllowedClasses extends Logging {
  private val name = """[\p{L}_$][\p{L}\p{N}_$]*(?:\.[\p{L}_$][\p{L}\p{N}_$]*)*""".r

  def of(conf: SparkConf): Set[String] = {
    val names = CofferConf.allowedClasses(conf)
    names.foreach(check)
    names
  }

  private def check(text: String): Unit = {
    if (!name.matches(text)) throw refusal(s"has $text, which is no class's name", EXACT)
    val c =
      try Utils.classForName[AnyRef](text, initialize = false)
      catch {
        case NonFatal(_) | _: LinkageError =>
          throw refusal(s"has $text, and no such class is on the driver's class path", EXACT)
      }
    ClassReview.forbidden(c).foreach(why =>
      throw refusal(
        s"has $text, which $why: who sends such objects can run code in the driver",
        "have tasks return plain values instead, or use a local master"))
    val all = Iterator.iterate[Class[_]](c)(_.getSuperclass).takeWhile(s =>
      s != null &&
        !ListedClasses.contains(s.getName))
    val methods = all.flatMap(s => ClassReview.readMethods(s) ++ ClassReview.codeFields(s)).toSeq
    if (methods.nonEmpty) logWarning(
      s"${CofferConf.ALLOW_CLASSES} has $text, with its own ${methods.mkString(", ")}: what " +
        s"executors send may run code there")
  }

  private val EXACT =
    "name each class in full, with $ for nested ones, separated by commas; packages, prefixes " +
      "and wildcards are not taken"

  private def refusal(what: String, hint: String) =
    new CofferException("COFFER_CONF", s"${CofferConf.ALLOW_CLASSES} $what", hint)
}
