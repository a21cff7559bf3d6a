package org.apache.spark.sql.coffer.exec

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeSet,
  Expression,
  GetStructField,
  Literal,
  SortOrder
}
import org.apache.spark.sql.catalyst.plans.ExistenceJoin
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.proto.wire.NodeMetrics
import org.apache.spark.sql.coffer.translate.{Context, Templated}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.execution.metric.SQLMetric

/**
 * The part of a plan between two exchanges, which runs as one fragment. Spark's own nodes stay
 * inside as the template that is translated when the stage is sealed; to Spark's later rules only
 * the inputs are children and only the subqueries are expressions.
 *
 * @param leaves the template's nodes that `inputs` stand for, position by position
 */
case class CofferFragmentExec(
    template: SparkPlan,
    leaves: Seq[SparkPlan],
    inputs: Seq[SparkPlan],
    subqueryExpressions: Seq[Expression])
    extends SparkPlan
    with Templated {

  override def nodeName: String = "CofferFragment"
  override def output: Seq[Attribute] = template.output
  override def outputPartitioning: Partitioning = template.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = template.outputOrdering
  override def children: Seq[SparkPlan] = inputs
  override def references: AttributeSet = template.references.filter(inputSet.contains)
  override def producedAttributes = outputSet
  override protected def withNewChildrenInternal(newChildren: IndexedSeq[SparkPlan])
      : CofferFragmentExec =
    copy(inputs = newChildren)
  override protected def doCanonicalize(): SparkPlan = template.canonicalized
  override protected def stringArgs: Iterator[Any] = Iterator(operators)

  /** Operators from the top down, a join's sides in parentheses, for EXPLAIN and the UI. */
  def operators: String = describe(template)

  private def describe(plan: SparkPlan): String = {
    val leaf = leaves.exists(_ eq plan)
    val below = if (leaf) Nil else plan.children.map(describe).filter(_.nonEmpty)
    val name = if (leaf) inputName(current(plan)) else named(plan)
    below match {
      case Nil => name
      case Seq(one) => s"$name ← $one"
      case several => several.mkString(s"$name (", " | ", ")")
    }
  }

  private def named(plan: SparkPlan): String = plan match {
    case j: BaseJoinExec =>
      j.joinType match {
        case _: ExistenceJoin => s"${j.nodeName} existence"
        case t => s"${j.nodeName} ${t.sql.toLowerCase(java.util.Locale.ROOT)}"
      }
    case other => other.nodeName
  }

  private def inputName(plan: SparkPlan): String = plan match {
    case BroadcastRead(_) => "broadcast"
    case _: KeptExec => "kept rows"
    case _ => "shuffle"
  }

  /**
   * The plan as it stands now for a node of the template: exchanges may have been replaced by
   * reused ones since.
   */
  private[exec] def current(plan: SparkPlan): SparkPlan =
    leaves.indexWhere(_ eq plan) match {
      case -1 => plan
      case i => inputs(i)
    }

  @transient private lazy val resolver = new FragmentLeaves(current)

  @transient private lazy val operatorMetrics =
    new OperatorMetrics(sparkContext, template, p => leaves.exists(_ eq p))
  override lazy val metrics: Map[String, SQLMetric] = operatorMetrics.all

  /** What engines counted of the operators; see [[OperatorMetrics.count]]. */
  private[exec] def count(
      counted: Seq[NodeMetrics],
      nodes: Map[Int, SparkPlan],
      ran: SparkPlan): Seq[SQLMetric] =
    operatorMetrics.count(counted, nodes, ran)

  def context(query: CofferQuery): Context =
    Context(resolver, query.subqueryId, known, Hiding.of(conf).message)

  def layout: Vector[Part] = resolver.layout(template)

  /** Groups of leaves that are joined partition by partition. */
  def joined: Vector[Set[Ref]] = resolver.joined(template)

  /** The fragment's Cartesian products. */
  def products: Vector[Cartesian] = resolver.products(template)

  /** What stands behind a leaf. */
  def source(leaf: SparkPlan): Source = current(leaf) match {
    case ShuffleRead(exchange, _) => new ShuffleSource(exchange, exchange.sealedShuffle)
    case c: KeptExec =>
      val input = c.input.getOrElse(throw CofferException.refusal(Seq("kept rows are not there")))
      new ShuffleSource(input.exchange, input)
    case BroadcastRead(exchange) => new BroadcastSource(exchange.sealedBroadcast())
    case other => throw CofferException.refusal(Seq(s"${other.nodeName} is no sealed exchange"))
  }

  def subquery(of: ScalarSubquery): ScalarSubquery = subqueryExpressions.collectFirst {
    case s: ScalarSubquery if s.exprId == of.exprId => s
  }.getOrElse(of)

  private def known(expr: Expression): Expression = expr.transformDown {
    case f @ GetStructField(s: ScalarSubquery, _, _) =>
      Literal(f.copy(child = subquery(s)).eval(null), f.dataType)
    case s: ScalarSubquery => Literal(subquery(s).eval(null), s.dataType)
  }

  /**
   * Waits for what must be known before the stage can be sealed: subqueries' values and the inputs'
   * commits.
   */
  def ready(): Unit = executeQuery {
    val inputs = leaves.map(current)
    val shuffles = inputs.collect { case ShuffleRead(exchange, _) => exchange }
    val broadcasts = inputs.collect { case BroadcastRead(exchange) => exchange }
    // Broadcasts first, as AQE starts them: their time is limited.
    broadcasts.foreach(_.relationFuture)
    inputs.foreach {
      case c: KeptExec => c.ready(CofferQuery.required(sparkContext))
      case _ =>
    }
    shuffles.foreach(_.submitShuffleJob())
    shuffles.foreach(_.awaitWritten())
    broadcasts.foreach(_.sealedBroadcast())
  }

  /** Waits for the subqueries' values alone: of a query whose stages are sealed together. */
  private[exec] def readyAlone(): Unit = {
    prepareSubqueries()
    waitForSubqueries()
  }

  /** What its inputs read: exchanges, each as it stands now. */
  private[exec] def reads: Seq[SparkPlan] = leaves.map(current)

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

object CofferFragmentExec {

  def of(template: SparkPlan, isInput: SparkPlan => Boolean): CofferFragmentExec = {
    val leaves = Seq.newBuilder[SparkPlan]
    val subqueries = Seq.newBuilder[Expression]
    def visit(plan: SparkPlan): Unit =
      if (isInput(plan)) leaves += plan
      else {
        plan.expressions.foreach(_.foreach {
          case s: ExecSubqueryExpression => subqueries += s
          case _ =>
        })
        plan.children.foreach(visit)
      }
    visit(template)
    val found = leaves.result()
    CofferFragmentExec(template, found, found, subqueries.result())
  }

  def noRows: CofferException = new CofferException(
    "COFFER_ROWS_ON_EXECUTORS",
    "this would open sealed rows on executors: rdd, Scala's foreach and checkpoint, MLlib's " +
      "fit, Spark Connect and writing to other formats do",
    "use collect, take, show, toLocalIterator, coffer.to_arrow(df) or coffer.to_pandas(df); " +
      "coffer.local(df) keeps working on rows in the driver, and under a local master (local[*]) " +
      "rdd, foreach and fit run there")
}
