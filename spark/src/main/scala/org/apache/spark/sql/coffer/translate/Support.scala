package org.apache.spark.sql.coffer.translate

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import com.google.common.cache.CacheBuilder

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, ExprId}
import org.apache.spark.sql.catalyst.plans.physical.RangePartitioning
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{
  AdaptiveSparkPlanExec,
  AQEShuffleReadExec,
  QueryStageExec
}
import org.apache.spark.sql.execution.command.{DataWritingCommandExec, ExecutedCommandExec}
import org.apache.spark.sql.execution.exchange.{
  BroadcastExchangeLike,
  ReusedExchangeExec,
  ShuffleExchangeLike
}
import org.apache.spark.sql.types.DataType

/**
 * Whether a whole plan can run sealed, before anything runs: every node for itself, so that all
 * that is missing is named at once.
 */
object Support {

  /** Empty: supported. `plan` is an initial plan, exchanges and subqueries included. */
  def check(plan: SparkPlan, leaves: LeafResolver): Seq[Unsupported] = {
    val began = System.nanoTime()
    // Ids do not matter here: nothing is kept of the translation.
    val context = Context(leaves, (_, _) => 0)
    try walk(plan, context).distinct
    finally spent.addAndGet(System.nanoTime() - began)
  }

  private val spent = new AtomicLong()

  /** What checking took since this was last asked, in nanoseconds: for benchmarks. */
  private[coffer] def takeSpent(): Long = spent.getAndSet(0)

  /**
   * Operators that were found to be supported, over inputs of these columns. Plans are checked when
   * a query is planned, when AQE begins, and each time that AQE plans again, and are mostly the
   * same each time. What runs is translated once more when its stage is sealed, whatever is found
   * here.
   */
  private[translate] val supported = CacheBuilder.newBuilder.maximumSize(4096).expireAfterAccess(60,
    TimeUnit.SECONDS).build[Shape, Shape]()

  /** An operator without what is below it: that is known by its columns. */
  private[translate] final case class Shape(
      operator: Class[_],
      arguments: Seq[Any],
      inputs: Seq[Seq[(ExprId, DataType, Boolean)]])

  private[translate] object Shape {
    def of(plan: SparkPlan): Shape = Shape(
      plan.getClass,
      plan.productIterator.filter {
        case _: SparkPlan => false
        case several: Iterable[_] => !several.exists(_.isInstanceOf[SparkPlan])
        case _ => true
      }.toVector,
      plan.children.map(_.output.map(a => (a.exprId, a.dataType, a.nullable)))
    )
  }

  /** Whether a condition over these columns is supported and cannot raise an error. */
  def infallible(
      condition: Expression,
      input: Seq[Attribute],
      leaves: LeafResolver): Boolean =
    new Scope(input, new Translation(Context(leaves, (_, _) => 0))).convert(condition).exists(
      Fallibility.infallible)

  private def walk(plan: SparkPlan, context: Context): Seq[Unsupported] =
    context.leaves.leaf(plan) match {
      case Some(leaf) =>
        val translation = new Translation(context)
        Operators.convertLeaf(leaf, translation).left.toSeq.map(_.in(plan)) ++
          subqueries(plan, context)
      case None =>
        below(plan) match {
          case Some(child) => walk(child, context)
          case None =>
            plan.children.flatMap(walk(_, context)) ++ known(plan, context) ++
              subqueries(plan, context)
        }
    }

  private def below(plan: SparkPlan): Option[SparkPlan] = plan match {
    case a: AdaptiveSparkPlanExec => Some(a.inputPlan)
    case q: QueryStageExec => Some(q.plan)
    case r: AQEShuffleReadExec => Some(r.child)
    case r: ReusedExchangeExec => Some(r.child)
    case _ => Operators.transparent(plan)
  }

  private def subqueries(plan: SparkPlan, context: Context): Seq[Unsupported] =
    plan.subqueries.flatMap {
      case s: SubqueryExec => walk(subqueryRoot(s.child), context)
      case _: ReusedSubqueryExec => Nil // checked where it is first used
      case other => Seq(Unsupported("this kind of subquery is not supported").in(other))
    }

  private def subqueryRoot(plan: SparkPlan): SparkPlan = plan match {
    case a: AdaptiveSparkPlanExec => subqueryRoot(a.inputPlan)
    case other => other
  }

  private def known(plan: SparkPlan, context: Context): Seq[Unsupported] =
    // Rows may be many to compare; and a subquery, kept here, would keep its whole query, with all
    // that it has broadcast.
    if (plan.children.isEmpty || plan.subqueries.nonEmpty) node(plan, context)
    else {
      val shape = Shape.of(plan)
      if (remembers && supported.getIfPresent(shape) != null) Nil
      else {
        val found = node(plan, context)
        if (found.isEmpty) supported.put(shape, shape)
        found
      }
    }

  @volatile private[coffer] var remembers = true

  private def node(plan: SparkPlan, context: Context): Seq[Unsupported] = {
    val translation = new Translation(context)
    val children = plan.children.map(standIn(_, translation))
    lazy val scope = new Scope(children.flatMap(_.output), translation)
    val answer: Result[Any] = plan match {
      case exchange: ShuffleExchangeLike =>
        Types.schema(exchange.output).flatMap { _ =>
          exchange.outputPartitioning match {
            case range: RangePartitioning => Partitionings.range(range, 0, scope)
            case other => Partitionings.of(other, scope)
          }
        }
      case broadcast: BroadcastExchangeLike => Types.schema(broadcast.output)
      case take: TakeOrderedAndProjectExec =>
        for {
          _ <- Operators.sortKeys(take.sortOrder, scope)
          _ <- Places.named(take.projectList, take, children.head, translation)
        } yield ()
      case _: CollectLimitExec | _: CollectTailExec => Right(())
      case write: SealedSink => Types.schema(write.child.output)
      case _: ExecutedCommandExec | _: DataWritingCommandExec =>
        refuse("commands over sealed tables would handle their rows outside the enclave")
      case other => Operators.convertNode(other, children, translation)
    }
    answer.left.toSeq.map(_.in(plan))
  }

  /** A child that has the right columns and nothing else. */
  private def standIn(plan: SparkPlan, translation: Translation): Relation =
    Relation(translation.node(plan).build(), plan.output, () => 1)
}
