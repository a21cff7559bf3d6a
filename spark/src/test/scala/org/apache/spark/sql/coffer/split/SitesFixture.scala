package org.apache.spark.sql.coffer.split

import scala.jdk.CollectionConverters._

import org.scalatest.Suite

import org.apache.spark.sql.catalyst.expressions.{Expression, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.coffer.advise.Protections
import org.apache.spark.sql.coffer.fake.{FakeSession, PrintedProtections}
import org.apache.spark.sql.coffer.proto.plan.{DataType, Field, Schema, TypeId}
import org.apache.spark.sql.coffer.proto.wire.{Encoding, StoredColumn => Proto, TableInfo}
import org.apache.spark.sql.coffer.translate.PlanFixture

/**
 * Tables with every protection, of a client engine that encrypts literals in a way that one can
 * read.
 */
trait SitesFixture extends FakeSession { self: Suite =>

  override protected def more: Map[String, TableInfo] =
    Map("/sealed/e" -> SitesFixture.employees, "/sealed/c" -> SitesFixture.categories)

  // Ids decide the order of what Spark keeps in hash sets.
  override protected def beforeAll(): Unit = {
    PlanFixture.idsFrom(1000000)
    super.beforeAll()
    client.describes = true
  }

  /** The optimised query, split. */
  protected def split(sql: String): LogicalPlan =
    new Sites(spark).rewrite(spark.sql(sql).queryExecution.optimizedPlan)

  /**
   * The operators of a plan, deepest last, one on a line; what engines do is below
   * `brought clientRows`.
   */
  protected def shown(plan: LogicalPlan): Seq[String] = {
    def lines(plan: LogicalPlan, depth: Int): Seq[String] = {
      val here = SitesFixture.line(plan).map("  " * depth + _)
      val deeper = if (here.isEmpty) depth else depth + 1
      val inEngines = plan match {
        case h: ClientRows => lines(h.inEngines, deeper)
        case _ => Nil
      }
      here.toSeq ++ inEngines ++ plan.children.flatMap(lines(_, deeper))
    }
    lines(plan, 0)
  }

  protected def shown(sql: String): Seq[String] = shown(split(sql))
}

object SitesFixture {

  private def line(plan: LogicalPlan): Option[String] = plan match {
    case Project(_, _) => None
    case Filter(c, _) => Some(s"filter ${text(c)}")
    case a: Aggregate => Some(s"aggregate ${list(a.aggregateExpressions)} by " +
        s"${list(a.groupingExpressions)}")
    case j: Join => Some(s"join ${j.joinType.sql.toLowerCase} on " +
        s"${j.condition.fold("nothing")(text)}")
    case s: Sort => Some(s"sort by ${list(s.order)}")
    case g: GlobalLimit => Some(s"limit ${text(g.limitExpr)}")
    case _: LocalLimit => None
    case o: Offset => Some(s"offset ${text(o.offsetExpr)}")
    case t: Tail => Some(s"tail ${text(t.limitExpr)}")
    case h: ClientRows => Some(s"brought to the client: ${h.openings.map(_.text).mkString(", ")}")
    case t: ClientTable => Some(s"read at the client: " +
        s"${t.openings.map(o => ClientTable.text(t, o)).mkString("; ")}")
    case r: LeafNode
        if r.nodeName.contains("Relation") &&
          r.output.nonEmpty => Some(s"read ${r.output.map(_.name).mkString(", ")}")
    case other => Some(other.nodeName.toLowerCase)
  }

  private def list(of: Seq[Expression]): String = of.map(text).mkString("[", ", ", "]")

  private def text(e: Expression): String = (e match {
    case s: SortOrder => s"${s.child.sql} ${s.direction.sql} ${s.nullOrdering.sql}".toLowerCase
    case other => other.sql
  }).replaceAll("[a-z_.`]*\\.`?([a-z0-9_]+)`?\\.", "").replace("`", "")

  private def field(name: String, id: TypeId): Field =
    Field.newBuilder.setName(name).setType(kind(id)).setNullable(true).build()

  private def kind(id: TypeId): DataType = DataType.newBuilder.setId(id).build()

  private def table(
      handle: Int,
      path: String,
      columns: Seq[(String, TypeId, Seq[(String, TypeId)])]): TableInfo = {
    val info = TableInfo.newBuilder.setHandle(handle).setTableId(path).setVersion(1).setRows(
      6000).setBytes(6000).setPath(path)
      .setName(path.stripPrefix("/sealed/"))
    val schema = Schema.newBuilder
    columns.foreach { case (name, id, _) => schema.addFields(field(name, id)) }
    info.setSchema(schema)
    val stored = columns.zipWithIndex.flatMap { case ((column, _, encodings), at) =>
      encodings.map { case (p, id) => (column, p, id, at) }
    } ++
      Seq(("", "file", TypeId.BINARY, 0), ("", "row", TypeId.LONG, 0))
    stored.zipWithIndex.foreach { case ((column, protection, id, at), number) =>
      val made = protection match {
        case "file" =>
          Proto.newBuilder.setProtection(protection).setEncoding(Encoding.ENCODING_FILE)
        case "row" => Proto.newBuilder.setProtection(protection).setEncoding(Encoding.ENCODING_ROW)
        case _ =>
          val by = PrintedProtections.all(protection)
          val link = if (column == "category" || column == "cat") "category" else s"$path.$at"
          Protections.describe(Proto.newBuilder, by, columns(at)._2 == TypeId.STRING,
            nullable = true).setLink(
            if (by.getLinked) link else "")
      }
      info.addStored(made.setName(s"c${number + 1}").setColumn(at).setType(kind(id)).setNullable(
          true).setBytes(2000))
    }
    info.addAllProtections(PrintedProtections.all.all.asJava)
    columns.foreach(_ =>
      info.addColumns(TableInfo.ColumnInfo.newBuilder.setProtection("several").setBytes(2000)))
    (0 until 2).foreach { _ =>
      val file = TableInfo.FileInfo.newBuilder
      (0 until 3).foreach(_ =>
        file.addRowGroups(TableInfo.FileInfo.RowGroup.newBuilder.setRows(1000).setBytes(1000)))
      info.addFiles(file)
    }
    info.build()
  }

  private val det = "det" -> TypeId.BINARY
  private val ope = "ope" -> TypeId.LONG
  private val ore = "ore" -> TypeId.BINARY
  private val ashe = "ashe" -> TypeId.LONG
  private val std = "std" -> TypeId.BINARY

  /**
   * c1 and c2 are of id and name, c3 and c4 of age and category, c5 and c6 of salary, and so on in
   * order.
   */
  val employees: TableInfo = table(
    11,
    "/sealed/e",
    Seq(
      ("id", TypeId.LONG, Seq(det)),
      ("name", TypeId.STRING, Seq(std)),
      ("age", TypeId.INT, Seq(ope)),
      ("category", TypeId.STRING, Seq(det)),
      ("salary", TypeId.LONG, Seq(ashe, "tee" -> TypeId.LONG)),
      ("bonus", TypeId.LONG, Seq("tee" -> TypeId.LONG)),
      ("grade", TypeId.INT, Seq(ore, std)),
      ("code", TypeId.STRING, Seq("ope" -> TypeId.BINARY, "tee" -> TypeId.STRING)),
      ("open", TypeId.INT, Seq("plain" -> TypeId.INT))))

  val categories: TableInfo = table(
    12,
    "/sealed/c",
    Seq(("cat", TypeId.STRING, Seq(det)), ("label", TypeId.STRING, Seq(std)),
      ("size", TypeId.INT, Seq(ope))))
}
