package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnionLoop}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic
import org.apache.spark.sql.coffer.exec.{CachedRows, LoopRows, SealedLoop, SealedPlans}
import org.apache.spark.sql.coffer.tail.{CofferTailExec, TailLoop, TailPlan}

/**
 * Has engines run the rounds of recursive queries, where they support all that a round does. Others
 * are the driver's ([[TailLoop]]).
 */
private[coffer] final case class SealedLoops(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(query: LogicalPlan): LogicalPlan =
    if (query.exists(_.isInstanceOf[UnionLoop]) && SealedPlans.mentions(query))
      query.transform {
        case loop: UnionLoop if TailLoop.faults(classicSession, loop).isEmpty =>
          SealedLoop(loop, new LoopRows(classicSession, loop, Ways))
      }
    else query

  private def classicSession: classic.SparkSession = session.asInstanceOf[classic.SparkSession]

  private object Ways extends LoopRows.Ways {
    override def keep(query: LogicalPlan): CachedRows =
      Caching.kept(TailPlan.whole(classicSession, TailLoop.optimised(classicSession, query)))

    override def inDriver(loop: UnionLoop): Iterator[InternalRow] =
      CofferTailExec(TailPlan.of(classicSession, TailLoop(loop)), Nil, None).executeToIterator()
  }
}
