package org.apache.spark.sql.coffer.plugin

import scala.util.Try

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.split.{CofferTable, SealedFormat}
import org.apache.spark.sql.coffer.versions.{Constrained, TableOf}
import org.apache.spark.sql.connector.catalog.{Identifier, V1Table}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, V2SessionCatalog}

/**
 * Statements about sealed tables of a catalog are refused before anything is touched, unless
 * [[Statements]] says that they work. This is asked as soon as the tables are resolved, so that
 * Spark's own checks do not speak first.
 */
private[coffer] final case class SealedStatements(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case r: DataSourceV2Relation => opened(r)
      case w: V2WriteCommand => opened(w.table)
      case i: InsertIntoStatement => opened(i.table)
      case _ =>
    }
    plan match {
      case c: Command => SealedStatements.check(c, session, known = false)
      case _ =>
    }
    if (plan.exists(bare))
      AnalysisHelper.allowInvokingTransformsInAnalyzer(plan.transformUp {
        case r: ResolvedTable if bare(r) => entered(r)
      })
    else plan
  }

  private def opened(relation: LogicalPlan): Unit = relation match {
    case TableOf(t: CofferTable, _, _, _) => t.failure.foreach(throw _)
    case s: SubqueryAlias => opened(s.child)
    case _ =>
  }

  private def bare(node: LogicalPlan): Boolean = node match {
    case ResolvedTable(_: V2SessionCatalog, _, t: CofferTable, _) => t.entry.isEmpty
    case _ => false
  }

  /** With what the catalog says of it: Spark's data source for it does not see that. */
  private def entered(resolved: ResolvedTable): LogicalPlan = resolved match {
    case ResolvedTable(_, ident, t: CofferTable, _) =>
      SealedStatements.entry(SealedStatements.named(ident), session).fold(resolved)(e =>
        resolved.copy(table = t.entered(e)))
    case other => other
  }
}

/**
 * The same once more when analysis is done: of all commands, also those that name a table only
 * then, or that nobody has heard of.
 */
private[coffer] final case class ListedStatements(session: SparkSession)
    extends (LogicalPlan => Unit) {
  override def apply(plan: LogicalPlan): Unit = plan match {
    case c: Command => SealedStatements.check(c, session, known = true)
    case _ =>
  }
}

/**
 * `spark.catalog.listColumns` analyses no command; of a table that does not open it would list
 * nothing.
 */
private[coffer] final case class ListedColumns(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case u: UnresolvedTableOrView if u.commandName == "Catalog.listColumns" =>
      val asked = u.copy(commandName = "Coffer.listColumns")
      session.sessionState.executePlan(asked).analyzed match {
        case ResolvedTable(_, _, t: CofferTable, _) => t.failure.foreach(throw _)
        case _ =>
      }
      plan
    case other => other
  }
}

private[coffer] object SealedStatements {

  /** A sealed table that a command is about. */
  private final case class Target(name: String, table: Option[CofferTable])

  /** `known`: analysis is done, so that what is on no list is refused as well. */
  def check(command: LogicalPlan, session: SparkSession, known: Boolean): Unit = {
    lazy val targets = about(command, session)
    Statements.all.find(_.is(command)) match {
      case Some(Statement(title, Refused(why, instead), _, _)) =>
        targets.headOption.foreach(t => throw refused(title, t.name, why, instead))
      case Some(statement) =>
        if (!statement.unopened) targets.flatMap(_.table).flatMap(_.failure).foreach(throw _)
      case None if known =>
        targets.headOption.foreach { t =>
          throw refused(command.nodeName, t.name, Statements.unknown.why,
            Statements.unknown.instead)
        }
      case None =>
    }
  }

  def refused(title: String, table: String, why: String, instead: String): CofferException =
    new CofferException("COFFER_DDL",
      s"$title is not possible on the sealed table $table: " +
        s"$why", instead)

  def named(ident: Identifier): TableIdentifier =
    TableIdentifier(ident.name, ident.namespace.headOption)

  /** What the session's catalog has under a name; none of a temporary view. */
  def entry(name: TableIdentifier, session: SparkSession): Option[CatalogTable] = {
    val catalog = session.sessionState.catalog
    if (Try(catalog.isTempView(name)).getOrElse(false)) None
    else Try(catalog.getTableMetadata(name)).toOption
  }

  /** The sealed tables that a command names; a query that only reads one is none of them. */
  private def about(command: LogicalPlan, session: SparkSession): Seq[Target] = {
    def byName(name: TableIdentifier): Seq[Target] =
      entry(name, session).filter(SealedFormat.is(_)).map(e =>
        Target(e.identifier.unquotedString, None)).toSeq
    def of(item: Any): Seq[Target] = item match {
      case ResolvedTable(_, _, t: CofferTable, _) => Seq(Target(t.name(), Some(t)))
      case ResolvedTable(_, _, V1Table(table), _) if SealedFormat.is(table) =>
        Seq(Target(table.identifier.unquotedString, None))
      case ResolvedIdentifier(_: V2SessionCatalog, ident) => byName(named(ident))
      case TableOf(t: CofferTable, _, _, _) => Seq(Target(t.name(), Some(t)))
      case s: SubqueryAlias => of(s.child)
      case name: TableIdentifier => byName(name)
      case table: CatalogTable => byName(table.identifier)
      case some: Option[_] => some.toSeq.flatMap(of)
      case _ => Nil
    }
    command match {
      case Constrained(Some(child)) =>
        child.collect { case r: DataSourceV2Relation => r }.flatMap(of)
      case c => (c.children ++ c.productIterator).flatMap(of)
    }
  }
}
