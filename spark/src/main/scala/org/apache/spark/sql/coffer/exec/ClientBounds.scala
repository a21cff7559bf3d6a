package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.proto.plan.Node
import org.apache.spark.sql.coffer.split.{Helps, ClientTable}
import org.apache.spark.sql.coffer.translate.{ClientFragment, Nodes}
import org.apache.spark.sql.execution.{CollectLimitExec, GlobalLimitExec, LocalLimitExec, SparkPlan}
import org.apache.spark.util.Utils

/**
 * What tables that are read at the client may give, as far as it is known before they are read; the
 * client engine sees to the rest.
 */
private[coffer] object ClientBounds {

  /**
   * Refuses a table of which more than `most` stored bytes would be read for certain. Conditions
   * prune, and limits end a scan early.
   */
  def check(clientRows: ClientFragment, plan: SparkPlan, most: Long): Unit = if (!limited(plan)) {
    val pruned = filtered(clientRows.fragment.getRoot)
    clientRows.scans.filterNot(s => pruned(s.id)).map(_.leaf.plan).foreach {
      case ClientTableExec(table) if table.scan.bytes > most => throw refused(table, plan, most)
      case _ => ()
    }
  }

  private def limited(plan: SparkPlan): Boolean = plan.exists {
    case _: GlobalLimitExec | _: LocalLimitExec | _: CollectLimitExec => true
    case _ => false
  }

  /** Scans with conditions of their own. */
  private def filtered(node: Node): Set[Int] = {
    val below = Nodes.children(node).flatMap(filtered).toSet
    if (node.hasScan && node.getScan.getPushedCount > 0) below + node.getScan.getScanId else below
  }

  private def refused(table: ClientTable, plan: SparkPlan, most: Long): CofferException = {
    val names = table.output.map(a => s"`${a.name}`").mkString(", ")
    new CofferException(
      ClientBytes.TOO_MUCH,
      s"reading $names of ${table.table.name()} at the client takes " +
        s"${Utils.bytesToString(table.scan.bytes)} of storage, more than " +
        s"${ClientBytes.KEY} (${Utils.bytesToString(most)}) allows; engines hold no keys and " +
        s"cannot work on " +
        table.closed.map(a => s"`${a.name}`").mkString(", "),
      (Helps.of(table,
        plan) :+ s"run with enclaves, filter more, or raise ${ClientBytes.KEY}").mkString("; "))
  }
}
