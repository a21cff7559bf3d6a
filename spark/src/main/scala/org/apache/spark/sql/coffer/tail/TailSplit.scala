package org.apache.spark.sql.coffer.tail

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.exec.SealedPlans

/**
 * Splits an optimised query between engines and the driver: the largest subtrees that engines
 * support become [[TailRows]], and what can be had of an operator by itself goes below.
 */
private[coffer] final class TailSplit(session: SparkSession) extends PredicateHelper {
  private val judge = new Judge(session)

  /**
   * The query as the driver ends it, and why. `failed`: what was found of the whole plan, where no
   * operator by itself shows it.
   */
  def apply(query: LogicalPlan, failed: Seq[String]): (LogicalPlan, Seq[String]) = {
    val plan = visit(query) match {
      case InDriver(p) => p
      case InEngines(p) =>
        // None by itself; together they have no sealed form.
        judge.blame(failed)
        if (p.children.isEmpty) p else above(p, p.children.map(InEngines(_)))
    }
    (plan, judge.reasons)
  }

  private def visit(plan: LogicalPlan): Part = plan match {
    case c: ClientRelation => InDriver(c)
    case u: UnionLoop =>
      judge.blame(TailLoop.faults(session, u))
      InDriver(TailLoop(u))
    case l: LeafNode => if (judge.supports(l)) InEngines(l) else InDriver(l)
    case _ =>
      val parts = plan.children.map(visit)
      val below = parts.collect { case InEngines(p) => p }
      if (below.size < parts.size) InDriver(lifted(plan, parts).getOrElse(sunk(plan, parts)))
      else if (judge.supports(plan.withNewChildren(below))) InEngines(plan.withNewChildren(below))
      else InDriver(divided(plan.withNewChildren(below)).getOrElse(above(plan, parts)))
  }

  private def above(plan: LogicalPlan, parts: Seq[Part]): LogicalPlan =
    plan.withNewChildren(parts.map {
      case InDriver(p) => p
      case InEngines(p) => toDriver(p)
    })

  /** Rows that are in this process already need no engine. */
  private def toDriver(plan: LogicalPlan): LogicalPlan =
    if (SealedPlans.mentions(plan)) TailRows(plan) else plan

  // ---- operators of which engines have a part

  /** An unsupported operator over a part that is supported. */
  private def divided(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case p: Project => Some(project(p))
    case f: Filter => filter(f)
    case a: Aggregate => aggregate(a)
    case j @ Join(_, _, _: InnerLike, Some(_), _) => join(j, Nil)
    case _ => None
  }

  /** What engines can do of a list goes below, and of the rest what it reads. */
  private def project(p: Project): LogicalPlan = {
    val (now, later) = p.projectList.partition(e =>
      e.isInstanceOf[Attribute] && !judge.forces(p) || judge.supports(Project(Seq(e), p.child)))
    val read = AttributeSet(later.flatMap(_.references))
    val kept = p.child.output.filter(a => read.contains(a) && !now.exists(_.exprId == a.exprId))
    val list = p.projectList.map(e => if (now.exists(_ eq e)) e.toAttribute else e)
    if (now.isEmpty && kept.size == p.child.output.size) p.copy(child = toDriver(p.child))
    else Project(list, toDriver(Project(now ++ kept, p.child)))
  }

  /**
   * Conjuncts that engines have go first, but none past another that may keep it from failing:
   * only those before the first that stays.
   */
  private def filter(f: Filter): Option[LogicalPlan] = {
    val conjuncts = splitConjunctivePredicates(f.condition)
    val supported = conjuncts.map(c => c -> judge.supports(Filter(c, f.child)))
    val first = supported.takeWhile(_._2).map(_._1)
    val later = supported.drop(first.size)
    val moved = later.collect { case (c, true) if judge.neverFails(c, f.child) => c }
    val now = first ++ moved
    now.reduceOption(And).map { condition =>
      val rest = later.map(_._1).filterNot(c => moved.exists(_ eq c))
      Filter(rest.reduce(And), toDriver(Filter(condition, f.child)))
    }
  }

  /** Functions of aggregates, after aggregates that engines have. */
  private def aggregate(a: Aggregate): Option[LogicalPlan] = a match {
    case PhysicalAggregation(grouping, functions, results, child)
        if functions.forall(_.isInstanceOf[AggregateExpression]) =>
      val values = functions.map { f =>
        val of = f.asInstanceOf[AggregateExpression]
        Alias(of, of.resultAttribute.name)(of.resultAttribute.exprId)
      }
      val keys = grouping.map {
        case Alias(e, _) => e
        case e => e
      }
      val below = Aggregate(keys, grouping ++ values, child)
      if (judge.supports(below)) visit(Project(results, below)) match {
        case InDriver(p) => Some(p)
        case InEngines(_) => None
      }
      else None
    case _ => None
  }

  /**
   * The rest of an inner join's condition, over the join by what engines have of it. As Spark does,
   * it compares the sides first; what follows stays in its order, as in a filter. `above` are
   * conditions of the sides, which then no longer keep the join's own from failing.
   */
  private def join(j: Join, above: Seq[Expression]): Option[LogicalPlan] = {
    val (keys, others) =
      j.condition.toSeq.flatMap(splitConjunctivePredicates).partition(equates(j, _))
    def supported(c: Expression): Boolean =
      c.deterministic && judge.supports(j.copy(condition = Some(c)))
    def safe(c: Expression): Boolean = judge.neverFails(c, j)
    val (now, after) = keys.partition(c => supported(c) && (above.isEmpty || safe(c)))
    val first = if (above.isEmpty && after.isEmpty) others.takeWhile(supported) else Nil
    val (moved, rest) = others.drop(first.size).partition(c => supported(c) && safe(c))
    val below = now ++ first ++ moved
    // Without an equality each row meets each: more rows than the sides have.
    if (below.isEmpty || now.isEmpty && keys.nonEmpty) None
    else (above ++ after ++ rest).reduceOption(And).map { condition =>
      Filter(condition, toDriver(j.copy(condition = below.reduceOption(And))))
    }
  }

  /** Whether it compares a value of one side with one of the other. */
  private def equates(j: Join, condition: Expression): Boolean = condition match {
    case Equality(a, b) =>
      canEvaluate(a, j.left) && canEvaluate(b, j.right) ||
      canEvaluate(a, j.right) && canEvaluate(b, j.left)
    case _ => false
  }

  // ---- operators over a part that is in the driver

  /**
   * Spark filters the sides of an inner join first, also by what it infers of the join's condition.
   * Where that has no sealed form it waits, and engines join by what they can compare.
   */
  private def lifted(plan: LogicalPlan, parts: Seq[Part]): Option[LogicalPlan] = plan match {
    case j @ Join(_, _, _: InnerLike, Some(_), _) =>
      val sides = parts.map {
        case InEngines(p) => Some(p -> Nil)
        case InDriver(Filtered(p, condition)) if condition.deterministic =>
          Some(p -> Seq(condition))
        case _ => None
      }
      if (sides.forall(_.isDefined)) {
        val (below, conditions) = sides.flatten.unzip
        join(j.withNewChildren(below).asInstanceOf[Join], conditions.flatten)
          .map(Project(j.output, _))
      } else None
    case _ => None
  }

  private object Filtered {
    def unapply(plan: LogicalPlan): Option[(LogicalPlan, Expression)] = plan match {
      case Filter(condition, TailRows(part)) => Some(part -> condition)
      case Project(list, Filter(condition, TailRows(part)))
          if list.forall(_.isInstanceOf[Attribute]) => Some(part -> condition)
      case _ => None
    }
  }

  /** Sorts, limits and filters that do not need what the driver makes go below it. */
  private def sunk(plan: LogicalPlan, parts: Seq[Part]): LogicalPlan = {
    val made = above(plan, parts)
    made match {
      case _: Sort | _: GlobalLimit | _: Offset | _: Filter =>
        sink(made.asInstanceOf[UnaryNode], made.children.head).getOrElse(made)
      case l: LocalLimit => sink(l, l.child).getOrElse(made)
      case _ => made
    }
  }

  private def sink(node: UnaryNode, over: LogicalPlan): Option[LogicalPlan] = over match {
    case TailRows(part) =>
      val below = node.withNewChildren(Seq(part))
      if (node.references.subsetOf(part.outputSet) && judge.supports(below)) Some(TailRows(below))
      else None
    // As Spark's own rules, none past what may give another value for other rows before it.
    case p: Project
        if p.projectList.forall(_.deterministic) &&
          node.references.subsetOf(AttributeSet(p.projectList.collect { case a: Attribute =>
            a
          })) =>
      sink(node, p.child).map(c => p.copy(child = c))
    case e: BaseEvalPython
        if e.udfs.forall(_.deterministic) &&
          node.references.intersect(AttributeSet(e.resultAttrs)).isEmpty =>
      sink(node, e.child).map(c => e.withNewChildren(Seq(c)))
    case _ => None
  }
}

/** Where a subtree runs, and what becomes of it. */
private sealed trait Part
private final case class InEngines(plan: LogicalPlan) extends Part
private final case class InDriver(plan: LogicalPlan) extends Part
