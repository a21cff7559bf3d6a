package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.{Invoke, StaticInvoke}
import org.apache.spark.sql.execution.InSubqueryExec

/** Why an expression without a serde has none. The more telling reason comes first. */
private[translate] object Refusals {

  def reason(expr: Expression, badType: Option[Unsupported]): String = expr match {
    case _: PythonUDF => "Python functions would see opened data outside the enclave"
    case _: UserDefinedExpression =>
      "user-defined functions would see opened data outside the enclave"
    case e if !e.deterministic && e.children.forall(_.deterministic) =>
      s"${e.prettyName} is not deterministic: a repeated task would give other rows"
    case _: LambdaFunction | _: HigherOrderFunction =>
      "this higher-order function is not supported"
    case s: StaticInvoke =>
      s"it calls the JVM method " +
        s"${s.staticObject.getSimpleName.stripSuffix("$")}.${s.functionName}, " +
        "which the engine has not"
    case i: Invoke => s"it calls the JVM method ${i.functionName}, which the engine has not"
    case t: TryEval => s"try of a ${t.child.prettyName} as a whole is not supported"
    case _: InSubqueryExec | _: DynamicPruning =>
      "Spark would send the subquery's rows to executors in clear"
    case _: RLike | _: RegExpReplace | _: RegExpExtractBase =>
      "regular expressions of Java's dialect are not supported"
    case _: Unevaluable => "it should have been resolved while the query was planned"
    case _: RoundFloor | _: RoundCeil => "floor and ceil to a scale are not supported"
    case e => badType.fold(s"the function ${e.prettyName} is not supported")(_.reason)
  }
}
