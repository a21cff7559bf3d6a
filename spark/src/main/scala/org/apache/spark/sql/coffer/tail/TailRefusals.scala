package org.apache.spark.sql.coffer.tail

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.coffer.exec.SealedPlans
import org.apache.spark.sql.execution.columnar.InMemoryRelation

/** What the driver does not run either. */
private[tail] object TailRefusals {

  def of(tail: LogicalPlan): Seq[String] = tail.collect { case node => of1(node) }.flatten.distinct

  private def of1(node: LogicalPlan): Seq[String] = operator(node).toSeq ++
    (if (node.isInstanceOf[TailRows]) Nil else node.expressions.flatMap(expressions))

  private def operator(node: LogicalPlan): Option[String] = node match {
    case _: ScriptTransformation => Some("ScriptTransformation: a script would see opened data")
    case _: TailRows | _: ClientRelation | _: TailLoop => None
    case _: InMemoryRelation =>
      Some(
        "InMemoryRelation: cached rows of plain data are blocks of executors; unpersist what is " +
          "cached, or join it by createDataFrame or VALUES")
    case _: Sample => Some("Sample: it would draw other rows than Spark's tasks do")
    case l: LeafNode if SealedPlans.mentions(l) =>
      Some(s"${l.nodeName}: engines cannot read this table")
    case _ => None
  }

  private def expressions(e: Expression): Seq[String] = e.collect {
    case _: InSubquery => "IN (subquery): its rows would be sent to executors"
    case c: CallMethodViaReflection => s"${c.prettyName}: it calls a method by its name"
    case n: Expression
        if !n.deterministic && n.children.forall(_.deterministic) && !holds(n) =>
      s"${n.prettyName} is not deterministic: it would give other values than Spark's tasks do"
  }

  /**
   * What keeps its word in a single partition too: random numbers, unique and rising ones, and
   * aggregates whose value depends on the order of rows, of which Spark promises none. Functions
   * that users bring are theirs to judge.
   */
  private def holds(e: Expression): Boolean = e match {
    case _: UserDefinedExpression | _: PythonFuncExpression | _: PythonUDAF => true
    case _: AggregateFunction | _: ExpressionWithRandomSeed => true
    case _: MonotonicallyIncreasingID | _: SparkPartitionID | _: Uuid => true
    case _ => false
  }
}
