package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeReference,
  AttributeSet,
  NamedExpression,
  ScalarSubquery
}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Subquery, WithCTE}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.SCALAR_SUBQUERY
import org.apache.spark.sql.coffer.split.{CofferScan, CofferTable}
import org.apache.spark.sql.coffer.versions
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/**
 * Has Spark compute scalar subqueries over one sealed table at once, as it does over files. Its
 * rule merges plans whose relations are equal, and those of a data source are not once each has the
 * columns of its own subquery alone. So here they are given the columns of all, are merged, and
 * what nobody reads is left out again: columns that one of them has not asked for are never read.
 */
object AlikeSubqueries extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    // It looks at the whole query once, as Spark's rule.
    case _: Subquery | _: WithCTE => plan
    case _ if !plan.containsPattern(SCALAR_SUBQUERY) => plan
    case _ if !conf.getConf(SQLConf.SUBQUERY_REUSE_ENABLED) => plan
    case _ =>
      val columns = ofSeveral(plan)
      if (columns.isEmpty) plan
      else {
        val merged = versions.mergedSubqueries(inSubqueries(plan)(widened(columns)))
        // Nothing was merged: the plan stays as it was.
        if (merged.exists(_.isInstanceOf[WithCTE])) narrowed(merged) else plan
      }
  }

  /** Of tables that subqueries read with different columns, the columns of all. */
  private def ofSeveral(plan: LogicalPlan): Map[CofferTable, StructType] = {
    val subqueries = plan.collectWithSubqueries { case node =>
      node.expressions.flatMap(_.collect { case s: ScalarSubquery if isAlone(s) => s.plan })
    }.flatten
    val scans = subqueries.flatMap(_.collect(Function.unlift(scan))).map(_._2).toSet
    scans.groupBy(_.table).collect {
      case (table, alike) if alike.size > 1 =>
        val names = alike.flatMap(_.readSchema().fieldNames)
        table -> StructType(table.schema.fields.filter(f => names(f.name)))
    }
  }

  /** What Spark's rule looks at. */
  private def isAlone(s: ScalarSubquery): Boolean = !s.isCorrelated && s.deterministic

  private def inSubqueries(plan: LogicalPlan)(
      change: LogicalPlan => LogicalPlan): LogicalPlan = plan.transformWithSubqueries {
    case node => node.transformExpressions {
        case s: ScalarSubquery if isAlone(s) =>
          s.withNewPlan(s.plan.transformUp { case inner => change(inner) })
      }
  }

  private def scan(plan: LogicalPlan): Option[(DataSourceV2ScanRelation, CofferScan)] = plan match {
    case relation: DataSourceV2ScanRelation => relation.scan match {
        case scan: CofferScan => Some((relation, scan))
        case _ => None
      }
    case _ => None
  }

  private def widened(columns: Map[CofferTable, StructType])(plan: LogicalPlan): LogicalPlan =
    scan(plan) match {
      case Some((relation, scan)) if columns.contains(scan.table) =>
        val own = relation.output.map(a => a.name -> a).toMap
        val schema = columns(scan.table)
        val wide = schema.map { field =>
          own.getOrElse(field.name,
            AttributeReference(field.name, field.dataType, field.nullable, field.metadata)())
        }
        Project(
          relation.output,
          relation.copy(scan = new CofferScan(scan.table, schema), output = wide))
      case _ => plan
    }

  /** What was given too much, or was not merged, reads what the projection above it names. */
  private def narrowed(plan: LogicalPlan): LogicalPlan = plan.transformWithSubqueries {
    case project @ Project(list, child) if list.forall(_.isInstanceOf[Attribute]) =>
      scan(child).fold[LogicalPlan](project) { case (relation, scan) =>
        val read = AttributeSet(list.flatMap(_.references))
        val kept = relation.output.filter(read.contains)
        val names = kept.map(_.name).toSet
        val schema = StructType(scan.readSchema().filter(f => names(f.name)))
        val narrow = relation.copy(scan = new CofferScan(scan.table, schema), output = kept)
        if (same(list, kept)) narrow else Project(list, narrow)
      }
  }

  private def same(list: Seq[NamedExpression], output: Seq[Attribute]): Boolean =
    list.map(_.exprId) == output.map(_.exprId)
}
