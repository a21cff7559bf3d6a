package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Attribute, NamedExpression, SortOrder}
import org.apache.spark.sql.coffer.proto.plan.{Filter, Fragment, Input, Node, Sink}
import org.apache.spark.sql.execution._

/**
 * The root of a query in two parts: what every task does, and what the client engine does with the
 * streams that come to the client.
 *
 * @param task   the fragment of the tasks, to `Sink.Result`
 * @param finish what the client engine runs over the opened streams (its Input 0) as one partition;
 *               none: it concatenates them in the order of partitions
 * @param merges `finish` merges sorted streams and so needs every partition
 * @param tail   only the last so many rows of the result count (`Dataset.tail`)
 * @param output the columns of the final rows
 */
final case class ResultPlan(
    task: TranslatedFragment,
    finish: Option[Fragment],
    merges: Boolean,
    tail: Option[Int],
    output: Seq[Attribute])

/**
 * A root ORDER BY needs no exchange: tasks sort their partitions, the client engine merges. So
 * `SortExec(global = true)` is taken as it stands here, whatever lies below it, and all that Spark
 * does after it moves into the finish.
 */
object ResultPlan {

  def of(root: SparkPlan, context: Context): Result[ResultPlan] = {
    val (plan, tail) = root match {
      case CollectTailExec(limit, child) => (child, Some(limit))
      case other => (other, None)
    }
    val steps = new Steps(context.leaves)
    val (taskPlan, finishing) = steps.split(plan)
    val translation = new Translation(context)
    for {
      relation <- Operators.convert(taskPlan, translation)
      limited <- steps.local(finishing, relation, translation)
      sink = Sink.newBuilder.setResult(Sink.Result.getDefaultInstance).build()
      task <- Fragments.assemble(limited, sink, translation)
      finish <- if (finishing.isEmpty) Right(None)
      else finishFragment(finishing, limited, context).map(Some(_))
    } yield ResultPlan(task, finish, finishing.exists(_.merges), tail, root.output)
  }

  /** What remains to be done at the client, in the order in which it is done. */
  private sealed abstract class Step(val plan: SparkPlan) {
    def merges: Boolean = false
  }
  private final case class Merge(of: SparkPlan, order: Seq[SortOrder]) extends Step(of) {
    override def merges: Boolean = true
  }
  private final case class Take(of: SparkPlan, limit: Int, offset: Int) extends Step(of)
  private final case class Keep(of: FilterExec) extends Step(of)
  private final case class Show(of: SparkPlan, exprs: Seq[NamedExpression]) extends Step(of)

  private final class Steps(leaves: LeafResolver) {

    /** The part for the tasks, and the steps after it. */
    def split(plan: SparkPlan): (SparkPlan, Vector[Step]) =
      if (leaves.leaf(plan).isDefined) (plan, Vector.empty)
      else
        plan match {
          case sort: SortExec if sort.global => (sort, Vector(Merge(sort, sort.sortOrder)))
          case take: TakeOrderedAndProjectExec =>
            // The tasks' share, a top-k without projection, is added by `local`.
            (take.child,
              Vector(Merge(take, take.sortOrder), Take(take, take.limit, take.offset),
                Show(take, take.projectList)))
          case CollectLimitExec(limit, child, offset) =>
            val (task, steps) = split(child)
            (task, steps :+ Take(plan, limit, offset))
          case ProjectExec(exprs, child) => above(plan, child, Show(plan, exprs))
          case filter: FilterExec => above(plan, filter.child, Keep(filter))
          case _ => Operators.transparent(plan).map(split).getOrElse((plan, Vector.empty))
        }

    /** Row by row operators stay with the tasks unless an order must be made first. */
    private def above(plan: SparkPlan, child: SparkPlan, step: Step): (SparkPlan, Vector[Step]) = {
      val (task, steps) = split(child)
      if (steps.isEmpty) (plan, Vector.empty) else (task, steps :+ step)
    }

    /** Adds to the tasks what keeps them from sending rows that a limit would drop. */
    def local(steps: Seq[Step], relation: Relation, translation: Translation): Result[Relation] =
      steps match {
        case Merge(take: TakeOrderedAndProjectExec, order) +: _ =>
          OrderOperators.sort(take, relation, order, Some(take.limit), translation)
        case _ =>
          // A limit counts rows before any filter that runs at the client, so only those before the
          // first filter may move.
          val limits = steps.takeWhile(!_.isInstanceOf[Keep]).collect {
            case t: Take if t.limit >= 0 => t
          }
          Right(limits.headOption.fold(relation) { t =>
            OrderOperators.limit(t.plan, relation, 0, Some(t.limit), translation)
          })
      }
  }

  private def finishFragment(
      steps: Seq[Step],
      task: Relation,
      context: Context): Result[Fragment] = {
    val translation = new Translation(context)
    for {
      input <- finishInput(steps, task, translation)
      root <- steps.filterNot(_.merges).foldLeft[Result[Relation]](Right(input)) { (below, step) =>
        below.flatMap(apply(step, _, context, translation).left.map(_.in(step.plan)))
      }
      _ <- translation.boundSubqueries.headOption match {
        case Some(s) => Left(Unsupported("the value of a subquery above a final ORDER BY is not " +
              "known").at(s.subquery))
        case None => Right(())
      }
      fragment <- Fragments.assemble(
        root,
        Sink.newBuilder.setResult(Sink.Result.getDefaultInstance).build(),
        translation)
    } yield fragment.fragment
  }

  private def finishInput(
      steps: Seq[Step],
      task: Relation,
      translation: Translation): Result[Relation] = {
    val order = steps.collectFirst { case Merge(_, order) => order }.getOrElse(Nil)
    for {
      schema <- Types.schema(task.output)
      keys <- Operators.sortKeys(order, new Scope(task.output, translation))
    } yield {
      val input = Input.newBuilder.setInputId(0).setSchema(schema)
      keys.foreach(input.addMerge)
      val node: Node = translation.node(steps.head.plan).setInput(input).build()
      Relation(node, task.output, () => 1)
    }
  }

  private def apply(
      step: Step,
      below: Relation,
      context: Context,
      translation: Translation): Result[Relation] =
    step match {
      case Take(plan, limit, offset) =>
        Right(OrderOperators.limited(plan, below, limit, offset, translation))
      case Show(plan, exprs) =>
        val known = exprs.map(e => context.known(e).asInstanceOf[NamedExpression])
        OrderOperators.project(plan, below, known, exprs.map(_.toAttribute), translation)
      case Keep(filter) =>
        new Scope(below.output, translation).convert(context.known(filter.condition)).map {
          condition =>
            val node = translation
              .node(filter)
              .setFilter(Filter.newBuilder.setChild(below.node).setCondition(condition))
              .build()
            Relation(node, filter.output, below.partitions)
        }
      case _: Merge => Right(below)
    }
}
