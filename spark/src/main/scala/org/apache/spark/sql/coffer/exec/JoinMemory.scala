package org.apache.spark.sql.coffer.exec

import org.apache.spark.SparkContext
import org.apache.spark.internal.config.EXECUTOR_CORES
import org.apache.spark.sql.coffer.common.{CofferConf, EngineMemory}
import org.apache.spark.sql.coffer.proto.plan.{Fragment, Join, Node}
import org.apache.spark.sql.coffer.translate.{Nodes, TranslatedFragment}

/**
 * Hash joins cannot spill. Once the sizes of a stage's inputs are known, from sealed commits, those
 * whose build side would not fit an engine's memory become sort-merge joins, which can.
 */
object JoinMemory {

  /**
   * A hash table, with its rows, takes about so many times the rows' own bytes; and a task holds
   * more than one thing.
   */
  private val FACTOR = 4

  /** Bytes of an engine's memory for each task that may run in it at once. */
  def share(sc: SparkContext): Long =
    EngineMemory.of(sc.getConf) / math.max(1, tasksPerExecutor(sc))

  def fit(
      fragment: Fragment,
      translated: TranslatedFragment,
      parts: Seq[Part],
      sources: Map[Int, Source],
      share: Long): Fragment = {
    val byInput = translated.inputs.map(i => i.id -> new Ref(i.leaf.plan)).toMap

    /** The largest partition's unpacked bytes of all shuffles below a node. */
    def largest(node: Node): Long = {
      val below = inputs(node).flatMap(id =>
        sources.get(id).collect { case s: ShuffleSource => byInput(id) -> s })
      if (below.isEmpty) 0L
      else parts.map(p =>
        below.flatMap { case (ref, s) =>
          p.inputs.get(ref).map(bytes(_, s))
        }.sum).maxOption.getOrElse(0L)
    }

    def visit(node: Node): Node = Nodes.children(node) match {
      case Nil => node
      case _ =>
        val visited = Nodes.mapChildren(node)(visit)
        if (!visited.hasJoin) visited
        else {
          val join = visited.getJoin
          val build = if (join.getBuildLeft) join.getLeft else join.getRight
          val hashed = join.getStrategy == Join.Strategy.HASH && !join.getBroadcast
          if (hashed && largest(build) > share / FACTOR)
            visited.toBuilder.setJoin(
              join.toBuilder.setStrategy(Join.Strategy.SORT_MERGE).clearBuildLeft()).build()
          else visited
        }
    }
    if (sources.isEmpty) fragment else fragment.toBuilder.setRoot(visit(fragment.getRoot)).build()
  }

  private def bytes(block: Block, source: ShuffleSource): Long = {
    val whole = source.bytes.slice(block.reduceBegin, block.reduceEnd).sum
    if (source.maps == 0) 0L
    else (BigInt(whole) * (block.mapEnd - block.mapBegin) / source.maps).toLong
  }

  private def inputs(node: Node): Seq[Int] =
    if (node.hasInput) Seq(node.getInput.getInputId) else Nodes.children(node).flatMap(inputs)

  private def tasksPerExecutor(sc: SparkContext): Int = {
    val conf = sc.getConf
    val cores =
      if (CofferConf.isLocal(conf)) sc.defaultParallelism
      else {
        // A standalone worker gives an executor all its cores unless told otherwise; the executors
        // say how many they have.
        val known = sc.statusStore.executorList(activeOnly = true).filter(
          _.id != SparkContext.DRIVER_IDENTIFIER).map(_.totalCores)
        known.maxOption.getOrElse(conf.get(EXECUTOR_CORES))
      }
    cores / math.max(1, conf.getInt("spark.task.cpus", 1))
  }
}
