package org.apache.spark.sql.coffer.write

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  Cast,
  EqualNullSafe,
  EqualTo,
  Expression,
  Literal,
  PredicateHelper,
  StringRPad
}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.{SealedInsert, WriteTarget}
import org.apache.spark.sql.coffer.proto.wire.BeginWrite
import org.apache.spark.sql.coffer.proto.wire.BeginWrite.Mode
import org.apache.spark.sql.coffer.split.CofferTable
import org.apache.spark.sql.coffer.versions.TableOf
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.BooleanType

/**
 * Writes that Spark's analyzer has made fit the table (columns in order, casts of the store
 * assignment policy, defaults) become our own command. Spark's would run the rows through
 * executors.
 */
object SealedWrites extends Rule[LogicalPlan] with PredicateHelper {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case w: V2WriteCommand if w.resolved =>
      w.table match {
        case r @ TableOf(table: CofferTable, _, _, _) => command(w, r, table)
        case _ => w
      }
    case other => other
  }

  private def command(
      write: V2WriteCommand,
      relation: DataSourceV2Relation,
      seen: CofferTable): LogicalPlan = {
    if (seen.unverified || seen.missing) throw CofferTable.noTable(seen.name())
    // The relation may be that of a view made long ago: rows go behind the newest version, if it
    // still has the same columns.
    val table = seen.newest()
    if (table.schema != seen.schema ||
      table.partitions != seen.partitions) throw new CofferException(
      "COFFER_TABLE_CHANGED",
      s"the columns of ${seen.name()} have changed since it was opened",
      "open it again: load the path anew, or make the view anew")
    val begin = BeginWrite.newBuilder.setHandle(table.info.getHandle).setPath(table.info.getPath)
    write match {
      case a: AppendData =>
        SealedInsert(WriteTarget(begin.setMode(Mode.APPEND).build(), table.partitions), a.query)
      case o: OverwritePartitionsDynamic =>
        // Without partitions Spark's own tables are overwritten whole.
        val mode = if (table.partitions.isEmpty) Mode.OVERWRITE else Mode.OVERWRITE_PARTITIONS
        SealedInsert(WriteTarget(begin.setMode(mode).build(), table.partitions), o.query)
      case o: OverwriteByExpression =>
        only(o.deleteExpr, table).foreach(begin.addOnly)
        SealedInsert(WriteTarget(begin.setMode(Mode.OVERWRITE).build(), table.partitions), o.query)
      case other => throw refused(other.nodeName)
    }
  }

  def refused(what: String): CofferException = new CofferException(
    "COFFER_WRITE",
    s"$what cannot change a sealed table: rows are appended, or all rows or whole partitions are " +
      s"overwritten",
    "use INSERT INTO, INSERT OVERWRITE, CREATE OR REPLACE TABLE … AS SELECT, or df.write")

  /**
   * Of an overwrite: the partition values that all replaced rows have; none: all rows are replaced.
   */
  private def only(condition: Expression, table: CofferTable): Seq[BeginWrite.Only] =
    condition match {
      case Literal(true, BooleanType) => Nil
      case _ => splitConjunctivePredicates(condition).map {
          case EqualNullSafe(a: Attribute, value) if value.foldable => equal(a, value, table)
          case EqualNullSafe(Cast(a: Attribute, _, _, _), value) if value.foldable =>
            equal(a, value, table)
          case EqualTo(a: Attribute, value) if value.foldable => equal(a, value, table)
          // A CHAR that Spark compares with a longer text.
          case EqualNullSafe(StringRPad(a: Attribute, _, _), value) if value.foldable =>
            equal(a, value, table)
          case EqualTo(StringRPad(a: Attribute, _, _), value) if value.foldable =>
            equal(a, value, table)
          case other => throw refused(s"overwriting where ${other.nodeName.toLowerCase} holds")
        }
    }

  private def equal(a: Attribute, value: Expression, table: CofferTable): BeginWrite.Only = {
    val field =
      table.schema.fields.find(_.name == a.name).filter(f => table.partitionNames.contains(f.name))
        .getOrElse(throw refused(s"overwriting by ${a.name}, which is no partition column,"))
    val values = CharVarcharUtils.replaceCharVarcharWithString(field.dataType)
    val typed = if (value.dataType == values) value else Cast(value, values)
    // As the rows that were written have it.
    val stored = if (SQLConf.get.charVarcharAsString) typed
    else CharVarcharUtils.stringLengthCheck(typed, field.dataType)
    BeginWrite.Only.newBuilder
      .setColumn(field.name)
      .setValue(PartitionValues.of(stored.eval(null), values))
      .build()
  }
}
