package org.apache.spark.sql.coffer.tail

import java.util.{Collections, WeakHashMap}

import org.apache.spark.NarrowDependency
import org.apache.spark.rdd.{EmptyRDD, ParallelCollectionRDD, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{SubqueryExpression, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.exec.SealedPlans
import org.apache.spark.sql.execution.{LogicalRDD, SQLExecutionRDD}
import org.apache.spark.storage.StorageLevel

/**
 * Rows of `createDataFrame` beside sealed tables: they are taken from their RDD here, and go to
 * engines as a query's own values do, sealed. Rows of many bytes stay an RDD, for the driver's
 * part of the query.
 */
private[coffer] final case class ListedRows(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SealedPlans.mentions(plan) && TailConf.on(session.sessionState.conf))
      AnalysisHelper.allowInvokingTransformsInAnalyzer(convert(plan))
    else plan

  private def convert(plan: LogicalPlan): LogicalPlan = plan.transformUp { case node =>
    listed(node).transformExpressions { case s: SubqueryExpression =>
      s.withNewPlan(convert(s.plan))
    }
  }

  private def listed(node: LogicalPlan): LogicalPlan = node match {
    case l: LogicalRDD if ListedRows.here(l) && !ListedRows.long.contains(l.rdd) =>
      taken(l).fold(node)(rows => LocalRelation(l.output, rows, l.isStreaming))
    case other => other
  }

  /** None: they are too many. */
  private def taken(l: LogicalRDD): Option[Seq[InternalRow]] = {
    val task = new TailTask(session.sparkContext, session.sessionState.conf)
    try {
      val rows = task.rows(l.rdd)
      val unsafe = UnsafeProjection.create(l.output.map(_.dataType).toArray)
      val all = Vector.newBuilder[InternalRow]
      var bytes = 0L
      while (rows.hasNext && bytes <= ListedRows.MOST) {
        val row: UnsafeRow = unsafe(rows.next()).copy()
        bytes += row.getSizeInBytes
        all += row
      }
      if (bytes <= ListedRows.MOST) Some(all.result())
      else {
        ListedRows.long.add(l.rdd)
        None
      }
    } finally task.end(None)
  }
}

private[coffer] object ListedRows {
  private val MOST = 16L << 20

  /** What had too many bytes: it is not read again whenever a query over it is analysed. */
  private val long = Collections.synchronizedSet(
    Collections.newSetFromMap(new WeakHashMap[RDD[_], java.lang.Boolean]))

  /** Whether its rows are this process's own, and can be had here: no stream, no shuffle. */
  def here(l: LogicalRDD): Boolean = !l.isStreaming && own(l.rdd)

  /**
   * All of it comes from lists of the driver. Files, blocks and what another query has read are the
   * host's: also where they come by a broadcast, which a lineage does not show.
   */
  private def own(rdd: RDD[_]): Boolean =
    rdd.getStorageLevel == StorageLevel.NONE && rdd.checkpointData.isEmpty && (rdd match {
      case _: ParallelCollectionRDD[_] | _: EmptyRDD[_] => true
      case _: SQLExecutionRDD => false
      case _ => rdd.dependencies.nonEmpty && rdd.dependencies.forall {
          case d: NarrowDependency[_] => own(d.rdd)
          case _ => false
        }
    })

  /**
   * Whether it can be computed in one place: without a shuffle. What is kept or checkpointed would
   * be taken from executors, or be put into the driver's blocks.
   */
  def narrow(rdd: RDD[_]): Boolean =
    rdd.getStorageLevel == StorageLevel.NONE && rdd.checkpointData.isEmpty &&
      rdd.dependencies.forall {
        case d: NarrowDependency[_] => narrow(d.rdd)
        case _ => false
      }
}
