package org.apache.spark.sql.coffer.common

import java.util.Locale

import org.apache.spark.SparkConf
import org.apache.spark.internal.config.EXECUTOR_MEMORY

/** The memory of an engine beside an executor, as the setting says it. */
object EngineMemory {

  /** In bytes. */
  def of(conf: SparkConf): Long =
    parse(conf.get(CofferConf.ENGINE_MEMORY, CofferConf.DEFAULT_ENGINE_MEMORY))

  /**
   * The overhead, in MiB, that an executor's container lacks for an engine in it: YARN and
   * Kubernetes end a container that takes more memory than its executor's and this overhead. Of a
   * JVM's own needs beyond its heap the overhead has Spark's least, 384 MiB.
   */
  def missing(conf: SparkConf): Option[Long] = {
    val contained = Seq("yarn", "k8s").exists(conf.get("spark.master", "").startsWith)
    val beside = conf.contains(CofferConf.ENGINE_ADDRESS)
    if (!contained || beside) None
    else Some((of(conf) >> 20) + LEAST_MIB).filter(_ > overhead(conf))
  }

  private def overhead(conf: SparkConf): Long =
    if (conf.contains(OVERHEAD)) conf.getSizeAsMb(OVERHEAD)
    else {
      val factor = conf.getDouble("spark.executor.memoryOverheadFactor", 0.1)
      math.max((conf.get(EXECUTOR_MEMORY) * factor).toLong, LEAST_MIB)
    }

  val OVERHEAD = "spark.executor.memoryOverhead"
  private val LEAST_MIB = 384L

  private val size = """(\d{1,18})\s*([a-z]*)""".r
  private val units: Map[String, Long] = Map("" -> 1L, "b" -> 1L) ++
    "kmgt".zipWithIndex.flatMap { case (c, i) =>
      val binary = 1L << (10 * (i + 1))
      Seq(s"$c" -> binary, s"${c}ib" -> binary, s"${c}b" -> math.pow(1000, i + 1).toLong)
    }

  /** As the engine reads it: `512MiB`, `2g`, bytes. */
  private[coffer] def parse(text: String): Long = text.trim.toLowerCase(Locale.ROOT) match {
    case size(number, unit) if units.contains(unit) =>
      Math.multiplyExact(number.toLong, units(unit))
    case _ =>
      throw new CofferException(
        "COFFER_CONF",
        s"${CofferConf.ENGINE_MEMORY} is no size: $text",
        "write it like 512MiB or 2GiB")
  }
}
