package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning
import org.apache.spark.sql.coffer.plan.{InputLeaf, Leaf, LeafResolver, ScanLeaf}
import org.apache.spark.sql.coffer.source.CofferScan
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec

/** Sealed tables only: for checking whole plans, exchanges included. */
object TableLeaves extends LeafResolver {
  override def leaf(plan: SparkPlan): Option[Leaf] = plan match {
    case SealedScan(node, scan) =>
      Some(ScanLeaf(node, node.output.map(_.name), node.output, Nil, () => scan.tasks.size))
    case _ => None
  }
}

/** For checking plans of which parts are planned already: stages that AQE has written, subqueries without AQE. */
object PlannedLeaves extends FragmentLeaves(identity) {
  override def leaf(plan: SparkPlan): Option[Leaf] = plan match {
    case root: CofferRootExec => Some(InputLeaf(root, root.output, () => 1))
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
  def unapply(plan: SparkPlan): Option[(CofferShuffleExchangeExec, Seq[ShufflePartitionSpec])] = plan match {
    case AQEShuffleReadExec(Written(exchange), specs) => Some((exchange, specs))
    case Written(exchange) =>
      Some((exchange, (0 until exchange.numPartitions).map(i => CoalescedPartitionSpec(i, i + 1))))
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

/** Tables and shuffles: for one fragment. `input` gives the node that stands now for a leaf of the template. */
sealed class FragmentLeaves(input: SparkPlan => SparkPlan) extends LeafResolver {
  override def leaf(plan: SparkPlan): Option[Leaf] = TableLeaves.leaf(plan).orElse {
    input(plan) match {
      case ShuffleRead(_, specs) => Some(InputLeaf(plan, plan.output, () => specs.size))
      case _ => None
    }
  }

  /** What each partition of a fragment reads, leaf by leaf, as Spark lays partitions out. */
  def layout(plan: SparkPlan): Vector[Part] = leaf(plan) match {
    case Some(l: ScanLeaf) =>
      l.plan match {
        case SealedScan(_, scan) => scan.tasks.map(slices => Part(Map(new Ref(l.plan) -> slices), Map.empty)).toVector
        case _ => Vector.empty
      }
    case Some(l: InputLeaf) =>
      input(l.plan) match {
        case ShuffleRead(exchange, specs) =>
          specs.map(s => Part(Map.empty, Map(new Ref(l.plan) -> Block.of(s, exchange)))).toVector
        case _ => Vector.empty
      }
    case None =>
      plan match {
        case u: UnionExec if u.outputPartitioning.isInstanceOf[UnknownPartitioning] =>
          u.children.toVector.flatMap(layout)
        case p if p.children.isEmpty => Vector(Part(Map.empty, Map.empty))
        case p => p.children.map(layout).reduce(zip)
      }
  }

  private def zip(a: Vector[Part], b: Vector[Part]): Vector[Part] = {
    require(a.size == b.size, s"children of ${a.size} and ${b.size} partitions cannot run in one fragment")
    a.zip(b).map { case (x, y) => Part(x.scans ++ y.scans, x.inputs ++ y.inputs) }
  }
}

/** A node of a plan by identity: two equal scans of one plan are two leaves. */
final class Ref(val plan: SparkPlan) {
  override def equals(other: Any): Boolean = other match {
    case r: Ref => r.plan eq plan
    case _ => false
  }
  override def hashCode(): Int = System.identityHashCode(plan)
}

/** One partition's share of its fragment's leaves. */
final case class Part(scans: Map[Ref, Seq[CofferScan.Slice]], inputs: Map[Ref, Block])

/** Producers [mapBegin, mapEnd) × targets [reduceBegin, reduceEnd) of a shuffle: all of AQE's specs are of this form. */
final case class Block(mapBegin: Int, mapEnd: Int, reduceBegin: Int, reduceEnd: Int)

object Block {
  def of(spec: ShufflePartitionSpec, exchange: CofferShuffleExchangeExec): Block = spec match {
    case CoalescedPartitionSpec(start, end, _) => Block(0, exchange.numMappers, start, end)
    case PartialReducerPartitionSpec(reducer, start, end, _) => Block(start, end, reducer, reducer + 1)
    case PartialMapperPartitionSpec(map, start, end) => Block(map, map + 1, start, end)
    case CoalescedMapperPartitionSpec(start, end, reducers) => Block(start, end, 0, reducers)
  }
}
