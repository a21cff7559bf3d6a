package org.apache.spark.sql.coffer.common

import scala.collection.mutable

import org.apache.logging.log4j.LogManager
import org.apache.logging.log4j.core.{LogEvent, LoggerContext}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.Property
import org.apache.spark.SparkConf
import org.scalatest.funsuite.AnyFunSuite

class RenamedKeySuite extends AnyFunSuite {

  private def configDir(settings: (String, String)*): Option[String] =
    CofferConf.CONFIG_DIR.get(settings.foldLeft(new SparkConf(false)) { case (conf, (k, v)) =>
      conf.set(k, v)
    })

  /** What is logged meanwhile. */
  private def logged(read: => Unit): Seq[String] = {
    val lines = mutable.Buffer.empty[String]
    val appender = new AbstractAppender("lines", null, null, true, Property.EMPTY_ARRAY) {
      override def append(event: LogEvent): Unit =
        if (event.getLoggerName == classOf[RenamedKey].getName)
          lines += event.getMessage.getFormattedMessage
    }
    // Spark sets up logging at its first line, and with it drops the appenders of before.
    configDir("spark.coffer.home" -> "/")
    val context = LogManager.getContext(false).asInstanceOf[LoggerContext]
    val root = context.getConfiguration.getRootLogger
    appender.start()
    root.addAppender(appender, null, null)
    try read
    finally root.removeAppender("lines")
    lines.toSeq
  }

  test("the new name is read without a warning") {
    val lines = logged {
      assert(configDir().isEmpty)
      assert(configDir("spark.coffer.configDir" -> "/a").contains("/a"))
    }
    assert(lines.isEmpty)
  }

  test("the old name still works, and the warning names the new one") {
    val lines = logged(assert(configDir("spark.coffer.home" -> "/a").contains("/a")))
    assert(lines.size == 1 && lines.head.contains("set spark.coffer.configDir instead"), lines)
  }

  test("both names may have the same value") {
    assert(configDir("spark.coffer.home" -> "/a", "spark.coffer.configDir" -> "/a").contains("/a"))
  }

  test("two names with two values are refused") {
    val e = intercept[CofferException](configDir("spark.coffer.home" -> "/a",
        "spark.coffer.configDir" -> "/b"))
    assert(e.code == "COFFER_CONF" && e.getMessage.contains("spark.coffer.home"), e.getMessage)
  }
}
