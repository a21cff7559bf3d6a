package org.apache.spark.sql.coffer.tail

import org.apache.spark.SparkException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{
  LeafNode,
  LogicalPlan,
  Statistics,
  UnionLoop,
  UnionLoopRef
}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{ClientBytes, Closing, CofferRootExec, SealedPlans}
import org.apache.spark.sql.coffer.split.CofferScan
import org.apache.spark.sql.coffer.versions.{recursionBounds, ScanOf}
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
  def scans: Seq[CofferScan] = loop.children.flatMap(_.collectWithSubqueries {
    case ScanOf(_, scan: CofferScan, _) => scan
  })
}

private[coffer] case class TailLoopExec(@transient of: TailLoop) extends LeafExecNode {
  override val output: Seq[Attribute] = of.output
  override def nodeName: String = "CofferTailLoop"
  override def outputPartitioning: Partitioning = SinglePartition
  override protected def stringArgs: Iterator[Any] = Iterator(output.mkString("[", ", ", "]"))
  override protected def doCanonicalize(): SparkPlan = this

  override protected def doExecute(): RDD[InternalRow] = {
    val task = TailTask.running
    val rows = task.outside(Closing.chain(new Rounds(task)))
    new DriverRows(sparkContext, () => task.counted(rows))
  }

  /** Spark's bounds, counted as `UnionLoopExec` does: the depth is looked at before the rows. */
  private final class Rounds(task: TailTask) extends Iterator[Iterator[InternalRow]] {
    private val loop = of.loop
    private val (depth, most) = recursionBounds(loop, conf)
    private val bounded = loop.limit.getOrElse(most) != -1
    private var left = loop.limit.getOrElse(most).toLong
    private var level = 0
    private var last: Option[ClientHeld] = None

    private def ended: Boolean =
      last.exists(_.rows.isEmpty) || (loop.limit.isDefined && bounded && left <= 0)

    override def hasNext: Boolean = !ended

    override def next(): Iterator[InternalRow] = {
      val plan = last.fold(loop.anchor)(round)
      val held = session.withActive {
        ClientHeld.of(run(plan), plan.output, ClientBytes.of(conf), None)
      }
      level += 1
      if (held.rows.nonEmpty) check(held.rows.size)
      last = Some(held)
      held.rows.iterator.map(task.held(_))
    }

    private def check(rows: Int): Unit = {
      if (depth != -1 && level > depth) throw exceeded("LEVEL", "levelLimit" -> depth.toString)
      if (bounded) {
        left -= rows
        if (left <= 0 && loop.limit.isEmpty) throw exceeded("ROW", "rowLimit" -> most.toString)
      }
    }

    private def round(before: ClientHeld): LogicalPlan = loop.recursion.transformWithSubqueries {
      case r: UnionLoopRef if r.loopId == loop.id => ClientRelation(r.output, before)
    }
  }

  private def exceeded(what: String, limit: (String, String)) =
    new SparkException(s"RECURSION_${what}_LIMIT_EXCEEDED", Map(limit), null)

  /** A round without a sealed table would have Spark's executors compute it. */
  private def run(plan: LogicalPlan): Iterator[InternalRow] =
    if (SealedPlans.mentions(plan))
      TailPlan.whole(session, plan) match {
        case root: CofferRootExec => root.executeToDriver()
        case local => local.executeCollect().iterator
      }
    else TailRefusals.of(plan) match {
      case Nil => CofferTailExec(TailPlan.of(session, plan), Nil, None).executeToIterator()
      case refused => throw CofferException.refusal(refused)
    }
}
