package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, V2WriteCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.coffer.versions.TableOf
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier}
import org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog

/**
 * A catalog's name leads to a path, and the catalog is not trusted: a name that is a table's by the
 * owner's register must lead to that very table. Names that the register does not have are the
 * users' own.
 */
object NamedTables extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.collectWithSubqueries {
      case w: V2WriteCommand => check(w.table)
      case other => check(other)
    }
    plan
  }

  private def check(node: LogicalPlan): Unit = node match {
    case TableOf(table: CofferTable, _, Some(catalog), Some(ident))
        if catalog.name == CatalogManager.SESSION_CATALOG_NAME =>
      table.calledInCatalog(name(ident))
    // What TRUNCATE, RENAME and other statements are about.
    case ResolvedTable(_: V2SessionCatalog, ident, table: CofferTable, _)
        if table.failure.isEmpty => table.calledInCatalog(name(ident))
    case _ =>
  }

  /**
   * As the policy calls tables: those of the default database by their name, others by
   * `database.table`.
   */
  def name(ident: Identifier): String = name(ident.namespace.headOption, ident.name)

  def name(database: Option[String], table: String): String =
    database.filterNot(_ == "default").fold(table)(db => s"$db.$table")
}
