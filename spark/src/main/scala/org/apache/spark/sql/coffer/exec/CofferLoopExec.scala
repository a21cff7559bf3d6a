package org.apache.spark.sql.coffer.exec

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeSet,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.split.{CofferScan, SealedLeaf}
import org.apache.spark.sql.coffer.versions.ScanOf

/**
 * A recursive query that engines run. Each of its rounds is a query of its own over the rows of the
 * round before; they stay sealed, as cached rows do, and the client engine says how many they are.
 */
final case class SealedLoop(loop: UnionLoop, rows: LoopRows) extends LeafNode with SealedLeaf {
  override def output: Seq[Attribute] = loop.output
  override def innerChildren: Seq[QueryPlan[_]] = loop.children
  override def computeStats(): Statistics = Statistics(sizeInBytes = conf.defaultSizeInBytes)
  override def references: AttributeSet = AttributeSet.empty
  override protected def doCanonicalize(): LogicalPlan = this
}

/** The same in a physical plan: a leaf of its fragment. */
final case class CofferLoopExec(output: Seq[Attribute], rows: LoopRows) extends KeptExec {
  override def nodeName: String = "CofferLoop"
  override protected def exchange(query: CofferQuery): CofferShuffleExchangeExec =
    rows.of(query).exchange()
}

/** The rows of a recursive query: computed anew for each query that reads them. */
final class LoopRows(session: SparkSession, val loop: UnionLoop, ways: LoopRows.Ways) {
  private var last: Option[(Long, CachedRows)] = None

  private[exec] def of(query: CofferQuery): CachedRows = synchronized {
    last.collect { case (id, rows) if id == query.id => rows }.getOrElse {
      val rows = session.withActive {
        if (SealedPlans.mentions(loop)) together(rounds()) else together(values())
      }
      last = Some(query.id -> rows)
      rows
    }
  }

  /** The first round and one of the others, as they are planned before anything is known. */
  private[coffer] def planned: (CachedRows, CachedRows) = session.withActive {
    val rounds = new Rounds(loop, session.sessionState.conf)
    val first = ways.keep(rounds.next(identity))
    rounds.gave(1)
    (first, ways.keep(rounds.next(r => relation(r.output, first))))
  }

  private[coffer] def scans: Seq[CofferScan] = LoopRows.scans(loop)

  private def rounds(): Seq[CachedRows] = {
    val rounds = new Rounds(loop, session.sessionState.conf)
    val kept = mutable.ArrayBuffer.empty[CachedRows]
    while (rounds.hasNext) {
      val rows = ways.keep(rounds.next(r => relation(r.output, kept.last)))
      val count = rows.exchange().sealedShuffle.known().getRows
      rounds.gave(count)
      if (count > 0 || kept.isEmpty) kept += rows
    }
    kept.toSeq
  }

  /** Of values alone, as numbers in a row: no table has a part in it, and the driver counts. */
  private def values(): Seq[CachedRows] = {
    val unsafe = UnsafeProjection.create(loop.output.map(_.dataType).toArray)
    val rows = ways.inDriver(loop).map(unsafe(_).copy())
    val parts = LoopRows.parts(rows).map(part => ways.keep(LocalRelation(loop.output, part))).toSeq
    if (parts.isEmpty) Seq(ways.keep(LocalRelation(loop.output))) else parts
  }

  /** In as many tasks as the first round had, as Spark has them. */
  private def together(parts: Seq[CachedRows]): CachedRows = parts match {
    case Seq(one) => one
    case several =>
      val all = several.map(relation(loop.output.map(_.newInstance()), _))
      ways.keep(Repartition(several.head.exchange().numMappers, shuffle = false, Union(all)))
  }

  private def relation(output: Seq[Attribute], rows: CachedRows): LogicalPlan =
    CachedRelation(output, rows, BigInt(session.sessionState.conf.defaultSizeInBytes))
}

object LoopRows {
  private val PART_BYTES = 4L << 20

  /** What rounds read of tables. */
  private[coffer] def scans(loop: UnionLoop): Seq[CofferScan] =
    loop.children.flatMap(_.collectWithSubqueries {
      case ScanOf(_, scan: CofferScan, _) => scan
    })

  /** What filled the caches that rounds read. */
  private[coffer] def earlier(loop: UnionLoop): Seq[CofferRootExec] =
    loop.children.flatMap(_.collectWithSubqueries { case c: CachedRelation => c.rows.filling })

  /** How rows are kept, and where those are computed that no table has a part in. */
  trait Ways {

    /** The rows of a query that is optimised already. */
    def keep(query: LogicalPlan): CachedRows
    def inDriver(loop: UnionLoop): Iterator[InternalRow]
  }

  private def parts(rows: Iterator[UnsafeRow]): Iterator[Seq[UnsafeRow]] =
    new Iterator[Seq[UnsafeRow]] {
      override def hasNext: Boolean = rows.hasNext
      override def next(): Seq[UnsafeRow] = {
        val part = Vector.newBuilder[UnsafeRow]
        var bytes = 0L
        while (rows.hasNext && bytes < PART_BYTES) {
          val row = rows.next()
          bytes += row.getSizeInBytes
          part += row
        }
        part.result()
      }
    }
}
