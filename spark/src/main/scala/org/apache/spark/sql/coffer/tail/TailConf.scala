package org.apache.spark.sql.coffer.tail

import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.internal.SQLConf

/** The session's settings of the client tail. */
private[coffer] object TailConf {

  /** `on` (default): what engines cannot do runs in the driver. `off`: it is refused. */
  val TAIL: String = CofferConf.CLIENT_TAIL

  /** For tests: logical operators, by name, that are taken to have no sealed form; `*`: all. */
  val FORCE = "spark.coffer.client.tail.force"

  def on(conf: SQLConf): Boolean = conf.getConfString(TAIL, "on") match {
    case "on" => true
    case "off" => false
    case other =>
      throw new CofferException("COFFER_CONF", s"$TAIL is $other", "set it to on or off")
  }

  def forced(conf: SQLConf): Set[String] =
    conf.getConfString(FORCE, "").split(',').map(_.trim).filter(_.nonEmpty).toSet

  /**
   * Operators that keep many rows write some of them to `spark.local.dir`, in clear, once these
   * say so.
   */
  private val SPILLS = Seq(
    "spark.shuffle.spill.numElementsForceSpillThreshold",
    "spark.shuffle.spill.maxSizeInBytesForSpillThreshold",
    SQLConf.WINDOW_EXEC_BUFFER_SPILL_THRESHOLD.key,
    "spark.sql.windowExec.buffer.spill.size.threshold",
    SQLConf.SORT_MERGE_JOIN_EXEC_BUFFER_SPILL_THRESHOLD.key,
    "spark.sql.sortMergeJoinExec.buffer.spill.size.threshold",
    SQLConf.CARTESIAN_PRODUCT_EXEC_BUFFER_SPILL_THRESHOLD.key,
    "spark.sql.cartesianProductExec.buffer.spill.size.threshold",
    SQLConf.SESSION_WINDOW_BUFFER_SPILL_THRESHOLD.key,
    "spark.sql.sessionWindow.buffer.spill.size.threshold",
    "spark.sql.TungstenAggregate.testFallbackStartsAt")

  /** By this the code that Spark generates, a query's literals in it, is broadcast. */
  private val CODE = SQLConf.WHOLESTAGE_BROADCAST_CLEANED_SOURCE_THRESHOLD.key

  private val LOGS = "spark.sql.pyspark.worker.logging.enabled"

  /** Refuses settings by which what is in the clear here would be spilled or broadcast. */
  def check(conf: SQLConf): Unit = {
    SPILLS.filter(conf.contains).foreach(refuse(_, "write rows in clear to spark.local.dir"))
    if (conf.contains(CODE)) refuse(CODE, "broadcast its code, with the query's values")
    if (conf.getConfString(LOGS, "false") != "false")
      refuse(LOGS, "keep what Python functions log, in clear, as blocks of the driver")
  }

  private def refuse(key: String, would: String): Nothing = throw new CofferException(
    "COFFER_CONF",
    s"$key is set: a part of this query runs in the driver, which would $would",
    s"leave $key at its default, or set $TAIL to off")
}
