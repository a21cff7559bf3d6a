package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeSet,
  Expression,
  IsNotNull,
  PredicateHelper,
  SubqueryExpression
}
import org.apache.spark.sql.coffer.proto.plan.{Call, DataType, Expr, Filter, Node, Project, TypeId}
import org.apache.spark.sql.execution.{FilterExec, ProjectExec}

/** Row by row: projection and filter. */
private[translate] object RowOperators extends OperatorFamily with PredicateHelper {

  override def entries: Seq[OperatorEntry] = Seq(
    operator[ProjectExec]("project") { (plan, children, translation) =>
      Places.named(plan.projectList, plan, children.head, translation).map { case (child, exprs) =>
        val project = Project.newBuilder.setChild(child.node)
        exprs.foreach(project.addExprs)
        Relation(translation.node(plan).setProject(project).build(), plan.output, child.partitions)
      }
    },
    operator[FilterExec]("filter; directly above a scan, what cannot fail goes into the " +
      "scan") { (plan, children, translation) =>
      val child = children.head
      val (own, drawn) = inOrder(splitConjunctivePredicates(plan.condition)).span(
        _.deterministic)
      val conjuncts = if (child.scan.isDefined) own.flatMap(c =>
        c +:
          CharVarchar.bounds(c))
      else own
      traverse(conjuncts)(placed(_, child, translation)).flatMap { all =>
        val (pushed, kept) = (all.flatMap(_.left.toOption), all.flatMap(_.toOption))
        val below = if (pushed.isEmpty) child.node else push(pushed, child.node)
        val node =
          if (kept.isEmpty) below
          else
            translation
              .node(plan)
              .setFilter(Filter.newBuilder.setChild(below).setCondition(kept.reduceLeft(and)))
              .build()
        drawing(drawn, plan, Relation(node, plan.output, child.partitions), translation)
      }
    })

  /**
   * Conjuncts in the order in which Spark's generated code evaluates them: what keeps NULLs away
   * stands before what names the column.
   */
  private def inOrder(conjuncts: Seq[Expression]): Seq[Expression] =
    if (conjuncts.forall(_.deterministic)) conjuncts
    else {
      val (guards, others) = conjuncts.partition {
        case IsNotNull(_: Attribute) => true
        case _ => false
      }
      (others.flatMap(c => guards.filter(_.references.subsetOf(c.references)) :+ c) ++ guards)
        .distinct
    }

  /** From a condition on that draws a number: each one sees the rows that those before it keep. */
  private def drawing(
      conditions: Seq[Expression],
      plan: FilterExec,
      child: Relation,
      translation: Translation): Result[Relation] =
    conditions.foldLeft[Result[Relation]](Right(child)) { (below, condition) =>
      below.flatMap(drawing(condition, plan, _, translation))
    }

  private def drawing(
      one: Expression,
      plan: FilterExec,
      child: Relation,
      translation: Translation): Result[Relation] =
    for {
      drawn <- Places.drawn(Seq(one), plan, child, translation)
      (below, rewritten) = drawn
      scope = new Scope(below.output, translation)
      condition <- scope.convert(rewritten.head)
      own <- Operators.named(child.output, scope)
    } yield {
      val filter = Filter.newBuilder.setChild(below.node).setCondition(condition)
      val filtered = translation.node(plan).setFilter(filter).build()
      if (below eq child) child.copy(node = filtered, read = None)
      else {
        val project = Project.newBuilder.setChild(filtered)
        own.foreach(project.addExprs)
        val node = translation.node(plan).setProject(project).build()
        Relation(node, child.output, child.partitions)
      }
    }

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
