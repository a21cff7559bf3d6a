package org.apache.spark.sql.coffer.transport

import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path, Paths}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.sys.process.{Process, ProcessLogger}

import gadget.{Chains, ReadChains}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.e2e.Programs
import org.apache.spark.util.Utils

/**
 * In JVMs of their own: each chain runs where nothing filters, and is refused by a JVM that starts
 * with the filter.
 */
class ChainsSuite extends AnyFunSuite {

  private def outcomes(
      folder: Path,
      options: Seq[String],
      arguments: String*): Map[String, String] = {
    val java = Paths.get(sys.props("java.home"), "bin", "java").toString
    // What Spark needs of the JVM, as this one has it.
    val modules = ManagementFactory.getRuntimeMXBean.getInputArguments.asScala
      .filter(o => o.startsWith("--add-") || o.startsWith("-XX:+IgnoreUnrecognized")).toSeq
    val command = (java +: modules) ++ options ++
      Seq("-cp", sys.props("java.class.path"), classOf[ReadChains.type].getName.stripSuffix("$"),
        folder.toString) ++ arguments
    val (out, err) = (mutable.ArrayBuffer.empty[String], mutable.ArrayBuffer.empty[String])
    val code = Programs.ended(Process(command), ProcessLogger(out += _, err += _))
    assert(code == 0, err.mkString("\n"))
    out.map(_.split(" ", 2)).collect { case Array(name, outcome) => name -> outcome }.toMap
  }

  test("every chain runs without the filter and is refused with it") {
    assert(Chains.all.size >= 12 && Chains.all.map(_.name).distinct.size == Chains.all.size)
    val folder = Files.createTempDirectory("coffer-chains")
    try {
      val without = outcomes(folder, Nil, "make")
      assert(without == Chains.all.map(_.name -> "ran").toMap)
      val within = outcomes(folder, Seq(InJvm.OPTION))
      assert(within == Chains.all.map(_.name -> "refused").toMap)
    } finally Utils.deleteRecursively(folder.toFile)
  }
}
