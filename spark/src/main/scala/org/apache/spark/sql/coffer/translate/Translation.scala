package org.apache.spark.sql.coffer.translate

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSeq, Expression, ExprId}
import org.apache.spark.sql.coffer.proto.plan.{Expr, Hiding, Node}
import org.apache.spark.sql.execution.{ScalarSubquery, SparkPlan}

/** What the translator needs to know of its surroundings. */
final case class Context(
    leaves: LeafResolver,
    /**
     * Ids of scalar values: unique in the session, shared with the ids of range bounds. The
     * position is that of the field of a merged subquery, 0 for all others.
     */
    subqueryId: (ScalarSubquery, Int) => Int,
    /**
     * Puts their values in the place of subqueries, for what is done at the client once they are
     * known.
     */
    known: Expression => Expression = identity,
    /** What the fragment says of what is kept from the host. */
    hiding: Option[Hiding] = None)

/** A scan of a fragment: `scan_id` in the IR and its leaf. */
final case class BoundScan(id: Int, leaf: ScanLeaf)

/** An input of a fragment: `input_id` in the IR and its leaf. */
final case class BoundInput(id: Int, leaf: InputLeaf)

/**
 * A scalar that a fragment names. Once `subquery` has been executed, `value.eval()` is the value,
 * of `value.dataType`: the subquery itself, or one field of it where the optimizer has merged
 * several.
 */
final case class BoundSubquery(id: Int, subquery: ScalarSubquery, value: Expression) {

  /**
   * The value's expression over another instance of the subquery: the one that has been executed.
   */
  def valueOf(executed: ScalarSubquery): Expression = value.transform { case _: ScalarSubquery =>
    executed
  }
}

/**
 * Part of a fragment under construction: a node, its output in Catalyst's attributes, its number of
 * partitions. `read`: of rows that are opened as they are read, the scan below; columns that need
 * no opening are in both.
 */
private[translate] final case class Relation(
    node: Node,
    output: Seq[Attribute],
    partitions: () => Int,
    read: Option[Relation] = None) {

  /** The scan whose rows these are. */
  def scan: Option[Relation] = if (node.hasScan) Some(this) else read.filter(_.node.hasScan)
}

/** The state of one fragment's translation: ids handed out so far. */
private[translate] final class Translation(val context: Context, val atClient: Boolean = false) {
  private var lastNode = 0
  private val scans = mutable.ArrayBuffer.empty[BoundScan]
  private val inputs = mutable.ArrayBuffer.empty[BoundInput]
  private val clientParts = mutable.ArrayBuffer.empty[ClientRowsLeaf]
  private val subqueries = mutable.LinkedHashMap.empty[Int, BoundSubquery]
  private val plans = mutable.LinkedHashMap.empty[Int, SparkPlan]

  /** A builder with a fresh id; ids count from 1 in the order of building, children first. */
  def node(plan: SparkPlan): Node.Builder = {
    lastNode += 1
    plans(lastNode) = plan
    Node.newBuilder.setId(lastNode)
  }

  def bindScan(leaf: ScanLeaf): Int = {
    scans += BoundScan(scans.length, leaf)
    scans.length - 1
  }

  def bindInput(leaf: InputLeaf): Int = {
    inputs += BoundInput(inputs.length, leaf)
    inputs.length - 1
  }

  /** A fragment at the client has no other inputs. */
  def bindClientRows(leaf: ClientRowsLeaf): Int = {
    clientParts += leaf
    clientParts.length - 1
  }

  def bindSubquery(subquery: ScalarSubquery, field: Int, value: Expression): Int = {
    val id = context.subqueryId(subquery, field)
    subqueries.getOrElseUpdate(id, BoundSubquery(id, subquery, value))
    id
  }

  def boundScans: Seq[BoundScan] = scans.toVector
  def boundInputs: Seq[BoundInput] = inputs.toVector
  def boundClientRows: Seq[ClientRowsLeaf] = clientParts.toVector
  def boundSubqueries: Seq[BoundSubquery] = subqueries.values.toVector
  def nodes: Map[Int, SparkPlan] = plans.toMap
}

/**
 * The columns an expression may name, by position, and the translation it is part of. `variables`:
 * of the lambdas around it, from the outermost one's first on.
 */
private[translate] final class Scope(
    input: Seq[Attribute],
    val translation: Translation,
    variables: Seq[ExprId] = Nil) {
  private val positions: AttributeSeq = AttributeSeq(input)

  def position(id: ExprId): Option[Int] = Some(positions.indexOf(id)).filter(_ >= 0)

  def variable(id: ExprId): Option[Int] = Some(variables.lastIndexOf(id)).filter(_ >= 0)

  /** The same in the body of a lambda. */
  def inside(parameters: Seq[ExprId]): Scope =
    new Scope(input, translation, variables ++ parameters)

  def width: Int = input.length

  def convert(expr: Expression): Result[Expr] = Expressions.convert(expr, this)
}
