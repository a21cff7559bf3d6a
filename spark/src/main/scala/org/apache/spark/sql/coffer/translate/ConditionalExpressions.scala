package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{CaseWhen => CatalystCaseWhen, _}
import org.apache.spark.sql.coffer.proto.plan.{CaseWhen, Expr}

/** One of several values; only the one that is chosen may fail. */
private[translate] object ConditionalExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    function[If]("if"),
    function[Coalesce]("coalesce"),
    function[Greatest]("greatest"),
    function[Least]("least"),
    entry[CatalystCaseWhen]("CASE WHEN") { (e, scope) =>
      for {
        resultType <- Types.of(e.dataType)
        branches <- traverse(e.branches)(branch(_, scope))
        otherwise <- traverse(e.elseValue)(scope.convert)
      } yield {
        val caseWhen = CaseWhen.newBuilder.setType(resultType)
        branches.foreach(caseWhen.addBranches)
        otherwise.foreach(caseWhen.setOtherwise)
        Expr.newBuilder.setCaseWhen(caseWhen).build()
      }
    })

  private def branch(pair: (Expression, Expression), scope: Scope): Result[CaseWhen.Branch] =
    for {
      condition <- scope.convert(pair._1)
      value <- scope.convert(pair._2)
    } yield CaseWhen.Branch.newBuilder.setWhen(condition).setThen(value).build()
}
