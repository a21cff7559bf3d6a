package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.catalyst.expressions.{Alias, Literal, SubqueryExpression}
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.exec.SealedPlans
import org.apache.spark.sql.coffer.split.CofferTable
import org.apache.spark.sql.coffer.versions.TableOf
import org.apache.spark.sql.internal.SQLConf

/**
 * Columns that the user may not read. The client engine refuses their keys, whatever is asked here;
 * this only lets it say so before anything of the query runs, or, on request, puts NULL in their
 * place.
 */
object DeniedColumns extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (asNull && SealedPlans.mentions(plan))
      AnalysisHelper.allowInvokingTransformsInAnalyzer(convert(plan))
    else plan

  private def convert(plan: LogicalPlan): LogicalPlan =
    plan.transformUp { case node =>
      relation(node).transformExpressions { case s: SubqueryExpression =>
        s.withNewPlan(convert(s.plan))
      }
    }

  private def relation(node: LogicalPlan): LogicalPlan = node match {
    case r @ TableOf(t: CofferTable, output, _, _)
        if output.exists(a => t.denied(a.name)) =>
      val columns = output.map(a =>
        if (t.denied(a.name)) Alias(Literal(null, a.dataType), a.name)(a.exprId, a.qualifier)
        else a)
      Project(columns, r.copy(output = output.filterNot(a => t.denied(a.name))))
    case other => other
  }

  private def asNull: Boolean =
    SQLConf.get.getConfString(CofferConf.DENIED_COLUMNS, "error") match {
      case "error" => false
      case "null" => true
      case other =>
        throw new CofferException("COFFER_CONF",
          s"${CofferConf.DENIED_COLUMNS} is " +
            s"$other", "set it to error or null")
    }
}
