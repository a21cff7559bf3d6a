package org.apache.spark.sql.coffer.exec

import java.util.regex.Pattern

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.{
  QueryContext,
  SparkArithmeticException,
  SparkArrayIndexOutOfBoundsException,
  SparkDateTimeException,
  SparkIllegalArgumentException,
  SparkNumberFormatException,
  SparkRuntimeException
}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, Corr}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.versions.messageTemplate
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.types.{AnsiIntervalType, DecimalType}

/**
 * Errors that a query made inside an engine, as the exceptions that vanilla Spark throws: the same
 * class, condition, SQLSTATE, parameters and, where one expression alone can have failed so, its
 * place in the query's text.
 *
 * An engine says the condition and the whole message, with values; the parameters are read from the
 * message by Spark's own template of that condition.
 */
private[exec] object QueryErrors {

  /**
   * @param plan the query, whose expressions know their places in its text
   * @param task what Spark made of the failed task. It is no cause of what is thrown, or it would
   * be
   *             opened again on the way out.
   */
  def of(condition: String, message: String, plan: SparkPlan, task: Throwable): Throwable = {
    val made =
      if (condition.startsWith("COFFER_")) ours(condition, message)
      else parameters(condition, message) match {
        case Some(found) => sparks(condition, found, context(condition, found, plan))
        case None => new CofferException(condition, unnamed(condition, message), "")
      }
    made.addSuppressed(new Opened(task))
    made
  }

  /** Whether it was made here, of a task's error. */
  def isOpened(e: Throwable): Boolean = e.getSuppressed.exists(_.isInstanceOf[Opened])

  /** Marks what was made here. Spark itself suppresses failed tasks beside another. */
  private final class Opened(task: Throwable)
      extends RuntimeException("opened at the client", task, false, false)

  /** What is Coffer's is about the data's way here. */
  private def ours(condition: String, message: String): Throwable =
    new CofferException(condition, unnamed(condition, message), hint(condition))

  private def unnamed(condition: String, message: String): String =
    message.stripPrefix(s"[$condition]").trim

  private def hint(condition: String): String = condition match {
    case code if code == "COFFER_OPERATOR" || code.startsWith("COFFER_FILE_") =>
      "a file may be damaged, missing or changed: check the table with `coffer verify --deep` at " +
        "the client"
    case "COFFER_INPUT_CHANGED" =>
      "run the query again once nothing writes to the plain files; `coffer adopt` or `coffer " +
        "encrypt` pins them for good"
    case "COFFER_MEMORY" =>
      "give each engine more memory (spark.coffer.engine.memory), or split the work finer " +
        "(spark.sql.shuffle.partitions)"
    case "COFFER_STORAGE" | "COFFER_DISK_FULL" =>
      "check the tables' storage, and that the disks of executors (spark.local.dir) have room"
    case _ => "run the query again; if it persists, an executor or its storage changes sealed data"
  }

  // ---- Spark's own ------------------------------------------------------------------------------

  private val parameter = "<([a-zA-Z0-9_-]+)>".r

  /** The message's parameters; none where it is not of the condition's template. */
  private[exec] def parameters(condition: String, message: String): Option[Map[String, String]] =
    Try(messageTemplate(condition).trim).toOption.flatMap { template =>
      val names = parameter.findAllMatchIn(template).map(_.group(1)).toSeq
      val between = template.split(parameter.regex, -1).map(Pattern.quote)
      // Lazily, as the texts between them end the values; the last takes the rest.
      val shape = Pattern.compile(between.mkString("(.*?)"), Pattern.DOTALL)
      val matched = shape.matcher(unnamed(condition, message).replaceFirst(" SQLSTATE: .*$", ""))
      if (!matched.matches()) None
      else Some(names.zipWithIndex.map { case (name, i) => name -> matched.group(i + 1) }.toMap)
    }

  private def sparks(
      condition: String,
      parameters: Map[String, String],
      context: Option[QueryContext]): Throwable = {
    val contexts = context.toArray
    val summary = context.map(_.summary()).getOrElse("")
    val target = parameters.getOrElse("targetType", "")
    condition match {
      case "CAST_INVALID_INPUT" if target == "\"BOOLEAN\"" =>
        new SparkRuntimeException(condition, parameters, null, contexts, summary)
      case "CAST_INVALID_INPUT" if times.exists(target.contains) =>
        new SparkDateTimeException(condition, parameters, contexts, summary)
      case "CAST_INVALID_INPUT" =>
        new SparkNumberFormatException(condition, parameters, contexts, summary)
      case c if arithmetic(c) =>
        new SparkArithmeticException(condition, parameters, contexts, summary)
      case "INVALID_ARRAY_INDEX" | "INVALID_ARRAY_INDEX_IN_ELEMENT_AT" =>
        new SparkArrayIndexOutOfBoundsException(condition, parameters, contexts, summary)
      case "_LEGACY_ERROR_TEMP_3243" | "NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION" =>
        new SparkIllegalArgumentException(condition, parameters, contexts, summary, null)
      case c if illegal.exists(c.startsWith) =>
        new SparkIllegalArgumentException(condition, parameters, contexts, summary, null)
      case c if c.startsWith("DATETIME_") || c == "CANNOT_PARSE_TIME" =>
        new SparkDateTimeException(condition, parameters, contexts, summary)
      case _ => new SparkRuntimeException(condition, parameters, null, contexts, summary)
    }
  }

  private val times = Seq("\"DATE\"", "\"TIME", "INTERVAL")

  private val illegal = Seq("INVALID_INTERVAL_", "INVALID_PARAMETER_VALUE.TIME_UNIT")

  private def arithmetic(condition: String): Boolean =
    condition.startsWith("INTERVAL_") || condition.endsWith("OVERFLOW") || condition.endsWith(
      "_BY_ZERO") ||
      condition.startsWith("NUMERIC_")

  // ---- where in the text ------------------------------------------------------------------------

  /** The place of the one expression of the query that can have failed so; none if several can. */
  private def context(
      condition: String,
      parameters: Map[String, String],
      plan: SparkPlan): Option[QueryContext] = {
    val found = expressions(plan).collect {
      case e: SupportQueryContext if fails(e, condition, parameters) => e.getContextOrNull()
      case e @ (_: DivideYMInterval | _: DivideDTInterval)
          if condition == "INTERVAL_DIVIDED_BY_ZERO" => e.origin.context
      // Spark gives it no place.
      case e: UnaryMinus
          if condition == ofMadeIntervals && e.dataType.isInstanceOf[AnsiIntervalType] => null
    }
    // Of an expression without a place it is not known which text would be right.
    val places = found.map(c => Option(c).map(_.summary())).distinct
    if (places.size == 1) found.headOption.filter(_ != null) else None
  }

  private val ofMadeIntervals = "INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION"

  private def fails(
      e: Expression,
      condition: String,
      parameters: Map[String, String]): Boolean = condition match {
    case "DIVIDE_BY_ZERO" => e match {
        case _: Divide | _: IntegralDivide => true
        case _ => false
      }
    case `ofMadeIntervals` => e.isInstanceOf[MakeYMInterval] || e.isInstanceOf[MakeDTInterval]
    case "INVALID_ARRAY_INDEX" => e.isInstanceOf[GetArrayItem]
    case "INVALID_ARRAY_INDEX_IN_ELEMENT_AT" => e.isInstanceOf[ElementAt]
    case "INVALID_INDEX_OF_ZERO" => e.isInstanceOf[ElementAt] || e.isInstanceOf[ArrayInsert]
    case "REMAINDER_BY_ZERO" => e.isInstanceOf[Remainder] || e.isInstanceOf[Pmod]
    case "CAST_INVALID_INPUT" => e match {
        case c: Cast =>
          parameters.get("targetType").contains(s"\"${c.dataType.sql}\"") &&
          parameters.get("sourceType").contains(s"\"${c.child.dataType.sql}\"")
        case _ => false
      }
    case c if c.startsWith("NUMERIC_VALUE_OUT_OF_RANGE") =>
      e.dataType match {
        case d: DecimalType =>
          parameters.get("precision").contains(d.precision.toString) &&
          parameters.get("scale").contains(d.scale.toString)
        case _ => false
      }
    case "ARITHMETIC_OVERFLOW" => e match {
        case _: BinaryArithmetic | _: UnaryMinus | _: Abs => true
        case _ => false
      }
    // Vanilla Spark gives these no place (CAST_OVERFLOW), or we know none.
    case _ => false
  }

  /** All expressions of the query, its stages, fragments and subqueries. */
  private def expressions(plan: SparkPlan): Seq[Expression] = {
    val (found, seen) = (mutable.ArrayBuffer.empty[Expression], mutable.Set.empty[Int])
    def visit(node: SparkPlan): Unit = if (seen.add(System.identityHashCode(node))) {
      node.expressions.foreach(_.foreach {
        // Its last division is the one that can fail, and is no child of it.
        case c: Corr => found ++= c.evaluateExpression.collect { case d: Divide => d }
        case f: AggregateFunction => found += f
        case s: PlanExpression[_] => s.plan match {
            case p: SparkPlan => visit(p)
            case _ =>
          }
        case e => found += e
      })
      node match {
        case a: AdaptiveSparkPlanExec => visit(a.executedPlan)
        case s: QueryStageExec => visit(s.plan)
        case f: CofferFragmentExec => visit(f.template)
        case _ =>
      }
      node.children.foreach(visit)
    }
    visit(plan)
    found.toSeq
  }
}
