package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * What a query computes on a column of a table.
 *
 * @param kind  `equality`, `in`, `join`, `range`, `compare`, `null`, `like`, `group`, `distinct`,
 *              `order`, `min`, `max`, `sum`, `avg`, `count`, `expression`, `output`
 * @param other      of a join or comparison the other column; of an expression its name; of an
 *                 order `limit` if only the first rows are wanted
 * @param otherTable of a join or comparison the table of the other column, if it is a table's
 */
private[coffer] final case class Use(
    table: String,
    column: String,
    kind: String,
    other: String = "",
    otherTable: String = "")

/** The uses of columns in an optimised query, its subqueries included. */
private[coffer] object ColumnUses {

  def of(query: LogicalPlan): Seq[Use] = {
    val own = new ColumnUses(query)
    (own.inside ++ own.output ++ subqueries(query).flatMap(of)).distinct
  }

  /** The plans of a query's own subqueries, not of theirs. */
  def subqueries(query: LogicalPlan): Seq[LogicalPlan] =
    query.flatMap(_.expressions).flatMap(_.collect { case s: SubqueryExpression => s.plan })
}

private final class ColumnUses(query: LogicalPlan) {
  private val origins = BaseColumn.of(query)

  /** Sorts of which only the first rows are wanted, or the last. */
  private val cut: Seq[Sort] = query.collect {
    case limit @ (_: GlobalLimit | _: LocalLimit |
        _: Tail) => sorted(limit)
  }.flatten

  private def sorted(plan: LogicalPlan): Option[Sort] = plan match {
    case s: Sort => Some(s)
    case _: GlobalLimit | _: LocalLimit | _: Tail | _: Offset |
        _: Project => sorted(plan.children.head)
    case _ => None
  }

  def output: Seq[Use] = query.output.flatMap(use(_, "output"))

  def inside: Seq[Use] = query.collect { case node => node }.flatMap {
    case f: Filter => condition(f.condition)
    case j: Join => j.condition.toSeq.flatMap(condition)
    case a: Aggregate => a.groupingExpressions.flatMap(value(_, "group")) ++
        a.aggregateExpressions.flatMap(calls)
    case s: Sort =>
      s.order.flatMap(o => value(o.child, "order", if (cut.exists(_ eq s)) "limit" else ""))
    case p: Project => p.projectList.flatMap {
        case _: Attribute | Alias(_: Attribute, _) => Nil
        case e => computed(e)
      }
    case _: LeafNode | _: Union | _: GlobalLimit | _: LocalLimit => Nil
    case other => other.expressions.flatMap(computed)
  }

  private def use(e: Expression, kind: String, other: String = ""): Option[Use] = e match {
    case a: Attribute =>
      origins.get(a.exprId).map(o => Use(o.table.info.getName, o.name, kind, other))
    case _ => None
  }

  private def condition(e: Expression): Seq[Use] = e match {
    case And(l, r) => condition(l) ++ condition(r)
    case Or(l, r) => condition(l) ++ condition(r)
    case Not(c) => condition(c)
    // The optimizer says of most columns that they are not NULL.
    case IsNotNull(_: Attribute) => Nil
    case IsNull(a: Attribute) => use(a, "null").toSeq
    case In(a: Attribute, list) if list.forall(_.foldable) => use(a, "in").toSeq
    case InSet(a: Attribute, _) => use(a, "in").toSeq
    case EqualNullSafe(a: Attribute, b: Attribute) => both(a, b, "join")
    case Comparison(Comparison.Equal, a: Attribute, b: Attribute) => both(a, b, "join")
    case Comparison(_, a: Attribute, b: Attribute) => both(a, b, "compare")
    case Comparison(kind, a: Attribute, l: Literal) => use(a, compared(kind), l.sql).toSeq
    case Comparison(kind, l: Literal, a: Attribute) => use(a, compared(kind), l.sql).toSeq
    case StartsWith(a: Attribute, _) => use(a, "like").toSeq
    case EndsWith(a: Attribute, _) => use(a, "like").toSeq
    case Contains(a: Attribute, _) => use(a, "like").toSeq
    case Like(a: Attribute, _, _) => use(a, "like").toSeq
    case Comparison(kind, left, right) => Seq(left, right).flatMap(value(_, compared(kind)))
    case other => computed(other)
  }

  private def compared(kind: Comparison): String =
    if (kind == Comparison.Equal) "equality" else "range"

  private def both(a: Attribute, b: Attribute, kind: String): Seq[Use] =
    against(a, b, kind).toSeq ++ against(b, a, kind)

  private def against(a: Attribute, b: Attribute, kind: String): Option[Use] = {
    val other = origins.get(b.exprId)
    use(a, kind).map(_.copy(other = other.fold("")(_.name),
        otherTable = other.fold("")(_.table.info.getName)))
  }

  private def value(e: Expression, kind: String, other: String = ""): Seq[Use] = e match {
    case a: Attribute => use(a, kind, other).toSeq
    case more => computed(more)
  }

  private def calls(e: NamedExpression): Seq[Use] = e.collect { case call: AggregateExpression =>
    call
  }.flatMap { call =>
    call.filter.toSeq.flatMap(condition) ++ call.aggregateFunction.children.flatMap { argument =>
      value(argument,
        (call.aggregateFunction, call.isDistinct) match {
          case (_, true) => "distinct"
          case (_: Sum, _) => "sum"
          case (_: Average, _) => "avg"
          case (_: Count, _) => "count"
          case (_: Min, _) => "min"
          case (_: Max, _) => "max"
          case _ => "expression"
        })
    }
  }

  private def computed(e: Expression): Seq[Use] = {
    def name(of: Expression): String = of match {
      case Alias(child, _) => name(child)
      case operator: BinaryOperator => operator.symbol
      case other => other.prettyName
    }
    e.references.toSeq.flatMap(use(_, "expression", name(e)))
  }
}
