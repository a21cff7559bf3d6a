package org.apache.spark.sql.coffer.tail

import scala.util.control.NonFatal

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{
  CTERelationRef,
  LeafNode,
  LogicalPlan,
  ReturnAnswer,
  Statistics,
  UnionLoop,
  UnionLoopRef
}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{
  ClientBytes,
  Closing,
  CofferRootExec,
  LoopRows,
  Rounds,
  SealedCache,
  SealedPlans
}
import org.apache.spark.sql.coffer.split.CofferScan
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan}

/**
 * A recursive query: each of its rounds is a query of its own, of which engines run what they can,
 * over the rows of the round before, which are in the driver.
 */
private[coffer] case class TailLoop(loop: UnionLoop) extends LeafNode {
  override def output: Seq[Attribute] = loop.output
  override def innerChildren: Seq[QueryPlan[_]] = loop.children
  override def computeStats(): Statistics = Statistics(sizeInBytes = conf.defaultSizeInBytes)
  override def references: AttributeSet = AttributeSet.empty
  override protected def doCanonicalize(): LogicalPlan = this

  /** What its rounds read of tables. */
  def scans: Seq[CofferScan] = LoopRows.scans(loop)

  /** What made the rows that they read otherwise: of caches, or held here. */
  def earlier: Seq[SparkPlan] = LoopRows.earlier(loop) ++
    loop.children.flatMap(_.collectWithSubqueries { case c: ClientRelation => c.held.from }).flatten
}

private[coffer] object TailLoop {

  /** Why engines do not run the rounds of a recursive query; none where they can. */
  def faults(session: SparkSession, loop: UnionLoop): Seq[String] = {
    val forced = TailConf.forced(session.sessionState.conf)
    if (forced("*") || forced(loop.nodeName)) Seq(s"${loop.nodeName}: forced by a test")
    else loop.children.flatMap(round(session, loop, _))
  }

  private def round(session: SparkSession, loop: UnionLoop, child: LogicalPlan): Seq[String] = {
    val alone = child.transformWithSubqueries {
      case r: UnionLoopRef if r.loopId == loop.id => StandIn(r.output, r.stats)
    }
    // What several parts of the query read is not one round's.
    if (alone.exists(_.isInstanceOf[CTERelationRef]))
      Seq(s"${loop.nodeName}: it reads what other parts of the query read too")
    else
      try Judge.check(Planning.in(Planning.Judging) {
          session.sessionState.planner.plan(ReturnAnswer(optimised(session, alone))).next()
        })
      catch {
        case e: CofferException => Seq(e.plain)
        case NonFatal(e) => Seq(s"${loop.nodeName}: ${e.getClass.getSimpleName}")
      }
  }

  /** A round's query, with its rows kept. */
  def optimised(session: SparkSession, round: LogicalPlan): LogicalPlan =
    session.sessionState.optimizer.execute(SealedCache(round))
}

private[coffer] case class TailLoopExec(@transient of: TailLoop) extends LeafExecNode {
  override val output: Seq[Attribute] = of.output
  override def nodeName: String = "CofferTailLoop"
  override def outputPartitioning: Partitioning = SinglePartition
  override protected def stringArgs: Iterator[Any] = Iterator(output.mkString("[", ", ", "]"))
  override protected def doCanonicalize(): SparkPlan = this

  override protected def doExecute(): RDD[InternalRow] = {
    val task = TailTask.running
    val rows = task.outside(Closing.chain(new InDriver(task)))
    new DriverRows(sparkContext, () => task.counted(rows))
  }

  private final class InDriver(task: TailTask) extends Iterator[Iterator[InternalRow]] {
    private val rounds = new Rounds(of.loop, conf)
    private var last: Option[ClientHeld] = None

    override def hasNext: Boolean = rounds.hasNext

    override def next(): Iterator[InternalRow] = {
      val plan = rounds.next(r => ClientRelation(r.output, last.get))
      val held = session.withActive {
        ClientHeld.of(run(plan), plan.output, ClientBytes.of(conf), None)
      }
      rounds.gave(held.rows.size.toLong)
      last = Some(held)
      held.rows.iterator.map(task.held(_))
    }
  }

  /** A round without a sealed table would have Spark's executors compute it. */
  private def run(plan: LogicalPlan): Iterator[InternalRow] =
    if (SealedPlans.relations(plan).exists(!_.isInstanceOf[ClientRelation]))
      TailPlan.whole(session, plan) match {
        case root: CofferRootExec => root.executeToDriver()
        case local => local.executeCollect().iterator
      }
    else TailRefusals.of(plan) match {
      case Nil => CofferTailExec(TailPlan.of(session, plan), Nil, None).executeToIterator()
      case refused => throw CofferException.refusal(refused)
    }
}
