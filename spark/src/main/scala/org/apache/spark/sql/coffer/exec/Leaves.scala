package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildSide}
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.split.CofferScan
import org.apache.spark.sql.coffer.translate.{
  CofferNestedLoopJoinExec,
  ClientRowsLeaf,
  ClientTableLeaf,
  InputLeaf,
  Leaf,
  LeafResolver,
  ScanLeaf
}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{
  AQEShuffleReadExec,
  BroadcastQueryStageExec,
  ShuffleQueryStageExec
}
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.execution.joins.{
  BroadcastHashJoinExec,
  BroadcastNestedLoopJoinExec,
  CartesianProductExec,
  ShuffledJoin
}

/** Sealed tables only: for checking whole plans, exchanges included. */
object TableLeaves extends LeafResolver {
  override def leaf(plan: SparkPlan): Option[Leaf] = plan match {
    case SealedScan(node, scan) =>
      Some(ScanLeaf(node, node.output.map(_.name), node.output, Nil, () => scan.tasks.size))
    case _ => None
  }
}

/**
 * For checking plans of which parts are planned already: stages that AQE has written, subqueries
 * without AQE.
 */
object PlannedLeaves extends FragmentLeaves(identity) {
  override def leaf(plan: SparkPlan): Option[Leaf] = plan match {
    case root @ (_: CofferRootExec | _: DriverPart) =>
      Some(InputLeaf(root, root.output, () => 1))
    case other => super.leaf(other)
  }
}

object SealedScan {
  def unapply(plan: SparkPlan): Option[(BatchScanExec, CofferScan)] = plan match {
    case b: BatchScanExec =>
      b.scan match {
        case s: CofferScan if b.runtimeFilters.isEmpty => Some((b, s))
        case _ => None
      }
    case _ => None
  }
}

/** A read of what a sealed exchange wrote, with AQE's specs if it made any. */
object ShuffleRead {
  def unapply(plan: SparkPlan): Option[(CofferShuffleExchangeExec, Seq[ShufflePartitionSpec])] =
    plan match {
      case AQEShuffleReadExec(Written(exchange), specs) => Some((exchange, specs))
      case Written(exchange) =>
        Some((exchange,
            (0 until exchange.numPartitions).map(i => CoalescedPartitionSpec(i, i + 1))))
      case _ => None
    }

  private object Written {
    def unapply(plan: SparkPlan): Option[CofferShuffleExchangeExec] = plan match {
      case e: CofferShuffleExchangeExec => Some(e)
      case ReusedExchangeExec(_, e: CofferShuffleExchangeExec) => Some(e)
      case ShuffleQueryStageExec(_, inner, _) => unapply(inner)
      case _ => None
    }
  }
}

/** A read of a sealed broadcast: every task has all of it. */
object BroadcastRead {
  def unapply(plan: SparkPlan): Option[CofferBroadcastExchangeExec] = plan match {
    case e: CofferBroadcastExchangeExec => Some(e)
    case ReusedExchangeExec(_, e: CofferBroadcastExchangeExec) => Some(e)
    case BroadcastQueryStageExec(_, inner, _) => unapply(inner)
    case _ => None
  }
}

/**
 * Tables, shuffles and broadcasts: for one fragment. `input` gives the node that stands now for a
 * leaf of the template.
 */
sealed class FragmentLeaves(input: SparkPlan => SparkPlan) extends LeafResolver {
  override def leaf(plan: SparkPlan): Option[Leaf] = TableLeaves.leaf(plan).orElse {
    input(plan) match {
      case clientRows: ClientRowsExec => Some(clientRows.leaf)
      case table: ClientTableExec => Some(table.leaf)
      case ShuffleRead(_, specs) => Some(InputLeaf(plan, plan.output, () => specs.size))
      // EXPLAIN does not fill a cache to know how many they are.
      case c: KeptExec =>
        Some(InputLeaf(plan, plan.output, () => c.input.fold(1)(_.exchange.numMappers)))
      case BroadcastRead(_) =>
        Some(InputLeaf(plan, plan.output,
            () =>
              throw new IllegalStateException("a broadcast has " +
                "no partitions"), broadcast = true))
      case _ => None
    }
  }

  /**
   * What each partition of a fragment reads, leaf by leaf, as Spark lays partitions out. Broadcasts
   * are read by all of them.
   */
  def layout(plan: SparkPlan): Vector[Part] = leaf(plan) match {
    case Some(l: ScanLeaf) =>
      l.plan match {
        case SealedScan(_, scan) => scan.tasks.map(slices =>
            Part(Map(new Ref(l.plan) ->
                slices), Map.empty)).toVector
        case _ => Vector.empty
      }
    case Some(l: InputLeaf) =>
      input(l.plan) match {
        case ShuffleRead(exchange, specs) =>
          specs.map(s => Part(Map.empty, Map(new Ref(l.plan) -> Block.of(s, exchange)))).toVector
        case c: KeptExec =>
          val maps = c.input.fold(0)(_.exchange.numMappers)
          Vector.tabulate(maps)(m => Part(Map.empty, Map(new Ref(l.plan) -> Block(m, m + 1, 0, 1))))
        case _ => Vector.empty
      }
    // In the client engine, which has no partitions to lay out.
    case Some(_: ClientRowsLeaf | _: ClientTableLeaf) => Vector.empty
    case None =>
      plan match {
        case u: UnionExec if u.outputPartitioning.isInstanceOf[UnknownPartitioning] =>
          u.children.toVector.flatMap(layout)
        case BroadcastJoin(streamed) => layout(streamed)
        case c: CartesianProductExec => grid(c)
        case r: RangeExec if !r.isEmptyRange => Vector.fill(r.numSlices)(Part.empty)
        case p if p.children.isEmpty => Vector(Part.empty)
        case p => p.children.map(layout).reduce(zip)
      }
  }

  /**
   * As Spark numbers a product's partitions: each of the left side with all of the right, in order.
   */
  private def grid(product: CartesianProductExec): Vector[Part] = {
    def placed(side: SparkPlan): Vector[Part] = {
      if (withValues(side))
        throw CofferException.refusal(Seq("CartesianProduct: rows that come with the query are " +
            "not paired with partitions"))
      val parts = layout(side)
      // A product below brings the positions of its own sides.
      if (Cartesian.below(side).isDefined) parts
      else parts.zipWithIndex.map { case (p, i) =>
        p.copy(positions = p.positions + (new Ref(side) -> i))
      }
    }
    val right = placed(product.right)
    for (l <- placed(product.left); r <- right) yield l ++ r
  }

  private def withValues(plan: SparkPlan): Boolean =
    leaf(plan).isEmpty && (plan.children.isEmpty || plan.children.exists(withValues))

  /**
   * The Cartesian products of a fragment, each by its sides: products of products are one of all
   * sides.
   */
  def products(plan: SparkPlan): Vector[Cartesian] = leaf(plan) match {
    case Some(_) => Vector.empty
    case None =>
      plan match {
        case c: CartesianProductExec =>
          Vector(new Cartesian(Cartesian.sides(c).map { s =>
            if (products(s).nonEmpty)
              throw CofferException.refusal(Seq("CartesianProduct: a union of products below a " +
                  "product is not supported"))
            new CartesianSide(new Ref(s), layout(s).size, inputs(s).toSet)
          }))
        case p => p.children.toVector.flatMap(products)
      }
  }

  /**
   * Shuffles that are joined with each other partition by partition. A skew split reads a partition
   * of one side again for each part of the other, so what covers such inputs is said of them
   * together.
   */
  def joined(plan: SparkPlan): Vector[Set[Ref]] = leaf(plan) match {
    case Some(_) => Vector.empty
    case None =>
      plan match {
        case j @ (_: ShuffledJoin |
            _: CofferNestedLoopJoinExec) => Vector(shuffles(j).toSet).filter(_.size > 1)
        case BroadcastJoin(streamed) => joined(streamed)
        case p => p.children.toVector.flatMap(joined)
      }
  }

  private def shuffles(plan: SparkPlan): Seq[Ref] =
    inputs(plan).filterNot(r => TableLeaves.leaf(r.plan).isDefined)

  /** What is read in parts: tables and shuffles, not broadcasts. */
  private def inputs(plan: SparkPlan): Seq[Ref] = leaf(plan) match {
    case Some(i: InputLeaf) if i.broadcast => Nil
    case Some(l) => Seq(new Ref(l.plan))
    case None => plan.children.flatMap(inputs)
  }

  private def zip(a: Vector[Part], b: Vector[Part]): Vector[Part] = {
    require(a.size == b.size,
      s"children of ${a.size} and ${b.size} partitions cannot run in one " +
        s"fragment")
    a.zip(b).map { case (x, y) => x ++ y }
  }
}

/** A join with a broadcast: its partitions are those of the other side. */
private object BroadcastJoin {
  def unapply(plan: SparkPlan): Option[SparkPlan] = plan match {
    case j: BroadcastHashJoinExec => Some(streamed(j.buildSide, j.left, j.right))
    case j: BroadcastNestedLoopJoinExec => Some(streamed(j.buildSide, j.left, j.right))
    case _ => None
  }

  private def streamed(build: BuildSide, left: SparkPlan, right: SparkPlan): SparkPlan =
    if (build == BuildLeft) right else left
}

/** A node of a plan by identity: two equal scans of one plan are two leaves. */
final class Ref(val plan: SparkPlan) {
  override def equals(other: Any): Boolean = other match {
    case r: Ref => r.plan eq plan
    case _ => false
  }
  override def hashCode(): Int = System.identityHashCode(plan)
}

/**
 * One partition's share of its fragment's leaves, and its place in the fragment's products: by
 * side, which partition of it.
 */
final case class Part(
    scans: Map[Ref, Seq[CofferScan.Slice]],
    inputs: Map[Ref, Block],
    positions: Map[Ref, Int] = Map.empty) {

  def ++(other: Part): Part = Part(scans ++ other.scans, inputs ++ other.inputs,
    positions ++
      other.positions)
}

object Part {
  val empty: Part = Part(Map.empty, Map.empty)
}

/** A Cartesian product of two or more sides: its partitions are the cells of a grid. */
final class Cartesian(val sides: Seq[CartesianSide])

/**
 * A side of a product by its topmost node, its number of partitions, and the leaves below it that
 * are read again in each cell.
 */
final class CartesianSide(val root: Ref, val partitions: Int, val leaves: Set[Ref])

object Cartesian {

  /** The product that gives a plan its partitions, if one does. */
  def below(plan: SparkPlan): Option[CartesianProductExec] = plan match {
    case c: CartesianProductExec => Some(c)
    case BroadcastJoin(streamed) => below(streamed)
    case u: UnaryExecNode => below(u.child)
    case _ => None
  }

  def sides(product: CartesianProductExec): Seq[SparkPlan] =
    product.children.flatMap(side => below(side).fold(Seq(side))(sides))
}

/**
 * Producers [mapBegin, mapEnd) × targets [reduceBegin, reduceEnd) of a shuffle: all of AQE's specs
 * are of this form.
 */
final case class Block(mapBegin: Int, mapEnd: Int, reduceBegin: Int, reduceEnd: Int)

object Block {
  def of(spec: ShufflePartitionSpec, exchange: CofferShuffleExchangeExec): Block = spec match {
    case CoalescedPartitionSpec(start, end, _) => Block(0, exchange.numMappers, start, end)
    case PartialReducerPartitionSpec(reducer, start, end, _) =>
      Block(start, end, reducer, reducer + 1)
    case PartialMapperPartitionSpec(map, start, end) => Block(map, map + 1, start, end)
    case CoalescedMapperPartitionSpec(start, end, reducers) => Block(start, end, 0, reducers)
  }
}
