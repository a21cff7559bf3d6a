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
import org.apache.spark.sql.coffer.versions.ScanOf
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation
}

/**
 * Splits an optimised query between engines and the client engine: from the leaves up, as long as
 * engines can go on with what the policy lets them have of each column; the rest at the client.
 *
 * What engines do is rewritten to the stored columns: an equality of ciphertexts in the place of
 * one of values, an encrypted literal for a literal, [[AsheSum]] for SUM. A column keeps its id
 * where engines may open it, so an operator whose columns are all open stays as it is.
 */
private[coffer] final class Sites(session: SparkSession) {
  private val hosts = CofferConf.hostEngines(session.sparkContext.conf)
  private val aggregates = new SiteAggregates(hosts)

  /** Tables that engines turned out to have too little of. */
  private val readAtClient = mutable.Set.empty[CofferTable]

  /** Set for the query that is rewritten. */
  private var small = false

  /** The whole query as the client engine ends it. */
  @tailrec
  def rewrite(query: LogicalPlan): LogicalPlan = {
    small = SiteCosts.small(query)
    val done =
      try Some(toClient(assign(query), query.outputSet, query.output))
      catch { case NeededAtClient(table) if readAtClient.add(table) => None }
    done match {
      case Some(plan) => plan
      case None => rewrite(query)
    }
  }

  /** The query of a write, by enclaves whole: what they write they must have open. */
  def toWrite(query: LogicalPlan): LogicalPlan = byEnclaves(query, Refused.unwritable)

  /** The same of a query whose rows are cached. */
  def toCache(query: LogicalPlan): LogicalPlan = byEnclaves(query, Refused.uncacheable)

  private def byEnclaves(
      query: LogicalPlan,
      refused: Seq[String] => CofferException): LogicalPlan = assign(query) match {
    case inEngines: InEngines =>
      query.output.filterNot(a => inEngines.access.get(a).exists(_.open)).flatMap(
        inEngines.access.get) match {
        case Nil =>
          session.sessionState.executePlan(Project(query.output, inEngines.plan)).optimizedPlan
        case closed => throw refused(closed.map(h =>
              s"column `${h.named}` " +
                s"(${h.protections})"))
      }
    case AtClient(plan) =>
      val brought = plan.collect { case h: ClientRows =>
        h.openings.filter(_.encoding.isDefined).map(_.text)
      }.flatten.distinct
      throw refused(brought.map(text => s"column $text"))
  }

  /** At the client columns keep their places too: unions, and who reads the result, go by them. */
  private def assign(plan: LogicalPlan): SitedPlan = sited(plan) match {
    case AtClient(made) => AtClient(inOrder(made, plan.output))
    case inEngines: InEngines =>
      Estimates.mark(inEngines.plan, plan)
      inEngines
  }

  private def inOrder(made: LogicalPlan, output: Seq[Attribute]): LogicalPlan =
    if (made.output.map(_.exprId) == output.map(_.exprId)) made else Project(output, made)

  private def sited(plan: LogicalPlan): SitedPlan = plan match {
    case r @ ScanOf(relation, scan: CofferScan, _) =>
      table(r, relation, scan.table)
    case l: LeafNode => leaf(l)
    case _: Aggregate | _: Join | _: Sort | _: Window if small =>
      above(plan, plan.children.map(assign))
    case p: Project => assign(p.child) match {
        case inEngines: InEngines => project(p, p.projectList, inEngines)
        case other => above(p, Seq(other))
      }
    case f: Filter => assign(f.child) match {
        case inEngines: InEngines => filter(f, inEngines)
        case other => above(f, Seq(other))
      }
    case a: Aggregate => assign(a.child) match {
        case inEngines: InEngines =>
          aggregates.rewrite(a, inEngines) match {
            case Some((below, results)) => project(a, results, below)
            case None => above(a, Seq(inEngines))
          }
        case other => above(a, Seq(other))
      }
    case j: Join => (assign(j.left), assign(j.right)) match {
        case (left: InEngines, right: InEngines) => join(j, left, right)
        case (left, right) => above(j, Seq(left, right))
      }
    case s: Sort => assign(s.child) match {
        case inEngines: InEngines => sort(s, inEngines)
        case other => above(s, Seq(other))
      }
    // Which rows are the last is known at the client only: engines' partitions come there one after
    // the other.
    case t: Tail => above(t, Seq(assign(t.child)))
    case limit @ (_: GlobalLimit | _: LocalLimit | _: Offset) => assign(limit.children.head) match {
        case inEngines: InEngines =>
          InEngines(limit.withNewChildren(Seq(inEngines.plan)), inEngines.access)
        case other => above(limit, Seq(other))
      }
    case u: Union => union(u, u.children.map(assign))
    // How rows are laid out in partitions does not matter where there is one.
    case r: RepartitionOperation => assign(r.child) match {
        case inEngines: InEngines if r.expressions.forall(inEngines.opens) =>
          InEngines(r.withNewChildren(Seq(inEngines.plan)), inEngines.access)
        case inEngines: InEngines => inEngines
        case atClient: AtClient => atClient
      }
    case other => open(other, other.children.map(assign))
  }

  // ---- leaves

  private def table(
      found: DataSourceV2ScanRelation,
      relation: DataSourceV2Relation,
      table: CofferTable): SitedPlan = {
    // What becomes of this is analysed once more: CHAR columns have been padded by then.
    val scan = found.copy(output = found.output.map(CharVarcharUtils.cleanAttrMetadata))
    if (hosts && !table.unverified &&
      hidden(scan, table)) AtClient(ClientTable.of(table, scan.output))
    else if (table.stored.isEmpty)
      if (hosts)
        allOpen(DataSourceV2Relation(table.asStored, scan.output, None, None, relation.options))
      else allOpen(scan)
    else {
      val needed = scan.output.map(a => a -> ClientTable.stored(table, a))
      val files = if (needed.exists { case (_, stored) => stored.exists(_.needsPosition) })
        positions(table)
      else None
      val access = needed.map { case (a, stored) =>
        val (kept, encodings) = stored.partition(opened)
        val open = kept.headOption.map(c =>
          AttributeReference(c.name, a.dataType, a.nullable, a.metadata)(a.exprId, a.qualifier))
        ColumnAccess(a, open.isDefined,
          encodings.filter(_.isCipher).map { c =>
            StoredEncoding(table, c, AttributeReference(c.name, c.dataType, a.nullable)(),
              files.filter(_ => c.needsPosition))
          }) -> open
      }
      val output = access.flatMap { case (h, open) =>
        open.toSeq ++
          h.encodings.map(_.attribute)
      } ++
        files.toSeq.flatMap { case (f, r) => Seq(f, r) }
      val stored = DataSourceV2Relation(table.asStored,
        output.map(_.asInstanceOf[AttributeReference]), None, None, relation.options)
      InEngines(stored, AttributeMap(access.map { case (h, _) => h.attribute -> h }))
    }
  }

  /** Whether engines without keys have nothing of a column that the query needs of a table. */
  private def hidden(scan: DataSourceV2ScanRelation, table: CofferTable): Boolean =
    table.stored.isEmpty || readAtClient(table) ||
      scan.output.exists(a => ClientTable.closed(ClientTable.stored(table, a)))

  /** Whether engines may open what is stored so. */
  private def opened(c: StoredColumn): Boolean = c.isInClear || (c.isForEnclaves && !hosts)

  private def positions(table: CofferTable): Option[(Attribute, Attribute)] =
    StoredColumn.position(table.stored).map { case (file, row) => (file.attribute, row.attribute) }

  private def leaf(plan: LeafNode): SitedPlan = plan match {
    // Rows that the query brings along: a host engine would see them.
    case _: LocalRelation | _: OneRowRelation | _: EmptyRelation if hosts => AtClient(plan)
    // So do the bounds of a range; the client runs it as one partition.
    case r: Range if hosts => AtClient(r.copy(numSlices = Some(1)))
    case other => allOpen(other)
  }

  private def allOpen(plan: LogicalPlan): InEngines =
    InEngines(plan, AttributeMap(plan.output.map(a => a -> ColumnAccess(a, open = true, Nil))))

  // ---- operators

  private def project(
      node: LogicalPlan,
      list: Seq[NamedExpression],
      inEngines: InEngines): SitedPlan = {
    val items = list.map {
      case a: Attribute => inEngines.access.get(a).map(h => h -> (if (h.open) Seq(a) else Nil))
      case alias @ Alias(a: Attribute, _) =>
        inEngines.access.get(a).map(h =>
          renamed(h, alias.toAttribute) ->
            (if (h.open) Seq(alias) else Nil))
      case e
          if inEngines.opens(e) &&
            allowed(e) => Some(ColumnAccess(e.toAttribute, open = true, Nil) -> Seq(e))
      case _ => None
    }
    if (items.forall(_.isDefined)) {
      val access = items.flatten.map(_._1)
      val open = items.flatten.flatMap(_._2)
      val encodings = access.flatMap(h => h.encodings.flatMap(_.attributes) ++ h.sums.map(_.state))
      InEngines(Project(distinct(open ++
            encodings), inEngines.plan), AttributeMap(access.map(h => h.attribute -> h)))
    } else AtClient(Project(list, toClient(inEngines, AttributeSet(list.flatMap(_.references)))))
  }

  private def renamed(access: ColumnAccess, as: Attribute): ColumnAccess =
    access.copy(attribute = as)

  private def distinct(list: Seq[NamedExpression]): Seq[NamedExpression] =
    list.foldLeft(Vector.empty[NamedExpression])((seen, e) =>
      if (seen.exists(_.exprId == e.exprId)) seen else seen :+ e)

  /** A host engine must not see the value of a subquery, which is opened data. */
  private def allowed(e: Expression): Boolean = !(hosts &&
    e.exists(_.isInstanceOf[SubqueryExpression]))

  private def filter(f: Filter, inEngines: InEngines): SitedPlan = {
    val conditions = new CipherConditions(inEngines, hosts)
    val split = PredicateSplit.conjuncts(f.condition).map(c => c -> conditions.of(c))
    val below = split.flatMap(_._2.map(_.condition)).reduceOption(And(_, _))
    val rest =
      split.collect { case (c, shown) if !shown.exists(_.exact) => c }.reduceOption(And(_, _))
    val kept = below.fold(inEngines)(c => inEngines.copy(plan = Filter(c, inEngines.plan)))
    split.collect { case (c, Some(_)) => c }.reduceOption(And(_, _)).foreach(c =>
      Estimates.mark(kept.plan, Filter(c, f.child)))
    rest match {
      case None => kept
      case Some(c) => AtClient(Filter(c, toClient(kept, f.outputSet ++ c.references)))
    }
  }

  private def join(j: Join, left: InEngines, right: InEngines): SitedPlan = {
    val both = InEngines(j, left.access ++ right.access)
    val conditions = new CipherConditions(both, hosts)
    val split = j.condition.toSeq.flatMap(PredicateSplit.conjuncts).map(c => c -> conditions.of(c))
    val shown = split.flatMap(_._2).map(_.condition).reduceOption(And(_, _))
    val rest = split.collect { case (c, t) if !t.exists(_.exact) => c }.reduceOption(And(_, _))
    val inEngines =
      InEngines(Join(left.plan, right.plan, j.joinType, shown, j.hint), joined(j, left, right))
    Estimates.mark(inEngines.plan,
      j.copy(condition = split.collect { case (c, Some(_)) => c }.reduceOption(And(_, _))))
    (rest, j.joinType) match {
      case (None, _) => inEngines
      // What engines cannot tell of an inner join's condition is a filter on what they let through,
      // if they can tell equal keys. By some of its keys a join has many rows more: those that both
      // sides have at the client are better, where they may come there.
      case (Some(c), _: InnerLike)
          if shown.exists(equal) && !(joins(c, j) && j.children.forall(SiteCosts.mayCome)) =>
        AtClient(Filter(c, toClient(inEngines, j.outputSet ++ c.references)))
      case _ => above(j, Seq(left, right))
    }
  }

  /** Whether a condition has keys of a join. */
  private def joins(condition: Expression, j: Join): Boolean = {
    def of(side: LogicalPlan, e: Expression) =
      e.references.nonEmpty && e.references.subsetOf(side.outputSet)
    def across(a: Expression, b: Expression) =
      of(j.left, a) && of(j.right, b) || of(j.left, b) && of(j.right, a)
    PredicateSplit.conjuncts(condition).exists {
      case EqualTo(a, b) => across(a, b)
      case EqualNullSafe(a, b) => across(a, b)
      case _ => false
    }
  }

  private def equal(condition: Expression): Boolean =
    PredicateSplit.conjuncts(condition).exists(_.isInstanceOf[EqualTo])

  private def joined(j: Join, left: InEngines, right: InEngines): AttributeMap[ColumnAccess] =
    j.joinType match {
      case LeftExistence(_) =>
        val exists = j.output.filterNot(a => left.access.contains(a)).map(a =>
          a ->
            ColumnAccess(a, open = true, Nil))
        left.access ++ AttributeMap(exists)
      case _ => left.access ++ right.access
    }

  private def sort(s: Sort, inEngines: InEngines): SitedPlan = {
    val orders = s.order.map {
      case o if inEngines.opens(o) && allowed(o) => Some(o)
      case o @ SortOrder(a: Attribute, _, _, _) =>
        inEngines.access.get(a).flatMap(_.order).map(f =>
          o.copy(child = f.attribute, sameOrderExpressions = Nil))
      case _ => None
    }
    if (orders.forall(_.isDefined))
      inEngines.copy(plan = s.copy(order = orders.flatten, child = inEngines.plan))
    else above(s, Seq(inEngines))
  }

  private def union(u: Union, children: Seq[SitedPlan]): SitedPlan = {
    val open = children.zip(u.children).map {
      case (inEngines: InEngines, child)
          if child.output.forall(a => inEngines.access.get(a).exists(_.open)) =>
        Some(Project(child.output, inEngines.plan))
      case _ => None
    }
    if (open.forall(_.isDefined)) allOpen(u.copy(children = open.flatten))
    else above(u, children)
  }

  /** An operator that needs its columns open, in engines if they are. */
  private def open(plan: LogicalPlan, children: Seq[SitedPlan]): SitedPlan = {
    val inEngines = children.collect { case a: InEngines => a }
    val able = inEngines.size == children.size && plan.deterministic && {
      val all = InEngines(plan, AttributeMap(inEngines.flatMap(_.access.toSeq)))
      plan.expressions.forall(e => all.opens(e) && allowed(e)) &&
      plan.children.zip(inEngines).forall { case (c, a) =>
        c.output.forall(o => a.access.get(o).exists(_.open))
      }
    }
    if (able) allOpen(plan.withNewChildren(inEngines.zip(plan.children).map { case (a, c) =>
      Project(c.output, a.plan)
    }))
    else above(plan, children)
  }

  // ---- at the client

  private def above(node: LogicalPlan, children: Seq[SitedPlan]): SitedPlan = {
    // A union names the columns of none but its first child, by place.
    val needed = node match {
      case _: Union => AttributeSet(node.children.flatMap(_.output))
      case _ => node.references ++ node.outputSet
    }
    AtClient(node.withNewChildren(node.children.zip(children).map { case (child, placed) =>
      toClient(placed, AttributeSet(child.output.filter(needed.contains)), child.output)
    }))
  }

  private def toClient(inEngines: InEngines, needed: AttributeSet): LogicalPlan =
    toClient(inEngines, needed, inEngines.access.values.map(_.attribute).toSeq)

  private def toClient(
      placed: SitedPlan,
      needed: AttributeSet,
      order: Seq[Attribute]): LogicalPlan = placed match {
    case AtClient(plan) => plan
    case inEngines: InEngines if local(inEngines.plan) =>
      Project(order.filter(needed.contains), inEngines.plan)
    case inEngines: InEngines =>
      val columns = order.filter(needed.contains).flatMap(inEngines.access.get)
      val plain = columns.filter(_.sums.isEmpty).map(opening)
      val sums = columns.flatMap(h => h.sums.map(h -> _))
      val pieces = sums.flatMap { case (_, s) =>
        Seq(Opening(s.sum, s.state, Decrypt.Kind.SUM, Some(s.encoding)),
          Opening(s.count, s.state, Decrypt.Kind.COUNT, Some(s.encoding)))
      }
      val openings = plain ++ pieces.distinctBy(_.output.exprId)
      val from = openings.flatMap(o => o.from +: positionOf(o))
      val bring = ClientRows(Project(distinct(from), inEngines.plan), openings)
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

  /** Rows that the query brings along are at the client already. */
  private def local(plan: LogicalPlan): Boolean = plan.collectLeaves().forall {
    case _: LocalRelation | _: OneRowRelation | _: EmptyRelation => true
    case _ => false
  }

  private def positionOf(o: Opening): Seq[Attribute] =
    if (o.kind == Decrypt.Kind.VALUE) o.encoding.toSeq.flatMap(_.position).flatMap { case (f, r) =>
      Seq(f, r)
    }
    else Nil

  private def opening(access: ColumnAccess): Opening =
    if (access.open) Opening(access.attribute, access.attribute, Decrypt.Kind.AS_IS, None)
    else access.openable match {
      case Some(encoding) =>
        Opening(access.attribute, encoding.attribute, Decrypt.Kind.VALUE, Some(encoding))
      case None => access.encodings.headOption match {
          case Some(encoding)
              if hosts &&
                !readAtClient(encoding.table) => throw NeededAtClient(encoding.table)
          case _ => throw Refused.unopenable(access)
        }
    }
}

private[coffer] object Sites {

  /** Whether a query must be split: a table of it has stored columns, or there are no enclaves. */
  def needed(query: LogicalPlan): Boolean = query.exists {
    case ScanOf(_, scan: CofferScan, _) =>
      (scan.table.stored.nonEmpty && !scan.table.viewed) || (CofferConf.hostEngines(
        SparkSession.active.sparkContext.conf) && !scan.table.viewed)
    case _ => false
  }
}

/**
 * Engines would carry a column to the client from which it does not open: the placing begins anew,
 * with the table read at the client.
 */
private final case class NeededAtClient(table: CofferTable) extends ControlThrowable

private object PredicateSplit extends PredicateHelper {
  def conjuncts(condition: Expression): Seq[Expression] = splitConjunctivePredicates(condition)
}

/**
 * What neither engines nor the client engine can do: the column, what it has, and what would help.
 */
private[coffer] object Refused {
  def unwritable(columns: Seq[String]) = new CofferException(
    "COFFER_UNSUPPORTED",
    "rows that come from columns which enclaves cannot open cannot be written to a sealed table: " +
      "they would be opened at the client, and only enclaves " +
      s"write; ${if (columns.isEmpty) "a condition is decided at the " +
          "client"
        else columns.mkString(", ")}",
    "write columns that the policy lets enclaves open (tee or plain among their protections), or " +
      "bring the rows to the client (coffer.to_arrow), write them " +
      "as Parquet there and seal them with coffer encrypt")

  def uncacheable(columns: Seq[String]) = new CofferException(
    "COFFER_UNSUPPORTED",
    "rows that come from columns which enclaves cannot open cannot be cached: they would be " +
      "opened at the client, and cached rows are what enclaves wrote; " +
      s"${if (columns.isEmpty) "a condition is decided at the client" else columns.mkString(", ")}",
    "cache columns that the policy lets enclaves open (tee or plain among their protections), or " +
      "keep the rows at the client (coffer.to_arrow)")

  def cachedByHosts() = new CofferException(
    "COFFER_UNSUPPORTED",
    "spark.coffer.enclave is none: engines hold no keys, so what they would cache is not sealed",
    "run with enclaves (spark.coffer.enclave=required), or without the cache")

  def writeByHosts() = new CofferException(
    "COFFER_UNSUPPORTED",
    "spark.coffer.enclave is none: engines hold no keys, so they cannot write a sealed table",
    "run with enclaves (spark.coffer.enclave=required), or seal plain Parquet files at the " +
      "client with coffer encrypt")

  def unopenable(access: ColumnAccess) = CofferException.refusal(Seq(
      s"column `${access.attribute.name}` is needed in clear, and what is stored of it " +
        s"(${access.protections}) cannot be opened: " +
        "give it tee, std, det or ashe beside that in the policy, and encrypt the table anew"))
}
