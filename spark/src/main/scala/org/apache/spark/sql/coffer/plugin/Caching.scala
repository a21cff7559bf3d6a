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
  CofferQuery,
  CofferRootExec,
  SealedCache,
  SealedCacheExec
}
import org.apache.spark.sql.coffer.tail.{
  ClientHeld,
  ClientRelation,
  CofferTailCacheExec,
  CofferTailExec,
  Planning
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
   * command that a rule could see. What a tail reads is planned with it, and is not cached.
   */
  def now: Boolean =
    !filling.get && Planning.current == Planning.Off && StackWalker.getInstance.walk[Boolean](
      _.anyMatch(_.getClassName == "org.apache.spark.sql.execution.CacheManager"))

  /** What Spark's cache takes for the plan that it caches. */
  def entry(plan: SparkPlan): SparkPlan = plan match {
    case tail: CofferTailExec => CofferTailCacheExec(plan.output, inDriver(tail))
    case _ => inEngines(plan)
  }

  private def inDriver(tail: CofferTailExec): ClientHeld = {
    val estimate = tail.logicalLink.fold(BigInt(tail.conf.defaultSizeInBytes))(_.stats.sizeInBytes)
    ClientHeld.later(CofferRootExec(tail, CofferQuery.create()), estimate)
  }

  private def inEngines(plan: SparkPlan): SparkPlan = {
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
  private def rows(session: SparkSession, query: LogicalPlan): CachedRows = session.withActive {
    kept(session.sessionState.executePlan(SealedCache(query)).executedPlan)
  }

  /** What a plan keeps, of which [[SealedCache]] is the root. */
  def kept(plan: => SparkPlan): CachedRows = {
    val before = filling.get
    filling.set(true)
    try
      plan match {
        case root: CofferRootExec => new CachedRows(root)
        case other => throw CofferException.refusal(Seq(s"${other.nodeName} caches nothing"))
      }
    finally filling.set(before)
  }

  /** A DataFrame of the rows of another, without what they were computed from. */
  def checkpoint(df: Dataset[_], eager: Boolean): Dataset[Row] = {
    val query = df.queryExecution
    val output = query.analyzed.output
    def now(fill: => Unit): Unit =
      if (eager) SQLExecution.withNewExecutionId(query, Some("checkpoint"))(fill)
    val relation = query.executedPlan match {
      case CofferRootExec(tail: CofferTailExec, _) =>
        val held = inDriver(tail)
        now(held.rows)
        ClientRelation(output, held)
      case _ =>
        val kept = rows(df.sparkSession, query.analyzed)
        now(kept.exchange())
        CachedRelation(output, kept, query.optimizedPlan.stats.sizeInBytes)
    }
    Dataset.ofRows(df.sparkSession, relation)
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
    case relation: InMemoryRelation =>
      CachedRows.of(relation).fold[LogicalPlan](relation) { entry =>
        CachedRows.held(entry, relation.cacheBuilder)
        entry.relation(relation.output, relation.stats.sizeInBytes)
      }
  }
}
