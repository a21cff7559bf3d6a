package org.apache.spark.sql.coffer.exec

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.split.Opening
import org.apache.spark.sql.coffer.translate.ClientRowsLeaf
import org.apache.spark.sql.execution.{
  EmptyRelationExec,
  LeafExecNode,
  LocalTableScanExec,
  SparkPlan
}
import org.apache.spark.sql.internal.SQLConf

/**
 * `root` is a sealed query of its own, planned and adapted by Spark as any other. Its optimizer may
 * have given columns other identities than `columns` have, by which `openings` know them; their
 * places are the same.
 */
case class ClientRowsExec(openings: Seq[Opening], columns: Seq[Attribute], root: SparkPlan)
    extends LeafExecNode with SealedNode {
  override def nodeName: String = "CofferClientRows"
  override def output: Seq[Attribute] = openings.map(_.output)
  override def outputPartitioning: Partitioning = SinglePartition
  override def innerChildren: Seq[QueryPlan[_]] = Seq(root)
  override protected def stringArgs: Iterator[Any] =
    Iterator(openings.map(_.text).mkString("[", ", ", "]"))
  override protected def doCanonicalize(): SparkPlan = this

  def leaf: ClientRowsLeaf = {
    val stored = root.output.zip(columns).map { case (made, known) =>
      made.withExprId(known.exprId)
    }
    ClientRowsLeaf(this, stored, openings.map(_.plain))
  }

  /**
   * Runs the part below; its rows stay with the client engine, under the number that is returned,
   * or 0 for none.
   */
  def fetch(): Int = root match {
    case r: CofferRootExec =>
      r.through {
        case result: CofferResultExec => result.keep(ClientBytes.of(conf)).getKept
        case ClientRowsExec.NoRows() => 0
        case other => throw CofferException.refusal(Seq(s"rows of ${other.nodeName} cannot be " +
              s"taken to the client"))
      }
    case ClientRowsExec.NoRows() => 0
    case other => throw CofferException.refusal(Seq(s"${other.nodeName} is no sealed query"))
  }

  override protected def doExecute(): RDD[InternalRow] = throw CofferFragmentExec.noRows
}

object ClientRowsExec {

  /** What the optimizer proved empty, which then is no sealed query any more. */
  private object NoRows {
    def unapply(plan: SparkPlan): Boolean = plan match {
      case local @ (_: LocalTableScanExec | _: EmptyRelationExec) => local.executeCollect().isEmpty
      case _ => false
    }
  }

  /**
   * Whether a plan runs at the client: it has rows that come there, or tables that are read there.
   */
  def in(plan: SparkPlan): Boolean = plan.exists {
    case _: ClientRowsExec | _: ClientTableExec => true
    case _ => false
  }
}

/**
 * `spark.coffer.client.maxBytes`: how much one part of a query may bring to the client, unpacked.
 */
private[coffer] object ClientBytes {
  val KEY = "spark.coffer.client.maxBytes"
  private val DEFAULT = "1g"

  /** The code of what is more than a process may hold. */
  val TOO_MUCH = "too_much_at_client"

  def of(conf: SQLConf): Long = {
    val text = conf.getConfString(KEY, DEFAULT)
    try {
      val bytes = JavaUtils.byteStringAsBytes(text)
      require(bytes > 0)
      bytes
    } catch {
      case _: IllegalArgumentException =>
        throw new CofferException("COFFER_CONF", s"$KEY is no size: $text",
          "write it like 512m " +
            "or 4g")
    }
  }
}
