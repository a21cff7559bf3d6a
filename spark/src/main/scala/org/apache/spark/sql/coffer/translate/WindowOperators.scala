package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.expressions.{NamedExpression, WindowExpression}
import org.apache.spark.sql.coffer.proto.plan.{Node, Project, Window, WindowGroupLimit}
import org.apache.spark.sql.execution.window.{WindowExec, WindowGroupLimitExec}

/**
 * Windows: a column for each window expression beside the child's columns, and a projection where
 * Catalyst has put work around them (it sums decimals as integers, for one).
 */
private[translate] object WindowOperators extends OperatorFamily {

  override def entries: Seq[OperatorEntry] = Seq(
    operator[WindowExec]("window, and a project where the results are worked on; a window " +
      "partition that does not fit in an engine's memory goes by way of its disk, sealed, but " +
      "for lead and lag with IGNORE NULLS, nth_value from a bound to the end, and lists and " +
      "percentiles over frames without a bound; a frame between two bounds must fit") {
      (plan, children, translation) => window(plan, children.head, translation)
    },
    operator[WindowGroupLimitExec]("window group limit: the first rows of each window partition") {
      (plan, children, translation) =>
        groupLimit(plan, children.head, translation)
    })

  private def window(
      plan: WindowExec,
      child: Relation,
      translation: Translation): Result[Relation] = {
    val scope = new Scope(child.output, translation)
    val found = plan.windowExpression.flatMap(_.collect { case w: WindowExpression => w }).distinct
    val columns = found.map { w =>
      val named = plan.windowExpression.collectFirst { case a @ Alias(`w`, _) => a.toAttribute }
      w -> named.getOrElse(AttributeReference("window", w.dataType, w.nullable)())
    }
    for {
      partition <- traverse(plan.partitionSpec)(scope.convert)
      order <- Operators.sortKeys(plan.orderSpec, scope)
      calls <- traverse(columns) { case (w, column) =>
        WindowCalls.of(w, column.name, plan, scope).left.map(_.at(w))
      }
      node = {
        val builder = Window.newBuilder.setChild(child.node)
        partition.foreach(builder.addPartition)
        order.foreach(builder.addOrder)
        calls.foreach(builder.addCalls)
        translation.node(plan).setWindow(builder).build()
      }
      results = {
        val known = columns.toMap
        plan.windowExpression.map(_.transform {
          case w: WindowExpression => known(w)
        }.asInstanceOf[NamedExpression])
      }
      made = child.output ++ columns.map(_._2)
      shown <- shown(plan, node, made, child.output ++ results, translation)
    } yield Relation(shown, child.output ++ plan.windowExpression.map(_.toAttribute),
      child.partitions)
  }

  /** The projection over the window's columns, unless it is the identity. */
  private def shown(
      plan: WindowExec,
      node: Node,
      made: Seq[Attribute],
      exprs: Seq[NamedExpression],
      translation: Translation): Result[Node] = {
    val unnamed = exprs.map {
      case Alias(a: Attribute, _) => a
      case other => other
    }
    if (Operators.isIdentity(unnamed, made)) Right(node)
    else Operators.named(exprs, new Scope(made, translation)).map { named =>
      val project = Project.newBuilder.setChild(node)
      named.foreach(project.addExprs)
      translation.node(plan).setProject(project).build()
    }
  }

  private def groupLimit(
      plan: WindowGroupLimitExec,
      child: Relation,
      translation: Translation): Result[Relation] = {
    val scope = new Scope(child.output, translation)
    for {
      partition <- traverse(plan.partitionSpec)(scope.convert)
      order <- Operators.sortKeys(plan.orderSpec, scope)
      rank <- WindowCalls.rank(plan.rankLikeFunction)
    } yield {
      val builder = WindowGroupLimit.newBuilder
        .setChild(child.node)
        .setRank(rank)
        .setLimit(plan.limit)
      partition.foreach(builder.addPartition)
      order.foreach(builder.addOrder)
      child.copy(node = translation.node(plan).setWindowGroupLimit(builder).build())
    }
  }
}
