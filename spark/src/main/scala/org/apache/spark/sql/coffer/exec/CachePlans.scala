package org.apache.spark.sql.coffer.exec

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{
  Partitioning,
  SinglePartition,
  UnknownPartitioning
}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.split.SealedLeaf
import org.apache.spark.sql.coffer.translate.SealedSink
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec

/** Keeping the rows of a query, as a node at its root: so that AQE plans it as any other. */
final case class SealedCache(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override lazy val references: AttributeSet = child.outputSet
  override protected def withNewChildInternal(newChild: LogicalPlan): SealedCache =
    copy(child = newChild)
}

/** The same in a physical plan. */
final case class SealedCacheExec(child: SparkPlan) extends SealedSink with SealedNode {
  override def output: Seq[Attribute] = child.output
  override lazy val references: AttributeSet = child.outputSet
  override protected def withNewChildInternal(newChild: SparkPlan): SealedCacheExec =
    copy(child = newChild)
  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

/**
 * The stage whose rows are kept: an exchange with one stream for each of its tasks, so that whoever
 * reads them has the same partitions in the same order.
 */
final case class CofferCacheStageExec(child: SparkPlan) extends UnaryExecNode with SealedNode {
  override def nodeName: String = "CofferCacheStage"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override protected def doCanonicalize(): SparkPlan = child.canonicalized
  override protected def withNewChildInternal(newChild: SparkPlan): CofferCacheStageExec =
    copy(child = newChild)

  /** Each time anew. */
  def write(): CofferShuffleExchangeExec = {
    val fragment = child match {
      case f: CofferFragmentExec => f
      case other => throw CofferException.refusal(Seq(s"${other.nodeName} is no sealed fragment"))
    }
    val exchange =
      CofferShuffleExchangeExec(ShuffleExchangeExec(SinglePartition, fragment.template), fragment)
    exchange.awaitWritten()
    exchange
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

/** What Spark's cache has as the plan of a sealed query. It is never run. */
trait CacheEntry extends LeafExecNode with SealedNode {

  /** What is dropped when Spark drops the entry. */
  def kept: KeptRows

  /** The query that computes them. */
  def filling: SparkPlan

  /** The rows in a query that reads them. `estimate`: in bytes, as long as they are not there. */
  def relation(output: Seq[Attribute], estimate: BigInt): LogicalPlan

  override def innerChildren: Seq[QueryPlan[_]] = Seq(filling)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  override protected def doExecute(): RDD[InternalRow] = new CacheHandle(sparkContext)
}

/** Of rows that engines have. */
final case class CofferCacheRootExec(output: Seq[Attribute], rows: CachedRows) extends CacheEntry {
  override def nodeName: String = "CofferCacheRoot"
  override def kept: KeptRows = rows
  override def filling: SparkPlan = rows.filling
  override def relation(output: Seq[Attribute], estimate: BigInt): LogicalPlan =
    CachedRelation(output, rows, estimate)
}

/** Cached rows in a query. */
final case class CachedRelation(output: Seq[Attribute], rows: CachedRows, estimate: BigInt)
    extends LeafNode
    with MultiInstanceRelation
    with SealedLeaf {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics =
    Statistics(rows.bytes.map(BigInt(_)).getOrElse(estimate))
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  override protected def doCanonicalize(): LogicalPlan =
    copy(output = output.map(QueryPlan.normalizeExpressions(_, output)))
}

/** A leaf that reads rows which other queries have written: one stream for each of its tasks. */
trait KeptExec extends LeafExecNode with SealedNode {

  /** Those rows, for this query; computed now if need be. */
  protected def exchange(query: CofferQuery): CofferShuffleExchangeExec

  override def outputPartitioning: Partitioning = UnknownPartitioning(0)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows

  @transient @volatile private var reading: Option[CachedInput] = None

  /** What the query reads, as [[ready]] found it. */
  def input: Option[CachedInput] = reading

  /** Has them computed if they are not there. */
  def ready(query: CofferQuery): Unit = synchronized {
    val from = exchange(query)
    val current = reading.filter(r => (r.query eq query) && (r.exchange eq from))
    val now = current.getOrElse(new CachedInput(query, from))
    now.accepted()
    query.register(now)
    reading = Some(now)
  }
}

/** Cached rows in a physical plan: a leaf of its fragment. */
final case class CofferCacheExec(output: Seq[Attribute], rows: CachedRows) extends KeptExec {
  override def nodeName: String = "CofferCache"
  override protected def exchange(query: CofferQuery): CofferShuffleExchangeExec = rows.exchange()
}
