package org.apache.spark.sql.coffer.translate

import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  AttributeReference,
  ExpressionInfo,
  ExpressionWithRandomSeed,
  Literal,
  NamedExpression,
  Shuffle
}
import org.apache.spark.sql.catalyst.plans.logical.{
  LocalRelation,
  LogicalPlan,
  OneRowRelation,
  Project
}
import org.apache.spark.sql.execution.{
  LocalTableScanExec,
  OneRowRelationExec,
  QueryExecution,
  RangeExec,
  RDDScanExec,
  SparkPlan
}
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec

/**
 * Calls of Spark's built-in functions, and whether the translator takes them. A call's literals
 * become columns, as many of them as the translator lets: what is folded away while the query is
 * planned says nothing of the engine.
 */
private[translate] object FunctionCalls {

  /** The names of Spark's registry, sorted. */
  def names: Seq[String] =
    FunctionRegistry.builtin.listFunction().map(_.funcName).distinct.sorted

  def info(name: String): ExpressionInfo = {
    val id = org.apache.spark.sql.catalyst.FunctionIdentifier(name)
    FunctionRegistry.builtin.lookupFunction(id).get
  }

  /** The queries of Spark's own documentation of a function, and those made by hand. */
  def examples(name: String): Seq[String] = {
    val text = info(name).getExamples
    val lines = text.split("\n").toSeq.map(_.trim)
    val shown = lines.foldLeft((Vector.empty[String], Option.empty[String])) {
      case ((done, Some(open)), line) =>
        if (line.endsWith(";")) (done :+ s"$open $line", None) else (done, Some(s"$open $line"))
      case ((done, None), line) if line.startsWith("> ") =>
        if (line.endsWith(";")) (done :+ line.drop(2), None) else (done, Some(line.drop(2)))
      case (state, _) => state
    }._1
    shown.map(_.stripSuffix(";")) ++ byHand.getOrElse(name, Nil)
  }

  private val byHand: Map[String, Seq[String]] = Map(
    "bigint" -> Seq("SELECT bigint('1')"),
    "binary" -> Seq("SELECT binary('1')"),
    "boolean" -> Seq("SELECT boolean('true')"),
    "date_format" -> Seq("SELECT date_format('2016-04-08 01:02:03', 'yyyy-MM-dd')"),
    "date" -> Seq("SELECT date('2020-01-01')"),
    "decimal" -> Seq("SELECT decimal('1')"),
    "double" -> Seq("SELECT double('1')"),
    "float" -> Seq("SELECT float('1')"),
    "int" -> Seq("SELECT int('1')"),
    "smallint" -> Seq("SELECT smallint('1')"),
    "string" -> Seq("SELECT string('1')"),
    "timestamp" -> Seq("SELECT timestamp('2020-01-01 00:00:00')"),
    "tinyint" -> Seq("SELECT tinyint('1')"))

  /** Tables that stand in for sealed ones: rows that the plan itself has. */
  object Rows extends LeafResolver {
    override def leaf(plan: SparkPlan): Option[Leaf] = plan match {
      case _: LocalTableScanExec | _: RDDScanExec | _: RangeExec | _: OneRowRelationExec |
          _: BatchScanExec =>
        Some(ScanLeaf(plan, plan.output.map(_.name), plan.output, Nil, () => 1))
      case _ => None
    }
  }

  /** A projection of one row, and what the optimizer makes of it. */
  final case class Call(project: LogicalPlan) {
    def expressions: Seq[NamedExpression] = project match {
      case Project(list, _: LocalRelation) => list
      case _ => Nil
    }
    def input: Option[LocalRelation] = project match {
      case Project(_, rows: LocalRelation) => Some(rows)
      case _ => None
    }
  }

  private def execution(spark: SparkSession, plan: LogicalPlan): QueryExecution =
    new QueryExecution(spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession], plan)

  /** The ways in which literals become columns, the one with the most columns first. */
  private def variants(plan: LogicalPlan): Seq[LogicalPlan] = plan match {
    case Project(list, _: OneRowRelation) =>
      // What says how to draw must be constant.
      val fixed = list.flatMap(_.collect {
        case _: Shuffle => Nil
        case drawn: ExpressionWithRandomSeed => drawn.collect { case l: Literal => l }
      }).flatten
      val literals = list.flatMap(_.collect {
        case l: Literal if l.value != null && !fixed.exists(_ eq l) => l
      })
      val chosen = Seq(literals) ++ literals.indices.map(literals.patch(_, Nil, 1)) ++
        literals.indices.map(literals.take(_)).reverse ++ literals.map(Seq(_))
      if (literals.isEmpty) Seq(plan)
      else chosen.filter(_.nonEmpty).distinct.map { some =>
        val attributes = some.map(l => l -> AttributeReference("c", l.dataType)())
        val rows = LocalRelation(
          attributes.map(_._2).toList,
          Seq(InternalRow.fromSeq(some.map(_.value))))
        val replaced = list.map(_.transform {
          case l: Literal if attributes.exists(_._1 eq l) =>
            attributes.find(_._1 eq l).get._2
        }.asInstanceOf[NamedExpression])
        Project(replaced, rows)
      }
    case other => Seq(other)
  }

  /** Whether nothing but literals is left of a projection when it is planned. */
  def folds(spark: SparkSession, sql: String): Boolean =
    spark.sql(sql).queryExecution.optimizedPlan match {
      case Project(list, _) => list.forall {
          case Alias(_: Literal, _) => true
          case _ => false
        }
      case _ => false
    }

  /** What the translator says of a query: the plan that it takes, or why it takes none. */
  def check(spark: SparkSession, sql: String): Either[String, QueryExecution] = {
    val analyzed = spark.sql(sql).queryExecution.analyzed
    val tried = variants(analyzed).zipWithIndex.map { case (plan, place) =>
      try {
        val query = execution(spark, plan)
        // What folds with columns for all literals is a literal, whatever the rows.
        val folded = place > 0 && (query.optimizedPlan match {
          case Project(list, _) => list.forall(_.references.isEmpty)
          case _ => false
        })
        val missing =
          if (folded) Seq(Unsupported("folded")) else Support.check(query.executedPlan, Rows)
        if (missing.isEmpty) Right(query) else Left(missing.map(_.message).mkString("; "))
      } catch { case NonFatal(e) => Left(s"not planned: ${e.getMessage.take(200)}") }
    }
    tried.find(_.isRight).getOrElse(tried.head)
  }
}
