package org.apache.spark.sql.coffer.translate

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path, Paths}

import com.google.protobuf.{Message, TextFormat}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.plans.physical.RangePartitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.{Exchange, ShuffleExchangeExec}

/**
 * Every query of [[GoldenQueries]] against its file under `src/test/resources/golden`: all
 * fragments as protobuf text, the deepest stage first. `COFFER_GOLDEN=1` writes the files anew;
 * review the difference.
 */
class GoldenSuite extends AnyFunSuite with PlanFixture {
  private val regenerate = sys.env.get("COFFER_GOLDEN").contains("1")

  GoldenQueries.all.foreach { query =>
    test(query.name) {
      PlanFixture.idsFrom(2000000)
      val text = withConf(query.conf: _*)(render(physical(query.sql)))
      val file = GoldenSuite.folder.resolve(query.name + ".txt")
      val whole = s"# ${query.sql.trim.replaceAll("\\s+", " ")}\n$text"
      if (regenerate) {
        Files.createDirectories(file.getParent)
        Files.write(file, whole.getBytes(StandardCharsets.UTF_8))
      } else {
        assert(Files.exists(file), s"no golden file $file; make it with COFFER_GOLDEN=1")
        assert(whole === new String(Files.readAllBytes(file), StandardCharsets.UTF_8))
      }
    }
  }

  test("no golden file without its query") {
    val stream = Files.list(GoldenSuite.folder)
    try {
      val names = stream.toArray.map(_.asInstanceOf[Path].getFileName.toString).toSet
      assert(names -- GoldenQueries.all.map(_.name + ".txt") === Set.empty)
    } finally stream.close()
  }

  private def render(plan: SparkPlan): String = {
    val exchanges = plan.collect { case e: Exchange => e }.reverse
    val stages = exchanges.zipWithIndex.map {
      case (e: ShuffleExchangeExec, i) => s"## stage ${i + 1}: exchange\n${exchange(e)}"
      case (e, i) =>
        s"## stage ${i + 1}: " +
          s"broadcast\n${show(valid(Fragments.broadcast(e.child, PlanFixture.context())).fragment)}"
    }
    val result = valid(ResultPlan.of(plan, PlanFixture.context()))
    val task = s"## result${result.tail.fold("")(n => s", tail $n")}\n${show(result.task.fragment)}"
    val finish =
      result.finish.map(f => s"## finish${if (result.merges) ", merges" else ""}\n${show(f)}")
    (stages :+ task).mkString("\n") + finish.fold("")("\n" + _)
  }

  private def exchange(exchange: ShuffleExchangeExec): String = exchange.outputPartitioning match {
    case range: RangePartitioning =>
      val fragments =
        valid(Fragments.range(range, exchange.child, PlanFixture.context(), 77, 100, 1L))
      s"${show(fragments.sample.fragment)}\n${show(fragments.shuffle.fragment)}"
    case other =>
      show(valid(Fragments.shuffle(other, exchange.child, PlanFixture.context())).fragment)
  }

  private def valid[A](result: Result[A]): A = result.fold(u => fail(u.message), identity)

  private def show(message: Message): String =
    // Which digits floats have as text is this JVM's, not the plan's (PiecesSuite looks at it).
    GoldenSuite.compact(
      TextFormat.printer().printToString(message).linesIterator.filterNot(
        _.trim.startsWith("float_text:")).mkString("\n"))
}

object GoldenSuite {

  /** Puts a message that fits one line on one line; still protobuf text. */
  private[translate] def compact(text: String): String = {
    val lines = text.linesIterator.toVector
    // From the inside out: a line `}` closes the nearest open line of its own indentation.
    val done = lines.foldLeft(Vector.empty[String]) { (above, line) =>
      if (line.trim != "}") above :+ line
      else {
        val start = above.lastIndexWhere(l => l.endsWith("{") && indent(l) == indent(line))
        val body = above.drop(start + 1).map(_.trim)
        val joined = (above(start) +: body :+ "}").mkString(" ")
        if (joined.length <= 120 &&
          above.drop(start + 1).forall(l => !l.endsWith("{"))) above.take(start) :+ joined
        else above :+ line
      }
    }
    done.mkString("", "\n", "\n")
  }

  private def indent(line: String): Int = line.indexWhere(_ != ' ')

  val folder: Path = Paths.get("src/test/resources/golden")
}
