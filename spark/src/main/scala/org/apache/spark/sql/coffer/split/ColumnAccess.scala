package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeMap, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.coffer.proto.wire.Capability
import org.apache.spark.sql.types.DataType

/**
 * A stored column where engines work on it. `position`: the columns that say of which file and row
 * each value is.
 */
final case class StoredEncoding(
    table: CofferTable,
    stored: StoredColumn,
    attribute: Attribute,
    position: Option[(Attribute, Attribute)]) {
  def attributes: Seq[Attribute] = attribute +:
    position.toSeq.flatMap { case (file, row) => Seq(file, row) }

  /** The type of what is stored. */
  def value: DataType = table.columnType(stored.column)
}

/** The state of an [[AsheSum]], and what the query wants of it, over the opened sum and count. */
final case class Sums(
    encoding: StoredEncoding,
    state: Attribute,
    sum: Attribute,
    count: Attribute,
    result: Expression)

/**
 * A column of the query as engines have it: `open`, under its own id, where the policy lets them;
 * and as ciphertexts.
 */
final case class ColumnAccess(
    attribute: Attribute,
    open: Boolean,
    encodings: Seq[StoredEncoding],
    sums: Option[Sums] = None) {

  private def allowing(capability: Capability): Seq[StoredEncoding] =
    encodings.filter(_.stored.allows(capability))

  /**
   * The form that is cheapest to compare for equality; of those that are alike, the one that shows
   * least.
   */
  def equality: Option[StoredEncoding] =
    allowing(Capability.CAPABILITY_EQUALITY).sortBy(_.stored.leaks.size).minByOption(SiteCosts.work)
  def order: Option[StoredEncoding] = allowing(Capability.CAPABILITY_ORDER).headOption

  /**
   * Of texts whose ciphertexts are those of a prefix: what it tells of a condition is never all.
   */
  def prefixes: Option[StoredEncoding] = allowing(Capability.CAPABILITY_PREFIX_ORDER).headOption
  def showing: Option[StoredEncoding] = allowing(Capability.CAPABILITY_COMPARISON).headOption
  def summed: Option[StoredEncoding] =
    allowing(Capability.CAPABILITY_SUM).find(_.position.isDefined)

  /** The form that is cheapest to bring to the client and open there. */
  def openable: Option[StoredEncoding] =
    encodings.filter(f =>
      f.stored.isCipher &&
        f.stored.opens).minByOption(f => SiteCosts.toClient(f.table, f.stored))

  def attributes: Seq[Attribute] =
    (if (open) Seq(attribute) else Nil) ++ encodings.flatMap(_.attributes) ++ sums.map(_.state)

  /** As its table calls it. */
  def named: String =
    encodings.headOption.fold(attribute.name)(f => f.table.schema.fields(f.stored.column).name)

  def protections: String = encodings.map(_.stored.protection).distinct.mkString(", ")
}

/** A part of the query and where it runs. */
sealed trait SitedPlan

/**
 * In engines at the executors: enclaves or hosts. `access` says what becomes of the columns of the
 * part as the query has it.
 */
final case class InEngines(plan: LogicalPlan, access: AttributeMap[ColumnAccess])
    extends SitedPlan {
  def opens(expr: Expression): Boolean = expr.references.forall(a => access.get(a).exists(_.open))
}

/** In the client engine. */
final case class AtClient(plan: LogicalPlan) extends SitedPlan
