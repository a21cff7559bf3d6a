package org.apache.spark.sql.coffer.plan

import org.apache.spark.sql.catalyst.expressions.{Expression, PredicateHelper}
import org.apache.spark.sql.coffer.proto.plan.{Call, DataType, Expr, Filter, Node, Project, TypeId}
import org.apache.spark.sql.execution.{FilterExec, ProjectExec}

/** Row by row: projection and filter. */
private[plan] object RowOperators extends OperatorFamily with PredicateHelper {

  override def entries: Seq[OperatorEntry] = Seq(
    operator[ProjectExec]("project") { (plan, children, translation) =>
      val child = children.head
      Operators.named(plan.projectList, new Scope(child.output, translation)).map { exprs =>
        val project = Project.newBuilder.setChild(child.node)
        exprs.foreach(project.addExprs)
        Relation(translation.node(plan).setProject(project).build(), plan.output, child.partitions)
      }
    },
    operator[FilterExec]("filter; directly above a scan, what cannot fail goes into the scan") { (plan, children, translation) =>
      val child = children.head
      val scope = new Scope(child.output, translation)
      conjuncts(plan.condition, scope).map { all =>
        // A scan applies what it is given exactly, and before anything that is left here. So what cannot fail may go first;
        // what can fail must keep its place, behind the conjuncts that may protect it.
        val (pushed, kept) =
          if (child.node.hasScan) all.partition(Fallibility.pushable) else (Nil, all)
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

  private def conjuncts(condition: Expression, scope: Scope): Result[Seq[Expr]] =
    traverse(splitConjunctivePredicates(condition))(scope.convert)

  private def push(conjuncts: Seq[Expr], scan: Node): Node = {
    val builder = scan.getScan.toBuilder
    conjuncts.filterNot(builder.getPushedList.contains).foreach(builder.addPushed)
    scan.toBuilder.setScan(builder).build()
  }

  private def and(left: Expr, right: Expr): Expr = {
    val t = DataType.newBuilder.setId(TypeId.BOOLEAN)
    Expr.newBuilder
      .setCall(Call.newBuilder.setName("and").setType(t).addArgs(left).addArgs(right))
      .build()
  }
}
