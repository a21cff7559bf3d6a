package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.coffer.proto.plan.Decrypt
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Where a fragment's rows come from. Translation only binds columns and hands out ids; `plan` is
 * handed back with the id so that its owner finds the table or the shuffle again.
 *
 * `partitions` is asked for only when the node that needs it is translated for execution: a union
 * that stacks its children.
 */
sealed trait Leaf {
  def plan: SparkPlan
  def output: Seq[Attribute]
  def partitions: () => Int
}

/**
 * A sealed table. `columns` are the table's names of `output`, position by position; `pushed` are
 * conjuncts over `output` that the data source has taken over (they are then in no FilterExec) and
 * that the engine must apply exactly.
 */
final case class ScanLeaf(
    plan: SparkPlan,
    columns: Seq[String],
    output: Seq[Attribute],
    pushed: Seq[Expression],
    partitions: () => Int)
    extends Leaf

/**
 * What another stage wrote: a shuffle read, with or without AQE's specs; or a broadcast, which has
 * no partitions of its own.
 */
final case class InputLeaf(
    plan: SparkPlan,
    output: Seq[Attribute],
    partitions: () => Int,
    broadcast: Boolean = false)
    extends Leaf

/**
 * A column as the client engine makes it of what came to the client.
 *
 * @param stored the table's handle and the name of the stored column that it opens; nothing of what
 *               comes as it is
 * @param place  the columns that say of which file and row each value is, where opening needs them
 */
final case class Opened(
    output: Attribute,
    from: Attribute,
    kind: Decrypt.Kind,
    stored: Option[(Int, String)],
    position: Option[(Attribute, Attribute)])

/**
 * Rows that were brought to the client, at most one partition of them: `stored` is what came,
 * `openings` what the client engine makes of it.
 */
final case class ClientRowsLeaf(plan: SparkPlan, stored: Seq[Attribute], openings: Seq[Opened])
    extends Leaf {
  override def output: Seq[Attribute] = openings.map(_.output)
  override def partitions: () => Int = () => 1
}

/**
 * A table that the client engine reads at the client, as one partition, and what it makes of the
 * columns read.
 */
final case class ClientTableLeaf(scan: ScanLeaf, openings: Seq[Opened]) extends Leaf {
  override def plan: SparkPlan = scan.plan
  override def output: Seq[Attribute] = openings.map(_.output)
  override def partitions: () => Int = () => 1
}

/**
 * Says which nodes of a plan are leaves of the fragment. Asked before any operator serde, from the
 * top down.
 */
trait LeafResolver {
  def leaf(plan: SparkPlan): Option[Leaf]
}

/** A node that stands for a part of Spark's plan, which it keeps. */
trait Templated {
  def template: SparkPlan
}

/** The last operator of a fragment that writes a table: its child's rows are what is written. */
trait SealedSink extends UnaryExecNode
