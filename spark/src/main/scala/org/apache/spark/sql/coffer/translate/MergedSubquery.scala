package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Alias, CreateNamedStruct, Literal}
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan}
import org.apache.spark.unsafe.types.UTF8String

/**
 * The optimizer merges several scalar subqueries over one source into one whose single value is a
 * struct, and reads its fields. The engine has no structs; it need not: the fields come to the
 * client as columns, and only the driver sees the struct.
 */
private[translate] object MergedSubquery {

  /** The same plan with the struct's fields as its columns. */
  def unapply(plan: SparkPlan): Option[SparkPlan] = plan match {
    case ProjectExec(Seq(Alias(struct: CreateNamedStruct, _)), child) =>
      val fields = struct.nameExprs.zip(struct.valExprs).map {
        case (Literal(name: UTF8String, _), value) => Alias(value, name.toString)()
        case (_, value) => Alias(value, value.prettyName)()
      }
      Some(ProjectExec(fields, child))
    case other => Operators.transparent(other).flatMap(unapply)
  }
}
