package org.apache.spark.sql.coffer.exec

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.coffer.split.ClientTable
import org.apache.spark.sql.coffer.translate.{ClientTableLeaf, ScanLeaf}
import org.apache.spark.sql.execution.LeafExecNode

/** A sealed table that the client engine reads, in a physical plan. It has no rows here. */
case class ClientTableExec(clientTable: ClientTable) extends LeafExecNode with SealedNode {
  override def nodeName: String = "CofferClientTable"
  override def output: Seq[Attribute] = clientTable.output
  override def outputPartitioning: Partitioning = SinglePartition
  override protected def stringArgs: Iterator[Any] =
    Iterator(clientTable.table.name(), clientTable.openings.map(_.text).mkString("[", ", ", "]"))

  def leaf: ClientTableLeaf = {
    val (names, stored) = clientTable.columns.unzip
    ClientTableLeaf(ScanLeaf(this, names, stored, Nil, () => 1), clientTable.openings.map(_.plain))
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}
