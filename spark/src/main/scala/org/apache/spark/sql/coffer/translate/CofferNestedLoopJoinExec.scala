package org.apache.spark.sql.coffer.translate

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.optimizer.BuildSide
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.physical.{
  AllTuples,
  Distribution,
  Partitioning,
  SinglePartition
}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.joins.BaseJoinExec

/**
 * An outer join without equal keys, in one partition. Spark broadcasts one side and finds its
 * unmatched rows by a second job; a broadcast of ours is read by tasks that do not know of each
 * other. Right for every join type, and slow: such joins compare all pairs anyway.
 */
case class CofferNestedLoopJoinExec(
    left: SparkPlan,
    right: SparkPlan,
    buildSide: BuildSide,
    joinType: JoinType,
    condition: Option[Expression])
    extends BaseJoinExec {

  override def nodeName: String = "CofferNestedLoopJoin"
  override def leftKeys: Seq[Expression] = Nil
  override def rightKeys: Seq[Expression] = Nil
  override def requiredChildDistribution: Seq[Distribution] = Seq(AllTuples, AllTuples)
  override def outputPartitioning: Partitioning = SinglePartition

  override def output: Seq[Attribute] = joinType match {
    case LeftOuter | LeftSingle => left.output ++ nullable(right)
    case RightOuter => nullable(left) ++ right.output
    case FullOuter => nullable(left) ++ nullable(right)
    case e: ExistenceJoin => left.output :+ e.exists
    case LeftExistence(_) => left.output
    case _ => left.output ++ right.output
  }

  private def nullable(side: SparkPlan): Seq[Attribute] = side.output.map(_.withNullability(true))

  override protected def doExecute(): RDD[InternalRow] =
    throw new UnsupportedOperationException("a sealed join is run by engines")

  override protected def withNewChildrenInternal(
      newLeft: SparkPlan,
      newRight: SparkPlan): CofferNestedLoopJoinExec =
    copy(left = newLeft, right = newRight)
}
