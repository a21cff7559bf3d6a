package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Max, Min}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.coffer.versions.ScanOf
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** The column of a sealed table whose values a column of a query has. */
private[coffer] final case class BaseColumn(table: CofferTable, column: Int) {
  def name: String = table.info.getSchema.getFields(column).getName
  def figures: Option[ColumnFigures] = table.figures(column)
}

private[coffer] object BaseColumn {

  /**
   * Of the columns anywhere in a plan, but for subqueries. A minimum or maximum has its column's
   * values too.
   */
  def of(plan: LogicalPlan): Map[ExprId, BaseColumn] = {
    val found = scala.collection.mutable.Map.empty[ExprId, BaseColumn]
    def named(list: Seq[NamedExpression]): Unit = list.foreach {
      case alias @ Alias(Column(a), _) => found.get(a.exprId).foreach(found.put(alias.exprId, _))
      case _ =>
    }
    plan.foreachUp {
      case Table(table, output) =>
        output.foreach(a =>
          column(table, a.name).foreach(c => found.put(a.exprId, BaseColumn(table, c))))
      case clientRows: ClientTable =>
        clientRows.output.foreach(a =>
          column(clientRows.table, a.name).foreach(c =>
            found.put(a.exprId, BaseColumn(clientRows.table, c))))
      case p: Project => named(p.projectList)
      case a: Aggregate => named(a.aggregateExpressions)
      case u: Union =>
        u.output.zip(u.children.head.output).foreach { case (a, first) =>
          found.get(first.exprId).foreach(found.put(a.exprId, _))
        }
      case _ =>
    }
    found.toMap
  }

  /** A sealed table in a plan, and its columns there. */
  object Table {
    def unapply(plan: LogicalPlan): Option[(CofferTable, Seq[Attribute])] = plan match {
      case r @ ScanOf(_, scan: CofferScan, _) =>
        Some((scan.table, r.output))
      case r: DataSourceV2Relation =>
        r.table match {
          case t: CofferTable => Some((t, r.output))
          case _ => None
        }
      case _ => None
    }
  }

  private object Column {
    def unapply(e: Expression): Option[Attribute] = e match {
      case a: Attribute => Some(a)
      case AggregateExpression(Min(a: Attribute), _, _, _, _) => Some(a)
      case AggregateExpression(Max(a: Attribute), _, _, _, _) => Some(a)
      case _ => None
    }
  }

  private def column(table: CofferTable, name: String): Option[Int] =
    if (table.viewed) table.stored.find(c => c.name == name && c.isColumn).map(_.column)
    else table.schema.getFieldIndex(name)
}
