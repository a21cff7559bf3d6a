package org.apache.spark.sql.coffer.split

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.types.LongType

/** A part of the aggregate's output: what stands there, and what it is to the query. */
private final case class Computed(below: NamedExpression, access: ColumnAccess)
private final case class Group(
    of: Expression,
    by: Expression,
    below: NamedExpression,
    access: ColumnAccess)

/** A sum of ciphertexts, and what opens of it. */
private final case class Taken(below: Alias, sum: Attribute, count: Attribute)

/** SUM and AVG of a column over the same rows are of one sum. */
private final class Sharing {
  private val all = mutable.Map.empty[(ExprId, Option[Expression]), Taken]

  def of(encoding: StoredEncoding, filter: Option[Expression])(take: => Taken): Taken =
    all.getOrElseUpdate((encoding.attribute.exprId, filter.map(_.canonicalized)), take)
}

/**
 * GROUP BY over stored columns: groups by ciphertexts that tell equality, MIN and MAX by those that
 * tell order, SUM and AVG by `ashe`.
 */
private[split] final class SiteAggregates(hosts: Boolean) {

  /**
   * The aggregate for engines and, over its columns, the query's results; or none, if some of it
   * cannot be told.
   */
  def rewrite(a: Aggregate, inEngines: InEngines): Option[(InEngines, Seq[NamedExpression])] = {
    val groups = a.groupingExpressions.map(group(_, inEngines))
    val calls = a.aggregateExpressions.flatMap(_.collect { case call: AggregateExpression =>
      call
    }).distinctBy(_.canonicalized)
    val sums = new Sharing
    val computed = calls.map(call => call -> function(call, inEngines, sums))
    if (groups.exists(_.isEmpty) || computed.exists(_._2.isEmpty)) None
    else {
      val grouped = groups.flatten
      val called = computed.collect { case (call, Some(t)) => call -> t }
      val named = grouped.map(_.below) ++ called.map(_._2.below).distinctBy(_.exprId)
      val access = grouped.map(_.access) ++ called.map(_._2.access)
      val below = Aggregate(grouped.map(g => g.by), named, inEngines.plan)
      val results = a.aggregateExpressions.map(result(_, grouped,
          called.map { case (c, t) =>
            c ->
              t.access.attribute
          }))
      Some((InEngines(below, AttributeMap(access.map(h => h.attribute -> h))), results))
    }
  }

  private def asItIs(e: Expression, inEngines: InEngines): Boolean =
    inEngines.opens(e) && e.deterministic && !(hosts &&
      e.exists(_.isInstanceOf[SubqueryExpression]))

  private def group(e: Expression, inEngines: InEngines): Option[Group] = e match {
    case a: Attribute if asItIs(a, inEngines) =>
      Some(Group(a, a, a, ColumnAccess(a, open = true, Nil)))
    case a: Attribute =>
      inEngines.access.get(a).flatMap(_.equality).filter(_ =>
        inEngines.access(a).openable.isDefined).map { encoding =>
        // Other forms of the column are not among the groups.
        Group(a, encoding.attribute, encoding.attribute,
          ColumnAccess(a, open = false, Seq(encoding.copy(position = None))))
      }
    case other if asItIs(other, inEngines) =>
      val alias = Alias(other, "group")()
      Some(Group(other, other, alias, ColumnAccess(alias.toAttribute, open = true, Nil)))
    case _ => None
  }

  private def function(
      call: AggregateExpression,
      inEngines: InEngines,
      shared: Sharing): Option[Computed] =
    if (asItIs(call, inEngines)) {
      val alias = Alias(call, "result")()
      Some(Computed(alias, ColumnAccess(alias.toAttribute, open = true, Nil)))
    } else if (!call.filter.forall(asItIs(_, inEngines))) None
    else
      call.aggregateFunction match {
        case c: Count => count(call, c, inEngines)
        case Min(a: Attribute) => extreme(call, a, inEngines)(Min(_))
        case Max(a: Attribute) => extreme(call, a, inEngines)(Max(_))
        case s @ Sum(a: Attribute, _) if !call.isDistinct =>
          sums(call, a, inEngines, shared)(sum(s, _, _))
        case v @ Average(a: Attribute, _) if !call.isDistinct =>
          sums(call, a, inEngines, shared)(average(v, _, _))
        case _ => None
      }

  private def count(call: AggregateExpression, c: Count, inEngines: InEngines): Option[Computed] = {
    val children = c.children.map {
      case e if asItIs(e, inEngines) => Some(e)
      case a: Attribute =>
        inEngines.access.get(a).flatMap(h =>
          if (call.isDistinct) h.equality else h.encodings.headOption).map(_.attribute)
      case _ => None
    }
    if (children.forall(_.isDefined)) {
      val alias = Alias(call.copy(aggregateFunction = Count(children.flatten)), "result")()
      Some(Computed(alias, ColumnAccess(alias.toAttribute, open = true, Nil)))
    } else None
  }

  private def extreme(call: AggregateExpression, a: Attribute, inEngines: InEngines)(
      of: Expression => AggregateFunction): Option[Computed] =
    inEngines.access.get(a).flatMap(_.order).map { encoding =>
      val alias = Alias(call.copy(aggregateFunction = of(encoding.attribute)), "result")()
      val result = AttributeReference(a.name, a.dataType)()
      Computed(alias,
        ColumnAccess(result, open = false,
          Seq(encoding.copy(attribute = alias.toAttribute, position = None))))
    }

  private def sums(call: AggregateExpression, a: Attribute, inEngines: InEngines, shared: Sharing)(
      result: (Attribute, Attribute) => Expression): Option[Computed] =
    for (encoding <- inEngines.access.get(a).flatMap(_.summed); (file, row) <- encoding.position)
      yield {
        val taken = shared.of(encoding, call.filter) {
          Taken(
            Alias(call.copy(aggregateFunction = AsheSum(encoding.attribute, file, row)), "sum")(),
            AttributeReference("sum", Sum(a).dataType)(),
            AttributeReference("count", LongType, nullable = false)())
        }
        val value = result(taken.sum, taken.count)
        val attribute = AttributeReference("result", value.dataType)()
        Computed(taken.below,
          ColumnAccess(attribute, open = false, Nil,
            Some(Sums(encoding, taken.below.toAttribute, taken.sum, taken.count, value))))
      }

  /**
   * The sum that comes to the client is NULL for no values, and else fits: the column's bounds see
   * to it.
   */
  private def sum(of: Sum, sum: Attribute, count: Attribute): Expression =
    if (sum.dataType == of.dataType) sum else Cast(sum, of.dataType)

  /** Spark's own division of its sum by its count, over those that came to the client. */
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
        calls.collectFirst { case (c, a) if c.canonicalized == call.canonicalized => a }.getOrElse(
          call)
      case part: Expression if !part.foldable && groups.exists(_.of.semanticEquals(part)) =>
        groups.collectFirst { case g if g.of.semanticEquals(part) => g.access.attribute }.get
    }
    replaced match {
      case n: NamedExpression if n.exprId == e.exprId => n
      case other => Alias(other, e.name)(e.exprId, e.qualifier)
    }
  }
}
