package org.apache.spark.sql.coffer.exec

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.coffer.split.HomeTable
import org.apache.spark.sql.coffer.translate.{HomeTableLeaf, ScanLeaf}
import org.apache.spark.sql.execution.LeafExecNode

/** A sealed table that the client engine reads, in a physical plan. It has no rows here. */
case class HomeTableExec(home: HomeTable) extends LeafExecNode with SealedNode {
  override def nodeName: String = "CofferHomeTable"
  override def output: Seq[Attribute] = home.output
  override def outputPartitioning: Partitioning = SinglePartition
  override protected def stringArgs: Iterator[Any] = Iterator(home.table.name(), home.openings.map(_.text).mkString("[", ", ", "]"))

  def leaf: HomeTableLeaf = {
    val (names, stored) = home.columns.unzip
    HomeTableLeaf(ScanLeaf(this, names, stored, Nil, () => 1), home.openings.map(_.plain))
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}
