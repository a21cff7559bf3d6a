package org.apache.spark.sql.coffer.split

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.control.ControlThrowable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.proto.plan.Decrypt
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}

/**
 * Splits an optimised query between engines and the client engine: from the leaves up, as long as engines can go on with what the policy
 * lets them have of each column; the rest at home.
 *
 * What engines do is rewritten to the stored columns: an equality of ciphertexts in the place of one of values, an encrypted literal for a
 * literal, [[AsheSum]] for SUM. A column keeps its id where engines may open it, so an operator whose columns are all open stays as it is.
 */
private[coffer] final class Sites(session: SparkSession) {
  private val hosts = CofferConf.hostEngines(session.sparkContext.conf)
  private val aggregates = new SiteAggregates(hosts)

  /** Tables that engines turned out to have too little of. */
  private val readAtHome = mutable.Set.empty[CofferTable]

  /** Set for the query that is rewritten. */
  private var small = false

  /** The whole query as the client engine ends it. */
  @tailrec
  def rewrite(query: LogicalPlan): LogicalPlan = {
    small = SiteCosts.small(query)
    val done =
      try Some(home(place(query), query.outputSet, query.output))
      catch { case NeededAtHome(table) if readAtHome.add(table) => None }
    done match {
      case Some(plan) => plan
      case None => rewrite(query)
    }
  }

  /** The query of a write, by enclaves whole: what they write they must have open. */
  def toWrite(query: LogicalPlan): LogicalPlan = place(query) match {
    case away: Away =>
      query.output.filterNot(a => away.held.get(a).exists(_.open)).flatMap(away.held.get) match {
        case Nil => session.sessionState.executePlan(Project(query.output, away.plan)).optimizedPlan
        case closed => throw Refused.unwritable(closed.map(h => s"column `${h.named}` (${h.protections})"))
      }
    case AtHome(plan) =>
      val brought = plan.collect { case h: Home => h.openings.filter(_.form.isDefined).map(_.text) }.flatten.distinct
      throw Refused.unwritable(brought.map(text => s"column $text"))
  }

  /** At home columns keep their places too: unions, and who reads the result, go by them. */
  private def place(plan: LogicalPlan): Placed = sited(plan) match {
    case AtHome(made) => AtHome(inOrder(made, plan.output))
    case away: Away =>
      Estimates.mark(away.plan, plan)
      away
  }

  private def inOrder(made: LogicalPlan, output: Seq[Attribute]): LogicalPlan =
    if (made.output.map(_.exprId) == output.map(_.exprId)) made else Project(output, made)

  private def sited(plan: LogicalPlan): Placed = plan match {
    case r @ DataSourceV2ScanRelation(relation, scan: CofferScan, _, _, _) => table(r, relation, scan.table)
    case l: LeafNode => leaf(l)
    case _: Aggregate | _: Join | _: Sort if small => above(plan, plan.children.map(place))
    case p: Project => place(p.child) match {
        case away: Away => project(p, p.projectList, away)
        case other => above(p, Seq(other))
      }
    case f: Filter => place(f.child) match {
        case away: Away => filter(f, away)
        case other => above(f, Seq(other))
      }
    case a: Aggregate => place(a.child) match {
        case away: Away =>
          aggregates.rewrite(a, away) match {
            case Some((below, results)) => project(a, results, below)
            case None => above(a, Seq(away))
          }
        case other => above(a, Seq(other))
      }
    case j: Join => (place(j.left), place(j.right)) match {
        case (left: Away, right: Away) => join(j, left, right)
        case (left, right) => above(j, Seq(left, right))
      }
    case s: Sort => place(s.child) match {
        case away: Away => sort(s, away)
        case other => above(s, Seq(other))
      }
    // Which rows are the last is known at home only: engines' partitions come there one after the other.
    case t: Tail => above(t, Seq(place(t.child)))
    case limit @ (_: GlobalLimit | _: LocalLimit | _: Offset) => place(limit.children.head) match {
        case away: Away => Away(limit.withNewChildren(Seq(away.plan)), away.held)
        case other => above(limit, Seq(other))
      }
    case u: Union => union(u, u.children.map(place))
    // How rows are laid out in partitions does not matter where there is one.
    case r: RepartitionOperation => place(r.child) match {
        case away: Away if r.expressions.forall(away.opens) =>
          Away(r.withNewChildren(Seq(away.plan)), away.held)
        case away: Away => away
        case atHome: AtHome => atHome
      }
    case other => open(other, other.children.map(place))
  }

  // ---- leaves

  private def table(found: DataSourceV2ScanRelation, relation: DataSourceV2Relation, table: CofferTable): Placed = {
    // What becomes of this is analysed once more: CHAR columns have been padded by then.
    val scan = found.copy(output = found.output.map(CharVarcharUtils.cleanAttrMetadata))
    if (hosts && !table.unverified && hidden(scan, table)) AtHome(HomeTable.of(table, scan.output))
    else if (table.stored.isEmpty)
      if (hosts) allOpen(DataSourceV2Relation(table.asStored, scan.output, None, None, relation.options))
      else allOpen(scan)
    else {
      val needed = scan.output.map(a => a -> HomeTable.stored(table, a))
      val files = if (needed.exists { case (_, stored) => stored.exists(_.needsPlace) }) places(table) else None
      val held = needed.map { case (a, stored) =>
        val (kept, forms) = stored.partition(opened)
        val open = kept.headOption.map(c => AttributeReference(c.name, a.dataType, a.nullable, a.metadata)(a.exprId, a.qualifier))
        Held(a, open.isDefined,
          forms.filter(_.isCipher).map { c =>
            Form(table, c, AttributeReference(c.name, c.dataType, a.nullable)(), files.filter(_ => c.needsPlace))
          }) -> open
      }
      val output = held.flatMap { case (h, open) => open.toSeq ++ h.forms.map(_.attribute) } ++
        files.toSeq.flatMap { case (f, r) => Seq(f, r) }
      val stored = DataSourceV2Relation(table.asStored, output.map(_.asInstanceOf[AttributeReference]), None, None, relation.options)
      Away(stored, AttributeMap(held.map { case (h, _) => h.attribute -> h }))
    }
  }

  /** Whether engines without keys have nothing of a column that the query needs of a table. */
  private def hidden(scan: DataSourceV2ScanRelation, table: CofferTable): Boolean =
    table.stored.isEmpty || readAtHome(table) || scan.output.exists(a => HomeTable.closed(HomeTable.stored(table, a)))

  /** Whether engines may open what is stored so. */
  private def opened(c: StoredColumn): Boolean = c.isInClear || (c.isForEnclaves && !hosts)

  private def places(table: CofferTable): Option[(Attribute, Attribute)] =
    StoredColumn.place(table.stored).map { case (file, row) => (file.attribute, row.attribute) }

  private def leaf(plan: LeafNode): Placed = plan match {
    // Rows that the query brings along: a host engine would see them.
    case _: LocalRelation | _: OneRowRelation | _: EmptyRelation if hosts => AtHome(plan)
    case other => allOpen(other)
  }

  private def allOpen(plan: LogicalPlan): Away = Away(plan, AttributeMap(plan.output.map(a => a -> Held(a, open = true, Nil))))

  // ---- operators

  private def project(node: LogicalPlan, list: Seq[NamedExpression], away: Away): Placed = {
    val items = list.map {
      case a: Attribute => away.held.get(a).map(h => h -> (if (h.open) Seq(a) else Nil))
      case alias @ Alias(a: Attribute, _) =>
        away.held.get(a).map(h => renamed(h, alias.toAttribute) -> (if (h.open) Seq(alias) else Nil))
      case e if away.opens(e) && allowed(e) => Some(Held(e.toAttribute, open = true, Nil) -> Seq(e))
      case _ => None
    }
    if (items.forall(_.isDefined)) {
      val held = items.flatten.map(_._1)
      val open = items.flatten.flatMap(_._2)
      val forms = held.flatMap(h => h.forms.flatMap(_.attributes) ++ h.sums.map(_.state))
      Away(Project(distinct(open ++ forms), away.plan), AttributeMap(held.map(h => h.attribute -> h)))
    } else AtHome(Project(list, home(away, AttributeSet(list.flatMap(_.references)))))
  }

  private def renamed(held: Held, as: Attribute): Held = held.copy(attribute = as)

  private def distinct(list: Seq[NamedExpression]): Seq[NamedExpression] =
    list.foldLeft(Vector.empty[NamedExpression])((seen, e) => if (seen.exists(_.exprId == e.exprId)) seen else seen :+ e)

  /** A host engine must not see the value of a subquery, which is opened data. */
  private def allowed(e: Expression): Boolean = !(hosts && e.exists(_.isInstanceOf[SubqueryExpression]))

  private def filter(f: Filter, away: Away): Placed = {
    val conditions = new CipherConditions(away, hosts)
    val split = PredicateSplit.conjuncts(f.condition).map(c => c -> conditions.of(c))
    val below = split.flatMap(_._2.map(_.condition)).reduceOption(And(_, _))
    val rest = split.collect { case (c, told) if !told.exists(_.exact) => c }.reduceOption(And(_, _))
    val kept = below.fold(away)(c => away.copy(plan = Filter(c, away.plan)))
    split.collect { case (c, Some(_)) => c }.reduceOption(And(_, _)).foreach(c => Estimates.mark(kept.plan, Filter(c, f.child)))
    rest match {
      case None => kept
      case Some(c) => AtHome(Filter(c, home(kept, f.outputSet ++ c.references)))
    }
  }

  private def join(j: Join, left: Away, right: Away): Placed = {
    val both = Away(j, left.held ++ right.held)
    val conditions = new CipherConditions(both, hosts)
    val split = j.condition.toSeq.flatMap(PredicateSplit.conjuncts).map(c => c -> conditions.of(c))
    val told = split.flatMap(_._2).map(_.condition).reduceOption(And(_, _))
    val rest = split.collect { case (c, t) if !t.exists(_.exact) => c }.reduceOption(And(_, _))
    val away = Away(Join(left.plan, right.plan, j.joinType, told, j.hint), joined(j, left, right))
    Estimates.mark(away.plan, j.copy(condition = split.collect { case (c, Some(_)) => c }.reduceOption(And(_, _))))
    (rest, j.joinType) match {
      case (None, _) => away
      // What engines cannot tell of an inner join's condition is a filter on what they let through, if they can tell equal keys at all.
      case (Some(c), _: InnerLike) if told.exists(equal) => AtHome(Filter(c, home(away, j.outputSet ++ c.references)))
      case _ => above(j, Seq(left, right))
    }
  }

  private def equal(condition: Expression): Boolean = PredicateSplit.conjuncts(condition).exists(_.isInstanceOf[EqualTo])

  private def joined(j: Join, left: Away, right: Away): AttributeMap[Held] = j.joinType match {
    case LeftExistence(_) =>
      val exists = j.output.filterNot(a => left.held.contains(a)).map(a => a -> Held(a, open = true, Nil))
      left.held ++ AttributeMap(exists)
    case _ => left.held ++ right.held
  }

  private def sort(s: Sort, away: Away): Placed = {
    val orders = s.order.map {
      case o if away.opens(o) && allowed(o) => Some(o)
      case o @ SortOrder(a: Attribute, _, _, _) =>
        away.held.get(a).flatMap(_.order).map(f => o.copy(child = f.attribute, sameOrderExpressions = Nil))
      case _ => None
    }
    if (orders.forall(_.isDefined)) away.copy(plan = s.copy(order = orders.flatten, child = away.plan))
    else above(s, Seq(away))
  }

  private def union(u: Union, children: Seq[Placed]): Placed = {
    val open = children.zip(u.children).map {
      case (away: Away, child) if child.output.forall(a => away.held.get(a).exists(_.open)) => Some(Project(child.output, away.plan))
      case _ => None
    }
    if (open.forall(_.isDefined)) allOpen(u.copy(children = open.flatten))
    else above(u, children)
  }

  /** An operator that needs its columns open, in engines if they are. */
  private def open(plan: LogicalPlan, children: Seq[Placed]): Placed = {
    val away = children.collect { case a: Away => a }
    val able = away.size == children.size && plan.deterministic && {
      val all = Away(plan, AttributeMap(away.flatMap(_.held.toSeq)))
      plan.expressions.forall(e => all.opens(e) && allowed(e)) && plan.children.zip(away).forall { case (c, a) =>
        c.output.forall(o => a.held.get(o).exists(_.open))
      }
    }
    if (able) allOpen(plan.withNewChildren(away.zip(plan.children).map { case (a, c) => Project(c.output, a.plan) }))
    else above(plan, children)
  }

  // ---- home

  private def above(node: LogicalPlan, children: Seq[Placed]): Placed = {
    // A union names the columns of none but its first child, by place.
    val needed = node match {
      case _: Union => AttributeSet(node.children.flatMap(_.output))
      case _ => node.references ++ node.outputSet
    }
    AtHome(node.withNewChildren(node.children.zip(children).map { case (child, placed) =>
      home(placed, AttributeSet(child.output.filter(needed.contains)), child.output)
    }))
  }

  private def home(away: Away, needed: AttributeSet): LogicalPlan =
    home(away, needed, away.held.values.map(_.attribute).toSeq)

  private def home(placed: Placed, needed: AttributeSet, order: Seq[Attribute]): LogicalPlan = placed match {
    case AtHome(plan) => plan
    case away: Away if local(away.plan) => Project(order.filter(needed.contains), away.plan)
    case away: Away =>
      val columns = order.filter(needed.contains).flatMap(away.held.get)
      val plain = columns.filter(_.sums.isEmpty).map(opening)
      val sums = columns.flatMap(h => h.sums.map(h -> _))
      val pieces = sums.flatMap { case (_, s) =>
        Seq(Opening(s.sum, s.state, Decrypt.Kind.SUM, Some(s.form)), Opening(s.count, s.state, Decrypt.Kind.COUNT, Some(s.form)))
      }
      val openings = plain ++ pieces.distinctBy(_.output.exprId)
      val from = openings.flatMap(o => o.from +: placeOf(o))
      val bring = Home(Project(distinct(from), away.plan), openings)
      if (sums.isEmpty) bring
      else {
        val results = sums.map { case (h, s) => h.attribute.exprId -> s.result }.toMap
        Project(
          columns.map { h =>
            results.get(h.attribute.exprId) match {
              case Some(e) => Alias(e, h.attribute.name)(h.attribute.exprId, h.attribute.qualifier)
              case None => h.attribute
            }
          },
          bring)
      }
  }

  /** Rows that the query brings along are at home already. */
  private def local(plan: LogicalPlan): Boolean = plan.collectLeaves().forall {
    case _: LocalRelation | _: OneRowRelation | _: EmptyRelation => true
    case _ => false
  }

  private def placeOf(o: Opening): Seq[Attribute] =
    if (o.kind == Decrypt.Kind.VALUE) o.form.toSeq.flatMap(_.place).flatMap { case (f, r) => Seq(f, r) } else Nil

  private def opening(held: Held): Opening =
    if (held.open) Opening(held.attribute, held.attribute, Decrypt.Kind.AS_IS, None)
    else held.openable match {
      case Some(form) => Opening(held.attribute, form.attribute, Decrypt.Kind.VALUE, Some(form))
      case None => held.forms.headOption match {
          case Some(form) if hosts && !readAtHome(form.table) => throw NeededAtHome(form.table)
          case _ => throw Refused.unopenable(held)
        }
    }
}

private[coffer] object Sites {

  /** Whether a query must be split: a table of it has stored columns, or there are no enclaves. */
  def needed(query: LogicalPlan): Boolean = query.exists {
    case DataSourceV2ScanRelation(_, scan: CofferScan, _, _, _) =>
      (scan.table.stored.nonEmpty && !scan.table.viewed) || (CofferConf.hostEngines(
        SparkSession.active.sparkContext.conf) && !scan.table.viewed)
    case _ => false
  }
}

/** Engines would carry a column home from which it does not open: the placing begins anew, with the table read at home. */
private final case class NeededAtHome(table: CofferTable) extends ControlThrowable

private object PredicateSplit extends PredicateHelper {
  def conjuncts(condition: Expression): Seq[Expression] = splitConjunctivePredicates(condition)
}

/** What neither engines nor the client engine can do: the column, what it has, and what would help. */
private[coffer] object Refused {
  def unwritable(columns: Seq[String]) = new CofferException(
    "COFFER_UNSUPPORTED",
    "rows that come from columns which enclaves cannot open cannot be written to a sealed table: they would be opened at home, and only enclaves " +
      s"write; ${if (columns.isEmpty) "a condition is decided at home" else columns.mkString(", ")}",
    "write columns that the policy lets enclaves open (tee or plain among their protections), or bring the rows home (coffer.to_arrow), write them " +
      "as Parquet there and seal them with coffer encrypt")

  def writeByHosts() = new CofferException(
    "COFFER_UNSUPPORTED",
    "spark.coffer.enclave is none: engines hold no keys, so they cannot write a sealed table",
    "run with enclaves (spark.coffer.enclave=required), or seal plain Parquet files at home with coffer encrypt")

  def unopenable(held: Held) = CofferException.refusal(Seq(
      s"column `${held.attribute.name}` is needed in clear, and what is stored of it (${held.protections}) cannot be opened: " +
        "give it tee, std, det or ashe beside that in the policy, and encrypt the table anew"))
}
