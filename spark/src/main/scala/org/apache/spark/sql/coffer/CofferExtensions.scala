package org.apache.spark.sql.coffer

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.plugin.{
  AlikeSubqueries,
  CachedReads,
  CatalogFunctions,
  CatalogViews,
  CheckSupport,
  DeniedColumns,
  EarlyRules,
  ListedColumns,
  ListedStatements,
  MarkStage,
  PlainInZones,
  PlainInputs,
  RuntimeFilters,
  SealStages,
  SealedJoins,
  SealedLoops,
  SealedQueries,
  SealedStatements,
  SecretSettings,
  SiteStrategy,
  TailStrategy
}
import org.apache.spark.sql.coffer.split.NamedTables
import org.apache.spark.sql.coffer.tail.ListedRows
import org.apache.spark.sql.coffer.write.{SealedWrites, WriteStrategy}

/**
 * `spark.sql.extensions=org.apache.spark.sql.coffer.CofferExtensions`. Plans without sealed tables
 * pass through untouched.
 */
class CofferExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectHintResolutionRule(ListedColumns(_))
    // Before the first function is looked up, and for what views and functions bring with them.
    extensions.injectHintResolutionRule(CatalogFunctions(_))
    extensions.injectResolutionRule(CatalogFunctions(_))
    extensions.injectResolutionRule(s => EarlyRules(s, extensions.buildHintResolutionRules(s)))
    extensions.injectResolutionRule(SealedStatements(_))
    extensions.injectPostHocResolutionRule(_ => NamedTables)
    extensions.injectPostHocResolutionRule(_ => SealedWrites)
    extensions.injectPostHocResolutionRule(_ => PlainInputs)
    extensions.injectPostHocResolutionRule(s => ListedRows(s.asInstanceOf[SparkSession]))
    extensions.injectPostHocResolutionRule(_ => DeniedColumns)
    extensions.injectCheckRule(SecretSettings(_))
    extensions.injectCheckRule(CatalogViews(_))
    extensions.injectCheckRule(_ => SealedQueries)
    extensions.injectCheckRule(PlainInZones(_))
    extensions.injectCheckRule(ListedStatements(_))
    extensions.injectOptimizerRule(_ => CachedReads)
    extensions.injectPreCBORule(_ => AlikeSubqueries)
    extensions.injectPreCBORule(SealedLoops(_))
    extensions.injectPlannerStrategy(RuntimeFilters(_))
    extensions.injectPlannerStrategy(TailStrategy(_))
    extensions.injectPlannerStrategy(SiteStrategy(_))
    extensions.injectPlannerStrategy(WriteStrategy(_))
    extensions.injectPlannerStrategy(SealedJoins(_))
    extensions.injectQueryStagePrepRule(CheckSupport(_))
    extensions.injectQueryStageOptimizerRule(_ => MarkStage)
    extensions.injectColumnar(_ => SealStages)
  }
}
