package org.apache.spark.sql.coffer.plugin

import java.net.URI
import java.nio.file.{Path, Paths}
import java.util.Locale

import org.apache.spark.{SparkConf, SPARK_VERSION}
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException, EngineMemory}
import org.apache.spark.sql.coffer.transport.EngineProcess
import org.apache.spark.sql.coffer.versions.LINE

/**
 * What a configuration must not say, checked once before anything is started. Each refusal is one
 * reason with its way out.
 */
object Guards {

  def check(
      conf: SparkConf,
      passphrase: Option[String] = sys.env.get(EngineProcess.PASSPHRASE_VARIABLE)): Unit = {
    ofThisLine(SPARK_VERSION)
    noSecrets(conf, passphrase)
    javaSerializer(conf)
    eventLog(conf)
    shuffle(conf)
    container(conf)
  }

  /** Another line's classes differ where nobody would look for it. */
  private[plugin] def ofThisLine(version: String): Unit =
    if (!version.startsWith(s"$LINE.")) throw new CofferException(
      "COFFER_SPARK_VERSION",
      s"this jar of Coffer is for Spark $LINE, and runs in Spark $version",
      s"take the jar of that line, or Spark $LINE")

  private val secretLike = "(?i).*(passphrase|password|passwd|secret|token|credential|private).*".r

  /** SparkConf is shipped whole to every executor, shown in the UI and written to event logs. */
  private def noSecrets(conf: SparkConf, passphrase: Option[String]): Unit = {
    conf.getAll.foreach { case (key, value) =>
      val lower = key.toLowerCase(Locale.ROOT)
      val ours = lower.startsWith("spark.coffer.") || lower.contains("coffer_")
      if (ours && key != CofferConf.PASSPHRASE_FILE && secretLike.matches(key)) throw inConf(key)
      if (passphrase.exists(p => p.nonEmpty && value.contains(p))) throw inConf(key)
    }
  }

  private def inConf(key: String) = new CofferException(
    "COFFER_SECRET_IN_CONF",
    s"$key holds a secret, and Spark hands its configuration to every executor",
    s"remove it; put the passphrase into the driver's environment (COFFER_PASSPHRASE) or into a " +
      s"file named by " +
      CofferConf.PASSPHRASE_FILE)

  /** Kryo makes objects of classes that a peer names, past the filter of JEP 290. */
  private def javaSerializer(conf: SparkConf): Unit = {
    val serializer = conf.get("spark.serializer", JAVA_SERIALIZER)
    if (serializer != JAVA_SERIALIZER) throw new CofferException(
      "COFFER_SERIALIZER",
      s"spark.serializer is $serializer: what executors send would not pass the driver's " +
        s"deserialisation allow-list",
      "leave spark.serializer at its default")
  }
  private val JAVA_SERIALIZER = "org.apache.spark.serializer.JavaSerializer"

  /** Event logs hold SQL text, plans and results' names. */
  private def eventLog(conf: SparkConf): Unit =
    if (conf.getBoolean("spark.eventLog.enabled", defaultValue = false)) {
      val dir = conf.get("spark.eventLog.dir", "/tmp/spark-events")
      val trusted = conf.getOption(CofferConf.EVENT_LOG_TRUSTED).flatMap(localPath)
      val inside = for (t <- trusted; d <- localPath(dir)) yield d.startsWith(t)
      if (!inside.contains(true)) throw new CofferException(
        "COFFER_EVENT_LOG",
        s"spark.eventLog.enabled is true, and event logs hold queries in clear; $dir is not in a " +
          s"folder known as trusted",
        s"set ${CofferConf.EVENT_LOG_TRUSTED} to a local folder of the client site that holds " +
          s"spark.eventLog.dir, " +
          "or turn event logs off")
    }

  private def localPath(text: String): Option[Path] = {
    val uri = if (text.contains(":")) scala.util.Try(URI.create(text)).toOption else None
    uri match {
      case Some(u) if u.getScheme == "file" => Some(Paths.get(u.getPath).toAbsolutePath.normalize)
      case Some(_) => None
      case None => Some(Paths.get(text).toAbsolutePath.normalize)
    }
  }

  /** Rather a word now than containers that are ended in the midst of queries. */
  private def container(conf: SparkConf): Unit = EngineMemory.missing(conf).foreach { needed =>
    throw new CofferException(
      "COFFER_CONTAINER_MEMORY",
      "an executor's container has no room for the engine beside it: with the engine's " +
        s"${conf.get(CofferConf.ENGINE_MEMORY, CofferConf.DEFAULT_ENGINE_MEMORY)} it would be " +
        "ended for taking more memory than it asked for",
      s"set ${EngineMemory.OVERHEAD} to ${needed}m or more (coffer.session does), or " +
        s"${CofferConf.ENGINE_MEMORY} to less")
  }

  /** Both change what a map output's id means; sealed commit records are matched by it. */
  private def shuffle(conf: SparkConf): Unit = {
    Seq("spark.shuffle.useOldFetchProtocol", "spark.shuffle.push.enabled").foreach { key =>
      if (conf.getBoolean(key, defaultValue = false)) throw new CofferException(
        "COFFER_SHUFFLE_CONF",
        s"$key is true; sealed shuffles cannot use it",
        s"leave $key at its default")
    }
  }
}
