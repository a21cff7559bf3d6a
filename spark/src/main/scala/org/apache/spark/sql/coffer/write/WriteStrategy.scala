package org.apache.spark.sql.coffer.write

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier
import org.apache.spark.sql.catalyst.expressions.{Ascending, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.connector.catalog.CatalogV2Util
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog
import org.apache.spark.sql.internal.SQLConf

/** Plans what writes, makes and drops sealed tables. */
final case class WriteStrategy(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case SealedInsert(target, query) =>
      // One file is open at a time in each task: rows come sorted by partition.
      val order = target.partitions.map(at => SortOrder(query.output(at), Ascending))
      val sorted = if (order.isEmpty) query else Sort(order, global = false, query)
      CofferWriteExec(target, planLater(SealedWrite(target.partitions, sorted))) :: Nil
    case SealedWrite(partitions, child) => SealedWriteExec(partitions, planLater(child)) :: Nil
    case SealedDdl(command) => command :: Nil
    case _ => Nil
  }
}

/** Commands about sealed tables of Spark's session catalog. */
object SealedDdl {

  def unapply(plan: LogicalPlan): Option[SparkPlan] = plan match {
    case c @ CreateTableAsSelect(ResolvedIdentifier(catalog: V2SessionCatalog, ident), partitioning, query, spec: TableSpec, _, ifNotExists,
          _)
        if sealedProvider(spec) =>
      Some(MakeTableExec(catalog, ident, partitioning, Right(query), spec, c.writeOptions, ifNotExists, replace = false, orCreate = true))
    case c @ ReplaceTableAsSelect(ResolvedIdentifier(catalog: V2SessionCatalog, ident), partitioning, query, spec: TableSpec, _, orCreate,
          _)
        if sealedProvider(spec) =>
      Some(MakeTableExec(catalog, ident, partitioning, Right(query), spec, c.writeOptions, ifNotExists = false, replace = true, orCreate))
    // Without columns it only names a table that is there.
    case c @ CreateTable(ResolvedIdentifier(catalog: V2SessionCatalog, ident), columns, partitioning, spec: TableSpec, ifNotExists)
        if sealedProvider(spec) && columns.nonEmpty =>
      val schema = CatalogV2Util.v2ColumnsToStructType(columns.map(_.toV2Column("CREATE TABLE")).toArray)
      Some(MakeTableExec(catalog, ident, partitioning, Left(schema), spec, Map.empty, c.ignoreIfExists || ifNotExists, replace = false,
          orCreate = true))
    case DropTable(ResolvedIdentifier(catalog: V2SessionCatalog, ident), _, purge) if DropSealedTableExec.managed(catalog, ident) =>
      Some(DropSealedTableExec(catalog, ident, purge))
    case _ => None
  }

  /** The query of a command that writes a sealed table and does not show it as a child. */
  def query(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case c: CreateTableAsSelect if sealedProvider(c.tableSpec) => Some(c.query)
    case c: ReplaceTableAsSelect if sealedProvider(c.tableSpec) => Some(c.query)
    case _ => None
  }

  /** By USING, or without it by `spark.sql.sources.default`. (Spark's setting that such tables be Hive's has them planned elsewhere.) */
  private def sealedProvider(spec: TableSpecBase): Boolean = {
    val default = SQLConf.get.defaultDataSourceName
    val provider = spec match {
      case t: TableSpec => t.provider.orElse(Option.when(t.serde.isEmpty)(default))
      case u: UnresolvedTableSpec => u.provider.orElse(Option.when(u.serde.isEmpty)(default))
      case _ => None
    }
    provider.exists(_.equalsIgnoreCase("coffer"))
  }
}
