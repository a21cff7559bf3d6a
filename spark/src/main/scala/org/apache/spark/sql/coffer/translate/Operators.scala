package org.apache.spark.sql.coffer.translate

import scala.reflect.ClassTag

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, NamedExpression, SortOrder}
import org.apache.spark.sql.catalyst.expressions.{Ascending, Descending, NullsFirst, NullsLast}
import org.apache.spark.sql.coffer.proto.plan.{Input, NamedExpr, Scan, SortKey}
import org.apache.spark.sql.execution._

/** The translation of one class of operators over children that are translated already. */
private[translate] trait OperatorSerde[P <: SparkPlan] {
  def convert(plan: P, children: Seq[Relation], translation: Translation): Result[Relation]
}

/** A class, what becomes of it (for the reference), and its serde. */
private[translate] final class OperatorEntry(
    val operator: Class[_],
    val becomes: String,
    val serde: OperatorSerde[SparkPlan])

private[translate] trait OperatorFamily {
  def entries: Seq[OperatorEntry]

  protected def operator[P <: SparkPlan](becomes: String)(serde: OperatorSerde[P])(implicit
      tag: ClassTag[P]): OperatorEntry =
    new OperatorEntry(
      tag.runtimeClass,
      becomes,
      (plan, children, translation) =>
        serde.convert(plan.asInstanceOf[P], children, translation))

  protected def refused[P <: SparkPlan: ClassTag](reason: String): OperatorEntry =
    operator[P](s"refused: $reason")((_, _, _) => refuse(reason))
}

/** Every operator that has a translation, or a reason of its own for having none. */
object Operators {
  private val families: Seq[OperatorFamily] = Seq(
    RowOperators,
    AggregateOperators,
    OrderOperators,
    JoinOperators,
    WindowOperators,
    GenerateOperators,
    RefusedOperators,
    // Where Spark has a node of its own for one row it is none of those refused.
    SetOperators)

  private val byClass: Map[Class[_], OperatorSerde[SparkPlan]] =
    families.flatMap(_.entries).map(e => e.operator -> e.serde).toMap

  private[translate] def reference: Seq[(String, String)] =
    families.flatMap(_.entries).map(e => e.operator.getSimpleName -> e.becomes)

  /** The whole subtree down to the leaves. */
  private[translate] def convert(plan: SparkPlan, translation: Translation): Result[Relation] =
    translation.context.leaves.leaf(plan) match {
      case Some(leaf) => convertLeaf(leaf, translation).left.map(_.in(plan))
      case None =>
        transparent(plan) match {
          case Some(child) => convert(child, translation)
          case None =>
            traverse(plan.children)(convert(_, translation))
              .flatMap(convertNode(plan, _, translation))
        }
    }

  /** One operator over children that stand ready. */
  private[translate] def convertNode(
      plan: SparkPlan,
      children: Seq[Relation],
      translation: Translation): Result[Relation] = {
    val converted = byClass.get(plan.getClass) match {
      case Some(serde) => serde.convert(plan, children, translation)
      case None => refuse("this operator is not supported")
    }
    converted.left.map(_.in(plan))
  }

  /** Wrappers that change nothing about the rows. */
  private[coffer] def transparent(plan: SparkPlan): Option[SparkPlan] = plan match {
    case w: WholeStageCodegenExec => Some(w.child)
    case i: InputAdapter => Some(i.child)
    case c: ColumnarToRowExec => Some(c.child)
    case r: RowToColumnarExec => Some(r.child)
    case _ => None
  }

  private[translate] def convertLeaf(leaf: Leaf, translation: Translation): Result[Relation] =
    leaf match {
      case s: ScanLeaf =>
        val scope = new Scope(s.output, translation)
        for {
          fields <- traverse(s.columns.zip(s.output)) { case (name, a) =>
            Types.field(name, a.dataType, a.nullable)
          }
          pushed <- traverse(s.pushed)(scope.convert)
          _ <- if (pushed.forall(Fallibility.infallible)) Right(())
          else refuse("a pushed filter " +
            "could fail")
        } yield {
          val scan =
            Scan.newBuilder.setScanId(translation.bindScan(s)).setSchema(Types.schemaOf(fields))
          pushed.foreach(scan.addPushed)
          Relation(translation.node(s.plan).setScan(scan).build(), s.output, s.partitions)
        }
      case i: InputLeaf =>
        val output = Buffers.read(i.plan, i.output)
        Types.schema(output).map { schema =>
          val input = Input.newBuilder.setInputId(translation.bindInput(i)).setSchema(
            schema).setBroadcast(i.broadcast)
          Relation(translation.node(i.plan).setInput(input).build(), output, i.partitions)
        }
      case h: ClientRowsLeaf => ClientOperators.convert(h, translation)
      case t: ClientTableLeaf =>
        convertLeaf(t.scan, translation).flatMap(ClientOperators.opened(t, _, translation))
    }

  private[translate] def named(
      exprs: Seq[NamedExpression],
      scope: Scope): Result[Vector[NamedExpr]] =
    traverse(exprs) { e =>
      val value = e match {
        case Alias(child, _) => child
        case other => other
      }
      scope.convert(value).map(v => NamedExpr.newBuilder.setName(e.name).setExpr(v).build())
    }

  private[translate] def sortKeys(order: Seq[SortOrder], scope: Scope): Result[Vector[SortKey]] =
    traverse(order) { o =>
      scope.convert(o.child).map { e =>
        SortKey.newBuilder
          .setExpr(e)
          .setDescending(o.direction match {
            case Ascending => false
            case Descending => true
          })
          .setNullsFirst(o.nullOrdering match {
            case NullsFirst => true
            case NullsLast => false
          })
          .build()
      }
    }

  /** Whether these expressions are the input itself, column by column. */
  private[translate] def isIdentity(exprs: Seq[NamedExpression], input: Seq[Attribute]): Boolean =
    exprs.length == input.length && exprs.zip(input).forall {
      case (a: Attribute, b) => a.exprId == b.exprId && a.name == b.name
      case _ => false
    }
}
