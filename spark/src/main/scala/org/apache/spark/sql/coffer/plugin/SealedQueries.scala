package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.catalyst.analysis.{
  LeafNodeWithoutStats,
  MultiInstanceRelation,
  NamedRelation,
  ResolvedInlineTable
}
import org.apache.spark.sql.catalyst.expressions.{Expression, PythonUDF, UserDefinedExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.coffer.common.{Client, CofferException}
import org.apache.spark.sql.coffer.exec.{
  CachedRows,
  CofferFragmentExec,
  SealedInsert,
  SealedPlans
}
import org.apache.spark.sql.coffer.split.{
  ClientRows,
  ClientTable,
  CofferTable,
  SealedLeaf,
  SealedProvider
}
import org.apache.spark.sql.coffer.tail.{ClientRelation, ListedRows, TailConf}
import org.apache.spark.sql.coffer.versions.TableOf
import org.apache.spark.sql.coffer.write.{SealedDdl, SealedWrites}
import org.apache.spark.sql.execution.{ExternalRDD, LogicalRDD}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.command.{
  AlterViewAsCommand,
  CreateViewCommand,
  ExplainCommand
}
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation
}
import org.apache.spark.sql.internal.SQLConf

/**
 * Refuses at analysis what would carry sealed rows out of the enclaves, or plain rows in beside
 * them unseen.
 */
object SealedQueries extends (LogicalPlan => Unit) {

  override def apply(plan: LogicalPlan): Unit = if (mentions(plan)) {
    plan match {
      case _: ExplainCommand | _: CreateViewCommand | _: AlterViewAs | _: AlterViewAsCommand => ()
      case insert: SealedInsert => query(insert.child, written = true)
      case SealedMaking(rows) => query(rows, written = true)
      // Nothing of it is read.
      case _: UncacheTable | _: CacheTable => ()
      case cache: CacheTableAsSelect => query(cache.plan)
      // It runs one of the two above.
      case SaveIntoDataSourceCommand(_, _: SealedProvider, _, _) => ()
      case w: V2WriteCommand if target(w).exists(_.isInstanceOf[CofferTable]) =>
        throw SealedWrites.refused(w.nodeName)
      case c: Command if reads(c) => throw sink(c)
      case _ => query(plan)
    }
  }

  /** CREATE TABLE … USING coffer AS SELECT, and its REPLACE. */
  private object SealedMaking {
    def unapply(plan: LogicalPlan): Option[LogicalPlan] = SealedDdl.query(plan)
  }

  private def target(write: V2WriteCommand): Option[AnyRef] = write.table match {
    case r: DataSourceV2Relation => Some(r.table)
    case _ => None
  }

  private[plugin] def mentions(plan: LogicalPlan): Boolean =
    SealedPlans.mentions(plan) || inner(plan).exists(mentions)

  /** Commands keep the query they run where `children` does not show it. */
  private[plugin] def inner(plan: LogicalPlan): Seq[LogicalPlan] = plan match {
    case c: Command =>
      c.innerChildren.collect { case p: LogicalPlan => p } ++
        c.productIterator.collect { case p: LogicalPlan if !c.children.exists(_ eq p) => p }
    case _ => Nil
  }

  /** Whether a command reads a sealed table; dropping, describing and showing one does not. */
  private def reads(c: Command): Boolean = (c.children ++ inner(c)).exists {
    case _: NamedRelation if !c.isInstanceOf[V2WriteCommand] => false
    case child => mentions(child)
  }

  private def sink(c: Command) = new CofferException(
    "COFFER_PLAINTEXT_SINK",
    s"${c.nodeName} would write rows of a sealed table in clear, from executors",
    "bring the result to the client (collect, coffer.to_arrow, coffer.to_pandas) and write it " +
      "there")

  /** `written`: its rows are sealed, and go nowhere else. */
  private def query(plan: LogicalPlan, written: Boolean = false): Unit = {
    // What a user's function sees in the driver is the user's.
    val inDriver = TailConf.on(SQLConf.get)
    if (!inDriver) plan.foreach {
      case _: DeserializeToObject | _: ObjectConsumer |
          _: ObjectProducer => throw CofferFragmentExec.noRows
      case _ =>
    }
    val sources = if (written && inDriver) PlainSources.of(plan) else Nil
    val reasons = plan.collectWithSubqueries {
      case node if sources.exists(_._1 eq node) => Nil
      case node => leaf(node).toSeq ++
          (if (inDriver) Nil else node.expressions.flatMap(foreign))
    }
    (reasons.flatten ++ beside(plan)).distinct match {
      case Nil => ()
      case some => throw CofferException.refusal(some)
    }
    if (sources.nonEmpty) Client.get.checkSources(sources.map(_._2).distinct)
  }

  /** A subquery without a sealed table is Spark's own, with jobs of its own. */
  private def beside(plan: LogicalPlan): Seq[String] = {
    val here = plan.collect { case l: LogicalRDD => l }
    plan.collectWithSubqueries { case l: LogicalRDD if !here.exists(_ eq l) => l }.map(_ =>
      "rows of an RDD in a subquery are plain and would be shipped inside tasks; join them")
  }

  private def leaf(node: LogicalPlan): Option[String] = node match {
    case TableOf(t: CofferTable, _, _, _) if t.missing =>
      throw t.failure.getOrElse(CofferTable.noTable(t.name()))
    case r: DataSourceV2Relation => plaintext(r.name, r.table.isInstanceOf[CofferTable])
    case r: DataSourceV2ScanRelation =>
      plaintext(r.name, r.relation.table.isInstanceOf[CofferTable])
    case l: LogicalRDD if TailConf.on(SQLConf.get) && ListedRows.here(l) => None
    case _: LogicalRDD | _: ExternalRDD[_] =>
      Some(
        "rows of an RDD are plain and would be shipped inside tasks; use VALUES or " +
          "createDataFrame, whose rows stay with the driver, or seal a file with " +
          "`coffer encrypt`")
    case r: InMemoryRelation if CachedRows.of(r).isDefined => None
    case _: InMemoryRelation =>
      Some("cached rows of plain data lie opened in executors' memory; uncache them, and encrypt " +
        "what they come from with `coffer encrypt`")
    // The query's own values: they stand in its text, or in the program that made it.
    case _: LocalRelation | _: ResolvedInlineTable | _: OneRowRelation | _: Range |
        _: EmptyRelation => None
    case _: CTERelationRef | _: UnionLoopRef => None
    // Rows of a query over sealed tables that the driver holds.
    case _: ClientRelation => None
    // Of Coffer's own planning.
    case _: SealedLeaf | _: ClientRows | _: ClientTable => None
    // What a command is about; it gives a query no rows.
    case _: LeafNodeWithoutStats | _: Command => None
    case l: LeafNode with MultiInstanceRelation => plaintext(l.nodeName, sealedTable = false)
    // No default: rows of a command (`SHOW TABLES`) are what a catalog says, and whatever else a
    // leaf has was computed from somewhere before this query.
    case l: LeafNode => Some(
        s"rows of ${l.nodeName} were made before this query, and from what is not known; " +
          "collect them, and give them by VALUES or createDataFrame")
    case _ => None
  }

  private def plaintext(name: String, sealedTable: Boolean): Option[String] =
    if (sealedTable) None
    else Some(
      s"$name is a plaintext table beside a sealed one; encrypt it with `coffer encrypt`, or " +
        s"keep it as Parquet files in a folder that " +
        "the policy lists under unverified_inputs")

  private def foreign(e: Expression): Seq[String] = e.collect {
    case u: PythonUDF => s"the Python function ${u.name} would see opened data outside the enclave"
    case u: UserDefinedExpression => s"the function ${u.name} is user-defined: it would see " +
        s"opened data outside the enclave"
  }
}
