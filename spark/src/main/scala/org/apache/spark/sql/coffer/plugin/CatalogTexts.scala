package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.catalog.InMemoryCatalog
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogV2Util, LookupCatalog}
import org.apache.spark.sql.execution.command.{AlterViewAsCommand, CreateViewCommand}
import org.apache.spark.sql.internal.SQLConf

/**
 * Whose word a catalog is. One in memory has what this very process put into it. Any other
 * (Hive's, or a plugin in the place of Spark's) is a service that the host may write to: what it
 * names can be checked, but its texts and classes would be run as they are.
 */
private[plugin] object OwnCatalog {
  def is(session: SparkSession): Boolean =
    session.sharedState.externalCatalog.unwrapped.isInstanceOf[InMemoryCatalog] &&
      // The session's own settings: a view's text is analysed under those that came with it.
      session.sessionState.conf.getConf(SQLConf.V2_SESSION_CATALOG_IMPLEMENTATION) == BUILTIN

  private val BUILTIN = "builtin"
}

/** `table`: where rows are expected. */
private[plugin] final case class FunctionCall(name: Seq[String], table: Boolean)

/**
 * A permanent function is a class and a JAR, or a text of SQL, that the catalog names. Spark loads
 * it while it looks the function up, in the driver: so names are looked at before that, in every
 * query, for nobody knows yet which tables it reads. What the session has of its own is the user's.
 */
private[coffer] final case class CatalogFunctions(session: SparkSession)
    extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    val named = plan.collectWithSubqueries { case node => called(node) }.flatten
    if (named.nonEmpty && !OwnCatalog.is(session)) named.find(elsewhere).foreach { call =>
      throw CatalogFunctions.refused(call.name.mkString("."))
    }
    plan
  }

  private def called(node: LogicalPlan): Seq[FunctionCall] = {
    val rows = node match {
      case t: UnresolvedTableValuedFunction => Seq(FunctionCall(t.name, table = true))
      case _ => Nil
    }
    rows ++ node.expressions.flatMap(_.collect {
      case f: UnresolvedFunction if !f.isInternal => FunctionCall(f.nameParts, table = false)
      case g: UnresolvedGenerator =>
        FunctionCall(g.name.database.toSeq :+ g.name.funcName, table = false)
    })
  }

  private object Names extends LookupCatalog {
    override protected lazy val catalogManager: CatalogManager =
      session.sessionState.catalogManager
  }

  /** Not whether the catalog has it: it could be asked twice, and answer differently. */
  private def elsewhere(call: FunctionCall): Boolean = {
    val catalog = session.sessionState.catalog
    def here = call.name.size == 1 && (
      if (call.table) catalog.lookupBuiltinOrTempTableFunction(call.name.head)
      else catalog.lookupBuiltinOrTempFunction(call.name.head)).isDefined
    !here && Names.CatalogAndIdentifier.unapply(qualified(call.name)).forall {
      case (found, _) => CatalogV2Util.isSessionCatalog(found)
    }
  }

  /** Inside a view's text names are completed by what was current where it was made. */
  private def qualified(name: Seq[String]): Seq[String] = {
    val within = AnalysisContext.get.catalogAndNamespace
    if (within.isEmpty) name
    else if (name.size == 1) within :+ name.head
    else if (session.sessionState.catalogManager.isCatalogRegistered(name.head)) name
    else within.head +: name
  }
}

private[coffer] object CatalogFunctions {
  def refused(name: String): CofferException = new CofferException(
    "COFFER_CATALOG_TEXT",
    s"$name is no function of Spark's or of this session, and a catalog that others can write " +
      "would say which code or text it is",
    "CREATE TEMPORARY FUNCTION, spark.udf.register, or the function's text in the query")
}

/**
 * A permanent view is a text that the catalog gives. Whoever edits it has a query over sealed
 * tables answer another question than the one that was asked, with rows that look right, or join
 * them with guesses.
 */
private[coffer] final case class CatalogViews(session: SparkSession)
    extends (LogicalPlan => Unit) {

  override def apply(plan: LogicalPlan): Unit = if (SealedQueries.mentions(plan)) {
    val made = plan match {
      case c: CreateViewCommand if c.viewType == PersistedView =>
        Seq(c.name.unquotedString)
      case a: AlterViewAsCommand if !temporary(a.name) => Seq(a.name.unquotedString)
      case _ => Nil
    }
    val read = all(plan).collect {
      case v: View if !v.isTempView => v.desc.identifier.unquotedString
    }
    if ((made ++ read).nonEmpty && !OwnCatalog.is(session)) throw new CofferException(
      "COFFER_CATALOG_TEXT",
      s"the view ${(made ++ read).head} stands beside sealed tables, and a catalog that others " +
        "can write would say what its text is",
      "CREATE TEMPORARY VIEW, in each session, has the text from you")
  }

  private def all(plan: LogicalPlan): Seq[LogicalPlan] =
    plan.collectWithSubqueries { case node => node } ++ SealedQueries.inner(plan).flatMap(all)

  private def temporary(name: TableIdentifier): Boolean =
    session.sessionState.catalog.isTempView(name)
}
