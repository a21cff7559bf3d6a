package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.Analyzer
import org.apache.spark.sql.catalyst.catalog.{
  CatalogFunction,
  ExternalCatalog,
  ExternalCatalogWithListener,
  InMemoryCatalog,
  SessionCatalog
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.coffer.common.CofferException

/**
 * Rules before functions are looked up are those that are injected for hints, and Spark's
 * `HiveSessionStateBuilder` leaves them out. The end of a session's first analysis puts them where
 * they belong; until then nothing is read of what the catalog says of a function.
 */
private[coffer] final case class EarlyRules(session: SparkSession, rules: Seq[Rule[LogicalPlan]])
    extends Rule[LogicalPlan] {

  if (!session.sharedState.externalCatalog.unwrapped.isInstanceOf[InMemoryCatalog])
    EarlyRules.guard(session.sessionState.catalog, () => present())

  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (!present()) {
      EarlyRules.set(classOf[Analyzer], "hintResolutionRules", analyzer, rules)
      if (!present()) throw EarlyRules.failed(None)
    }
    plan
  }

  private def analyzer: Analyzer = session.sessionState.analyzer

  private def present(): Boolean =
    analyzer.hintResolutionRules.exists(_.isInstanceOf[CatalogFunctions])
}

private[coffer] object EarlyRules {

  private final class Guarded(of: ExternalCatalogWithListener, open: () => Boolean)
      extends ExternalCatalogWithListener(of) {
    override def unwrapped: ExternalCatalog = of.unwrapped

    override def getFunction(db: String, name: String): CatalogFunction =
      if (open()) of.getFunction(db, name)
      else throw CatalogFunctions.refused(s"$db.$name")
  }

  private def guard(catalog: SessionCatalog, open: () => Boolean): Unit =
    catalog.externalCatalog match {
      case _: Guarded =>
      case of: ExternalCatalogWithListener =>
        val guarded = new Guarded(of, open)
        set(classOf[SessionCatalog], "externalCatalog", catalog, guarded)
        if (catalog.externalCatalog ne guarded) throw failed(None)
      case _ => throw failed(None)
    }

  private def set(of: Class[_], field: String, in: AnyRef, value: AnyRef): Unit =
    try {
      val found = of.getDeclaredField(field)
      found.setAccessible(true)
      found.set(in, value)
    } catch {
      case e: ReflectiveOperationException => throw failed(Some(e))
    }

  private def failed(cause: Option[Throwable]): CofferException = {
    val failure = new CofferException(
      "COFFER_CATALOG_TEXT",
      "this session's catalog is another one than Spark's own, and this build of Spark gives no " +
        "way to look at functions before it asks that catalog for them",
      "a release of Spark that Coffer names, or spark.sql.catalogImplementation=in-memory")
    cause.foreach(failure.initCause)
    failure
  }
}
