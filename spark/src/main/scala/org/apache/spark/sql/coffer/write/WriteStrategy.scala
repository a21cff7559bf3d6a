package org.apache.spark.sql.coffer.write

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Ascending, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.coffer.exec.{SealedInsert, SealedWrite, SealedWriteExec}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/** Plans what writes, makes and drops sealed tables. */
final case class WriteStrategy(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case SealedInsert(target, query) =>
      // One file is open at a time in each task: rows come sorted by partition.
      val order = target.partitions.map(at => SortOrder(query.output(at), Ascending))
      val sorted = if (order.isEmpty) query else Sort(order, global = false, query)
      CofferWriteExec(target, planLater(SealedWrite(target.partitions, sorted))) :: Nil
    case SealedWrite(partitions, child) => SealedWriteExec(partitions, planLater(child)) :: Nil
    case SealedDdl(command) => command :: Nil
    case _ => Nil
  }
}
