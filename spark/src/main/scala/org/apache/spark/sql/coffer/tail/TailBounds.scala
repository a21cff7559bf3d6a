package org.apache.spark.sql.coffer.tail

import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, SubqueryAlias}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.ClientBytes
import org.apache.spark.sql.coffer.split.BaseColumn
import org.apache.spark.sql.execution.{BaseLimitExec, SparkPlan}
import org.apache.spark.util.Utils

/** What comes to the driver, as far as it is known before anything runs. */
private[tail] object TailBounds {

  /**
   * Refuses what will be too much for certain: columns of a whole table, of which the manifest says
   * the rows. Conditions leave out rows that nobody has counted, and limits end a scan early.
   */
  def check(tail: SparkPlan, most: Long): Unit = if (!tail.exists(_.isInstanceOf[BaseLimitExec]))
    tail.collectWithSubqueries { case r: TailRowsExec => r }.flatMap(_.part).foreach { part =>
      whole(part).map(rows => (rows, rows * row(part.output.size))).foreach {
        case (rows, bytes) if bytes > most => throw refused(part, rows, bytes, most)
        case _ => ()
      }
    }

  /** Rows of a table of which columns alone are asked for. */
  private def whole(part: LogicalPlan): Option[BigInt] = part match {
    case BaseColumn.Table(table, _) => Some(BigInt(table.info.getRows))
    case p: Project => whole(p.child)
    case s: SubqueryAlias => whole(s.child)
    case _ => None
  }

  /** The least that Spark's rows of so many columns take: texts and lists come on top. */
  private def row(columns: Int): BigInt = BigInt(8L * ((columns + 63) / 64) + 8L * columns)

  private def refused(part: LogicalPlan, rows: BigInt, bytes: BigInt, most: Long) =
    new CofferException(
      ClientBytes.TOO_MUCH,
      s"a part of this query runs in the driver, and all $rows rows of " +
        s"${part.output.map(a => s"`${a.name}`").mkString(", ")} would come there, at least " +
        s"${Utils.bytesToString(bytes)}; ${ClientBytes.KEY} (${Utils.bytesToString(most)}) " +
        "allows less",
      s"filter or aggregate more before it, or raise ${ClientBytes.KEY} and spark.driver.memory")
}
