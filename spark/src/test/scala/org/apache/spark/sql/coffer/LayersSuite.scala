package org.apache.spark.sql.coffer

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/**
 * The packages are layers: each uses only those before it in [[LayersSuite.LAYERS]], so no cycle is
 * possible. `translate` is pure: of ours it uses the messages of `proto` and nothing else. What
 * `versions` has are Spark's own nodes and settings, by one name in all of its versions.
 */
class LayersSuite extends AnyFunSuite {
  import LayersSuite._

  private val root = Paths.get("src/main/scala/org/apache/spark/sql/coffer")

  private val sources: Seq[(Path, String, Set[String])] = {
    val walk = Files.walk(root)
    try walk.iterator.asScala.filter(_.toString.endsWith(".scala")).toVector.sorted.map { file =>
        val folder = Option(root.relativize(file).getParent).fold(ROOT)(_.toString)
        (file, folder, uses(Files.readString(file)) - folder)
      }
    finally walk.close()
  }

  test("every package is a layer") {
    assert(sources.map(_._2).toSet == LAYERS.toSet)
  }

  test("a package uses only the layers below it") {
    val wrong = for {
      (file, folder, used) <- sources
      other <- used.toSeq.sorted if !LAYERS.takeWhile(_ != folder).contains(other)
    } yield s"${root.relativize(file)}: $folder may not use $other"
    assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
  }

  test("translate uses none of our packages") {
    val wrong = sources.collect {
      case (file, "translate", used) if used.nonEmpty => s"$file uses ${used.mkString(", ")}"
    }
    assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
  }

  test("a file's package is that of its folder") {
    val wrong = sources.collect {
      case (file, folder, _) if declared(Files.readString(file)) != Some(folder) => file
    }
    assert(wrong.isEmpty)
  }

  test("uses are found however they are written") {
    val ours = COFFER
    assert(uses(s"import $ours.exec.CofferQuery") == Set("exec"))
    assert(uses(s"import $ours.{exec => e, split}") == Set("exec", "split"))
    assert(uses(s"import $ours.{\n  exec,\n  CofferPlugin}") == Set("exec", ROOT))
    assert(uses(s"import $ours._") == Set(ROOT))
    assert(uses(s"val q: $ours.exec.CofferQuery = null") == Set("exec"))
    assert(uses(s"import $ours\nval q = coffer . exec . CofferQuery") == Set("exec"))
    assert(uses(s"package $ours\npackage object translate {\n  val q = exec.Q\n}") == Set("exec"))
    assert(uses(s"package $ours\npackage translate\nclass A extends write.Entries") == Set("write"))
    assert(uses(s"package $ours.exec\nimport $ours.proto.wire.OpenTable") == Set())
    assert(uses(s"// $ours.exec.A\n/* $ours.split.B /* $ours.kms.C */ $ours.write.D */") == Set())
    assert(uses("val s = \"" + s"$ours.write.D" + "\"") == Set())
    assert(uses("val url = \"http://a\"; " + s"val q: $ours.exec.Q = null") == Set("exec"))
    assert(uses("val s = s\"${" + s"$ours.exec.CofferConf.PLUGIN" + "}\"") == Set("exec"))
  }
}

object LayersSuite {
  private val ROOT = "(root)"

  private val COFFER = "org.apache.spark.sql.coffer"

  /** From the bottom up. Above `plugin`: other ways in, and classes that users' settings name. */
  private val LAYERS = Seq(
    "versions",
    "common",
    "translate",
    "split",
    "exec",
    "tail",
    "write",
    "transport",
    "plugin",
    "advise",
    "kms",
    "source",
    "driver",
    ROOT)

  /** Made from `proto/` and by shading, and Spark's: no layers of ours. */
  private val GENERATED = Set("proto", "shaded", "versions")

  private val clause = """(?m)^package\s+(?!object\b)([\w.]+)""".r
  private val packageObject = """(?m)^package\s+object\s+(\w+)""".r

  /** Which folder a file belongs in. */
  private def declared(source: String): Option[String] = {
    val text = code(source)
    val clauses = Seq(clause, packageObject).flatMap(_.findAllMatchIn(text).map(_.group(1)))
    clauses.mkString(".") match {
      case COFFER => Some(ROOT)
      case name => Some(name).filter(_.startsWith(s"$COFFER.")).map(_.stripPrefix(s"$COFFER."))
    }
  }

  /** Whatever stands before it: `coffer` may be imported. */
  private val qualified = """\bcoffer\s*\.\s*(\{[^}]*\}|\w+)""".r

  /** The packages that a source names: in imports, by whole names, and from inside `coffer`. */
  private def uses(source: String): Set[String] = {
    val whole = code(source)
    val text = clause.replaceAllIn(whole, "")
    val named = qualified.findAllMatchIn(text).map(_.group(1)).flatMap { selector =>
      selector.stripPrefix("{").stripSuffix("}").split(',').map { name =>
        val first = name.trim.takeWhile(Character.isJavaIdentifierPart(_: Char))
        if (first.headOption.exists(_.isLower)) first else ROOT
      }
    }
    def sees(layer: String): Boolean =
      s"(?<![\\w.])$layer\\s*\\.\\s*(?=[A-Z{_])".r.findFirstIn(text).isDefined
    val inside = clause.findAllMatchIn(whole).exists(_.group(1) == COFFER)
    val seen = if (inside) LAYERS.filter(l => l != ROOT && sees(l)) else Nil
    (named ++ seen).toSet -- GENERATED
  }

  /** Without comments, which nest, and without strings' text; what is spliced into it stays. */
  private def code(source: String): String = {
    val out = new StringBuilder
    var i = 0
    def at(s: String): Boolean = source.startsWith(s, i)
    def comment(): Unit = {
      i += 2
      while (i < source.length && !at("*/")) if (at("/*")) comment() else i += 1
      i += 2
    }
    def spliced(): Unit = {
      i += 2
      while (i < source.length && !at("}")) step()
      i += 1
    }
    def string(quotes: String, splices: Boolean): Unit = {
      i += quotes.length
      while (i < source.length && !at(quotes))
        if (splices && at("$$")) i += 2
        else if (splices && at("${")) spliced()
        else if (at("\\") && quotes.length == 1) i += 2
        else i += 1
      i += quotes.length
      while (quotes.length == 3 && at("\"")) i += 1
      out.append(' ')
    }
    def step(): Unit =
      if (at("//")) while (i < source.length && !at("\n")) i += 1
      else if (at("/*")) comment()
      else if (at("'\"'") || at("'{'") || at("'}'")) i += 3
      else if (at("'\\\"'")) i += 4
      else if (at("\"")) {
        val splices = i > 0 && Character.isJavaIdentifierPart(source(i - 1))
        string(if (at("\"\"\"")) "\"\"\"" else "\"", splices)
      } else if (at("{")) {
        out.append('{')
        i += 1
        while (i < source.length && !at("}")) step()
        out.append('}')
        i += 1
      } else {
        out.append(source(i))
        i += 1
      }
    while (i < source.length) step()
    out.toString
  }
}
