package org.apache.spark.sql.coffer.exec

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.physical.RangePartitioning
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException, EngineMemory}
import org.apache.spark.sql.coffer.proto.plan.Fragment
import org.apache.spark.sql.coffer.proto.wire.{
  QueryStage,
  RunQuery,
  SealedStage,
  SealQuery,
  SealStage
}
import org.apache.spark.sql.coffer.translate.TranslatedFragment
import org.apache.spark.sql.execution.{
  BaseSubqueryExec,
  ExecSubqueryExpression,
  ReusedSubqueryExec,
  SparkPlan,
  SparkPlanInfo,
  SQLExecution,
  SubqueryExec
}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.exchange.{
  BroadcastExchangeExec,
  Exchange,
  ShuffleExchangeExec
}
import org.apache.spark.sql.execution.joins.ShuffledJoin
import org.apache.spark.sql.execution.metric.SQLMetricInfo
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate
import org.apache.spark.sql.internal.SQLConf

/**
 * A query in one engine: under a local master there is only one, and on a cluster it spares a query
 * of little data the way from stage to stage. All stages are sealed in one request, and run in it,
 * with one task of Spark's that waits. Same fragments, same checks; what differs is that rows of
 * exchanges stay where they are (docs/decisions/0047, 0053).
 */
object WholeQuery extends Logging {

  /**
   * AQE's plan as one of sealed stages, where it can be run at once: it has stages that others
   * read, nothing is hidden at a cost, and what its joins hold fits the engine's memory.
   */
  def of(aqe: AdaptiveSparkPlanExec, query: CofferQuery): Option[CofferResultExec] =
    if (!allowed(aqe, query) || aqe.isFinalPlan) None
    else Some(aqe.initialPlan).filter(runs(aqe, _)).map { plan =>
      val subqueries = new Subqueries(query)
      val staged = FragmentPlans.withExchanges(plan, subqueries.apart)
      CofferResultExec(FragmentPlans.fragment(staged, subqueries.apart), whole = true)
    }

  /** A query's subqueries, each of which is a query in one request as well. */
  private final class Subqueries(query: CofferQuery) {

    /** By what they ask: as in AQE, subqueries that are alike are one. */
    private val known = mutable.Map.empty[SparkPlan, BaseSubqueryExec]

    def apart(e: Expression): Expression = e match {
      case s: ExecSubqueryExpression => s.withNewPlan(rooted(s.plan))
      case other => other
    }

    private def rooted(plan: BaseSubqueryExec): BaseSubqueryExec =
      known.getOrElseUpdate(
        plan.canonicalized,
        plan match {
          case s @ SubqueryExec(_, aqe: AdaptiveSparkPlanExec, _) if SealedPlans.mentions(aqe) =>
            s.copy(child = CofferRootExec(aqe, query))
          case r: ReusedSubqueryExec => r.copy(child = rooted(r.child))
          case other => other
        })
  }

  private def allowed(aqe: AdaptiveSparkPlanExec, query: CofferQuery): Boolean = {
    val conf = aqe.conf
    query.runsWhole && isOn(conf) && StageSealer.inMemory(conf) &&
    Hiding.of(conf) == Hiding.nothing
  }

  private def isOn(conf: SQLConf): Boolean =
    conf.getConfString(CofferConf.ONE_MACHINE, "on") match {
      case "on" => true
      case "off" => false
      case other => throw new CofferException("COFFER_CONF",
          s"${CofferConf.ONE_MACHINE} is $other", "set it to on or off")
    }

  private def runs(aqe: AdaptiveSparkPlanExec, plan: SparkPlan): Boolean = {
    def fits(node: SparkPlan): Boolean = node match {
      case _: DriverPart | _: ClientRowsExec | _: KeptExec | _: SealedWriteExec |
          _: SealedCacheExec | _: QueryStageExec => false
      // Its bounds are of a sample, which is taken first.
      case ShuffleExchangeExec(r: RangePartitioning, _, _, _) => r.numPartitions == 1
      case _ => true
    }
    val made = exchanges(plan).size
    made > 0 && !plan.exists(!fits(_)) && {
      val sc = aqe.session.sparkContext
      val place = WholePlace.of(sc)
      val each = bytesPerExchange(aqe.conf)
      place.isSooner(bytes(plan), made, each) && sharesLittle(plan, place, each) &&
      held(plan, place.cores) * UNPACKED <= EngineMemory.of(sc.getConf) / PART
    }
  }

  private def bytesPerExchange(conf: SQLConf): Long = {
    val set =
      conf.getConfString(CofferConf.ONE_MACHINE_BYTES, CofferConf.DEFAULT_ONE_MACHINE_BYTES)
    try JavaUtils.byteStringAsBytes(set)
    catch {
      case NonFatal(_) => throw new CofferException("COFFER_CONF",
          s"${CofferConf.ONE_MACHINE_BYTES} is $set", "set it to a size, as 12m")
    }
  }

  /**
   * Bytes of stored columns that joins hold at a time, at most. What else is held goes to disk,
   * sealed, where there is no room for it.
   */
  private def held(plan: SparkPlan, cores: Int): Long = {
    // Those that are alike are one.
    val broadcast =
      plan.collect { case b: BroadcastExchangeExec => b }.distinctBy(_.canonicalized).map(bytes).sum
    val shuffled = plan.collect { case j: ShuffledJoin =>
      val sides = Seq(j.left, j.right).map(bytes)
      val built = if (j.joinType == Inner) sides.min else sides.max
      val partitions = math.max(1, j.left.outputPartitioning.numPartitions)
      built / partitions * math.min(cores, partitions)
    }
    broadcast + shuffled.maxOption.getOrElse(0L)
  }

  /** A plan, and all below it that AQE would plan by themselves. */
  private def withSubqueries(plan: SparkPlan): Seq[SparkPlan] =
    plan +: plan.collect { case node => node.subqueries }.flatten.flatMap {
      case SubqueryExec(_, aqe: AdaptiveSparkPlanExec, _) => withSubqueries(aqe.initialPlan)
      case _: ReusedSubqueryExec => Nil
      case other => withSubqueries(other)
    }

  /**
   * Whether a query and its subqueries can each be one request where they read the same exchange,
   * which AQE makes once for all: its rows must be the same for each, and making them again must
   * take less time than the exchanges would.
   */
  private def sharesLittle(plan: SparkPlan, place: WholePlace, each: Long): Boolean = {
    val read = withSubqueries(plan).distinctBy(_.canonicalized).map(exchanges)
    val shared = read.flatMap(_.distinctBy(_.canonicalized)).groupBy(_.canonicalized).values
      .filter(_.size > 1)
    val again = shared.map(several => bytes(several.head) * (several.size - 1)).sum
    shared.flatten.forall(FixedRows.merged) && place.repays(again, read.map(_.size).sum, each)
  }

  private def exchanges(plan: SparkPlan): Seq[Exchange] = plan.collect { case e: Exchange => e }

  /** An exchange is asked for as often at most. */
  private val COPIES = 3

  /** Stored columns unpack to more than they take on disk. */
  private val UNPACKED = 2

  /** One part in so many of the engine's memory. */
  private val PART = 4

  private def bytes(plan: SparkPlan): Long = plan match {
    case SealedScan(_, scan) => scan.bytes
    case other => other.children.map(bytes).sum
  }

  /** Whether a query failed as it needs more memory than there is: stage by stage it may run. */
  def isTooLarge(e: Throwable): Boolean = CofferTaskException.find(e).exists(_.code == MEMORY)

  /** As the engine says it. */
  private[exec] val MEMORY = "memory"

  /** Tells Spark's SQL tab which plan is run, as AQE does of its own. */
  def show(root: CofferRootExec, plan: CofferResultExec): Unit = {
    val sc = root.session.sparkContext
    for (id <- Option(sc.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)).flatMap(_.toLongOption)) {
      val shown = root.copy(child = plan)
      sc.listenerBus.post(SparkListenerSQLAdaptiveExecutionUpdate(id, shown.treeString,
          info(shown)))
    }
  }

  private def info(plan: SparkPlan): SparkPlanInfo = new SparkPlanInfo(
    plan.nodeName,
    plan.simpleString(plan.conf.maxToStringFields),
    (plan.children ++ plan.subqueries).map(info),
    Map.empty,
    plan.metrics.toSeq.map { case (key, metric) =>
      new SQLMetricInfo(metric.name.getOrElse(key), metric.id, metric.metricType)
    })

  /** A stage of the query: what is sealed of it, and whom to tell what its tasks counted. */
  private final class Planned(
      val request: SealStage,
      val parts: Seq[Part],
      val ran: Seq[TaskReport] => Unit)

  /** The stages that a fragment reads, each behind those that it reads itself. */
  private final class Stages(query: CofferQuery, execution: Long) {
    val planned: mutable.Buffer[Planned] = mutable.Buffer.empty
    private val known = mutable.Map.empty[SparkPlan, List[PlannedSource]]

    def below(fragment: CofferFragmentExec): Map[Ref, PlannedSource] = {
      val read = fragment.leaves.map(new Ref(_)).zip(fragment.reads)
      // What a join is built from is there first.
      val (built, streamed) =
        read.partition { case (_, plan) => BroadcastRead.unapply(plan).isDefined }
      (built ++ streamed).map { case (leaf, plan) => leaf -> source(plan) }.toMap
    }

    /**
     * Exchanges that are alike are one. What comes out the same each time is asked for again for
     * another reader: the engine makes it twice only if it then leaves rows out of one that the
     * other's reader needs.
     */
    private def source(plan: SparkPlan): PlannedSource = plan match {
      case ShuffleRead(e, _) =>
        val before = known.getOrElse(e.canonicalized, Nil)
        before.headOption.filterNot(_ =>
          before.size < COPIES && FixedRows.row(e.fragment)).getOrElse {
          val made = shuffled(e)
          known(e.canonicalized) = made :: before
          made
        }
      case BroadcastRead(b) => known.getOrElse(b.canonicalized, {
            val made = List(broadcast(b))
            known(b.canonicalized) = made
            made
          }).head
      case other => throw CofferException.refusal(Seq(s"${other.nodeName} is no sealed exchange"))
    }

    private def shuffled(e: CofferShuffleExchangeExec): PlannedSource = {
      val inputs = below(e.fragment)
      val translated = e.planned(query)
      val (stage, maps) = add(translated, e.fragment, inputs)((stage, reports) =>
        e.ran(query, stage, reports, translated))
      new PlannedSource(stage, maps, e.numPartitions, broadcast = false)
    }

    private def broadcast(b: CofferBroadcastExchangeExec): PlannedSource = {
      val inputs = below(b.fragment)
      val translated = b.planned(query)
      val (stage, maps) = add(translated, b.fragment, inputs)((stage, reports) =>
        b.ran(query, stage, reports, translated))
      new PlannedSource(stage, maps, 1, broadcast = true)
    }

    private def add(
        translated: TranslatedFragment,
        node: CofferFragmentExec,
        inputs: Map[Ref, PlannedSource])(
        ran: (Int, Seq[TaskReport]) => Unit): (Int, Int) = {
      val stage = query.nextStage()
      val parts = add(stage, translated, translated.fragment, node, inputs)(ran(stage, _))
      (stage, parts)
    }

    def add(
        stage: Int,
        translated: TranslatedFragment,
        fragment: Fragment,
        node: CofferFragmentExec,
        inputs: Map[Ref, PlannedSource])(
        ran: Seq[TaskReport] => Unit): Int = {
      val parts = StageSealer.laidOut(translated, node)
      val sources = translated.inputs.map(i => i.id -> inputs(new Ref(i.leaf.plan))).toMap
      val request = StageSealer.request(
        query, stage, execution, translated, fragment, node, Nil, parts, sources)
      planned += new Planned(request.build(), parts, ran)
      parts.size
    }
  }

  /** Waits for the values of all subqueries, each of which is a query with a task of its own. */
  def ready(fragment: CofferFragmentExec): Unit = {
    fragment.readyAlone()
    fragment.reads.foreach {
      case ShuffleRead(e, _) => ready(e.fragment)
      case BroadcastRead(b) => ready(b.fragment)
      case _ =>
    }
  }

  /**
   * Seals a result with all stages below it, whose subqueries have their values.
   *
   * @param fragment the result's as translated, or with a limit
   */
  def seal(
      query: CofferQuery,
      stage: Int,
      execution: Long,
      translated: TranslatedFragment,
      fragment: Fragment,
      node: CofferFragmentExec)(ran: Seq[TaskReport] => Unit): WholeRun = {
    val stages = new Stages(query, execution)
    // From here on nothing waits for a task of Spark's, so this one may have a core to itself: it
    // is there by the time that the stages are sealed.
    val job = WholeJob.begin(node.session.sparkContext)
    try sealInto(job, stages, query, stage, translated, fragment, node)(ran)
    catch {
      case e: Throwable =>
        job.giveUp()
        throw e
    }
  }

  private def sealInto(
      job: WholeJob,
      stages: Stages,
      query: CofferQuery,
      stage: Int,
      translated: TranslatedFragment,
      fragment: Fragment,
      node: CofferFragmentExec)(ran: Seq[TaskReport] => Unit): WholeRun = {
    val inputs = stages.below(node)
    stages.add(stage, translated, fragment, node, inputs)(ran)
    val request = SealQuery.newBuilder.setSession(query.session)
    stages.planned.foreach(p => request.addStages(p.request))
    val answer = query.client.sealQuery(request.build())
    val sealedStages = answer.getStagesList.asScala
    if (sealedStages.size != stages.planned.size) throw new CofferException(
      "COFFER_CLIENT_PROTOCOL",
      s"the client engine sealed ${sealedStages.size} of ${stages.planned.size} stages",
      "use the client engine and the jar of one build")
    sealedStages.zip(stages.planned).foreach { case (s, p) => StageSealer.whole(s, p.parts) }
    sealedStages.foreach(s => query.audited(s.getAuditMicros))
    val place = WholePlace.of(node.session.sparkContext)
    val work = WholeWork(
      query.session.toByteArray,
      running(query, stages, sealedStages, place).toByteArray,
      sealedStages.last.getReleasesList.asScala.map(r =>
        r.getEngineId -> r.getRelease.toByteArray).toMap)
    job.give(work, place)
    // The query waits for its rows, and when it ends for Spark's word on the job.
    query.settles(job.ended)
    new WholeRun(job, stages.planned.map(p => p.parts.size -> p.ran).toVector)
  }

  private def running(
      query: CofferQuery,
      stages: Stages,
      answers: Iterable[SealedStage],
      place: WholePlace): RunQuery = {
    val run = RunQuery.newBuilder
      .setProtocol(CofferConf.PROTOCOL)
      .setSession(query.session)
      .setParallel(place.cores)
    stages.planned.zip(answers).foreach { case (planned, answer) =>
      run.addStages(
        QueryStage.newBuilder
          .setStage(planned.request.getStage)
          .setSealedFragment(answer.getSealedFragment)
          .addAllSealedDescriptors(answer.getSealedDescriptorsList)
          .addAllSealedObjects(answer.getSealedObjectsList))
    }
    run.build()
  }
}
