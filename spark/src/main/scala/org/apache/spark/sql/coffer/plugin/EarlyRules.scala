package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.FunctionIdentifier
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
 * they belong. What the catalog says of a function is never read.
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
  private val nothing = classOf[CatalogFunctions].getName

  private final class Guarded(of: ExternalCatalogWithListener, early: () => Boolean)
      extends ExternalCatalogWithListener(of) {
    override def unwrapped: ExternalCatalog = of.unwrapped

    /**
     * A name for DROP and DESCRIBE, of a class that Spark makes no function of: an analysis that
     * began before the rules were there may come here after them.
     */
    override def getFunction(db: String, name: String): CatalogFunction =
      if (early()) CatalogFunction(FunctionIdentifier(name, Some(db)), nothing, Nil)
      else throw CatalogFunctions.refused(s"$db.$name")
  }

  private def guard(catalog: SessionCatalog, early: () => Boolean): Unit =
    catalog.externalCatalog match {
      case _: Guarded =>
      case of: ExternalCatalogWithListener =>
        val guarded = new Guarded(of, early)
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
