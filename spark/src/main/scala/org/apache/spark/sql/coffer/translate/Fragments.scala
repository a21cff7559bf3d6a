package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.coffer.proto.plan.{
  Fragment,
  Partitioning => ProtoPartitioning,
  Schema,
  Sink,
  SortKey
}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.types.DoubleType

/**
 * One query stage, translated. `partitions` is how many tasks it has; `output` are the fragment's
 * columns in Catalyst's words; `nodes` tells which operator a node of the IR stands for (for
 * EXPLAIN and metrics).
 */
final class TranslatedFragment private[translate] (
    val fragment: Fragment,
    val output: Seq[Attribute],
    val scans: Seq[BoundScan],
    val inputs: Seq[BoundInput],
    val subqueries: Seq[BoundSubquery],
    val nodes: Map[Int, SparkPlan],
    partitionCount: () => Int) {
  def partitions: Int = partitionCount()
}

/**
 * The two fragments of a range exchange: the first samples keys, the second uses the bounds that
 * were picked from them.
 */
final case class RangeFragments(
    sample: TranslatedFragment,
    sampleKeys: Seq[SortKey], // over the sample's own columns, for picking bounds
    shuffle: TranslatedFragment)

/**
 * What the client engine runs, by `input_id` the rows and by `scan_id` the tables that it runs
 * over.
 */
final case class ClientFragment(
    fragment: Fragment,
    clientParts: Seq[ClientRowsLeaf],
    scans: Seq[BoundScan])

/** Translates the subtree between two exchanges, with the sink that its rows go to. */
object Fragments {
  val version = 1

  /** Rows for the client engine, as they are: see [[ResultPlan]] for a query's root. */
  def result(plan: SparkPlan, context: Context): Result[TranslatedFragment] =
    build(plan, context)((relation, translation) =>
      Right((relation, Sink.newBuilder.setResult(Sink.Result.getDefaultInstance).build())))

  /**
   * The part of a plan that the client engine runs; with each `input_id` the rows that it stands
   * for, and the tables it reads.
   */
  def atClient(plan: SparkPlan, context: Context): Result[ClientFragment] = {
    val translation = new Translation(context, atClient = true)
    for {
      relation <- Operators.convert(plan, translation)
      fragment <- assemble(relation,
        Sink.newBuilder.setResult(Sink.Result.getDefaultInstance).build(), translation)
    } yield ClientFragment(fragment.fragment, translation.boundClientRows, translation.boundScans)
  }

  /**
   * Files of a sealed table whose columns are the plan's; rows come sorted by the partition
   * columns.
   */
  def write(
      plan: SparkPlan,
      partitionColumns: Seq[Int],
      context: Context): Result[TranslatedFragment] =
    build(plan, context) { (relation, _) =>
      val write = Sink.Write.newBuilder
      partitionColumns.foreach(write.addPartitionColumns)
      Right((relation, Sink.newBuilder.setWrite(write).build()))
    }

  /** Hash, single and round-robin exchanges; range exchanges need [[range]]. */
  def shuffle(
      partitioning: Partitioning,
      child: SparkPlan,
      context: Context): Result[TranslatedFragment] =
    build(child, context) { (relation, translation) =>
      Partitionings
        .of(partitioning, new Scope(relation.output, translation))
        .map(p => (relation, Sink.newBuilder.setShuffle(p).build()))
    }

  /** A broadcast: all rows of the child, for each task that reads them. */
  def broadcast(child: SparkPlan, context: Context): Result[TranslatedFragment] =
    build(child, context)((relation, _) =>
      Right((relation, Sink.newBuilder.setBroadcast(Sink.Broadcast.getDefaultInstance).build())))

  /**
   * A range exchange. `boundsId` names the bounds: unique in the session. `sampleSize` is in rows
   * of each task; `seed` makes a repeated task sample the same rows.
   */
  def range(
      partitioning: RangePartitioning,
      child: SparkPlan,
      context: Context,
      boundsId: Int,
      sampleSize: Int,
      seed: Long): Result[RangeFragments] =
    for {
      sample <- sampled(partitioning.ordering, child, context, sampleSize, seed)
      shuffle <- build(child, context) { (relation, translation) =>
        Partitionings
          .range(partitioning, boundsId, new Scope(relation.output, translation))
          .map(p => (relation, Sink.newBuilder.setShuffle(p).build()))
      }
    } yield {
      val keys = shuffle.fragment.getSink.getShuffle.getRange
      val overSample = (0 until keys.getKeysCount).map { i =>
        keys.getKeys(i).toBuilder.setExpr(ReferenceExpressions.column(i)).build()
      }
      RangeFragments(sample, overSample, shuffle)
    }

  /**
   * The sample's frames have the keys' schema and a weight; `Fragment.output` stays that of the
   * root.
   */
  def sampleSchema(ordering: Seq[SortOrder]): Result[Schema] =
    traverse(ordering.zipWithIndex) { case (o, i) =>
      Types.field(s"key$i", Types.ofKey(o.child.dataType), nullable = true)
    }.flatMap(keys =>
      Types.field("weight", DoubleType, nullable = false).map(w => Types.schemaOf(keys :+ w)))

  private def sampled(
      ordering: Seq[SortOrder],
      child: SparkPlan,
      context: Context,
      size: Int,
      seed: Long): Result[TranslatedFragment] =
    build(child, context) { (relation, translation) =>
      Operators.sortKeys(ordering, new Scope(relation.output, translation)).map { keys =>
        val sample = Sink.Sample.newBuilder.setSize(size).setSeed(seed)
        keys.foreach(sample.addKeys)
        (relation, Sink.newBuilder.setSample(sample).build())
      }
    }

  private def build(plan: SparkPlan, context: Context)(
      finish: (Relation, Translation) => Result[(Relation, Sink)]): Result[TranslatedFragment] = {
    val translation = new Translation(context)
    for {
      root <- Operators.convert(plan, translation)
      finished <- finish(root, translation)
      built <- assemble(finished._1, finished._2, translation)
    } yield built
  }

  private[translate] def assemble(
      relation: Relation,
      sink: Sink,
      translation: Translation): Result[TranslatedFragment] =
    Types.schema(relation.output).map { schema =>
      val fragment = Fragment.newBuilder
        .setVersion(version)
        .setRoot(relation.node)
        .setSink(sink)
        .setOutput(schema)
      translation.context.hiding.foreach(fragment.setHiding)
      new TranslatedFragment(
        fragment.build(),
        relation.output,
        translation.boundScans,
        translation.boundInputs,
        translation.boundSubqueries,
        translation.nodes,
        relation.partitions)
    }
}

private[translate] object Partitionings {

  def of(partitioning: Partitioning, scope: Scope): Result[ProtoPartitioning] = partitioning match {
    case HashPartitioning(expressions, partitions) =>
      traverse(expressions)(scope.convert).map { exprs =>
        val hash = ProtoPartitioning.Hash.newBuilder.setPartitions(partitions)
        exprs.foreach(hash.addExprs)
        ProtoPartitioning.newBuilder.setHash(hash).build()
      }
    case SinglePartition =>
      Right(
        ProtoPartitioning.newBuilder.setSingle(ProtoPartitioning.Single.getDefaultInstance).build())
    case RoundRobinPartitioning(partitions) =>
      val roundRobin = ProtoPartitioning.RoundRobin.newBuilder.setPartitions(partitions)
      Right(ProtoPartitioning.newBuilder.setRoundRobin(roundRobin).build())
    case _: RangePartitioning => refuse("range partitioning needs bounds from a sample first")
    case other => refuse(s"partitioning by ${other.getClass.getSimpleName.stripSuffix("$")} is " +
        s"not supported")
  }

  def range(
      partitioning: RangePartitioning,
      boundsId: Int,
      scope: Scope): Result[ProtoPartitioning] =
    Operators.sortKeys(partitioning.ordering, scope).map { keys =>
      val range = ProtoPartitioning.Range.newBuilder
        .setPartitions(partitioning.numPartitions)
        .setBoundsId(boundsId)
      keys.foreach(range.addKeys)
      ProtoPartitioning.newBuilder.setRange(range).build()
    }
}
