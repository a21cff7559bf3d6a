package org.apache.spark.sql.coffer.write

import org.apache.spark.sql.{classic, SparkSession}
import org.apache.spark.sql.catalyst.expressions.{Ascending, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.coffer.exec.{SealedInsert, SealedWrite, SealedWriteExec}
import org.apache.spark.sql.coffer.tail.TailConf
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf

/** Plans what writes, makes and drops sealed tables. */
final case class WriteStrategy(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case SealedInsert(target, query) =>
      // One file is open at a time in each task: rows come sorted by partition.
      val order = target.partitions.map(at => SortOrder(query.output(at), Ascending))
      val sorted = if (order.isEmpty) query else Sort(order, global = false, query)
      // The client engine sorts what it is given by itself.
      val here = if (inDriver) ClientWriteExec.of(session.asInstanceOf[classic.SparkSession], query)
      else None
      val rows = here.getOrElse(planLater(SealedWrite(target.partitions, sorted)))
      CofferWriteExec(target, rows) :: Nil
    case SealedWrite(partitions, child) => SealedWriteExec(partitions, planLater(child)) :: Nil
    case SealedDdl(command) => command :: Nil
    case _ => Nil
  }

  private def inDriver: Boolean = TailConf.on(SQLConf.get)
}
