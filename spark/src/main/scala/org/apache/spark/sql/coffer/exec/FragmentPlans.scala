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
    case e: ShuffleExchangeExec => exchange(e, subquery)
    case b: BroadcastExchangeExec => broadcast(b, subquery)
  }

  def exchange(
      e: ShuffleExchangeExec,
      subquery: Expression => Expression = identity): SparkPlan =
    CofferShuffleExchangeExec(e, fragment(e.child, subquery))

  def broadcast(
      b: BroadcastExchangeExec,
      subquery: Expression => Expression = identity): SparkPlan =
    CofferBroadcastExchangeExec(b, fragment(b.child, subquery))

  def fragment(
      plan: SparkPlan,
      subquery: Expression => Expression = identity): CofferFragmentExec = {
    val fragment = CofferFragmentExec.of(
      plan,
      {
        case ShuffleRead(_, _) => true
        case BroadcastRead(_) => true
        case _: KeptExec => true
        case _ => false
      })
    fragment.copy(subqueryExpressions = fragment.subqueryExpressions.map(subquery))
  }
}
