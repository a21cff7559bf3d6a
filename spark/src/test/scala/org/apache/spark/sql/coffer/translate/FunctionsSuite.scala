package org.apache.spark.sql.coffer.translate

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path, Paths}

import scala.util.control.NonFatal

import org.scalatest.funsuite.AnyFunSuite

/**
 * `scripts/docs/functions.toml` says of every name of Spark's registry where it runs, and this
 * suite that it says what the translator does with the calls of Spark's own documentation. The
 * page `docs/reference/functions.md` is made from it. `COFFER_GOLDEN=1` writes both anew.
 */
class FunctionsSuite extends AnyFunSuite with PlanFixture {
  import FunctionsSuite._

  override def beforeAll(): Unit = {
    super.beforeAll()
    spark.conf.set("spark.sql.optimizer.excludedRules", excluded)
    // Spark 4.1 has TIME switched off.
    spark.conf.set("spark.sql.timeType.enabled", "true")
  }

  private lazy val rows: Seq[Row] = FunctionCalls.names.map(row)

  /** Of these a result is one of several that Spark may give. */
  private val chosen: Map[String, String] =
    Seq("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle").map(_ ->
        "Spark's generator, by seed, partition and place; where each row draws").toMap ++
      Seq("monotonically_increasing_id", "spark_partition_id").map(_ ->
          "by the engine's partitions; where each row has one").toMap ++
      Seq("approx_percentile", "percentile_approx").map(_ -> ("an aggregate; of more values than " +
          "half the accuracy Spark's answer over one partition in order")).toMap +
      ("histogram_numeric" -> "an aggregate; Spark's answer over one partition in order")

  /** Spark refuses a call of these that is not of constants: no row has a part in it. */
  private val constant = Set("schema_of_csv", "schema_of_json", "schema_of_xml")

  private def row(name: String): Row = {
    val found = FunctionCalls.examples(name).map { sql =>
      try FunctionCalls.check(spark, sql)
      catch { case NonFatal(_) => Left("") }
    }
    val kind = chosen.getOrElse(name,
      kinds.getOrElse(FunctionCalls.info(name).getGroup,
        "an expression of the engine's"))
    found.collectFirst { case Right(query) => query } match {
      case Some(_) =>
        val all = found.forall(_.isRight)
        Row(name, "engine", if (all) kind else s"$kind; of some types or literals only")
      case None
          if constant(name) && FunctionCalls.examples(name).exists(FunctionCalls.folds(spark, _)) =>
        Row(name, "engine", "Spark computes it while it plans: it takes nothing but constants")
      case None =>
        never.get(name) match {
          case Some(reason) => Row(name, "refused", reason)
          case None =>
            Row(name, "client",
              reasons.collectFirst { case (r, reason) if r.matches(name) => reason }
                .getOrElse("the engine has no form of it"))
        }
    }
  }

  test("the table says what the translator does") {
    written(table, rows.map(_.line).mkString("", "\n", "\n"))
  }

  test("the page is made from the table") {
    written(page, text(read(table)))
  }

  test("at most 15 functions are refused") {
    assert(rows.count(_.runs == "refused") <= 15)
  }

  private def written(file: Path, text: String): Unit =
    if (sys.env.get("COFFER_GOLDEN").contains("1")) {
      Files.write(file, text.getBytes(StandardCharsets.UTF_8))
      ()
    } else {
      val before = new String(Files.readAllBytes(file), StandardCharsets.UTF_8)
      assert(before === text, s"$file is stale: run with COFFER_GOLDEN=1")
    }
}

private object FunctionsSuite {
  val table: Path = Paths.get("../scripts/docs/functions.toml")
  val page: Path = Paths.get("../docs/reference/functions.md")

  /** What would leave no call to look at. */
  val excluded: String = Seq("ConvertToLocalRelation", "PropagateEmptyRelation")
    .map("org.apache.spark.sql.catalyst.optimizer." + _).mkString(",")

  final case class Row(name: String, runs: String, how: String) {
    def line: String = s""""$name" = { runs = "$runs", how = "$how" }"""
  }

  private val line = "\"(.+?)\" = \\{ runs = \"(\\w+)\", how = \"(.*)\" \\}".r

  def read(file: Path): Seq[Row] =
    new String(Files.readAllBytes(file), StandardCharsets.UTF_8).split("\n").toSeq.map {
      case line(name, runs, how) => Row(name, runs, how)
      case other => throw new IllegalStateException(s"$file: $other")
    }

  private val kinds = Map(
    "agg_funcs" -> "an aggregate",
    "window_funcs" -> "a window function",
    "generator_funcs" -> "a generator",
    "table_funcs" -> "a table function",
    "conversion_funcs" -> "a cast",
    "lambda_funcs" -> "a function of lambdas")

  /** Those that no site may run. */
  private val never: Map[String, String] =
    Seq("input_file_name", "input_file_block_start", "input_file_block_length").map(
      _ -> "a sealed table's files are no input that rows could name").toMap ++
      Seq("java_method", "reflect", "try_reflect").map(
        _ -> "it runs any method of the JVM") +
      ("python_worker_logs" -> "it reads what executors logged")

  private val reasons = Seq(
    "(hll|kll|theta|approx_top_k)_.*".r -> "a sketch: Java's libraries have its bytes",
    "(sin|cos|tan|sec|csc|cot)".r ->
      "Java computes it with the processor's own code; a last bit may differ elsewhere",
    "(parse_json|try_parse_json|.*variant.*)".r -> "VARIANT is no type of the engine's",
    "(make_interval|try_make_interval)".r ->
      "intervals of months and days together are literals only",
    "st_.*".r -> "geometries are no type of the engine's (Spark 4.1 has them switched off)",
    ".*(xml|xpath).*".r -> "Java's reader of XML",
    ".*csv.*".r -> "Java's reader of CSV",
    ".*json.*".r -> "Spark's reader of JSON",
    ".*(avro|protobuf).*".r -> "a package beside Spark has it",
    "(aes_.*|try_aes_.*)".r -> "keys in queries stay at the client",
    "(format_string|printf|sentences|to_char|to_varchar|to_number|try_to_number|mask)".r ->
      "Java's formats and characters")

  def text(rows: Seq[Row]): String = {
    def count(runs: String): Int = rows.count(_.runs == runs)
    val head = s"""# Functions
      |
      |Where each of the ${rows.length} functions of Spark 4.1.3's registry runs:
      |**${count("engine")}** in the engine, **${count("client")}** at the client, and
      |**${count("refused")}** nowhere. What runs in the engine gives Spark's answers: expressions
      |to the bit, as `coffer-expr` replays what Spark's own expressions gave; aggregates of doubles
      |are exact sums rounded once, which Spark's are not. What is left to the client has no form in
      |the engine. This page is made from `scripts/docs/functions.toml`, which a test
      |(`FunctionsSuite`) holds against the translator and the calls of Spark's documentation.
      |[Functions and expressions](expressions.md) has the engine's names.
      |
      || function | where | how, or why |
      ||---|---|---|
      |""".stripMargin
    rows.map { r =>
      s"| `${r.name.replace("|", "\\|")}` | ${r.runs} | ${r.how} |"
    }.mkString(head, "\n", "\n")
  }
}
