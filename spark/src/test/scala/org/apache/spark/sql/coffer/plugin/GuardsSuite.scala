package org.apache.spark.sql.coffer.plugin

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkConf
import org.apache.spark.sql.coffer.common.CofferException

class GuardsSuite extends AnyFunSuite {
  private def conf(settings: (String, String)*) = new SparkConf(false).setAll(settings)

  private def refused(
      code: String,
      conf: SparkConf,
      passphrase: Option[String] = None): CofferException = {
    val e = intercept[CofferException](Guards.check(conf, passphrase))
    assert(e.code == code)
    assert(e.hint.nonEmpty)
    e
  }

  test("a jar runs in no other line of Spark's versions") {
    Guards.ofThisLine("4.1.0")
    Seq("4.0.1", "4.2.0", "4.10.0", "3.5.8").foreach { version =>
      val e = intercept[CofferException](Guards.ofThisLine(version))
      assert(e.code == "COFFER_SPARK_VERSION" && e.getMessage.contains(version))
    }
  }

  test("a passphrase in SparkConf is refused, by whatever name, and is not repeated in the " +
    "message") {
    Seq("spark.coffer.passphrase", "spark.coffer.kms.password", "spark.coffer.secretKey",
      "spark.coffer.auth.token",
      "spark.executorEnv.COFFER_PASSPHRASE").foreach { key =>
      val e = refused("COFFER_SECRET_IN_CONF", conf(key -> "correct horse"))
      assert(e.getMessage.contains(key) && !e.getMessage.contains("correct horse"))
    }
  }

  test("the passphrase itself under an innocent name is refused") {
    refused("COFFER_SECRET_IN_CONF",
      conf("spark.app.note" ->
        "x correct horse y"), Some("correct horse"))
    Guards.check(conf("spark.app.note" -> "x"), Some("correct horse"))
  }

  test("a passphrase file is named by its path") {
    Guards.check(conf("spark.coffer.passphraseFile" -> "/home/me/pass"), None)
  }

  test("a container has room for its engine") {
    val engine = "spark.coffer.engine.memory" -> "1GiB"
    def overhead(size: String) = "spark.executor.memoryOverhead" -> size
    Seq("yarn", "k8s://https://host:6443").foreach { name =>
      val master = "spark.master" -> name
      assert(refused("COFFER_CONTAINER_MEMORY", conf(master, engine)).hint.contains("1408m"))
      refused("COFFER_CONTAINER_MEMORY", conf(master, engine, overhead("1407m")))
      refused("COFFER_CONTAINER_MEMORY", conf(master, engine, "spark.executor.memory" -> "13g"))
      refused("COFFER_CONTAINER_MEMORY", conf(master, overhead("2g")))
      Guards.check(conf(master, engine, overhead("1408m")), None)
      Guards.check(conf(master, engine, overhead("2g")), None)
      Guards.check(conf(master, engine, "spark.executor.memory" -> "14g"), None)
      Guards.check(conf(master, "spark.coffer.engine.address" -> "unix:/run/engine"), None)
    }
    Guards.check(conf("spark.master" -> "spark://host:7077", engine), None)
  }

  test("event logs need a trusted folder around them") {
    val on = "spark.eventLog.enabled" -> "true"
    refused("COFFER_EVENT_LOG", conf(on, "spark.eventLog.dir" -> "/data/events"))
    refused("COFFER_EVENT_LOG",
      conf(on, "spark.eventLog.dir" -> "/data/events",
        "spark.coffer.eventLog.trustedDir" ->
          "/data/ev"))
    refused("COFFER_EVENT_LOG",
      conf(on, "spark.eventLog.dir" -> "/data/ev/../other",
        "spark.coffer.eventLog.trustedDir" ->
          "/data/ev"))
    refused("COFFER_EVENT_LOG",
      conf(on, "spark.eventLog.dir" -> "hdfs://nn/data/ev",
        "spark.coffer.eventLog.trustedDir" ->
          "/data/ev"))
    Guards.check(
      conf(on,
        "spark.eventLog.dir" ->
          "file:///data/ev/app", "spark.coffer.eventLog.trustedDir" -> "/data/ev"), None)
    Guards.check(conf("spark.eventLog.dir" -> "/data/events"), None)
  }

  test("Kryo and shuffle settings that change what an output's id means are refused") {
    refused("COFFER_SERIALIZER",
      conf("spark.serializer" ->
        "org.apache.spark.serializer.KryoSerializer"))
    refused("COFFER_SHUFFLE_CONF", conf("spark.shuffle.useOldFetchProtocol" -> "true"))
    refused("COFFER_SHUFFLE_CONF", conf("spark.shuffle.push.enabled" -> "true"))
  }
}
