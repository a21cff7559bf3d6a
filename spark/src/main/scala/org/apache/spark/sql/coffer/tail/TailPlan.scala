package org.apache.spark.sql.coffer.tail

import org.apache.spark.sql.catalyst.expressions
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight}
import org.apache.spark.sql.catalyst.plans.{FullOuter, InnerLike, RightOuter}
import org.apache.spark.sql.catalyst.expressions.{
  PythonFuncExpression,
  SubqueryExpression,
  UserDefinedExpression
}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.SCALAR_SUBQUERY
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.SealedPlans
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.exchange.{
  BroadcastExchangeExec,
  EnsureRequirements,
  ShuffleExchangeExec
}
import org.apache.spark.sql.execution.joins.BroadcastNestedLoopJoinExec

/** Plans a tail with Spark's own planner, as one partition in this process. */
private[coffer] object TailPlan {

  def of(session: SparkSession, logical: LogicalPlan): SparkPlan = planned(
    session,
    logical,
    Seq(
      Subqueries(session),
      NestedLoops,
      OnePartition,
      RemoveRedundantProjects,
      EnsureRequirements(),
      InProcess,
      RemoveRedundantSorts,
      RemoveRedundantWindowGroupLimits) ++ last)

  /** As partitions that know nothing of each other; none where an operator needs all rows. */
  def apart(session: SparkSession, logical: LogicalPlan): Option[SparkPlan] =
    if (logical.exists(!isNarrow(_))) None
    else Some(planned(session, logical, RemoveRedundantProjects +: last))

  /** Users' functions may count in accumulators, of which each thread would have a copy. */
  private def isNarrow(node: LogicalPlan): Boolean =
    (node match {
      case _: Project | _: Filter | _: Generate | _: Union | _: RepartitionOperation |
          _: LogicalRelation | _: LogicalRDD | _: LocalRelation => true
      case _ => false
    }) && !node.expressions.exists(_.exists {
      case _: SubqueryExpression | _: UserDefinedExpression | _: PythonFuncExpression => true
      case _ => false
    })

  /** With a counter of stages that is one plan's. */
  private def last: Seq[Rule[SparkPlan]] = Seq(
    ApplyColumnarRulesAndInsertTransitions(Nil, outputsColumnar = false),
    CollapseCodegenStages())

  private def planned(
      session: SparkSession,
      logical: LogicalPlan,
      rules: Seq[Rule[SparkPlan]]): SparkPlan = {
    val one = logical.transform {
      case r: RepartitionOperation => r.child
      case j: Join => j.copy(hint = JoinHint.NONE)
    }
    val planned = Planning.in(Planning.Tail) { session.sessionState.planner.plan(one).next() }
    rules.foldLeft(planned)((plan, rule) => rule(plan))
  }

  /**
   * A subquery over sealed tables is a sealed query of its own. Any other would have Spark's
   * executors compute it, with its values in clear: it is a tail by itself.
   */
  private case class Subqueries(session: SparkSession) extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan =
      plan.transformAllExpressionsWithPruning(_.containsPattern(SCALAR_SUBQUERY)) {
        case s: expressions.ScalarSubquery =>
          val planned =
            if (SealedPlans.mentions(s.plan)) QueryExecution.prepareExecutedPlan(session, s.plan)
            else alone(s.plan)
          ScalarSubquery(
            SubqueryExec.createForScalarSubquery(s"scalar-subquery#${s.exprId.id}", planned),
            s.exprId)
      }

    private def alone(query: LogicalPlan): SparkPlan = TailRefusals.of(query) match {
      case Nil => CofferTailExec(TailPlan.of(session, query), Nil, None)
      case refused => throw CofferException.refusal(refused)
    }
  }

  /**
   * A nested loop join keeps the side in memory with which it needs no job and no shuffle to see
   * what has matched.
   */
  private object NestedLoops extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
      case j: BroadcastNestedLoopJoinExec => j.joinType match {
          case _: InnerLike => j
          case FullOuter => NestedFullJoinExec(j.left, j.right, j.condition)
          case RightOuter => j.copy(buildSide = BuildLeft)
          case _ => j.copy(buildSide = BuildRight)
        }
    }
  }

  /** Operators that sort, limit or number rows shuffle what is in more than one partition. */
  private object OnePartition extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
      case r: TailRowsExec => r
      case u: UnionExec => CoalesceExec(1, u)
      case l: LeafExecNode if CountedExec.reads(l) => CoalesceExec(1, CountedExec(l))
      case l: LeafExecNode => CoalesceExec(1, l)
    }
  }

  /** In one partition there is nothing to exchange. */
  private object InProcess extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
      case e: ShuffleExchangeExec => CoalesceExec(1, e.child)
      case b: BroadcastExchangeExec => InProcessBroadcastExec(b.mode, b.child)
    }
  }

  /** A part of the query that runs sealed, or is refused: it is optimised already. */
  def sealedPart(session: SparkSession, part: LogicalPlan): SparkPlan =
    Planning.in(Planning.Inner)(new PartExecution(session, part).executedPlan)

  /** A query that is optimised already, as one of its own. */
  def whole(session: SparkSession, query: LogicalPlan): SparkPlan =
    Planning.in(Planning.Off)(new PartExecution(session, query).executedPlan)

  private final class PartExecution(session: SparkSession, part: LogicalPlan)
      extends QueryExecution(session, part) {
    override def analyzed: LogicalPlan = part
    override def commandExecuted: LogicalPlan = part
    override def normalized: LogicalPlan = part
    override def withCachedData: LogicalPlan = part
    override def optimizedPlan: LogicalPlan = part
  }

  def operators(plan: SparkPlan): Seq[String] = plan match {
    case w: WholeStageCodegenExec => operators(w.child)
    case i: InputAdapter => operators(i.child)
    case c: ColumnarToRowExec => operators(c.child)
    case c: CountedExec => operators(c.child)
    case p => p.nodeName +: p.children.flatMap(operators)
  }
}

/** What the planner is asked for, in this thread. */
private[coffer] object Planning extends Enumeration {
  val Off, Tail, Judging, Inner = Value
  private val now = new ThreadLocal[Value] { override def initialValue(): Value = Off }

  def current: Value = now.get

  def in[T](what: Value)(body: => T): T = {
    val before = now.get
    now.set(what)
    try body
    finally now.set(before)
  }
}
