package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  AttributeSet,
  Expression,
  PredicateHelper,
  SubqueryExpression
}
import org.apache.spark.sql.coffer.proto.plan.{Call, DataType, Expr, Filter, Node, Project, TypeId}
import org.apache.spark.sql.execution.{FilterExec, ProjectExec}

/** Row by row: projection and filter. */
private[translate] object RowOperators extends OperatorFamily with PredicateHelper {

  override def entries: Seq[OperatorEntry] = Seq(
    operator[ProjectExec]("project") { (plan, children, translation) =>
      val child = children.head
      Operators.named(plan.projectList, new Scope(child.output, translation)).map { exprs =>
        val project = Project.newBuilder.setChild(child.node)
        exprs.foreach(project.addExprs)
        Relation(translation.node(plan).setProject(project).build(), plan.output, child.partitions)
      }
    },
    operator[FilterExec]("filter; directly above a scan, what cannot fail goes into the " +
      "scan") { (plan, children, translation) =>
      val child = children.head
      val own = splitConjunctivePredicates(plan.condition)
      val conjuncts = if (child.scan.isDefined) own.flatMap(c =>
        c +:
          CharVarchar.bounds(c))
      else own
      traverse(conjuncts)(placed(_, child, translation)).map { all =>
        val (pushed, kept) = (all.flatMap(_.left.toOption), all.flatMap(_.toOption))
        val below = if (pushed.isEmpty) child.node else push(pushed, child.node)
        val node =
          if (kept.isEmpty) below
          else
            translation
              .node(plan)
              .setFilter(Filter.newBuilder.setChild(below).setCondition(kept.reduceLeft(and)))
              .build()
        Relation(node, plan.output, child.partitions)
      }
    })

  /**
   * A conjunct for the scan, or else for here. A scan applies what it is given exactly, and before
   * anything that is left here. So what cannot fail may go first; what can fail must keep its
   * place, behind the conjuncts that may protect it.
   */
  private def placed(
      conjunct: Expression,
      child: Relation,
      translation: Translation): Result[Either[Expr, Expr]] = {
    def here: Result[Expr] = new Scope(child.output, translation).convert(conjunct)
    child.scan match {
      case Some(scan)
          if conjunct.references.subsetOf(AttributeSet(scan.output)) &&
            !SubqueryExpression.hasSubquery(conjunct) =>
        new Scope(scan.output, translation).convert(conjunct).flatMap { expr =>
          if (Fallibility.pushable(expr)) Right(Left(expr)) else here.map(Right(_))
        }
      case _ => here.map(Right(_))
    }
  }

  private def push(conjuncts: Seq[Expr], node: Node): Node =
    if (node.hasScan) {
      val builder = node.getScan.toBuilder
      conjuncts.filterNot(builder.getPushedList.contains).foreach(builder.addPushed)
      node.toBuilder.setScan(builder).build()
    } else Nodes.mapChildren(node)(push(conjuncts, _))

  private def and(left: Expr, right: Expr): Expr = {
    val t = DataType.newBuilder.setId(TypeId.BOOLEAN)
    Expr.newBuilder
      .setCall(Call.newBuilder.setName("and").setType(t).addArgs(left).addArgs(right))
      .build()
  }
}
