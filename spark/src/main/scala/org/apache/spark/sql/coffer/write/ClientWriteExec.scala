package org.apache.spark.sql.coffer.write

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{CollectMetrics, LogicalPlan}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.common.{Client, CofferConf, CofferException}
import org.apache.spark.sql.coffer.exec.{ArrowRows, CofferFragmentExec, DriverPart, SealedPlans}
import org.apache.spark.sql.coffer.proto.wire.{PublishWrite, WriteBegun, WritePublished}
import org.apache.spark.sql.coffer.split.CofferTable
import org.apache.spark.sql.coffer.tail.{TailPlan, TailRowsExec, Tails, TailStreams}
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation
}

/**
 * The rows of a write that no engine makes: the driver reads them, by Spark's own operators in this
 * process, and streams them to the client engine, which seals them. None is in a task, a broadcast,
 * a block or a file of Spark's.
 *
 * @param reasons    why they are made here
 * @param threads    how many may read at the same time
 * @param hostChosen whether the host may have chosen bytes that are written beside sealed ones
 */
private[coffer] final case class ClientWriteExec(
    @transient tail: SparkPlan,
    reasons: Seq[String],
    threads: Int,
    hostChosen: Boolean)
    extends LeafExecNode
    with DriverPart {

  override def nodeName: String = "CofferClientWrite"
  override def output: Seq[Attribute] = Nil
  override def innerChildren: Seq[QueryPlan[_]] = Seq(tail)
  override protected def stringArgs: Iterator[Any] = Iterator(operators.mkString(" ← "))
  override protected def doCanonicalize(): SparkPlan = this

  override def brought: Seq[SparkPlan] = rows.map(_.root)

  def rows: Seq[TailRowsExec] = tail.collectWithSubqueries { case r: TailRowsExec => r }

  override def operators: Seq[String] = TailPlan.operators(tail)

  @transient private lazy val warned = new AtomicBoolean()

  def write(begun: WriteBegun): WritePublished = {
    if (rows.nonEmpty && warned.compareAndSet(false, true)) logWarning(
      s"a part of this write runs in the driver (${operators.mkString(", ")}), by Spark's own " +
        s"operators: ${reasons.mkString("; ")}")
    val client = Client.get
    val streams = TailStreams.run(tail, threads) { rows =>
      val stream = client.writeRows(begun.getWrite, hostChosen)
      val batches = ArrowRows.streams(rows, tail.output, conf)
      try {
        batches.foreach(stream.send)
        stream.finish()
      } finally
        try batches.close()
        finally stream.close()
    }
    client.publishWrite(
      PublishWrite.newBuilder.setWrite(begun.getWrite).setStreams(streams.size).build())
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

private[coffer] object ClientWriteExec {

  /** Streams at the same time: the client engine has a row group's memory for each. */
  private val MOST = 8

  /** None: engines make all of the rows. */
  def of(session: SparkSession, query: LogicalPlan): Option[ClientWriteExec] =
    Tails.written(session, query).map { case (rows, reasons) =>
      if (rows.exists(_.isInstanceOf[CollectMetrics])) throw CofferException.refusal(Seq(
          "CollectMetrics: nobody would see the observed metrics of rows that are written"))
      val apart = if (CofferConf.isLocal(session.sparkContext.conf)) TailPlan.apart(session, rows)
      else None
      val threads =
        if (apart.isEmpty) 1 else math.min(MOST, session.sparkContext.defaultParallelism)
      ClientWriteExec(apart.getOrElse(TailPlan.of(session, rows)), reasons, threads,
        hostChosen(query))
    }

  private def hostChosen(query: LogicalPlan): Boolean = {
    val tables = SealedPlans.relations(query).collect {
      case r: DataSourceV2ScanRelation => r.relation.table
      case r: DataSourceV2Relation => r.table
    }.collect { case t: CofferTable => t }
    val plain = query.collectWithSubqueries { case l: LogicalRelation => l }
    tables.exists(!_.unverified) && (plain.nonEmpty || tables.exists(_.unverified))
  }
}
