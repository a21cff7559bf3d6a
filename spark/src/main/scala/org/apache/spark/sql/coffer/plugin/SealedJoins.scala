package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.optimizer.{
  BuildLeft,
  BuildRight,
  BuildSide,
  JoinSelectionHelper
}
import org.apache.spark.sql.catalyst.planning.{
  ExtractEquiJoinKeys,
  ExtractSingleColumnNullAwareAntiJoin
}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical.{
  EmptyRelation,
  Join,
  LocalRelation,
  LogicalPlan,
  OneRowRelation
}
import org.apache.spark.sql.coffer.exec.{CofferQuery, SealedPlans}
import org.apache.spark.sql.coffer.split.{ClientRows, ClientTable}
import org.apache.spark.sql.coffer.tail.Planning
import org.apache.spark.sql.coffer.translate.CofferNestedLoopJoinExec
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.joins.{BroadcastNestedLoopJoinExec, ShuffledHashJoinExec}
import org.apache.spark.sql.internal.SQLConf

/**
 * Joins of sealed queries, where Spark would choose what suits engines badly. A sort-merge join
 * becomes a shuffled hash join, whose sides need no sort; where a side turns out too large, the
 * engine sorts after all. An outer join that would emit unmatched rows of a broadcast runs in one
 * partition. Hints win; all else is Spark's.
 */
private[coffer] final case class SealedJoins(session: SparkSession) extends SparkStrategy
    with JoinSelectionHelper {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case j: Join if sealedHere(j) => select(j).toSeq
    case _ => Nil
  }

  private def sealedHere(j: Join): Boolean =
    Planning.current != Planning.Tail && (CofferQuery.current(
      session.sparkContext).isDefined || SealedPlans.mentions(j))

  private def select(join: Join): Option[SparkPlan] = join match {
    case j
        if j.exists(n =>
          n.isInstanceOf[ClientRows] ||
            n.isInstanceOf[ClientTable]) => Some(atClient(j))
    case j @ ExtractEquiJoinKeys(joinType, leftKeys, rightKeys, condition, _, left, right, _) =>
      if (!hashJoinSupported(leftKeys, rightKeys) || hintedOtherwise(j)) None
      else if (hintToShuffleReplicateNL(j.hint) && joinType.isInstanceOf[InnerLike]) product(j)
      else if (getBroadcastBuildSide(j, hintOnly = false, SQLConf.get).isDefined) None
      else
        hashSide(j).map { side =>
          ShuffledHashJoinExec(leftKeys, rightKeys, joinType, side, condition, planLater(left),
            planLater(right))
        }
    case ExtractSingleColumnNullAwareAntiJoin(_, _) => None
    case j => unequal(j)
  }

  /**
   * In the client engine everything is one partition: there is nothing to exchange or to broadcast.
   */
  private def atClient(join: Join): SparkPlan = join match {
    case j @ ExtractEquiJoinKeys(joinType, leftKeys, rightKeys, condition, _, left, right, _)
        if hashSide(j).isDefined =>
      ShuffledHashJoinExec(leftKeys, rightKeys, joinType, hashSide(j).get, condition,
        planLater(left), planLater(right))
    case j =>
      val build = if (j.joinType.isInstanceOf[InnerLike]) smaller(j) else BuildRight
      CofferNestedLoopJoinExec(planLater(j.left), planLater(j.right), build, j.joinType,
        j.condition)
  }

  private def hintedOtherwise(j: Join): Boolean =
    getBroadcastBuildSide(j, hintOnly = true, SQLConf.get).isDefined ||
      hintToSortMergeJoin(j.hint) ||
      getShuffleHashJoinBuildSide(j, hintOnly = true, SQLConf.get).isDefined

  private def hashSide(j: Join): Option[BuildSide] =
    (canBuildShuffledHashJoinLeft(j.joinType), canBuildShuffledHashJoinRight(j.joinType)) match {
      case (true, true) => Some(smaller(j))
      case (true, false) => Some(BuildLeft)
      case (false, true) => Some(BuildRight)
      case (false, false) => None
    }

  /**
   * Rows that come with the fragment are in one task of it, so they cannot be paired with other
   * tasks' partitions: they are broadcast.
   */
  private def product(j: Join): Option[SparkPlan] =
    if (local(j.left)) Some(nestedLoop(j, BuildLeft))
    else if (local(j.right)) Some(nestedLoop(j, BuildRight))
    else None

  private def local(side: LogicalPlan): Boolean = side.exists {
    case _: LocalRelation | _: OneRowRelation | _: EmptyRelation => true
    case _ => false
  }

  private def unequal(j: Join): Option[SparkPlan] = j.joinType match {
    case _: InnerLike =>
      val broadcast = hintToBroadcastLeft(j.hint) || hintToBroadcastRight(j.hint) ||
        canBroadcastBySize(j.left, SQLConf.get) || canBroadcastBySize(j.right, SQLConf.get)
      if (broadcast && !hintToShuffleReplicateNL(j.hint)) None else product(j)
    case LeftSemi | LeftAnti | _: ExistenceJoin => Some(nestedLoop(j, BuildRight))
    case LeftOuter | LeftSingle
        if hintToBroadcastRight(j.hint) ||
          canBroadcastBySize(j.right, SQLConf.get) => Some(nestedLoop(j, BuildRight))
    case RightOuter
        if hintToBroadcastLeft(j.hint) ||
          canBroadcastBySize(j.left, SQLConf.get) => Some(nestedLoop(j, BuildLeft))
    case LeftSingle =>
      Some(CofferNestedLoopJoinExec(planLater(j.left), planLater(j.right), BuildRight, j.joinType,
          j.condition))
    case LeftOuter | RightOuter | FullOuter =>
      Some(CofferNestedLoopJoinExec(planLater(j.left), planLater(j.right), smaller(j), j.joinType,
          j.condition))
    case _ => None
  }

  private def nestedLoop(j: Join, build: BuildSide): SparkPlan =
    BroadcastNestedLoopJoinExec(planLater(j.left), planLater(j.right), build, j.joinType,
      j.condition)

  private def smaller(j: Join): BuildSide = getSmallerSide(j.left, j.right)
}
