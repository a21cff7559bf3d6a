package org.apache.spark.sql.coffer.write

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.coffer.common.{Client, ClientEngine, CofferException}
import org.apache.spark.sql.coffer.exec.{CofferRootExec, WriteTarget}
import org.apache.spark.sql.coffer.proto.wire.{AbortWrite, WriteBegun, WritePublished}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.v2.V2CommandExec
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/**
 * The command: a write is begun, its query's tasks write files, one message publishes them as a new
 * version. Whatever fails before leaves the old version as it is, and the client engine takes the
 * files away that it finds.
 */
final case class CofferWriteExec(target: WriteTarget, child: SparkPlan) extends V2CommandExec
    with UnaryExecNode with Logging {

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "rows written"),
    "writtenBytes" -> SQLMetrics.createSizeMetric(sparkContext, "bytes written"),
    "writtenFiles" -> SQLMetrics.createMetric(sparkContext, "files written"))

  override def output: Seq[Attribute] = Nil
  override protected def withNewChildInternal(newChild: SparkPlan): CofferWriteExec =
    copy(child = newChild)

  override protected def run(): Seq[InternalRow] = {
    val root = child match {
      case r: CofferRootExec => r
      case other =>
        throw CofferException.refusal(Seq(s"${other.nodeName} is no sealed query; set " +
            s"spark.sql.extensions to CofferExtensions"))
    }
    val published = SealedPublication(Client.get, target) { begun =>
      root.through {
        case stage: CofferWriteStageExec => stage.write(begun)
        case here: ClientWriteExec => here.write(begun)
        case other => throw CofferException.refusal(Seq(s"${other.nodeName} does not write"))
      }
    }
    metrics("numOutputRows").add(published.getRows)
    metrics("writtenBytes").add(published.getBytes)
    metrics("writtenFiles").add(published.getFiles.toLong)
    val execution =
      sparkContext.getLocalProperty(org.apache.spark.sql.execution.SQLExecution.EXECUTION_ID_KEY)
    SQLMetrics.postDriverMetricUpdates(sparkContext, execution, metrics.values.toSeq)
    Nil
  }
}

/** From BEGIN_WRITE to its end, whichever. */
object SealedPublication extends Logging {

  def apply(
      client: ClientEngine,
      target: WriteTarget)(publish: WriteBegun => WritePublished): WritePublished = {
    val begun = client.beginWrite(target.begin)
    val published =
      try publish(begun)
      catch {
        case e: Throwable =>
          // Where publishing itself was refused the write is over already.
          try client.abortWrite(AbortWrite.newBuilder.setWrite(begun.getWrite).build())
          catch {
            case NonFatal(a) => logDebug("a write was not given up; coffer verify --clean " +
                  "removes what it left", a)
          }
          throw e
      }
    if (published.getWarning.nonEmpty) logWarning(published.getWarning)
    if (published.getOrderedColumnsCount > 0) {
      val columns = String.join("`, `", published.getOrderedColumnsList)
      logWarning(s"The rows of `${begun.getName}` were written in the order of `$columns`, which " +
        s"tells the host that order.")
    }
    published
  }
}
