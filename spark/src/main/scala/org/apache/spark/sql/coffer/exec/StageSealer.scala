package org.apache.spark.sql.coffer.exec

import java.security.SecureRandom
import java.util.Properties

import scala.jdk.CollectionConverters._

import com.google.common.hash.Hashing

import org.apache.spark.{ShuffleDependency, SparkContext}
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.proto.plan.Fragment
import org.apache.spark.sql.coffer.proto.wire._
import org.apache.spark.sql.coffer.translate.{BoundInput, TranslatedFragment}
import org.apache.spark.sql.internal.SQLConf

/** Seals a stage in one message to the client engine, and makes the RDD of its tasks. */
object StageSealer {

  /**
   * @param translated the fragment as translated; `fragment` may differ from it above its root (a
   *                 limit)
   * @param execution 0 for a shuffle's stage, else the result's own
   * @param extra ids of objects that the fragment names beside its subqueries: range bounds
   * @param write of a fragment that writes a table: what BEGIN_WRITE gave
   */
  def seal(
      query: CofferQuery,
      stage: Int,
      execution: Long,
      translated: TranslatedFragment,
      fragment: Fragment,
      node: CofferFragmentExec,
      extra: Seq[Int],
      write: Int = 0): SealedRDD = {
    val parts = laidOut(translated, node)
    val sources = translated.inputs.map(i => i.id -> node.source(i.leaf.plan)).toMap
    val asked =
      request(query, stage, execution, translated, fragment, node, extra, parts, sources)
    asked.setWrite(write).setOneEngine(oneEngine(node.conf, node.session.sparkContext))
    val answer = query.client.sealStage(asked.build())
    query.audited(answer.getAuditMicros)
    whole(answer, parts)
    rdd(query, stage, translated, parts, sources, answer, node.session.sparkContext)
  }

  private[exec] def laidOut(
      translated: TranslatedFragment,
      node: CofferFragmentExec): Vector[Part] = {
    val parts = node.layout
    if (parts.size != translated.partitions) throw new CofferException(
      "COFFER_LAYOUT",
      s"a stage of ${translated.partitions} partitions was laid out as ${parts.size}",
      "please report the query's EXPLAIN")
    parts
  }

  private[exec] def whole(answer: SealedStage, parts: Seq[Part]): Unit =
    if (answer.getSealedDescriptorsCount != parts.size) throw new CofferException(
      "COFFER_CLIENT_PROTOCOL",
      s"the client engine sealed ${answer.getSealedDescriptorsCount} of ${parts.size} tasks",
      "use the client engine and the jar of one build")

  /** What is to be sealed, by where its inputs come from. */
  private[exec] def request(
      query: CofferQuery,
      stage: Int,
      execution: Long,
      translated: TranslatedFragment,
      fragment: Fragment,
      node: CofferFragmentExec,
      extra: Seq[Int],
      parts: Seq[Part],
      sources: Map[Int, Source]): SealStage.Builder = {
    translated.subqueries.foreach(s => query.sealValue(s.id, s.valueOf(node.subquery(s.subquery))))
    val fitting = JoinMemory.fit(fragment, translated, parts, sources,
      JoinMemory.share(node.session.sparkContext))
    val request = SealStage.newBuilder
      .setSession(query.session)
      .setExecution(execution)
      .setStage(stage)
      .setFragment(fitting.toByteString)
    val sides = new Sides(node.products)
    sides.describe(request)
    parts.foreach(p => request.addTasks(task(translated, p, sources, sides)))
    translated.scans.foreach { s =>
      val scan = SealedScan.unapply(s.leaf.plan).map(_._2).getOrElse(
        throw CofferException.refusal(Seq("a scan of no table")))
      request.addScans(
        TableScan.newBuilder
          .setScanId(s.id)
          .setHandle(scan.table.info.getHandle)
          .addAllColumns(s.leaf.columns.asJava)
          .setSide(sides.of(new Ref(s.leaf.plan))))
    }
    val groups = node.joined
    translated.inputs.foreach { i =>
      val source = sources(i.id)
      request.addInputs(
        StageInput.newBuilder
          .setInputId(i.id)
          .setProducerStage(source.stage)
          .setMaps(source.maps)
          .setReduces(source.reduces)
          .setGroup(groups.indexWhere(_.contains(new Ref(i.leaf.plan))) + 1)
          .setBroadcast(i.leaf.broadcast)
          .setSide(sides.of(new Ref(i.leaf.plan))))
    }
    query.unverified.foreach(scan => request.addUnverified(scan))
    query.planned().foreach(scan => request.addPlanned(scan))
    (translated.subqueries.map(_.id) ++ extra).distinct.foreach(id => request.addObjects(id))
    request
  }

  /** Whether rows of exchanges may stay in an engine: all tasks run in the same one. */
  private[exec] def oneEngine(conf: SQLConf, sc: SparkContext): Boolean =
    inMemory(conf) && CofferConf.isLocal(sc.conf)

  private[exec] def inMemory(conf: SQLConf): Boolean =
    conf.getConfString(CofferConf.EXCHANGE_IN_MEMORY, "on") match {
      case "on" => true
      case "off" => false
      case other => throw new CofferException("COFFER_CONF",
          s"${CofferConf.EXCHANGE_IN_MEMORY} is $other", "set it to on or off")
    }

  /** Sides of all products of a fragment, numbered from 1; what lies below none is of side 0. */
  private final class Sides(products: Seq[Cartesian]) {
    private val numbers: Map[Ref, Int] =
      products.flatMap(_.sides).map(_.root).zipWithIndex.map { case (r, i) => r -> (i + 1) }.toMap
    private val byLeaf: Map[Ref, Int] =
      products.flatMap(_.sides).flatMap(s => s.leaves.toSeq.map(_ -> numbers(s.root))).toMap

    def of(leaf: Ref): Int = byLeaf.getOrElse(leaf, 0)

    def describe(request: SealStage.Builder): Unit = products.foreach { p =>
      val product = Product.newBuilder
      p.sides.foreach { s =>
        product.addSides(
          Product.Side.newBuilder.setSide(numbers(s.root)).setPartitions(s.partitions))
      }
      request.addProducts(product)
    }

    def describe(part: Part, task: TaskSpec.Builder): Unit = part.positions.toSeq
      .map { case (root, at) => numbers(root) -> at }
      .sorted
      .foreach { case (side, at) =>
        task.addPositions(TaskSpec.Position.newBuilder.setSide(side).setPartition(at))
      }
  }

  private def task(
      translated: TranslatedFragment,
      part: Part,
      sources: Map[Int, Source],
      sides: Sides): TaskSpec = {
    val spec = TaskSpec.newBuilder
    sides.describe(part, spec)
    for (s <- translated.scans; slice <- part.scans.getOrElse(new Ref(s.leaf.plan), Nil))
      spec.addSlices(
        TaskSpec.Slice.newBuilder
          .setScanId(s.id)
          .setFile(slice.file)
          .setFirstRowGroup(slice.first)
          .setEndRowGroup(slice.end))
    for (i <- translated.inputs; b <- block(i, part, sources))
      spec.addRectangles(
        TaskSpec.Rectangle.newBuilder
          .setInputId(i.id)
          .setMapBegin(b.mapBegin)
          .setMapEnd(b.mapEnd)
          .setReduceBegin(b.reduceBegin)
          .setReduceEnd(b.reduceEnd))
    spec.build()
  }

  private def block(input: BoundInput, part: Part, sources: Map[Int, Source]): Option[Block] =
    sources(input.id) match {
      case b: BroadcastSource => Some(Block(0, b.maps, 0, 1))
      case p: PlannedSource if p.broadcast => Some(Block(0, p.maps, 0, 1))
      case _: ShuffleSource | _: PlannedSource => part.inputs.get(new Ref(input.leaf.plan))
    }

  private def rdd(
      query: CofferQuery,
      stage: Int,
      translated: TranslatedFragment,
      parts: Seq[Part],
      sources: Map[Int, Source],
      answer: SealedStage,
      sc: SparkContext): SealedRDD = {
    val shuffled = sources.collect { case (id, s: ShuffleSource) => id -> s }
    val broadcasts = sources.collect { case (id, b: BroadcastSource) => id -> b.broadcast.streams }
    val shuffles: Seq[ShuffleDependency[_, _, _]] =
      shuffled.values.map(_.exchange.sealedShuffle.dependency).toSeq.distinctBy(_.shuffleId)
    val partitions = parts.zip(answer.getSealedDescriptorsList.asScala).zipWithIndex.map {
      case ((part, d), index) =>
        val rectangles = for {
          i <- translated.inputs
          source <- shuffled.get(i.id)
          b <- part.inputs.get(new Ref(i.leaf.plan))
        } yield Rectangle(
          i.id, source.exchange.shuffleId, source.stage, b.mapBegin, b.mapEnd, b.reduceBegin,
          b.reduceEnd)
        new SealedPartition(index, d.toByteArray, rectangles.toVector)
    }
    val work = SealedWork(
      query.session.toByteArray,
      stage,
      answer.getSealedFragment.toByteArray,
      answer.getSealedObjectsList.asScala.map(_.toByteArray).toVector,
      answer.getReleasesList.asScala.map(r => r.getEngineId -> r.getRelease.toByteArray).toMap,
      broadcasts)
    NeutralJob.run(sc)(new SealedRDD(sc, work, partitions.toArray, shuffles,
        answer.getIndeterminate))
  }
}

/**
 * Spark ships a job's local properties with every task: SQL text in the job's description, call
 * sites, all of SQLConf. Sealed jobs take along only what scheduling needs.
 */
object NeutralJob {
  private val kept = Seq(
    "spark.sql.execution.id",
    "spark.sql.execution.root.id",
    "spark.scheduler.pool",
    "spark.job.interruptOnCancel",
    "spark.job.tags")
  private val GROUP = "spark.jobGroup.id"

  /** By this Spark has the query's name in the context of what executors log of its tasks. */
  private val NAME = "mdc.coffer.query"

  // It never leaves this JVM: over a bare digest a host could try names.
  private lazy val secret = {
    val bytes = new Array[Byte](32)
    new SecureRandom().nextBytes(bytes)
    bytes
  }

  def run[T](sc: SparkContext)(body: => T): T = {
    val before = sc.getLocalProperties
    val neutral = clean(before)
    CofferQuery.current(sc).foreach(q => neutral.setProperty(NAME, q.name))
    sc.setLocalProperties(neutral)
    try body
    finally sc.setLocalProperties(before)
  }

  /** Cancels a group's sealed jobs, which do not have its name. */
  private[coffer] def cancelGroup(sc: SparkContext, group: String): Unit =
    sc.cancelJobGroup(grouped(secret, sc.applicationId, group))

  private[coffer] def clean(before: Properties): Properties = {
    val after = new Properties()
    kept.foreach(k => Option(before.getProperty(k)).foreach(after.setProperty(k, _)))
    // A group's name is the user's text; its hash still groups the jobs of one application.
    Option(before.getProperty(GROUP)).foreach { g =>
      after.setProperty(GROUP, grouped(secret, SparkContext.getActive.fold("")(_.applicationId), g))
    }
    after.setProperty("callSite.short", "sealed stage")
    after.setProperty("callSite.long", "")
    after
  }

  private[exec] def grouped(secret: Array[Byte], application: String, group: String): String =
    Hashing.hmacSha256(secret).newHasher()
      .putInt(application.length).putUnencodedChars(application).putUnencodedChars(group)
      .hash().toString.take(32)
}
