package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeExec, ShuffleExchangeExec}

/** Puts sealed nodes in the place of Spark's. */
private[coffer] object FragmentPlans {

  /**
   * Where the whole plan is here at once: exchanges from the bottom up.
   *
   * @param subquery what takes the place of a fragment's subquery
   */
  def withExchanges(
      plan: SparkPlan,
      subquery: Expression => Expression = identity): SparkPlan = plan.transformUp {
    case e: ShuffleExchangeExec => CofferShuffleExchangeExec(e, fragment(e.child, subquery))
    case b: BroadcastExchangeExec => CofferBroadcastExchangeExec(b, fragment(b.child, subquery))
  }

  def exchange(e: ShuffleExchangeExec): SparkPlan = CofferShuffleExchangeExec(e, fragment(e.child))

  def broadcast(b: BroadcastExchangeExec): SparkPlan =
    CofferBroadcastExchangeExec(b, fragment(b.child))

  def fragment(
      plan: SparkPlan,
      subquery: Expression => Expression = identity): CofferFragmentExec = {
    val fragment = CofferFragmentExec.of(
      plan,
      {
        case ShuffleRead(_, _) => true
        case BroadcastRead(_) => true
        case _: CofferCacheExec => true
        case _ => false
      })
    fragment.copy(subqueryExpressions = fragment.subqueryExpressions.map(subquery))
  }
}
