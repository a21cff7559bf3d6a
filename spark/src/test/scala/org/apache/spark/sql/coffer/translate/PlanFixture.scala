package org.apache.spark.sql.coffer.translate

import java.io.File
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.scalatest.{BeforeAndAfterAll, Suite}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.NamedExpression
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, Exchange, ReusedExchangeExec}
import org.apache.spark.util.Utils

/**
 * A Spark session without the plugin, and Parquet tables that stand in for sealed ones: only plans
 * are looked at.
 */
trait PlanFixture extends BeforeAndAfterAll { self: Suite =>
  protected var spark: SparkSession = _

  override def beforeAll(): Unit = {
    super.beforeAll()
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
    spark = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.sql.session.timeZone", "Europe/Berlin")
      .config("spark.sql.shuffle.partitions", "4")
      .config("spark.sql.adaptive.enabled", "false")
      .config("spark.sql.warehouse.dir", Utils.createTempDir(namePrefix = "coffer-plan").getPath)
      .getOrCreate()
    PlanFixture.idsFrom(1000000)
    PlanFixture.tables.foreach { case (name, columns) =>
      val path = new File(Utils.createTempDir(namePrefix = "coffer-plan"), name).getPath
      spark.sql(s"SELECT ${columns.map { case (c, t) =>
          s"CAST(NULL AS $t) AS " +
            s"$c"
        }.mkString(", ")}").write.parquet(path)
      spark.read.parquet(path).createOrReplaceTempView(name)
    }
  }

  override def afterAll(): Unit =
    try spark.stop()
    finally super.afterAll()

  protected def withConf[A](settings: (String, String)*)(body: => A): A = {
    val before = settings.map { case (key, _) => key -> spark.conf.getOption(key) }
    settings.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally
      before.foreach {
        case (key, Some(value)) => spark.conf.set(key, value)
        case (key, None) => spark.conf.unset(key)
      }
  }

  /** The physical plan without adaptive execution: exchanges stand in the tree. */
  protected def physical(sql: String): SparkPlan = spark.sql(sql).queryExecution.executedPlan
}

object PlanFixture {
  private val money = "DECIMAL(12,2)"

  val tables: Seq[(String, Seq[(String, String)])] = Seq(
    "lineitem" -> Seq(
      "l_orderkey" -> "BIGINT",
      "l_partkey" -> "BIGINT",
      "l_quantity" -> money,
      "l_extendedprice" -> money,
      "l_discount" -> money,
      "l_tax" -> money,
      "l_returnflag" -> "STRING",
      "l_linestatus" -> "STRING",
      "l_shipdate" -> "DATE",
      "l_comment" -> "STRING"),
    "t" -> Seq(
      "flag" -> "BOOLEAN",
      "tiny" -> "TINYINT",
      "small" -> "SMALLINT",
      "i" -> "INT",
      "l" -> "BIGINT",
      "f" -> "FLOAT",
      "d" -> "DOUBLE",
      "m" -> money,
      "s" -> "STRING",
      "bin" -> "BINARY",
      "day" -> "DATE",
      "ts" -> "TIMESTAMP",
      "ntz" -> "TIMESTAMP_NTZ"),
    "nested" -> Seq("id" -> "INT", "items" -> "ARRAY<INT>",
      "folded" ->
        "STRING COLLATE UTF8_LCASE"))

  /** Exchanges become inputs, file scans become sealed scans; every leaf has four partitions. */
  object Leaves extends LeafResolver {
    override def leaf(plan: SparkPlan): Option[Leaf] = plan match {
      case scan: FileSourceScanExec =>
        Some(ScanLeaf(scan, scan.output.map(_.name), scan.output, Nil, () => 4))
      case exchange: Exchange => Some(InputLeaf(exchange, exchange.output, () => 4,
            exchange.isInstanceOf[BroadcastExchangeLike]))
      case reused: ReusedExchangeExec =>
        leaf(reused.child).map {
          case i: InputLeaf => i.copy(plan = reused, output = reused.output); case l => l
        }
      case _ => None
    }
  }

  /** Only scans are leaves: for checks of whole plans. */
  object Scans extends LeafResolver {
    override def leaf(plan: SparkPlan): Option[Leaf] = plan match {
      case scan: FileSourceScanExec => Leaves.leaf(scan)
      case _ => None
    }
  }

  /**
   * Fixes the next expression's id: what Spark keeps in hash sets comes in the same order, whatever
   * ran in this JVM before.
   */
  def idsFrom(id: Long): Unit = {
    val next = NamedExpression.getClass.getDeclaredField("curId")
    next.setAccessible(true)
    next.get(NamedExpression) match {
      case counter: AtomicLong => counter.set(id)
      case other => throw new IllegalStateException(s"Spark counts expressions by " +
          s"${other.getClass}")
    }
  }

  /** Subqueries numbered in the order in which they are met. */
  def context(): Context = {
    val ids = mutable.LinkedHashMap.empty[(Long, Int), Int]
    Context(Leaves, (s, field) => ids.getOrElseUpdate((s.exprId.id, field), ids.size + 1))
  }
}
