package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.coffer.translate.OreCompare
import org.apache.spark.sql.types.{BooleanType, IntegerType}

/**
 * A condition over stored columns. Not `exact`: it is also true of rows that the real condition has
 * yet to drop.
 */
private[split] final case class Ciphered(condition: Expression, exact: Boolean)

/**
 * Conditions as engines can evaluate them: over open columns as they are; over ciphertexts where
 * their scheme tells, with literals encrypted for the column that they meet. None: it cannot be
 * told from what engines have.
 */
private[split] final class CipherConditions(inEngines: InEngines, hosts: Boolean) {

  def of(condition: Expression): Option[Ciphered] = condition match {
    case e if asItIs(e) => Some(Ciphered(e, exact = true))
    case And(left, right) =>
      // Half of a conjunction lets more rows through.
      (of(left), of(right)) match {
        case (Some(l), Some(r)) => Some(Ciphered(And(l.condition, r.condition), l.exact && r.exact))
        case (Some(one), None) => Some(one.copy(exact = false))
        case (None, other) => other.map(_.copy(exact = false))
      }
    case Or(left, right) =>
      for (l <- of(left); r <- of(right)) yield Ciphered(Or(l.condition, r.condition),
        l.exact &&
          r.exact)
    case Not(child) => of(child).filter(_.exact).map(c => Ciphered(Not(c.condition), exact = true))
    case IsNull(a: Attribute) => anyEncoding(a).map(f => Ciphered(IsNull(f), exact = true))
    case IsNotNull(a: Attribute) => anyEncoding(a).map(f => Ciphered(IsNotNull(f), exact = true))
    case EqualNullSafe(l: Attribute, r: Attribute) => linked(l, r)(_.equality).map { case (a, b) =>
        exact(EqualNullSafe(a, b))
      }
    case In(a: Attribute, list) if list.forall(known) =>
      membership(a, list.collect { case l: Literal => l })
    case InSet(a: Attribute, values) if !values.contains(null) =>
      membership(a, values.toSeq.map(Literal(_, a.dataType)))
    case Comparison(kind, a: Attribute, l: Literal) => compared(kind, a, l)
    case Comparison(kind, l: Literal, a: Attribute) => compared(kind.swapped, a, l)
    case Comparison(Comparison.Equal, l: Attribute, r: Attribute) =>
      linked(l, r)(_.equality).map { case (a, b) => exact(EqualTo(a, b)) }
    case Comparison(kind, l: Attribute, r: Attribute) => linked(l, r)(_.order).map { case (a, b) =>
        exact(kind(a, b))
      }
    case _ => None
  }

  private def exact(e: Expression) = Ciphered(e, exact = true)

  /**
   * Over open columns; a host engine must not see the value of a subquery, which is opened data.
   */
  private def asItIs(e: Expression): Boolean =
    e.deterministic && inEngines.opens(e) && !(hosts &&
      e.exists(_.isInstanceOf[SubqueryExpression]))

  private def known(e: Expression): Boolean = e match {
    case Literal(value, _) => value != null
    case _ => false
  }

  private def anyEncoding(a: Attribute): Option[Attribute] =
    inEngines.access.get(a).flatMap(h => h.encodings.headOption.map(_.attribute))

  private def linked(
      left: Attribute,
      right: Attribute)(encoding: ColumnAccess => Option[StoredEncoding])
      : Option[(Attribute, Attribute)] =
    for {
      l <- inEngines.access.get(left)
      r <- inEngines.access.get(right)
      pair <- pairs(l, r)
        .filter { case (a, b) =>
          encoding(l.copy(encodings = Seq(a))).isDefined &&
          encoding(r.copy(encodings = Seq(b))).isDefined
        }
        .minByOption { case (a, b) => SiteCosts.work(a) + SiteCosts.work(b) }
      if left.dataType == right.dataType
    } yield (pair._1.attribute, pair._2.attribute)

  private def pairs(l: ColumnAccess, r: ColumnAccess): Seq[(StoredEncoding, StoredEncoding)] = for {
    a <- l.encodings
    b <- r.encodings
    if a.stored.encoding == b.stored.encoding && a.stored.link.nonEmpty &&
      a.stored.link == b.stored.link
  } yield (a, b)

  private def membership(a: Attribute, list: Seq[Literal]): Option[Ciphered] = {
    val access = inEngines.access.get(a)
    access.flatMap(_.equality).filter(_ => list.forall(_.dataType == a.dataType)) match {
      case Some(encoding) =>
        // What the column's domain does not have is in no row.
        val values = CipherLiterals.of(encoding, list).collect { case CipherLiteral.Within(l, _) =>
          l
        }
        Some(exact(if (values.isEmpty) never(encoding) else In(encoding.attribute, values)))
      case None => access.flatMap(_.showing).flatMap { _ =>
          val each = list.map(compared(Comparison.Equal, a, _))
          if (each.forall(_.isDefined)) Some(exact(each.flatten.map(_.condition).reduce(Or(_, _))))
          else None
        }
    }
  }

  private def compared(kind: Comparison, a: Attribute, literal: Literal): Option[Ciphered] =
    if (literal.value == null || literal.dataType != a.dataType) None
    else inEngines.access.get(a).flatMap { access =>
      val serves = if (kind == Comparison.Equal) access.equality else access.order
      serves.map(f => exact(against(kind, f, f.attribute, literal)))
        .orElse(access.showing.map(f => exact(decrypted(kind, f, literal))))
        .orElse(access.prefixes.flatMap(f => prefixed(kind, f, literal)))
    }

  private def against(
      kind: Comparison,
      encoding: StoredEncoding,
      value: Expression,
      literal: Literal): Expression =
    CipherLiterals.of(encoding, Seq(literal)).head match {
      case CipherLiteral.Within(c, _) => kind(value, c)
      case CipherLiteral.Below => if (kind.holdsAbove) always(encoding) else never(encoding)
      case CipherLiteral.Above => if (kind.holdsBelow) always(encoding) else never(encoding)
    }

  private def decrypted(kind: Comparison, encoding: StoredEncoding, literal: Literal): Expression =
    CipherLiterals.of(encoding, Seq(literal)).head match {
      case CipherLiteral.Within(c, _) =>
        kind(OreCompare(encoding.attribute, c), Literal(0, IntegerType))
      case _ => against(kind, encoding, encoding.attribute, literal)
    }

  /**
   * Texts with one prefix are not told apart: what equals the literal's prefix stays for the real
   * condition to judge.
   */
  private def prefixed(
      kind: Comparison,
      encoding: StoredEncoding,
      literal: Literal): Option[Ciphered] =
    CipherLiterals.of(encoding, Seq(literal)).head match {
      case CipherLiteral.Within(c, _) =>
        Some(Ciphered(kind.weak(encoding.attribute, c), exact = false))
      case _ => None
    }

  private val unknown = Literal(null, BooleanType)
  private def never(encoding: StoredEncoding): Expression = And(IsNull(encoding.attribute), unknown)
  private def always(encoding: StoredEncoding): Expression =
    Or(IsNotNull(encoding.attribute), unknown)
}

/** The comparisons that ciphertexts may allow. */
private[split] sealed abstract class Comparison(val holdsBelow: Boolean, val holdsAbove: Boolean) {
  def apply(left: Expression, right: Expression): Expression

  /** With the sides exchanged. */
  def swapped: Comparison

  /** True also where both are equal. */
  def weak: Comparison
}

private[split] object Comparison {
  case object Equal extends Comparison(false, false) {
    override def apply(l: Expression, r: Expression): Expression = EqualTo(l, r)
    override def swapped: Comparison = this
    override def weak: Comparison = this
  }
  case object Less extends Comparison(true, false) {
    override def apply(l: Expression, r: Expression): Expression = LessThan(l, r)
    override def swapped: Comparison = Greater
    override def weak: Comparison = LessEqual
  }
  case object LessEqual extends Comparison(true, false) {
    override def apply(l: Expression, r: Expression): Expression = LessThanOrEqual(l, r)
    override def swapped: Comparison = GreaterEqual
    override def weak: Comparison = this
  }
  case object Greater extends Comparison(false, true) {
    override def apply(l: Expression, r: Expression): Expression = GreaterThan(l, r)
    override def swapped: Comparison = Less
    override def weak: Comparison = GreaterEqual
  }
  case object GreaterEqual extends Comparison(false, true) {
    override def apply(l: Expression, r: Expression): Expression = GreaterThanOrEqual(l, r)
    override def swapped: Comparison = LessEqual
    override def weak: Comparison = this
  }

  def unapply(e: Expression): Option[(Comparison, Expression, Expression)] = e match {
    case EqualTo(l, r) => Some((Equal, l, r))
    case LessThan(l, r) => Some((Less, l, r))
    case LessThanOrEqual(l, r) => Some((LessEqual, l, r))
    case GreaterThan(l, r) => Some((Greater, l, r))
    case GreaterThanOrEqual(l, r) => Some((GreaterEqual, l, r))
    case _ => None
  }
}
