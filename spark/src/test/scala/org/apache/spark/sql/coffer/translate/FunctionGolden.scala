package org.apache.spark.sql.coffer.translate

import java.util.Base64

import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, Project}
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.proto.plan.Expr
import org.apache.spark.sql.execution.QueryExecution
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * An expression over columns a, b, … and the values, as SQL, that those take in all combinations.
 * What queries run is the code that Spark generates; its interpreter `differs` of a few functions.
 */
private[translate] final case class FunctionCase(
    sql: String,
    columns: Seq[(String, Seq[String])],
    zoned: Boolean = false,
    differs: Boolean = false,
    conf: Seq[(String, String)] = Nil,
    /** How lines begin of which the engine is known to say something else. */
    without: Seq[String] = Nil)

/**
 * What vanilla Spark's own expressions give, and what the translator makes of them, for the
 * engine's tests to replay: a line for the call, then one for each row (arguments, result).
 */
private[translate] object FunctionGolden {
  private val zones = Seq("America/Los_Angeles", "Asia/Kolkata", "Europe/Paris")

  /** The lines of a case, of each mode and time zone in which it differs. */
  def lines(spark: SparkSession, c: FunctionCase): Seq[String] = {
    val modes = for {
      zone <- if (c.zoned) zones else zones.take(1)
      ansi <- Seq("false", "true")
    } yield {
      val conf = Seq("spark.sql.session.timeZone" -> zone) ++ c.conf
      val rows = set(spark, conf :+ ("spark.sql.ansi.enabled" -> "false"))(values(spark, c))
      set(spark, conf :+ ("spark.sql.ansi.enabled" -> ansi)) {
        block(spark, c, rows).map(lines => (lines, s"# $zone, ANSI $ansi: ${c.sql}"))
      }
    }
    modes.flatten.distinctBy(_._1).flatMap { case (lines, head) => head +: lines }
  }

  private def set[A](spark: SparkSession, conf: Seq[(String, String)])(body: => A): A = {
    val before = conf.map { case (key, _) => key -> spark.conf.getOption(key) }
    conf.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally before.foreach {
        case (key, Some(value)) => spark.conf.set(key, value)
        case (key, None) => spark.conf.unset(key)
      }
  }

  private def values(spark: SparkSession, c: FunctionCase): LocalRelation = {
    val typed = c.columns.zipWithIndex.map { case ((dataType, values), i) =>
      val name = ('a' + i).toChar
      val rows = values.map(v => s"(CAST($v AS $dataType))").mkString(", ")
      val read = spark.sql(s"SELECT * FROM VALUES $rows AS v($name)").queryExecution
      (read.analyzed.output.head,
        read.executedPlan.executeCollect().toSeq.map(r =>
          r.copy().get(0, read.analyzed.output.head.dataType)))
    }
    val product = typed.foldLeft(Seq(Seq.empty[Any])) { case (rows, (_, values)) =>
      rows.flatMap(row => values.map(row :+ _))
    }
    // Of many rows an even selection, by a step that shares no factor with their number.
    val most = if (c.zoned) 60 else 160
    val step = math.max(1, product.length / most)
    val chosen = product.zipWithIndex.collect {
      case (row, i) if i % step == (i / step * 7) % step => row
    }
    LocalRelation(
      typed.map { case (a, _) => AttributeReference(a.name, a.dataType, nullable = true)() },
      chosen.map(InternalRow.fromSeq))
  }

  /** Why the translator takes no call of a case, if it takes none. */
  def refusal(spark: SparkSession, c: FunctionCase): Option[String] =
    set(spark, c.conf :+ ("spark.sql.ansi.enabled" -> "false")) {
      val (expr, input) = planned(spark, c, values(spark, c))
      convert(expr, input).left.toOption.map(_.message)
    }

  private def planned(
      spark: SparkSession,
      c: FunctionCase,
      rows: LocalRelation): (Expression, LocalRelation) = {
    val parsed = spark.sessionState.sqlParser.parseExpression(c.sql)
    val query = new QueryExecution(spark, Project(Seq(Alias(parsed, "r")()), rows))
    query.optimizedPlan match {
      case Project(Seq(Alias(e, _)), l: LocalRelation) => (e, l)
      case other => throw new IllegalStateException(s"${c.sql}: $other")
    }
  }

  private def convert(expr: Expression, input: LocalRelation): Result[Expr] = {
    val translation = new Translation(Context(FunctionCalls.Rows, (_, _) => 0))
    Expressions.convert(expr, new Scope(input.output, translation))
  }

  private def block(
      spark: SparkSession,
      c: FunctionCase,
      rows: LocalRelation): Option[Seq[String]] =
    (try Some(planned(spark, c, rows))
    catch { case _: AnalysisException => None }).map(block(c, _))

  private def block(c: FunctionCase, call: (Expression, LocalRelation)): Seq[String] = {
    val (expr, input) = call
    val converted = convert(expr, input).fold(
      u => throw new IllegalStateException(s"${c.sql}: ${u.message}"),
      identity)
    val schema = Types.schema(input.output).fold(u => throw new IllegalStateException(u.message),
      identity)
    val head = s"= ${base64(schema.toByteArray)} ${base64(converted.toByteArray)}"
    val bound = BindReferences.bindReference(expr, AttributeSeq(input.output))
    bound.foreach { case n: Nondeterministic => n.initialize(0); case _ => }
    val generated = GenerateUnsafeProjection.generate(Seq(bound))
    generated.initialize(0)
    val shown = input.data.map { row =>
      val args = input.output.indices.map { i =>
        show(row.get(i, input.output(i).dataType), input.output(i).dataType)
      }
      val found = result(expr.dataType)(generated(row).get(0, expr.dataType))
      val interpreted = result(expr.dataType)(bound.eval(row))
      if (found != interpreted && !c.differs) {
        throw new IllegalStateException(
          s"${c.sql} of ${args.mkString(", ")}: $found generated, $interpreted interpreted")
      }
      (args :+ found).mkString("\t")
    }
    head +: shown.filterNot(line => c.without.exists(line.startsWith))
  }

  private def result(dataType: DataType)(value: => Any): String =
    try show(value, dataType)
    catch {
      case e: SparkThrowable if e.getCondition != null => s"!${e.getCondition}"
      case NonFatal(_) => "!JAVA"
    }

  private def base64(bytes: Array[Byte]): String = Base64.getEncoder.encodeToString(bytes)

  /** A value of Catalyst's internal form as text. */
  def show(value: Any, dataType: DataType): String = (value, dataType) match {
    case (null, _) => "NULL"
    case (f: Float, _) => "%08x".format(java.lang.Float.floatToIntBits(f))
    case (d: Double, _) => "%016x".format(java.lang.Double.doubleToLongBits(d))
    case (d: Decimal, t: DecimalType) =>
      d.toJavaBigDecimal.setScale(t.scale).unscaledValue.toString
    case (s: UTF8String, _) =>
      if (!s.isValid) "!MALFORMED"
      else s.toString.codePoints.toArray.map {
        case '"' => "\\\""
        case '\\' => "\\\\"
        case c if c < 32 || c == 127 => "\\u%04x".format(c)
        case c => new String(Character.toChars(c))
      }.mkString("\"", "", "\"")
    case (b: Array[Byte], _) => b.map(x => "%02X".format(x & 0xff)).mkString("x", "", "")
    case (a: ArrayData, ArrayType(element, _)) =>
      a.toSeq[Any](element).map(show(_, element)).mkString("[", ",", "]")
    case (r: InternalRow, StructType(fields)) =>
      r.toSeq(fields.map(_.dataType).toSeq).zip(fields).map { case (v, f) =>
        show(v, f.dataType)
      }.mkString("(", ",", ")")
    case (m: MapData, MapType(k, v, _)) =>
      m.keyArray().toSeq[Any](k).zip(m.valueArray().toSeq[Any](v)).map { case (x, y) =>
        show(x, k) + ":" + show(y, v)
      }.mkString("{", ",", "}")
    case (other, _) => other.toString
  }
}
