package org.apache.spark.sql.coffer.transport

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.{ClientEngine, CofferException}

/**
 * What Spark hands to executors holds no secret of Coffer's. Which values those are the client
 * engine knows and this JVM does not: it is asked, and answers with the name of the setting that
 * must go.
 */
final class Settings(client: ClientEngine) extends Logging {
  private val known = ConcurrentHashMap.newKeySet[(String, String)]()

  /** Asks for those that were not asked for before. */
  def check(settings: Iterable[(String, String)]): Unit = {
    val news = settings.filter { case (key, value) =>
      value != null && !known.contains(key ->
        value)
    }.toSeq
    if (news.nonEmpty) {
      client.checkSettings(news)
      if (known.size > Settings.KEPT) known.clear()
      known.addAll(news.asJava)
    }
  }

  /**
   * At start: the application's settings, Hadoop's, and this JVM's, which has the command line
   * among its own.
   */
  def checkAll(sc: SparkContext): Unit = {
    check(sc.conf.getAll)
    check(sys.props.toSeq)
    withoutOurCredentials(sc)
    check(hadoop(sc))
  }

  private def hadoop(sc: SparkContext): Seq[(String, String)] =
    sc.hadoopConfiguration.iterator.asScala.map(e => e.getKey -> e.getValue).toSeq

  /**
   * Spark puts AWS credentials of the driver's environment into what executors get, for S3, though
   * nobody asked it to. Where they are those of a master, they stay here.
   */
  private def withoutOurCredentials(sc: SparkContext): Unit =
    Settings.FROM_ENVIRONMENT.filterNot(key => sc.conf.contains(s"spark.hadoop.$key")).foreach {
      key =>
        Option(sc.hadoopConfiguration.get(key)).foreach { value =>
          try check(Seq(key -> value))
          catch {
            case e: CofferException if e.code == Settings.SECRET =>
              sc.hadoopConfiguration.unset(key)
              logWarning(s"$key is not handed to executors: in this driver's environment it is " +
                s"what a master of the policy is asked with.")
          }
        }
    }
}

object Settings {
  val SECRET = "COFFER_SECRET_IN_CONF"

  /** Beyond so many the client engine is asked again. */
  private val KEPT = 20000

  /** As SparkHadoopUtil sets them. */
  private val FROM_ENVIRONMENT = Seq(
    "fs.s3.awsAccessKeyId", "fs.s3n.awsAccessKeyId", "fs.s3a.access.key",
    "fs.s3.awsSecretAccessKey", "fs.s3n.awsSecretAccessKey", "fs.s3a.secret.key",
    "fs.s3a.session.token")
}
