package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.coffer.split.{ClientRows, ClientTable, CofferTable, SealedLeaf}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.columnar.{InMemoryRelation, InMemoryTableScanExec}
import org.apache.spark.sql.execution.command.{DataWritingCommandExec, ExecutedCommandExec}
import org.apache.spark.sql.execution.datasources.v2.{
  BatchScanExec,
  DataSourceV2Relation,
  DataSourceV2ScanRelation,
  V2CommandExec
}

/** A node by which a physical plan is known to be a sealed one. */
trait SealedNode extends SparkPlan

/**
 * Whether a plan has to do with sealed tables: then all of it, its subqueries included, runs sealed
 * or not at all.
 */
object SealedPlans {

  /**
   * Inside of a sealed query everything is: AQE may have replaced what was sealed by rows that it
   * knows to be none.
   */
  def sealedNow(plan: SparkPlan): Boolean =
    CofferQuery.current(plan.session.sparkContext).isDefined || mentions(plan)

  def mentions(plan: SparkPlan): Boolean = plan.exists { node =>
    leaf(node) || node.subqueries.exists(mentions)
  }

  private def leaf(node: SparkPlan): Boolean = node match {
    case SealedScan(_, _) => true
    case b: BatchScanExec => b.table.isInstanceOf[CofferTable]
    case _: SealedNode => true
    case a: AdaptiveSparkPlanExec => mentions(a.inputPlan) || mentions(a.context.qe.analyzed)
    case q: QueryStageExec => mentions(q.plan)
    case m: InMemoryTableScanExec => mentions(m.relation.cachedPlan)
    case r: BaseSubqueryExec => mentions(r.child)
    case _ => false
  }

  def mentions(plan: LogicalPlan): Boolean = relations(plan).nonEmpty

  def relations(plan: LogicalPlan): Seq[LogicalPlan] = plan.collectWithSubqueries {
    case r: DataSourceV2Relation if r.table.isInstanceOf[CofferTable] => r
    case r: DataSourceV2ScanRelation if r.relation.table.isInstanceOf[CofferTable] => r
    case w: SealedInsert => w
    case w: SealedWrite => w
    case r: InMemoryRelation if CachedRows.of(r).isDefined => r
    case c: SealedCache => c
    case h: ClientRows => h
    case t: ClientTable => t
    case l: SealedLeaf => l
  }

  /** Commands run at the driver and were judged when they were analysed. */
  def isCommand(plan: SparkPlan): Boolean = plan match {
    case _: ExecutedCommandExec | _: V2CommandExec | _: CommandResultExec => true
    case _: DataWritingCommandExec => false
    case _ => false
  }
}
