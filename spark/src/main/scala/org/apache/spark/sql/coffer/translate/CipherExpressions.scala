package org.apache.spark.sql.coffer.plan

import org.apache.spark.sql.coffer.sites.OreCompare

/** What engines do with ciphertexts that no expression of Spark says. */
private[plan] object CipherExpressions extends ExpressionFamily {
  override def entries: Seq[ExpressionEntry] = Seq(function[OreCompare]("ore_compare"))
}
