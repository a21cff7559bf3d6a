package org.apache.spark.sql.coffer.translate

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.coffer.proto.plan.{Expr, NamedExpr, Placed}
import org.apache.spark.sql.execution.SparkPlan

/**
 * What follows from a row's place in its partition (random numbers, ids) is computed by an operator
 * of its own, below the one whose expressions name it.
 *
 * Spark draws a number when it evaluates an expression, which it does not for each row everywhere:
 * what a branch, a NULL beside it or a condition before it may keep from being drawn is refused.
 */
private[translate] object Places {

  /** Expressions by name, over a child to which what they draw has been added. */
  def named(
      exprs: Seq[NamedExpression],
      plan: SparkPlan,
      child: Relation,
      translation: Translation): Result[(Relation, Vector[NamedExpr])] =
    drawn(exprs, plan, child, translation).flatMap { case (below, rewritten) =>
      Operators.named(
        rewritten.map(_.asInstanceOf[NamedExpression]),
        new Scope(below.output, translation)).map((below, _))
    }

  /** The same, of any expressions. */
  def drawn(
      exprs: Seq[Expression],
      plan: SparkPlan,
      child: Relation,
      translation: Translation): Result[(Relation, Seq[Expression])] =
    if (exprs.forall(_.deterministic)) Right((child, exprs))
    else {
      val found = mutable.ArrayBuffer.empty[(Attribute, Placed.Column)]
      val scope = new Scope(child.output, translation)
      traverse(exprs)(replaced(_, scope, found)).map { rewritten =>
        if (found.isEmpty) (child, rewritten)
        else {
          val placed = Placed.newBuilder.setChild(child.node)
          found.foreach(f => placed.addColumns(f._2))
          val node = translation.node(plan).setPlaced(placed).build()
          (Relation(node, child.output ++ found.map(_._1), child.partitions), rewritten)
        }
      }
    }

  private type Found = mutable.ArrayBuffer[(Attribute, Placed.Column)]

  private def replaced(e: Expression, scope: Scope, found: Found): Result[Expression] = {
    def inside(children: Seq[Expression]): Result[Expression] =
      traverse(children)(replaced(_, scope, found)).map(c => e.withNewChildren(c.toIndexedSeq))
    val made: Result[Expression] = e match {
      case _ if e.deterministic => Right(e)
      case _: Rand | _: Randn | _: RandStr | _: Uuid | _: Shuffle | _: MonotonicallyIncreasingID |
          _: SparkPartitionID => column(e, scope).map { made =>
          val name = s"place ${found.length}"
          val attribute = AttributeReference(name, e.dataType, e.nullable)()
          found += attribute -> made.setName(name).build()
          attribute
        }
      // Their children are evaluated for each row.
      case _: Alias | _: Cast | _: UnaryMinus | _: Abs | _: Floor | _: Ceil | _: Not | _: IsNull |
          _: IsNotNull | _: CreateNamedStruct | _: CreateArray | _: RoundBase | _: GetStructField |
          _: Length | _: Upper | _: Lower | _: Size => inside(e.children)
      // The right one is not, where the left one is NULL.
      case _: Add | _: Subtract | _: Multiply | _: BinaryComparison
          if e.children.last.deterministic || !e.children.head.nullable => inside(e.children)
      case r: RuntimeReplaceable => replaced(r.replacement, scope, found)
      case _ => e.children.find(!_.deterministic) match {
          case Some(child) =>
            refuse(s"what ${named(child)} gives may not be needed here for each row")
          case None => refuse(Refusals.reason(e, None))
        }
    }
    made.left.map(_.at(e))
  }

  private def named(e: Expression): String =
    e.collectFirst { case n if !n.deterministic && n.children.forall(_.deterministic) => n }
      .getOrElse(e).prettyName

  private val longest = 1 << 16

  private def column(e: Expression, scope: Scope): Result[Placed.Column.Builder] = {
    val column = Placed.Column.newBuilder
    def of(kind: Placed.Kind, seed: Long = 0L) = Right(column.setKind(kind).setSeed(seed))
    e match {
      case r: ExpressionWithRandomSeed if !r.seedExpression.foldable =>
        refuse("a seed that is no constant")
      case r: Rand => of(Placed.Kind.UNIFORM, seed(r.child))
      case r: Randn => of(Placed.Kind.NORMAL, seed(r.child))
      case r: RandStr =>
        r.length.eval() match {
          case length: Int if length >= 0 && length <= longest =>
            column.setLength(length)
            of(Placed.Kind.TEXT, seed(r.seedExpression))
          case _ => refuse("a random text of this length is not supported")
        }
      case Uuid(Some(seed)) => of(Placed.Kind.UUID, seed)
      case Shuffle(array, Some(seed)) if array.deterministic =>
        // A NULL array draws nothing, here as there.
        scope.convert(array).flatMap { input: Expr =>
          column.setInput(input)
          of(Placed.Kind.SHUFFLED, seed)
        }
      case _: MonotonicallyIncreasingID => of(Placed.Kind.ID)
      case _: SparkPartitionID => of(Placed.Kind.PARTITION)
      case _ => refuse(Refusals.reason(e, None))
    }
  }

  private def seed(e: Expression): Long = e.eval() match {
    case seed: Long => seed
    case seed: Int => seed.toLong
    case _ => 0L
  }
}
