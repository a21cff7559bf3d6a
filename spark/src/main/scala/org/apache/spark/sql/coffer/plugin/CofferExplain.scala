package org.apache.spark.sql.coffer.plugin

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.sql.ExtendedExplainGenerator
import org.apache.spark.sql.catalyst.plans.physical.{
  Partitioning,
  RangePartitioning,
  SinglePartition
}
import org.apache.spark.sql.coffer.common.{Client, CofferConf}
import org.apache.spark.sql.coffer.exec.{
  CacheEntry,
  ClientBytes,
  CofferBroadcastExchangeExec,
  CofferCacheExec,
  CofferCacheStageExec,
  CofferFragmentExec,
  CofferLoopExec,
  CofferClientExec,
  CofferQuery,
  CofferResultExec,
  CofferRootExec,
  CofferShuffleExchangeExec,
  ClientRowsExec,
  ClientTableExec,
  RootSort,
  SealedPlans,
  SealedScan,
  SealedWriteExec,
  UnverifiedScans
}
import org.apache.spark.sql.coffer.proto.plan.Fragment
import org.apache.spark.sql.coffer.split.{Estimates, ClientRows, ClientTable}
import org.apache.spark.sql.coffer.tail.{CofferTailExec, TailRowsExec, UserCalls}
import org.apache.spark.sql.coffer.translate.{Fragments, Result, ResultPlan, TranslatedFragment}
import org.apache.spark.sql.coffer.write.{ClientWriteExec, CofferWriteStageExec}
import org.apache.spark.sql.execution.{BaseSubqueryExec, SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.adaptive.{
  AdaptiveSparkPlanExec,
  QueryStageExec,
  ResultQueryStageExec
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

/**
 * What EXPLAIN says of a sealed plan: its fragments as engines will run them, where each runs, and
 * how far engines have proved themselves. A plan that has not run yet is shown as it would run if
 * AQE changed nothing.
 */
class CofferExplain extends ExtendedExplainGenerator {
  override def title: String = "Coffer"

  override def generateExtendedInfo(plan: SparkPlan): String =
    if (!SealedPlans.mentions(plan)) "no sealed table: Spark runs this plan itself\n"
    else {
      val lines = Seq.newBuilder[String]
      if (CofferConf.hostEngines(plan.session.sparkContext.conf)) {
        if (Vouched.byEngines(plan)) {
          lines += "no enclaves: fragments run in host engines, which hold no key; executors see " +
            "what the protections of each column show"
          lines += "UNVERIFIED: a host may have dropped, repeated or moved rows, and the answer " +
            "is not verified"
        } else
          lines += "no enclaves, and no engine on executors: the client engine reads what it " +
            "needs from storage; the host sees which bytes it reads"
      } else {
        lines += "every fragment runs inside an enclave; executors see sealed bytes and their sizes"
        if (Client.simulatedEvidence)
          lines += "evidence: SIMULATED, nothing proves what code the engines run"
      }
      if (UnverifiedScans.of(plan).nonEmpty)
        lines += "unverified inputs: read as they are when the query first reads them; nothing " +
          "that they reach is compressed, so that lengths tell of no guess"
      val query = plan.collectFirst { case r: CofferRootExec => r.query }
      lines ++= new Description(
        if (CofferExplain.brief(plan)) None else Some(query.getOrElse(CofferQuery.create()))).of(
        plan)
      lines.result().mkString("", "\n", "\n")
    }
}

private object CofferExplain {

  /**
   * Spark asks for this text each time that a query starts and each time that AQE changes its plan:
   * then there is no time for details.
   */
  def brief(plan: SparkPlan): Boolean = {
    val sc = plan.session.sparkContext
    !Client.isRunning || CofferQuery.current(sc).isDefined || starting(sc, plan)
  }

  private def starting(sc: SparkContext, plan: SparkPlan): Boolean =
    Option(sc.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
      .flatMap(_.toLongOption)
      .flatMap(id => Option(SQLExecution.getQueryExecution(id)))
      .exists(_.executedPlan eq plan)
}

/**
 * The fragments of a plan, the last one first; with their operators as the engine has them if there
 * is a query to name values in.
 */
private final class Description(query: Option[CofferQuery]) {

  def of(plan: SparkPlan): Seq[String] = plan match {
    case a: AdaptiveSparkPlanExec =>
      val now = a.executedPlan
      of(if (query.isEmpty || now.exists(ended)) now else SealStages.preview(now))
    case q: QueryStageExec => of(q.plan)
    case h: CofferClientExec =>
      val clientRows = part(h.part) ++ tables(h.part.template).flatMap(read)
      val brought = clientParts(h.part.template).flatMap { clientRows =>
        val what = clientRows.openings.map(_.text).mkString(", ") + guessed(clientRows)
        s"brought to the client engine: $what" +: of(clientRows.root).map("  " + _)
      }
      clientRows ++ brought ++ h.part.subqueries.flatMap {
        case s: BaseSubqueryExec => of(s.child)
        case other => of(other)
      }
    case r: CofferRootExec => of(r.child)
    case t: CofferTailExec =>
      val first = "in the driver, by Spark's own operators (client tail):"
      tail(first, t.operators, UserCalls.of(t.tail), t.reasons, t.rows)
    case w: ClientWriteExec =>
      val first = "in the driver, by Spark's own operators; its rows are sealed by the client " +
        "engine:"
      tail(first, w.operators, UserCalls.of(w.tail), w.reasons, w.rows)
    case r: CofferResultExec => fragment("result, opened by the client " +
          "engine", r.child)(result) ++ below(r.child)
    case w: CofferWriteStageExec => fragment("files of a sealed " +
          "table", w.child)(write) ++ below(w.child)
    case c: CofferCacheStageExec =>
      fragment("cached rows", c.child)((f, q) =>
        shuffle(SinglePartition, f, q)) ++ below(c.child)
    case c: CacheEntry => of(c.filling)
    case c: CofferCacheExec =>
      val when = if (c.rows.bytes.isDefined) "computed already" else "to be computed"
      s"cached rows, $when by" +:
        of(c.rows.filling).map("  " + _)
    case l: CofferLoopExec =>
      val (first, others) = l.rows.planned
      "rows of a recursive query, each round's kept sealed: at first" +:
        (of(first.filling).map("  " + _) ++
          ("then, over the rows of the round before, until there are none" +:
            of(others.filling).map("  " + _)))
    case e: CofferShuffleExchangeExec =>
      val partitioning = e.original.outputPartitioning
      val name = partitioning.getClass.getSimpleName.stripSuffix("$")
      fragment(s"shuffle $name", e.child, Some(partitioning))((f, q) =>
        shuffle(partitioning, f, q)) ++ below(e.child)
    case b: CofferBroadcastExchangeExec =>
      fragment("broadcast", b.child)((f, q) =>
        Fragments.broadcast(f.template, f.context(q)).map(tasks)) ++ below(b.child)
    case other => below(other)
  }

  /** Spark's own operators, and what comes to them. */
  private def tail(
      first: String,
      named: Seq[String],
      users: Seq[String],
      reasons: Seq[String],
      rows: Seq[TailRowsExec]): Seq[String] = {
    val operators = first +: named.map("  " + _)
    val most = Utils.bytesToString(ClientBytes.of(SQLConf.get))
    val brought = rows.flatMap { r =>
      val expected = r.expected.fold("")(text => s" ($text; ${ClientBytes.KEY}: $most)")
      s"brought to the driver: ${r.output.map(_.name).mkString(", ")}$expected" +:
        of(r.root).map("  " + _)
    }
    val notes = users ++ reasons.map("because of " + _)
    operators ++ notes.map("  " + _) ++ brought
  }

  private def tables(plan: SparkPlan): Seq[ClientTable] =
    plan.collect { case ClientTableExec(table) => table }

  private def read(table: ClientTable): Seq[String] = {
    val bytes = Utils.bytesToString(table.scan.bytes)
    val most = Utils.bytesToString(ClientBytes.of(SQLConf.get))
    val bound = s"at most $bytes of storage (${ClientBytes.KEY}: $most)"
    s"read by the client engine: ${table.table.name()}, $bound" +:
      table.openings.map(o => s"  ${ClientTable.text(table, o)}")
  }

  /** How much, as the choice of sites takes it to be. */
  private def guessed(clientRows: ClientRowsExec): String = clientRows.logicalLink.collect {
    case h: ClientRows =>
      s" (${Estimates.text(h)})"
  }.getOrElse("")

  private def clientParts(plan: SparkPlan): Seq[ClientRowsExec] =
    plan.collect { case clientRows: ClientRowsExec => clientRows }

  /** What runs at the client site. */
  private def part(fragment: CofferFragmentExec): Seq[String] = {
    val details =
      try query.map(q => CofferClientExec.translate(fragment, q).fragment)
      catch { case NonFatal(_) => None }
    details match {
      case Some(f) => "by the client engine:" +: readable(f)
      case None => Seq(s"by the client engine: ${fragment.operators}")
    }
  }

  private def ended(plan: SparkPlan): Boolean = plan match {
    case _: CofferClientExec | _: CofferTailExec | _: ClientWriteExec => true
    case _: CofferResultExec | _: CofferWriteStageExec | _: CofferCacheStageExec |
        _: ResultQueryStageExec => true
    case _ => false
  }

  private def below(plan: SparkPlan): Seq[String] = (plan.children ++ plan.subqueries).flatMap {
    case s: BaseSubqueryExec => of(s.child)
    case p => of(p)
  }

  private def fragment(what: String, plan: SparkPlan, exchange: Option[Partitioning] = None)(
      translate: (CofferFragmentExec, CofferQuery) => Result[Seq[String]]): Seq[String] =
    plan match {
      case f: CofferFragmentExec =>
        val details =
          try query.flatMap(translate(f, _).toOption)
          catch { case NonFatal(_) => None }
        details match {
          case Some(lines) =>
            val shown = new Shown(f, CofferConf.hostEngines(Client.conf)).lines(exchange)
            s"fragment → $what" +: (lines ++ learned(shown)).map("  " + _)
          case None => Seq(s"fragment → $what: ${f.operators}")
        }
      case _ => Nil
    }

  private def learned(operators: Seq[String]): Seq[String] =
    if (operators.isEmpty) Nil
    else s"by its operators in $site the host learns of" +: operators.map("  " + _)

  private def result(fragment: CofferFragmentExec, query: CofferQuery): Result[Seq[String]] =
    ResultPlan.of(RootSort.restore(fragment.template), fragment.context(query)).map { plan =>
      tasks(plan.task) ++ plan.finish.toSeq.flatMap(f => "by the client engine:" +: readable(f))
    }

  private def write(fragment: CofferFragmentExec, query: CofferQuery): Result[Seq[String]] =
    fragment.template match {
      case w: SealedWriteExec =>
        Fragments.write(w.child, w.partitions, fragment.context(query)).map(tasks)
      case _ => Right(Nil)
    }

  private def shuffle(
      partitioning: Partitioning,
      fragment: CofferFragmentExec,
      query: CofferQuery): Result[Seq[String]] = {
    val context = fragment.context(query)
    partitioning match {
      // Its bounds come from a sample of the same rows; their id and the sample's size are not
      // known yet.
      case range: RangePartitioning if range.numPartitions > 1 =>
        Fragments.range(range, fragment.template, context, 0, 1, 0L).map(r => tasks(r.shuffle))
      case _: RangePartitioning =>
        Fragments.shuffle(SinglePartition, fragment.template, context).map(tasks)
      case other => Fragments.shuffle(other, fragment.template, context).map(tasks)
    }
  }

  private def tasks(translated: TranslatedFragment): Seq[String] =
    s"in $site:" +: (readable(translated.fragment) ++ translated.scans.flatMap { s =>
      s"  scan ${s.id} is ${s.leaf.plan.nodeName}" +: shown(s.leaf.plan).map("    " + _)
    })

  private def site: String =
    if (CofferConf.hostEngines(Client.conf)) "host engines" else "enclaves"

  /**
   * Of a table with stored columns: what each one that is read shows to who holds the files; and
   * what else is stored of the same columns.
   */
  private def shown(scan: SparkPlan): Seq[String] = scan match {
    case SealedScan(node, s) if s.table.viewed =>
      val names = node.output.map(_.name).toSet
      val columns = s.table.stored.filter(c => names(c.name) && c.isColumn).map(_.column).toSet
      // That is what a `tee` column shows only where it is read.
      val reported = s.table.stored.filter(c =>
        c.isColumn && columns(c.column) &&
          (names(c.name) || !c.isForEnclaves))
      reported.map { c =>
        val unread = if (names(c.name)) "" else ", not read here"
        val name = s.table.info.getSchema.getFields(c.column).getName
        s"$name as ${c.protection}$unread: ${c.shows(s.table).mkString("; ")}"
      }
    case _ => Nil
  }

  private def readable(fragment: Fragment): Seq[String] =
    Client.get.describeFragment(fragment.toByteString).linesIterator.map("  " + _).toSeq
}
