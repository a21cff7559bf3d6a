package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.coffer.proto.plan.{AggCall, AggMode, Aggregate, Node, Project}
import org.apache.spark.sql.execution.aggregate.{BaseAggregateExec, HashAggregateExec}
import org.apache.spark.sql.execution.aggregate.{ObjectHashAggregateExec, SortAggregateExec}

/**
 * The three aggregate operators of Spark are one in the engine. How a function's columns lie is
 * `AggregationIterator`'s rule: what merges reads its buffers from the end of the child's output,
 * in the order of the functions; the result expressions see the grouping columns and the functions'
 * results, or, of partial aggregates, their buffers.
 */
private[translate] object AggregateOperators extends OperatorFamily {

  private val becomes = "aggregate, and a project where the results are worked on"

  override def entries: Seq[OperatorEntry] = Seq(
    operator[HashAggregateExec](becomes)(convert(_, _, _)),
    operator[ObjectHashAggregateExec](becomes)(convert(_, _, _)),
    operator[SortAggregateExec](becomes)(convert(_, _, _)))

  private def convert(
      plan: BaseAggregateExec,
      children: Seq[Relation],
      translation: Translation): Result[Relation] = {
    val child = children.head
    val scope = new Scope(child.output, translation)
    for {
      _ <- if (plan.isStreaming) refuse("streaming is not supported") else Right(())
      grouping <- Operators.named(plan.groupingExpressions, scope)
      offsets <- bufferOffsets(plan, child)
      calls <- traverse(plan.aggregateExpressions.zip(offsets)) { case (call, offset) =>
        aggregateCall(call, offset, scope)
      }
      aggregate = {
        val builder = Aggregate.newBuilder.setChild(child.node)
        grouping.foreach(builder.addGrouping)
        calls.foreach(builder.addCalls)
        translation.node(plan).setAggregate(builder).build()
      }
      node <- if (givesBuffers(plan)) Right(aggregate) else results(plan, aggregate, translation)
    } yield Relation(node, Buffers.output(plan), child.partitions)
  }

  private def givesBuffers(plan: BaseAggregateExec): Boolean =
    plan.aggregateExpressions.exists(a => a.mode == Partial || a.mode == PartialMerge)

  /** The projection over grouping columns and results, unless it is the identity. */
  private def results(
      plan: BaseAggregateExec,
      aggregate: Node,
      translation: Translation): Result[Node] = {
    val produced: Seq[Attribute] =
      plan.groupingExpressions.map(_.toAttribute) ++ plan.aggregateAttributes
    if (Operators.isIdentity(plan.resultExpressions, produced)) {
      Right(aggregate)
    } else {
      Operators.named(plan.resultExpressions, new Scope(produced, translation)).map { exprs =>
        val project = Project.newBuilder.setChild(aggregate)
        exprs.foreach(project.addExprs)
        translation.node(plan).setProject(project).build()
      }
    }
  }

  /**
   * For each function the position of its first buffer column in the child's output; meaningless
   * unless it merges.
   */
  private def bufferOffsets(plan: BaseAggregateExec, child: Relation): Result[Seq[Int]] = {
    val widths = plan.aggregateExpressions.map { a =>
      if (merges(a)) a.aggregateFunction.aggBufferAttributes.length else 0
    }
    val first = child.output.length - widths.sum
    if (first < 0 || (widths.sum > 0 && first != plan.initialInputBufferOffset)) {
      refuse("the child's output does not end with the functions' buffers")
    } else {
      Right(widths.scanLeft(first)(_ + _).init)
    }
  }

  private def merges(call: AggregateExpression): Boolean =
    call.mode == PartialMerge || call.mode == Final

  private[translate] def aggregateCall(
      call: AggregateExpression,
      offset: Int,
      scope: Scope): Result[AggCall] = {
    val function = call.aggregateFunction
    val converted = for {
      known <- AggregateFunctions.of(function)
      resultType <- Types.of(function.dataType)
      arguments = known.over.getOrElse(function.children)
      inputTypes <- traverse(arguments)(c => Types.of(c.dataType))
      parameters <- traverse(known.parameters)(p => Literals.of(p.value, p.dataType))
      buffer <- Types.schema(Buffers.of(function))
      args <-
        if (merges(call)) {
          Right(
            function.aggBufferAttributes.indices.map(i => ReferenceExpressions.column(offset + i)))
        } else {
          traverse(arguments)(scope.convert)
        }
      // A merging function has nothing left to filter: its filter has been applied to the rows.
      filter <- traverse(call.filter.filterNot(_ => merges(call)))(scope.convert)
    } yield {
      val builder = AggCall.newBuilder
        .setName(known.name)
        .setMode(mode(call.mode))
        .setType(resultType)
        .setBuffer(buffer)
        .setEval(known.eval)
        .setIgnoreNulls(known.ignoreNulls)
        .setLargest(known.largest)
      known.pivot.foreach(builder.addPivot)
      parameters.foreach(builder.addParameters)
      known.percentiles.foreach(builder.setPercentiles)
      args.foreach(builder.addArgs)
      inputTypes.foreach(builder.addInputTypes)
      filter.foreach(builder.setFilter)
      builder.build()
    }
    converted.left.map(_.at(function))
  }

  private def mode(mode: AggregateMode): AggMode = mode match {
    case Partial => AggMode.PARTIAL
    case PartialMerge => AggMode.PARTIAL_MERGE
    case Final => AggMode.FINAL
    case Complete => AggMode.COMPLETE
  }
}
