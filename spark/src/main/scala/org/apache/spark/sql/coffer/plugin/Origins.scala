package org.apache.spark.sql.coffer.plugin

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression, ExprId}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.coffer.exec.{CofferFragmentExec, SealedScan}
import org.apache.spark.sql.coffer.split.StoredColumn
import org.apache.spark.sql.execution.{ExpandExec, GenerateExec, SparkPlan, UnionExec}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec

/**
 * A column of a table and how an engine has it: as ciphertexts, or its values, opened in an enclave
 * or in the clear.
 */
private[plugin] final case class Origin(
    column: String,
    protection: String,
    prefix: Boolean,
    isCipher: Boolean) {
  def text: String = s"$column by $protection"
}

/** From which stored columns the attributes of a plan for engines come. */
private[plugin] final class Origins private (known: Map[ExprId, Seq[Origin]]) {
  def of(e: Expression): Seq[Origin] =
    e.references.toSeq.flatMap(a => known.getOrElse(a.exprId, Nil)).distinct.sortBy(_.text)
}

private[plugin] object Origins {

  def of(plan: SparkPlan): Origins = {
    val known = mutable.Map.empty[ExprId, Seq[Origin]]
    walk(plan, known)
    new Origins(known.toMap)
  }

  private def walk(plan: SparkPlan, known: mutable.Map[ExprId, Seq[Origin]]): Unit = plan match {
    case a: AdaptiveSparkPlanExec => walk(a.executedPlan, known)
    case q: QueryStageExec => walk(q.plan, known)
    case f: CofferFragmentExec =>
      f.inputs.foreach(walk(_, known))
      walk(f.template, known)
    case r: ReusedExchangeExec =>
      walk(r.child, known)
      r.output.zip(r.child.output).foreach { case (as, of) =>
        known.get(of.exprId).foreach(known(as.exprId) = _)
      }
    case SealedScan(node, scan) =>
      val stored = scan.table.stored.map(c => c.name -> c).toMap
      node.output.foreach { a =>
        val origin = stored.get(a.name) match {
          case Some(c) if scan.table.viewed =>
            Option.when(c.isColumn)(Origin(scan.table.info.getSchema.getFields(c.column).getName,
                c.protection, c.prefix, c.isCipher))
          case _ =>
            val protection = if (scan.table.unverified) StoredColumn.CLEAR else StoredColumn.WHOLE
            Some(Origin(a.name, protection, prefix = false, isCipher = false))
        }
        origin.foreach(o => known(a.exprId) = Seq(o))
      }
    case other =>
      other.children.foreach(walk(_, known))
      made(other).foreach { case (as, from) => add(as.exprId, from, known) }
      other.expressions.foreach(_.foreachUp {
        case alias: Alias => add(alias.exprId, alias.child, known)
        case call: AggregateExpression =>
          val attributes = call.resultAttribute +: (call.aggregateFunction.aggBufferAttributes ++
            call.aggregateFunction.inputAggBufferAttributes)
          call.aggregateFunction.children.foreach(c =>
            attributes.foreach(a => add(a.exprId, c, known)))
        case _ =>
      })
  }

  /** Columns that an operator makes beside its expressions' names. */
  private def made(plan: SparkPlan): Seq[(Attribute, Expression)] = plan match {
    case g: GenerateExec => g.generatorOutput.map(_ -> g.generator)
    case e: ExpandExec => e.projections.flatMap(e.output.zip(_))
    case u: UnionExec => u.children.flatMap(c => u.output.zip(c.output))
    case _ => Nil
  }

  private def add(id: ExprId, from: Expression, known: mutable.Map[ExprId, Seq[Origin]]): Unit = {
    val origins = from.references.toSeq.flatMap(a => known.getOrElse(a.exprId, Nil))
    if (origins.nonEmpty) known(id) = (known.getOrElse(id, Nil) ++ origins).distinct
  }
}
