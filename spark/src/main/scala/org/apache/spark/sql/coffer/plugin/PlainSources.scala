package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.coffer.exec.SealedInsert
import org.apache.spark.sql.coffer.tail.TailConf
import org.apache.spark.sql.coffer.write.SealedDdl
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.jdbc.JDBCRelation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.DataSourceRegister

/**
 * Data that is not sealed yet and that the driver can read by itself, to have it sealed: files and
 * tables of databases. What another source would run on executors, nobody here knows.
 */
private[plugin] object PlainSources {

  /** Whether the rows of a command are sealed, by this process if engines have no way. */
  def written(plan: LogicalPlan): Boolean = TailConf.on(SQLConf.get) && (plan match {
    case _: SealedInsert => true
    case other => SealedDdl.query(other).isDefined
  })

  /** Those of a query, as a user knows them: no options, which may hold a password. */
  def of(plan: LogicalPlan): Seq[(LogicalPlan, String)] = plan.collectWithSubqueries {
    case l @ LogicalRelation(files: HadoopFsRelation, _, _, false, _) => l -> name(l, files)
    case l @ LogicalRelation(jdbc: JDBCRelation, _, _, false, _) =>
      l -> s"jdbc ${jdbc.jdbcOptions.tableOrQuery}"
  }

  private def name(l: LogicalRelation, files: HadoopFsRelation): String = {
    val format = files.fileFormat match {
      case r: DataSourceRegister => r.shortName()
      case other => other.getClass.getSimpleName
    }
    val at = files.location.rootPaths.map(_.toString).mkString(", ")
    s"$format ${l.catalogTable.fold(at)(_.identifier.unquotedString)}"
  }
}
