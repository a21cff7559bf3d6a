package org.apache.spark.sql.coffer.tail

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  Expression,
  GenericInternalRow,
  JoinedRow,
  Literal,
  Predicate,
  UnsafeProjection
}
import org.apache.spark.sql.catalyst.plans.physical.{
  BroadcastDistribution,
  Distribution,
  IdentityBroadcastMode,
  Partitioning,
  UnspecifiedDistribution
}
import org.apache.spark.sql.execution.{BinaryExecNode, SparkPlan}
import org.apache.spark.util.collection.BitSet

/**
 * A full outer join without an equality. Spark's own shuffles what it saw of the right side; in one
 * partition all is seen once the left side has ended.
 */
private[tail] case class NestedFullJoinExec(
    left: SparkPlan,
    right: SparkPlan,
    condition: Option[Expression])
    extends BinaryExecNode {
  override def nodeName: String = "CofferTailFullJoin"
  override def output: Seq[Attribute] = (left.output ++ right.output).map(_.withNullability(true))
  override def outputPartitioning: Partitioning = left.outputPartitioning
  override def requiredChildDistribution: Seq[Distribution] =
    Seq(UnspecifiedDistribution, BroadcastDistribution(IdentityBroadcastMode))
  override protected def withNewChildrenInternal(
      newLeft: SparkPlan,
      newRight: SparkPlan): SparkPlan = copy(left = newLeft, right = newRight)

  override protected def doExecute(): RDD[InternalRow] = {
    val built = right.executeBroadcast[Array[InternalRow]]()
    left.execute().mapPartitionsInternal { rows =>
      val build = built.value
      val holds = Predicate.create(
        condition.getOrElse(Literal.TrueLiteral), left.output ++ right.output)
      val matched = new BitSet(build.length)
      val joined = new JoinedRow
      val noLeft = new GenericInternalRow(left.output.size)
      val noRight = new GenericInternalRow(right.output.size)

      def of(row: InternalRow): Iterator[InternalRow] = {
        val found = build.indices.iterator.filter(i => holds.eval(joined(row, build(i)))).map { i =>
          matched.set(i)
          joined(row, build(i))
        }
        if (found.hasNext) found else Iterator.single(joined(row, noRight))
      }
      def rest: Iterator[InternalRow] =
        build.indices.iterator.filterNot(matched.get).map(i => joined(noLeft, build(i)))

      val unsafe = UnsafeProjection.create(output, output)
      (rows.flatMap(of) ++ rest).map(unsafe)
    }
  }
}
