package org.apache.spark.sql.coffer.split

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.coffer.proto.plan.Decrypt
import org.apache.spark.sql.types._

/**
 * What is known of a column's values, if anything: numbers in the type's units (days,
 * microseconds), `width` in bytes.
 */
final case class ColumnFigures(
    distinct: Option[Double],
    low: Option[Double],
    high: Option[Double],
    width: Option[Double])

/**
 * How many rows a part of a query gives: a guess from the rows of its tables (their manifests say
 * them) and, where the advisor has looked at the data, from the columns' figures. Spark's own
 * estimates need column statistics to say anything of a filter, and of ciphertexts there are none.
 */
private[coffer] final class Estimates(root: LogicalPlan) {
  private val origins = BaseColumn.of(root)

  def rows: Double = rows(root)

  private def rows(plan: LogicalPlan): Double = plan.getTagValue(Estimates.SOURCE) match {
    case Some(source) => new Estimates(source).rows
    case None =>
      plan match {
        case BaseColumn.Table(table, _) => table.info.getRows.toDouble
        case clientRows: ClientRows => rows(clientRows.inEngines)
        case table: ClientTable => table.table.info.getRows.toDouble
        case r: LocalRelation => r.data.size.toDouble
        case _: OneRowRelation => 1
        case Filter(condition, child) => rows(child) * selected(condition)
        case j: Join => joined(j)
        case a: Aggregate => grouped(a)
        case GlobalLimit(n, child) => limited(n, child)
        case LocalLimit(n, child) => limited(n, child)
        case Tail(n, child) => limited(n, child)
        case u: Union => u.children.map(rows).sum
        case e: Expand => e.projections.size * rows(e.child)
        case l: SealedLeaf => l.stats.rowCount.fold(1.0)(_.toDouble)
        case other => other.children.map(rows).maxOption.getOrElse(1)
      }
  }

  private def limited(n: Expression, child: LogicalPlan): Double = n match {
    case Literal(most: Int, IntegerType) => math.min(most.toDouble, rows(child))
    case _ => rows(child)
  }

  private def grouped(a: Aggregate): Double =
    if (a.groupingExpressions.isEmpty) 1
    else {
      val in = rows(a.child)
      val values =
        a.groupingExpressions.map(distinct(_).getOrElse(math.max(1, in * Estimates.GROUPS)))
      math.min(in, values.product)
    }

  /**
   * Equal keys: as many pairs as if each row of the larger side met its one row of the smaller
   * table, unless more is known.
   */
  private def joined(j: Join): Double = {
    val (left, right) = (rows(j.left), rows(j.right))
    val conjuncts = j.condition.toSeq.flatMap(PredicateSplit.conjuncts)
    val keys = conjuncts.collect { case EqualTo(l: Attribute, r: Attribute) => (l, r) }
    val rest =
      conjuncts.filterNot { case EqualTo(_: Attribute, _: Attribute) => true; case _ => false }
    val inner =
      left * right / math.max(1, values(keys, math.min(left, right))) * rest.map(selected).product
    j.joinType match {
      case LeftSemi => math.min(left, inner)
      case LeftAnti => left * Estimates.OTHER
      case _: ExistenceJoin | LeftSingle => left
      case LeftOuter => math.max(left, inner)
      case RightOuter => math.max(right, inner)
      case FullOuter => math.max(left + right, inner)
      case _ => inner
    }
  }

  private def values(keys: Seq[(Attribute, Attribute)], smaller: Double): Double =
    if (keys.isEmpty) 1
    else {
      val tables = keys.flatMap { case (l, r) =>
        Seq(l, r).flatMap(a => origins.get(a.exprId)).map(_.table.info.getRows.toDouble)
      }
      val most = tables.minOption.getOrElse(smaller)
      val known = keys.map { case (l, r) => (distinct(l) ++ distinct(r)).maxOption }
      if (known.forall(_.isDefined)) math.min(most, known.flatten.product) else most
    }

  private def selected(condition: Expression): Double = condition match {
    case And(l, r) => selected(l) * selected(r)
    case Or(l, r) => 1 - (1 - selected(l)) * (1 - selected(r))
    case Not(e) => 1 - selected(e)
    case IsNotNull(_) => 1
    case IsNull(_) => Estimates.EQUAL
    case In(a, list) => math.min(1, list.size * equal(a))
    case InSet(a, list) => math.min(1, list.size * equal(a))
    case EqualTo(a: Attribute, _) => equal(a)
    case EqualTo(_, a: Attribute) => equal(a)
    case Comparison(kind, a: Attribute, l: Literal) if kind != Comparison.Equal =>
      ranged(a, l, kind.holdsAbove)
    case Comparison(kind, l: Literal, a: Attribute) if kind != Comparison.Equal =>
      ranged(a, l, kind.holdsBelow)
    case Comparison(_, _, _) => Estimates.RANGE
    case Literal(true, BooleanType) => 1
    case _ => Estimates.OTHER
  }

  private def equal(e: Expression): Double =
    distinct(e).fold(Estimates.EQUAL)(d => 1 / math.max(1, d))

  /** Values between the column's bounds, evenly; `above` the literal or below it. */
  private def ranged(a: Attribute, literal: Literal, above: Boolean): Double =
    (for {
      figures <- origins.get(a.exprId).flatMap(_.figures)
      low <- figures.low
      high <- figures.high
      at <- Estimates.number(literal)
      if high > low
    } yield {
      val share = math.max(0, math.min(1, (at - low) / (high - low)))
      math.max(if (above) 1 - share else share, Estimates.LEAST)
    }).getOrElse(Estimates.RANGE)

  private def distinct(e: Expression): Option[Double] = e match {
    case a: Attribute => origins.get(a.exprId).flatMap(_.figures).flatMap(_.distinct)
    case _ => None
  }
}

private[coffer] object Estimates {

  /**
   * On what engines do: the part of the query that it stands for, whose columns and literals are
   * not ciphertexts.
   */
  val SOURCE: TreeNodeTag[LogicalPlan] = TreeNodeTag[LogicalPlan]("coffer_site_source")

  def mark(inEngines: LogicalPlan, source: LogicalPlan): Unit =
    if (inEngines ne source) inEngines.setTagValue(SOURCE, source)

  // Shares of rows where nothing is known, as textbooks have them (Selinger et al., SIGMOD 1979).
  private val EQUAL = 0.1
  private val RANGE = 1.0 / 3
  private val OTHER = 0.25
  private val GROUPS = 0.1
  private val LEAST = 0.0001

  def rows(plan: LogicalPlan): Double = new Estimates(plan).rows

  /** Bytes of a value, texts at Spark's guess of 20. */
  def width(t: DataType): Double = t match {
    case d: DecimalType => if (d.precision <= 18) 8 else 16
    case other => other.defaultSize.toDouble
  }

  /**
   * What a part of a query brings to the client, as it comes: ciphertexts where columns are, and
   * with a sum which rows it took.
   */
  def bytes(clientRows: ClientRows): Double = {
    val states = clientRows.openings.filter(_.kind == Decrypt.Kind.SUM).distinctBy(_.from.exprId)
    rows(clientRows.inEngines) * clientRows.openings.map(o => stored(o)).sum + states.map(
      taken(clientRows.inEngines, _)).sum
  }

  /**
   * The sets of rows that the sums of all groups took
   * (engine/crates/core/schemes/src/ashe/rows.rs): about two bytes for each scattered row, and five
   * for each stretch of 65,536 rows of which a group has any; or a bit for each row of the table,
   * for each group.
   */
  private def taken(inEngines: LogicalPlan, sum: Opening): Double = {
    val table = sum.encoding.fold(0.0)(_.table.info.getRows.toDouble)
    val summed = inEngines.collectFirst {
      case a: Aggregate if a.output.exists(_.exprId == sum.from.exprId) => rows(a.child)
    }
    val (taken, groups) = (summed.getOrElse(table), rows(inEngines))
    math.min(2 * taken + 5 * math.min(taken, groups * math.ceil(table / 65536)), groups * table / 8)
  }

  private def stored(o: Opening): Double = o.encoding match {
    // It is counted in the rows that its sum took.
    case _ if o.kind == Decrypt.Kind.COUNT => 0
    case Some(f) =>
      SiteCosts.width(f.table.cost(f.stored), value(f), f.attribute.dataType.defaultSize == 8)
    case None => width(o.output.dataType)
  }

  /** Bytes of a form's values, by what is known of the column. */
  def value(f: StoredEncoding): Double =
    f.table.figures(f.stored.column).flatMap(_.width).getOrElse(width(f.value))

  /** In words: "about 1,200 rows, 34 KiB". */
  def text(clientRows: ClientRows): String = formatted("about %,.0f rows, " +
      "%s", rows(clientRows.inEngines), size(bytes(clientRows)))

  /** The same of rows that come to the driver. */
  def text(inEngines: LogicalPlan): String = {
    val n = rows(inEngines)
    formatted("about %,.0f rows, %s", n, size(n * inEngines.output.map(a => width(a.dataType)).sum))
  }

  private def size(bytes: Double): String =
    if (bytes < 1024) formatted("%.0f bytes", bytes)
    else if (bytes < (1 << 20)) formatted("%.0f KiB", bytes / 1024)
    else if (bytes < (1L << 30)) formatted("%.1f MiB", bytes / (1 << 20))
    else formatted("%.1f GiB", bytes / (1L << 30))

  private def formatted(format: String, values: Any*): String =
    format.formatLocal(Locale.ROOT, values: _*)

  private def number(literal: Literal): Option[Double] = literal.value match {
    case null => None
    case n: Number => Some(n.doubleValue)
    case d: Decimal => Some(d.toDouble)
    case _ => None
  }
}
