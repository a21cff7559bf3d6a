package org.apache.spark.sql.coffer.write

import com.google.protobuf.ByteString

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{
  CofferFragmentExec,
  CofferQuery,
  CountedStage,
  ResultJob,
  SealedNode,
  SealedWriteExec,
  StageSealer
}
import org.apache.spark.sql.coffer.proto.wire.{PublishWrite, WriteBegun, WritePublished}
import org.apache.spark.sql.coffer.translate.Fragments
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/** The stage whose rows become files. Only its tasks' sealed commit records come to the driver. */
final case class CofferWriteStageExec(child: SparkPlan) extends UnaryExecNode with CountedStage
    with SealedNode {

  override lazy val metrics: Map[String, SQLMetric] =
    Map("runTime" -> SQLMetrics.createTimingMetric(sparkContext,
      "time of the write's " +
        "tasks")) ++ stageCounters

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def nodeName: String = "CofferWrite"
  override protected def doCanonicalize(): SparkPlan = child.canonicalized
  override protected def withNewChildInternal(newChild: SparkPlan): CofferWriteStageExec =
    copy(child = newChild)

  private def fragment: CofferFragmentExec = child match {
    case f: CofferFragmentExec => f
    case other => throw CofferException.refusal(Seq(s"${other.nodeName} is no sealed fragment"))
  }

  def write(begun: WriteBegun): WritePublished = {
    val query = CofferQuery.required(sparkContext)
    fragment.ready()
    val root = fragment.template match {
      case w: SealedWriteExec => w
      case other => throw CofferException.refusal(Seq(s"${other.nodeName} does not write"))
    }
    val stage = query.nextStage()
    val execution = query.nextExecution()
    val translated = sealing {
      Fragments.write(root.child, root.partitions, fragment.context(query)).fold(
        u => throw CofferException.refusal(Seq(u.message)), identity)
    }
    val rdd = sealing {
      StageSealer.seal(query, stage, execution, translated, translated.fragment, fragment, Nil,
        begun.getWrite)
    }
    val before = System.nanoTime()
    val outcomes = ResultJob.run(sparkContext, rdd, 0 until rdd.getNumPartitions)
    metrics("runTime").add((System.nanoTime() - before) / 1000000)
    report(query, stage, outcomes.map(_.report), translated, fragment, root)
    val request = PublishWrite.newBuilder
      .setWrite(begun.getWrite)
      .setSession(query.session)
      .setExecution(execution)
      .setStage(stage)
    outcomes.sortBy(_.partition).foreach(o => request.addCommits(ByteString.copyFrom(o.commit)))
    query.client.publishWrite(request.build())
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}
