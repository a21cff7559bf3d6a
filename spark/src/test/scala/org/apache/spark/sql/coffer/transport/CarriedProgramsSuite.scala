package org.apache.spark.sql.coffer.transport

import java.net.URLClassLoader
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.nio.file.attribute.PosixFilePermissions.{toString => permissions}
import java.security.MessageDigest
import java.util.jar.{JarEntry, JarOutputStream}

import scala.util.Using

import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.util.Utils

/** What a jar carries comes out whole, for this account alone, and only where it can run. */
class CarriedProgramsSuite extends AnyFunSuite with BeforeAndAfterEach {
  private val KIND = "linux-x86_64"
  private val PROGRAM = "#!/bin/sh\necho said\n"
  private var folder: Path = _

  override def beforeEach(): Unit = folder = Files.createTempDirectory("coffer-carried-")
  override def afterEach(): Unit = Utils.deleteRecursively(folder.toFile)

  private def digest(text: String) =
    MessageDigest.getInstance("SHA-256").digest(text.getBytes(UTF_8)).map("%02x".format(_)).mkString

  /** A loader that sees a jar with these entries. */
  private def jar(entries: (String, String)*): ClassLoader = {
    val at = folder.resolve("some.jar")
    Using.resource(new JarOutputStream(Files.newOutputStream(at))) { out =>
      for ((name, text) <- entries) {
        out.putNextEntry(new JarEntry(s"coffer/bin/$name"))
        out.write(text.getBytes(UTF_8))
      }
    }
    new URLClassLoader(Array(at.toUri.toURL), null)
  }

  private def carried(features: String*) = new CarriedPrograms(KIND, Some(features.toSet))

  private def local(name: String): String =
    Files.createDirectories(folder.resolve(name)).toString

  test("a program and its helpers are unpacked once, for this account alone") {
    val loader = jar(
      s"$KIND/one" -> PROGRAM,
      s"$KIND/one.sha256" -> digest(PROGRAM),
      s"$KIND/one.needs" -> "",
      s"$KIND/two" -> PROGRAM,
      s"$KIND/two.sha256" -> digest(PROGRAM))
    val programs = carried()
    val names = Seq("one", "two", "three")
    val at = programs.unpack(names, loader, Seq(local("a"))).get
    assert(at.startsWith(folder.resolve("a")) && at.getFileName.toString == "one")
    assert(permissions(Files.getPosixFilePermissions(at.getParent)) == "rwx------")
    for (name <- Seq("one", "two"))
      assert(permissions(Files.getPosixFilePermissions(at.resolveSibling(name))) == "r-x------")
    assert(!Files.exists(at.resolveSibling("three")))
    assert(programs.unpack(names, loader, Seq(local("b"))).contains(at))
    Utils.deleteRecursively(at.getParent.toFile)
    val again = programs.unpack(names, loader, Seq(local("b"))).get
    assert(again.startsWith(folder.resolve("b")))
    assert(new String(new ProcessBuilder(again.toString).start().getInputStream.readAllBytes(),
      UTF_8) == "said\n")
  }

  test("what was not written whole does not run, and is not left behind") {
    val loader = jar(s"$KIND/one" -> PROGRAM, s"$KIND/one.sha256" -> digest("another"))
    val refused = intercept[CofferException] {
      carried().unpack(Seq("one"), loader, Seq(local("a"), folder.resolve("nowhere").toString))
    }
    assert(refused.code == "COFFER_ENGINE_MISSING" && refused.getMessage.contains("its digest is"))
    assert(Files.list(folder.resolve("a")).count() == 0)
  }

  test("what the jar has no digest of does not run") {
    val refused = intercept[CofferException] {
      carried().unpack(Seq("one"), jar(s"$KIND/one" -> PROGRAM), Seq(local("a")))
    }
    assert(refused.code == "COFFER_ENGINE_MISSING" && refused.getMessage.contains("names none"))
    assert(Files.list(folder.resolve("a")).count() == 0)
  }

  test("a jar without the program is none of ours") {
    assert(carried().unpack(Seq("one"), jar(s"$KIND/two" -> PROGRAM), Seq(local("a"))).isEmpty)
  }

  test("another kind of machine is named") {
    val refused = intercept[CofferException] {
      carried().unpack(Seq("one"), jar("linux-aarch64/one" -> PROGRAM), Seq(local("a")))
    }
    assert(refused.code == "COFFER_ENGINE_PROCESSOR")
    assert(refused.getMessage.contains("linux-aarch64") && refused.getMessage.contains(KIND))
  }

  test("what the processor lacks is named") {
    val loader = jar(
      s"$KIND/one" -> PROGRAM,
      s"$KIND/one.sha256" -> digest(PROGRAM),
      s"$KIND/one.needs" -> "sse4_2 avx avx2\n")
    val refused = intercept[CofferException] {
      carried("sse4_2", "avx").unpack(Seq("one"), loader, Seq(local("a")))
    }
    assert(refused.code == "COFFER_ENGINE_PROCESSOR" && refused.getMessage.contains("lacks avx2,"))
    assert(carried("sse4_2", "avx", "avx2").unpack(Seq("one"), loader, Seq(local("a"))).nonEmpty)
    // Where the system does not say it, the program is tried.
    val unknown = new CarriedPrograms(KIND, None)
    assert(unknown.unpack(Seq("one"), loader, Seq(local("a"))).nonEmpty)
  }

  test("a processor's features are read as the system says them") {
    val said = "processor\t: 0\nflags\t\t: fpu sse4_2 avx\n\nprocessor\t: 1\nflags\t\t: fpu\n"
    assert(CarriedPrograms.features(said).exists(f => f("avx") && f("fpu") && !f("avx2")))
    assert(CarriedPrograms.features("Features\t: fp asimd\n").isEmpty)
    assert(CarriedPrograms.here ne null)
  }
}
