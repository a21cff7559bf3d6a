package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{
  CachedRelation,
  CachedRows,
  CofferCacheRootExec,
  CofferCacheStageExec,
  CofferRootExec,
  SealedCache,
  SealedCacheExec
}
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.columnar.InMemoryRelation

/** What a query caches, and what Spark's cache has of it. */
private[coffer] object Caching {

  /** Set while the query that fills a cache is planned: that one is not itself cached. */
  private val filling = new ThreadLocal[Boolean]

  /**
   * Whether this plan is made to be cached. `spark.catalog.cacheTable` and `df.cache` run no
   * command that a rule could see.
   */
  def now: Boolean = !filling.get && StackWalker.getInstance.walk[Boolean](
    _.anyMatch(_.getClassName == "org.apache.spark.sql.execution.CacheManager"))

  /** What Spark's cache takes for the plan that it caches. */
  def entry(plan: SparkPlan): SparkPlan = {
    val logical = plan match {
      case aqe: AdaptiveSparkPlanExec => Some(aqe.context.qe.analyzed)
      case other => other.logicalLink
    }
    logical match {
      case Some(query) => CofferCacheRootExec(plan.output, rows(plan.session, query))
      case None => throw CofferException.refusal(Seq(s"${plan.nodeName} is cached by no query"))
    }
  }

  /** The rows of a query; planned now, and computed when they are needed. */
  private def rows(session: SparkSession, query: LogicalPlan): CachedRows = {
    val before = filling.get
    filling.set(true)
    try
      session.withActive {
        session.sessionState.executePlan(SealedCache(query)).executedPlan match {
          case root: CofferRootExec => new CachedRows(root)
          case other => throw CofferException.refusal(Seq(s"${other.nodeName} caches nothing"))
        }
      }
    finally filling.set(before)
  }

  /** A DataFrame of the rows of another, without what they were computed from. */
  def checkpoint(df: Dataset[_], eager: Boolean): Dataset[Row] = {
    val query = df.queryExecution
    val kept = rows(df.sparkSession, query.analyzed)
    if (eager) SQLExecution.withNewExecutionId(query, Some("checkpoint"))(kept.exchange())
    Dataset.ofRows(df.sparkSession,
      CachedRelation(query.analyzed.output, kept, query.optimizedPlan.stats.sizeInBytes))
  }

  /** Whether a plan is that of a query that fills a cache. */
  def fills(plan: SparkPlan): Boolean = plan match {
    case aqe: AdaptiveSparkPlanExec => aqe.inputPlan.isInstanceOf[SealedCacheExec]
    case other => other.isInstanceOf[CofferCacheStageExec]
  }
}

/** What Spark takes from its cache of sealed queries is read sealed. */
private[coffer] object CachedReads extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transform {
    case relation: InMemoryRelation => CachedRows.of(relation).fold[LogicalPlan](relation) { rows =>
        CachedRows.held(rows, relation.cacheBuilder)
        CachedRelation(relation.output, rows, relation.stats.sizeInBytes)
      }
  }
}
