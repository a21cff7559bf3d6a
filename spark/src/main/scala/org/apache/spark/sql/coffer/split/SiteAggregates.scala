package org.apache.spark.sql.coffer.split

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.types.LongType

/** A part of the aggregate's output: what stands there, and what it is to the query. */
private final case class Told(below: NamedExpression, held: Held)
private final case class Group(of: Expression, by: Expression, below: NamedExpression, held: Held)

/** A sum of ciphertexts, and what opens of it. */
private final case class Taken(below: Alias, sum: Attribute, count: Attribute)

/** SUM and AVG of a column over the same rows are of one sum. */
private final class Sharing {
  private val all = mutable.Map.empty[(ExprId, Option[Expression]), Taken]

  def of(form: Form, filter: Option[Expression])(take: => Taken): Taken =
    all.getOrElseUpdate((form.attribute.exprId, filter.map(_.canonicalized)), take)
}

/** GROUP BY over stored columns: groups by ciphertexts that tell equality, MIN and MAX by those that tell order, SUM and AVG by `ashe`. */
private[split] final class SiteAggregates(hosts: Boolean) {

  /** The aggregate for engines and, over its columns, the query's results; or none, if some of it cannot be told. */
  def rewrite(a: Aggregate, away: Away): Option[(Away, Seq[NamedExpression])] = {
    val groups = a.groupingExpressions.map(group(_, away))
    val calls = a.aggregateExpressions.flatMap(_.collect { case call: AggregateExpression => call }).distinctBy(_.canonicalized)
    val sums = new Sharing
    val told = calls.map(call => call -> function(call, away, sums))
    if (groups.exists(_.isEmpty) || told.exists(_._2.isEmpty)) None
    else {
      val grouped = groups.flatten
      val called = told.collect { case (call, Some(t)) => call -> t }
      val named = grouped.map(_.below) ++ called.map(_._2.below).distinctBy(_.exprId)
      val held = grouped.map(_.held) ++ called.map(_._2.held)
      val below = Aggregate(grouped.map(g => g.by), named, away.plan)
      val results = a.aggregateExpressions.map(result(_, grouped, called.map { case (c, t) => c -> t.held.attribute }))
      Some((Away(below, AttributeMap(held.map(h => h.attribute -> h))), results))
    }
  }

  private def asItIs(e: Expression, away: Away): Boolean =
    away.opens(e) && e.deterministic && !(hosts && e.exists(_.isInstanceOf[SubqueryExpression]))

  private def group(e: Expression, away: Away): Option[Group] = e match {
    case a: Attribute if asItIs(a, away) => Some(Group(a, a, a, Held(a, open = true, Nil)))
    case a: Attribute =>
      away.held.get(a).flatMap(_.equality).filter(_ => away.held(a).openable.isDefined).map { form =>
        // Other forms of the column are not among the groups.
        Group(a, form.attribute, form.attribute, Held(a, open = false, Seq(form.copy(place = None))))
      }
    case other if asItIs(other, away) =>
      val alias = Alias(other, "group")()
      Some(Group(other, other, alias, Held(alias.toAttribute, open = true, Nil)))
    case _ => None
  }

  private def function(call: AggregateExpression, away: Away, shared: Sharing): Option[Told] =
    if (asItIs(call, away)) {
      val alias = Alias(call, "result")()
      Some(Told(alias, Held(alias.toAttribute, open = true, Nil)))
    } else if (!call.filter.forall(asItIs(_, away))) None
    else
      call.aggregateFunction match {
        case c: Count => count(call, c, away)
        case Min(a: Attribute) => extreme(call, a, away)(Min(_))
        case Max(a: Attribute) => extreme(call, a, away)(Max(_))
        case s @ Sum(a: Attribute, _) if !call.isDistinct => sums(call, a, away, shared)(sum(s, _, _))
        case v @ Average(a: Attribute, _) if !call.isDistinct => sums(call, a, away, shared)(average(v, _, _))
        case _ => None
      }

  private def count(call: AggregateExpression, c: Count, away: Away): Option[Told] = {
    val children = c.children.map {
      case e if asItIs(e, away) => Some(e)
      case a: Attribute =>
        away.held.get(a).flatMap(h => if (call.isDistinct) h.equality else h.forms.headOption).map(_.attribute)
      case _ => None
    }
    if (children.forall(_.isDefined)) {
      val alias = Alias(call.copy(aggregateFunction = Count(children.flatten)), "result")()
      Some(Told(alias, Held(alias.toAttribute, open = true, Nil)))
    } else None
  }

  private def extreme(call: AggregateExpression, a: Attribute, away: Away)(
      of: Expression => AggregateFunction): Option[Told] =
    away.held.get(a).flatMap(_.order).map { form =>
      val alias = Alias(call.copy(aggregateFunction = of(form.attribute)), "result")()
      val result = AttributeReference(a.name, a.dataType)()
      Told(alias, Held(result, open = false, Seq(form.copy(attribute = alias.toAttribute, place = None))))
    }

  private def sums(call: AggregateExpression, a: Attribute, away: Away, shared: Sharing)(
      result: (Attribute, Attribute) => Expression): Option[Told] =
    for (form <- away.held.get(a).flatMap(_.summed); (file, row) <- form.place) yield {
      val taken = shared.of(form, call.filter) {
        Taken(
          Alias(call.copy(aggregateFunction = AsheSum(form.attribute, file, row)), "sum")(),
          AttributeReference("sum", Sum(a).dataType)(),
          AttributeReference("count", LongType, nullable = false)())
      }
      val value = result(taken.sum, taken.count)
      val attribute = AttributeReference("result", value.dataType)()
      Told(taken.below, Held(attribute, open = false, Nil, Some(Sums(form, taken.below.toAttribute, taken.sum, taken.count, value))))
    }

  /** The sum that comes home is NULL for no values, and else fits: the column's bounds see to it. */
  private def sum(of: Sum, sum: Attribute, count: Attribute): Expression =
    if (sum.dataType == of.dataType) sum else Cast(sum, of.dataType)

  /** Spark's own division of its sum by its count, over those that came home. */
  private def average(of: Average, sum: Attribute, count: Attribute): Expression = {
    val itsSum = of.aggBufferAttributes.head
    val itsCount = of.aggBufferAttributes.last
    of.evaluateExpression.transform {
      case a: Attribute if a.exprId == itsSum.exprId =>
        val value = if (sum.dataType == itsSum.dataType) sum else Cast(sum, itsSum.dataType)
        Coalesce(Seq(value, Literal.default(itsSum.dataType)))
      case a: Attribute if a.exprId == itsCount.exprId => count
    }
  }

  private def result(
      e: NamedExpression,
      groups: Seq[Group],
      calls: Seq[(AggregateExpression, Attribute)]): NamedExpression = {
    val replaced = e.transformDown {
      case call: AggregateExpression =>
        calls.collectFirst { case (c, a) if c.canonicalized == call.canonicalized => a }.getOrElse(call)
      case part: Expression if !part.foldable && groups.exists(_.of.semanticEquals(part)) =>
        groups.collectFirst { case g if g.of.semanticEquals(part) => g.held.attribute }.get
    }
    replaced match {
      case n: NamedExpression if n.exprId == e.exprId => n
      case other => Alias(other, e.name)(e.exprId, e.qualifier)
    }
  }
}
