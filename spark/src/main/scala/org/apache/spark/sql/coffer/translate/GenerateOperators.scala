package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  Explode,
  Expression,
  Generator,
  Inline,
  JsonTuple,
  Literal,
  PosExplode,
  ReplicateRows,
  Stack
}
import org.apache.spark.sql.coffer.proto.plan.{Call, Expr, Generate}
import org.apache.spark.sql.execution.GenerateExec
import org.apache.spark.sql.types.ArrayType

/** Rows made of rows: the elements of arrays, several rows of one, copies. */
private[translate] object GenerateOperators extends OperatorFamily {

  override def entries: Seq[OperatorEntry] = Seq(
    operator[GenerateExec](
      "generate: explode, posexplode, inline, stack and json_tuple, outer ones too; " +
        "the copies of rows that EXCEPT ALL and INTERSECT ALL need") {
      (plan, children, translation) =>
        val child = children.head
        val scope = new Scope(child.output, translation)
        for {
          schema <- Types.schema(plan.generatorOutput)
          kept <- traverse(plan.requiredChildOutput)(position(_, child))
          generate <- generator(plan.generator, scope)
        } yield {
          kept.foreach(generate.addKept(_))
          generate.setChild(child.node).setSchema(schema).setOuter(plan.outer)
          Relation(
            translation.node(plan).setGenerate(generate).build(),
            plan.output,
            child.partitions)
        }
    })

  private def position(a: Attribute, child: Relation): Result[Int] =
    child.output.indexWhere(_.exprId == a.exprId) match {
      case -1 => refuse(s"the column ${a.name} is not in the generator's input")
      case i => Right(i)
    }

  private def generator(of: Generator, scope: Scope): Result[Generate.Builder] = {
    val builder = Generate.newBuilder
    def exploded(child: Expression, position: Boolean, fields: Boolean): Result[Generate.Builder] =
      scope.convert(child).map { input =>
        val explode = Generate.Explode.newBuilder.setInput(input)
        builder.setExplode(explode.setPosition(position).setFields(fields))
      }
    of match {
      case Explode(child) => exploded(child, position = false, fields = false)
      case PosExplode(child) => exploded(child, position = true, fields = false)
      case Inline(child) => exploded(child, position = false, fields = true)
      case tuple: JsonTuple =>
        for {
          struct <- Types.of(tuple.elementSchema)
          array <- Types.of(ArrayType(tuple.elementSchema, containsNull = false))
          args <- traverse(tuple.children)(scope.convert)
        } yield {
          val call = Call.newBuilder.setName("json_tuple").setType(struct)
            .setFloatText(FloatTexts.of(tuple))
          args.foreach(call.addArgs)
          val one = Call.newBuilder.setName("create_array").setType(array)
            .addArgs(Expr.newBuilder.setCall(call))
          val explode = Generate.Explode.newBuilder.setInput(Expr.newBuilder.setCall(one))
          builder.setExplode(explode.setFields(true))
        }
      case Stack(Literal(rows: Int, _) +: exprs) =>
        traverse(exprs)(scope.convert).map { converted =>
          val stack = Generate.Stack.newBuilder.setRows(rows)
          converted.foreach(stack.addExprs)
          builder.setStack(stack)
        }
      case ReplicateRows(count +: columns) =>
        for (c <- scope.convert(count); exprs <- traverse(columns)(scope.convert)) yield {
          val copies = Generate.Copies.newBuilder.setCount(c)
          exprs.foreach(copies.addExprs)
          builder.setCopies(copies)
        }
      case other => refuse(s"the generator ${other.prettyName} is not supported")
    }
  }
}
