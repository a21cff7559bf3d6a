package org.apache.spark.sql.coffer.transport

import java.io.ObjectInputFilter
import java.util.function.BinaryOperator

import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}

/**
 * Has every object stream of the JVM filtered, from the first: `-Djdk.serialFilterFactory=` names a
 * class of this kind.
 *
 * The JVM makes it before it makes an object stream, and takes no other afterwards. So where it is,
 * nothing was read without it, however early; that is what a driver of a cluster has to show. A
 * stream that sets a filter of its own is filtered by both.
 */
abstract class FilterFactory extends BinaryOperator[ObjectInputFilter] {
  override def apply(current: ObjectInputFilter, next: ObjectInputFilter): ObjectInputFilter = {
    val others = Seq(current, next).filter(f => f != null && (f ne DeserializationFilter))
    others.foldLeft[ObjectInputFilter](DeserializationFilter)((both, other) =>
      ObjectInputFilter.merge(both, other))
  }
}

/** How the filter stands in this JVM. */
private[coffer] object InJvm {
  val CODE = "COFFER_DESERIALIZATION_FILTER"

  /** For the driver's command line. */
  val OPTION: String = s"-Djdk.serialFilterFactory=${CofferConf.FILTER_FACTORY}"

  def factory: Boolean = ObjectInputFilter.Config.getSerialFilterFactory.isInstanceOf[FilterFactory]

  /** Refuses a JVM whose streams were not ours from the first. */
  def requireFactory(): Unit = {
    if (!factory) throw new CofferException(
      CODE,
      "no deserialisation filter of Coffer's was set when this JVM started, and executors could " +
        "run code in the driver",
      s"start the driver with spark.driver.extraJavaOptions=$OPTION (spark-submit --conf " +
        s"spark.driver.extraJavaOptions=$OPTION, beside what else is there; coffer-spark.jar " +
        s"must be on " +
        "spark.driver.extraClassPath). coffer.session() and coffer sql do it by themselves, but " +
        "not in a JVM that runs " +
        "already, such as that of an earlier Spark session: start a new process")
    if (ObjectInputFilter.Config.getSerialFilter != null) throw another(null)
  }

  /** Where tasks run in this JVM, a filter that begins now is enough. */
  def setFilter(): Unit = ObjectInputFilter.Config.getSerialFilter match {
    case null =>
      try ObjectInputFilter.Config.setSerialFilter(DeserializationFilter)
      catch { case e: IllegalStateException => throw another(e) }
    case DeserializationFilter =>
    case _ => throw another(null)
  }

  private def another(cause: Throwable) = new CofferException(
    CODE,
    "another deserialisation filter is set in this JVM, so the driver cannot be protected from " +
      "its executors",
    "start the driver without jdk.serialFilter (and without code that sets one)",
    cause)
}
