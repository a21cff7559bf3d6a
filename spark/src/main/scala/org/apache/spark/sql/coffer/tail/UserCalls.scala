package org.apache.spark.sql.coffer.tail

import java.util.Locale

import org.apache.spark.api.python.PythonEvalType
import org.apache.spark.sql.catalyst.expressions.{PythonFuncExpression, PythonUDF, ScalaUDF}
import org.apache.spark.sql.coffer.split.Estimates
import org.apache.spark.sql.coffer.versions.ScalarArrowUdf
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf

/** What users' functions cost, as far as the tables say: for EXPLAIN. */
private[coffer] object UserCalls {

  def of(tail: SparkPlan): Seq[String] = tail.collect { case node => calls(node) }.flatten.distinct

  private def calls(node: SparkPlan): Seq[String] = {
    val rows = node.logicalLink.flatMap(_.children.headOption).map(Estimates.rows)
    node.expressions.flatMap(_.collect {
      case p: PythonUDF => text(p.name, rows, p.evalType)
      case p: PythonFuncExpression => text(p.name, rows, PythonEvalType.NON_UDF)
      case s: ScalaUDF =>
        text(s.udfName.getOrElse("a function"), rows, PythonEvalType.SQL_BATCHED_UDF)
    })
  }

  /** A row's function is called for each row, one of columns for each batch of them. */
  private def text(name: String, rows: Option[Double], kind: Int): String = {
    val calls = rows.flatMap(n =>
      kind match {
        case PythonEvalType.SQL_BATCHED_UDF | PythonEvalType.SQL_ARROW_BATCHED_UDF => Some(n)
        case PythonEvalType.SQL_SCALAR_PANDAS_UDF | ScalarArrowUdf =>
          Some(math.ceil(n / math.max(1, SQLConf.get.arrowMaxRecordsPerBatch)))
        case _ => None
      })
    val many = calls.fold("calls")(n => s"about ${number(n)} calls")
    s"$many of $name" + rows.fold("")(n => s" over about ${number(n)} rows")
  }

  private def number(n: Double): String = "%,.0f".formatLocal(Locale.ROOT, n)
}
