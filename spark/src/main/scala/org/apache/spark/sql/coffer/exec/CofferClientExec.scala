package org.apache.spark.sql.coffer.exec

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.coffer.common.{CofferException, OpenedResult}
import org.apache.spark.sql.coffer.proto.wire.{RunAtClient, TableScan}
import org.apache.spark.sql.coffer.translate.{
  Context,
  Fragments,
  ClientFragment,
  Leaf,
  LeafResolver
}
import org.apache.spark.sql.execution.{CollectTailExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeExec, ShuffleExchangeExec}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * The part of a query that only the client site can do, as one fragment of one partition in the
 * client engine, over the rows that each [[ClientRowsExec]] of its plan brings to the client and
 * the tables that each [[ClientTableExec]] reads there.
 */
case class CofferClientExec(part: CofferFragmentExec) extends UnaryExecNode with SealedNode {

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "rows of the result"),
    "runTime" -> SQLMetrics.createTimingMetric(sparkContext, "time in the client engine"))

  override def child: SparkPlan = part
  override def output: Seq[Attribute] = part.output
  override def outputPartitioning: Partitioning = SinglePartition
  override def outputOrdering: Seq[SortOrder] = part.outputOrdering
  override def nodeName: String = "CofferClient"
  override protected def doCanonicalize(): SparkPlan = part.canonicalized
  override protected def withNewChildInternal(newChild: SparkPlan): CofferClientExec =
    copy(part = newChild.asInstanceOf[CofferFragmentExec])

  private def run(): OpenedResult = {
    val query = CofferQuery.required(sparkContext)
    part.ready()
    val clientRows = CofferClientExec.translate(part, query)
    val most = ClientBytes.of(conf)
    ClientBounds.check(clientRows, part.template, most)
    val request = RunAtClient.newBuilder
      .setSession(query.session)
      .setFragment(clientRows.fragment.toByteString)
      .setReadBytes(most)
      .setValues(part.subqueryExpressions.nonEmpty)
    clientRows.scans.foreach { s =>
      s.leaf.plan match {
        case t: ClientTableExec =>
          request.addScans(
            TableScan.newBuilder.setScanId(s.id).setHandle(t.clientTable.table.info.getHandle))
        case other => throw CofferException.refusal(Seq(s"${other.nodeName} is not read at the " +
              s"client"))
      }
    }
    clientRows.clientParts.map(_.plan).zipWithIndex.foreach {
      case (clientRows: ClientRowsExec, id) =>
        request.addInputs(
          RunAtClient.ClientInput.newBuilder.setInputId(id).setKept(clientRows.fetch()))
      case (other, _) => throw CofferException.refusal(Seq(s"${other.nodeName} does not come to " +
            s"the client"))
    }
    query.client.runAtClient(request.build())
  }

  private def rows(): Array[InternalRow] = {
    val before = System.nanoTime()
    val opened = run()
    val opening = ArrowRows.of(opened, output, () => opened.close())
    val all = part.template match {
      case CollectTailExec(limit, _) => Closing.last(opening, limit)
      case _ => Closing.whole(opening)
    }
    metrics("runTime").add((System.nanoTime() - before) / 1000000)
    metrics("numOutputRows").add(all.length.toLong)
    all
  }

  override def executeCollect(): Array[InternalRow] = rows()
  override def executeTake(n: Int): Array[InternalRow] = if (n <= 0) Array.empty else rows().take(n)
  override def executeTail(n: Int): Array[InternalRow] =
    if (n <= 0) Array.empty else rows().takeRight(n)
  override def executeToIterator(): Iterator[InternalRow] = rows().iterator
  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) = {
    val all = rows()
    (all.length.toLong, all.iterator)
  }

  /** The result as the bytes of one Arrow IPC stream. */
  def collectArrow(): Iterator[Array[Byte]] = part.template match {
    case _: CollectTailExec => ArrowRows.stream(rows().iterator, output, conf)
    case _ => run()
  }

  /** The result in batches. */
  def batchesToDriver(): Closing[ColumnarBatch] = part.template match {
    case _: CollectTailExec => ArrowRows.batched(rows().iterator, output, conf)
    case _ =>
      val before = System.nanoTime()
      val opened = run()
      metrics("runTime").add((System.nanoTime() - before) / 1000000)
      val batches = ArrowRows.batches(opened, output, () => opened.close())
      def counted(batch: ColumnarBatch): ColumnarBatch = {
        metrics("numOutputRows").add(batch.numRows.toLong)
        batch
      }
      Closing(batches.map(counted))(batches.close())
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

object CofferClientExec {

  /** In one partition there is nothing to exchange. */
  def withoutExchanges(plan: SparkPlan): SparkPlan = RootSort.restore(plan).transformUp {
    case e: ShuffleExchangeExec => e.child
    case b: BroadcastExchangeExec => b.child
  }

  private object ClientLeaves extends LeafResolver {
    override def leaf(plan: SparkPlan): Option[Leaf] = plan match {
      case clientRows: ClientRowsExec => Some(clientRows.leaf)
      case table: ClientTableExec => Some(table.leaf)
      case _ => None
    }
  }

  /** The fragment, with the values of subqueries in their places. */
  private[coffer] def translate(part: CofferFragmentExec, query: CofferQuery): ClientFragment = {
    val context = part.context(query)
    val last = part.template match {
      case CollectTailExec(_, child) => child
      case other => other
    }
    val template = last.transform { case p =>
      p.transformExpressions { case e => context.known(e) }
    }
    Fragments.atClient(template,
      Context(ClientLeaves, query.subqueryId, hiding = context.hiding)) match {
      case Right(translated) => translated
      case Left(unsupported) => throw CofferException.refusal(Seq(unsupported.message))
    }
  }
}
