package org.apache.spark.sql.coffer.advise

import scala.util.control.NonFatal

import org.json4s.{jvalue2extractable, DefaultFormats, Formats}
import org.json4s.jackson.{JsonMethods, Serialization}

import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.coffer.common.CofferConf
import org.apache.spark.sql.coffer.plugin.CofferExplain
import org.apache.spark.sql.coffer.split.{
  BaseColumn,
  CharPadding,
  CofferScan,
  CofferTable,
  ColumnUses,
  Estimates,
  ClientRows,
  ClientTable,
  Opening,
  Sites,
  StoredColumn,
  Use
}
import org.apache.spark.sql.coffer.translate.Types
import org.apache.spark.sql.coffer.versions.ScanOf
import org.apache.spark.sql.execution.command.{CreateViewCommand, SetCommand}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.StructType

/**
 * What a workload would do under policies that nobody has encrypted anything under yet. Tables are
 * imagined, Spark analyses and optimises the queries over them, and the planner itself ([[Sites]])
 * says what engines could do of each: what it can, this can, and nothing else. For a session with
 * Coffer's extensions and without its plugin; nothing runs in it, and no key is needed.
 */
final class Advisor(session: SparkSession, tables: Seq[Imagined], protections: Protections) {
  import Advisor.{formats, PolicyOf}

  private val settings: Map[String, String] = session.sessionState.conf.getAllConfs
  private var statements: Seq[(String, Either[String, LogicalPlan])] = Nil

  /**
   * Which columns each statement uses for what; or why Spark refuses it. `sql`: a JSON list of
   * statements.
   */
  def understand(sql: String): String = {
    reset()
    define(Map.empty)
    statements = JsonMethods.parse(sql).extract[Seq[String]].map(s => s -> read(s))
    Serialization.write(statements.map {
      case (_, Right(_: Command)) => Understood(None, command = true, Nil, Nil)
      case (_, Right(query)) =>
        Understood(None, command = false, ColumnUses.of(query), Advisor.tablesOf(query))
      case (_, Left(why)) => Understood(Some(why), command = false, Nil, Nil)
    })
  }

  private def read(sql: String): Either[String, LogicalPlan] =
    try
      session.sessionState.sqlParser.parsePlan(sql) match {
        case command @ (_: CreateViewCommand | _: SetCommand) =>
          Right(run(command))
        case _: CreateView => Left("it makes a view that lasts: CREATE TEMPORARY VIEW can be read")
        case _: Command | _: InsertIntoStatement => Left("it is no query: of a write, give the " +
            "SELECT")
        case _ => Right(session.sql(sql).queryExecution.optimizedPlan)
      }
    catch { case NonFatal(e) => Left(Advisor.words(e)) }

  /** Commands that only the session knows of, which later statements may need. */
  private def run(command: LogicalPlan): LogicalPlan = {
    val again = command match {
      case view: CreateViewCommand => view.copy(replace = true)
      case other => other
    }
    Dataset.ofRows(session, again)
    command
  }

  /**
   * What each of these statements (by number) brings to the client under a policy, and why: or why
   * it cannot run.
   */
  def weigh(policy: String, hosts: Boolean, which: Array[Int]): String = {
    reset()
    sites(hosts)
    val chosen = imagine(JsonMethods.parse(policy).extract[PolicyOf])
    Serialization.write(which.toSeq.map(statements(_)._2).map {
      case Right(query) if !query.isInstanceOf[Command] => weighed(query, chosen)
      case _ => Weighed(None, Nil, Nil)
    })
  }

  private def weighed(query: LogicalPlan, chosen: Map[String, CofferTable]): Weighed =
    try {
      val there = query.transformUpWithSubqueries {
        case r @ ScanOf(relation, scan: CofferScan, _) =>
          val table = chosen(scan.table.info.getName)
          r.copy(relation = relation.copy(table = table),
            scan = new CofferScan(table, scan.readSchema()))
      }
      val parts = rewritten(there)
      val clientParts = parts.flatMap(_.collect {
        case h: ClientRows => Advisor.brought(h); case t: ClientTable => Advisor.read(t)
      })
      val above = parts.flatMap(_.collect {
        case p
            if !p.isInstanceOf[LeafNode] &&
              !p.isInstanceOf[Project] => p.nodeName
      })
      Weighed(None, clientParts, above)
    } catch { case NonFatal(e) => Weighed(Some(Advisor.words(e)), Nil, Nil) }

  private def rewritten(query: LogicalPlan): Seq[LogicalPlan] = {
    val own =
      if (Sites.needed(query)) Seq(new Sites(session).rewrite(CharPadding.strip(query))) else Nil
    own ++ ColumnUses.subqueries(query).flatMap(rewritten)
  }

  /**
   * Each statement planned whole under a policy, as EXPLAIN would show it before it runs; or why it
   * is refused.
   */
  def plan(policy: String, hosts: Boolean): String = {
    reset()
    sites(hosts)
    define(JsonMethods.parse(policy).extract[PolicyOf])
    Serialization.write(statements.map {
      case (sql, Right(plan)) =>
        try
          if (plan.isInstanceOf[Command]) {
            run(plan)
            Planned(None, Nil)
          } else {
            val planned = session.sql(sql).queryExecution.executedPlan
            Planned(None, new CofferExplain().generateExtendedInfo(planned).linesIterator.toSeq)
          }
        catch { case NonFatal(e) => Planned(Some(Advisor.words(e)), Nil) }
      case (_, Left(why)) => Planned(Some(why), Nil)
    })
  }

  /** What a SET of the workload changed counts for what comes after it, not before. */
  private def reset(): Unit = {
    val conf = session.sessionState.conf
    val now = conf.getAllConfs
    (now.keySet -- settings.keySet).foreach(conf.unsetConf(_: String))
    settings.foreach { case (key, value) =>
      if (!now.get(key).contains(value)) conf.setConfString(key, value)
    }
  }

  /** Nothing runs here, so the context's setting can follow what is asked. */
  private def sites(hosts: Boolean): Unit =
    session.sparkContext.conf.set(CofferConf.ENCLAVE, if (hosts) "none" else "required")

  private def define(policy: PolicyOf): Unit = imagine(policy).foreach { case (name, table) =>
    Dataset.ofRows(session, DataSourceV2Relation.create(table, None, None)).createOrReplaceTempView(
      s"`$name`")
  }

  private def imagine(policy: PolicyOf): Map[String, CofferTable] =
    tables.map(t => t.name -> t.under(policy.getOrElse(t.name, Map.empty), protections)).toMap
}

object Advisor {
  private[advise] type PolicyOf = Map[String, Map[String, Choice]]
  private[advise] implicit val formats: Formats = DefaultFormats

  /**
   * `tables`: a JSON list of [[Imagined]]; `protections`: what
   * `coffer reference --protections --json` prints.
   */
  def open(session: SparkSession, tables: String, protections: String): Advisor =
    new Advisor(session, JsonMethods.parse(tables).extract[Seq[Imagined]],
      Protections.parse(protections))

  /**
   * The columns of a table as Spark DDL has them: a JSON list of name, type and whether NULL is
   * allowed, or why they are refused.
   */
  def columns(ddl: String): String = {
    val found =
      try {
        val fields = CharVarcharUtils.replaceCharVarcharWithStringInSchema(
          StructType.fromDDL(ddl)).fields.toSeq
        fields.flatMap { f =>
          // They are always tee, and there is no estimate of what they take.
          val why = if (CofferScan.isNested(f.dataType)) Some("nested types are not supported here")
          else Types.of(f.dataType).left.toOption.map(_.message)
          why.map(w => s"column ${f.name}: $w")
        }.headOption match {
          case Some(why) => Columns(Some(why), Nil)
          case None => Columns(None, fields.map(f => Declared(f.name, f.dataType.sql, f.nullable)))
        }
      } catch { case NonFatal(e) => Columns(Some(words(e)), Nil) }
    Serialization.write(found)
  }

  /** What it says, on one line, without a hint or a place in the text. */
  private def words(e: Throwable): String =
    Option(e.getMessage).getOrElse(e.toString).split("; line \\d+ pos")(0).linesIterator
      .takeWhile(line => !line.startsWith("hint:") && !line.startsWith("== "))
      .map(_.trim)
      .mkString(" ")
      .trim

  private def tablesOf(query: LogicalPlan): Seq[String] =
    query.collectWithSubqueries { case BaseColumn.Table(table, _) => table.info.getName }.distinct

  /** Of values, whatever they are stored as: plans are compared by it. */
  private def width(o: Opening, column: Option[BaseColumn]): Double =
    column.flatMap(_.figures).flatMap(_.width).getOrElse(Estimates.width(o.output.dataType))

  /** What the client engine reads itself comes to the client whole. */
  private def read(table: ClientTable): Brought = {
    val rows = table.table.info.getRows.toDouble
    val values = table.openings.map(o =>
      width(o, table.table.schema.getFieldIndex(o.output.name).map(BaseColumn(table.table, _))))
    Brought(rows, rows * values.sum, table.scan.bytes.toDouble,
      table.openings.map(ClientTable.text(table, _)), Nil, Nil)
  }

  private def brought(clientRows: ClientRows): Brought = {
    val origins = BaseColumn.of(clientRows.inEngines)
    val rows = Estimates.rows(clientRows.inEngines)
    def named(o: Opening): Option[BaseColumn] =
      origins.get(o.from.exprId).orElse(o.encoding.map(f => BaseColumn(f.table, f.stored.column)))
    val values = clientRows.openings.map(o => width(o, named(o)))
    val worked = clientRows.inEngines.collect {
      case _: Project | _: LeafNode => AttributeSet.empty
      case node => node.references
    }.reduce(_ ++ _)
    val encodings = for {
      table <- clientRows.inEngines.collect { case BaseColumn.Table(t, output) => t -> output }
      a <- table._2 if worked.contains(a)
      c <- table._1.stored if table._1.viewed && c.isColumn && c.name == a.name
    } yield Seq(table._1.info.getName, BaseColumn(table._1, c.column).name, c.protection)
    Brought(
      rows,
      rows * values.sum,
      Estimates.bytes(clientRows),
      clientRows.openings.map(_.text),
      clientRows.inEngines.collect {
        case p
            if !p.isInstanceOf[Project] &&
              !p.isInstanceOf[LeafNode] => p.nodeName
      },
      encodings.distinct)
  }
}

/** A column's protections under a policy. `narrow`: its `ope` fits a BIGINT. */
private[advise] final case class Choice(protections: Seq[String], link: String, narrow: Boolean)

private[advise] object Choice {

  /** Of a column that a policy does not name. */
  val whole: Choice = Choice(Seq(StoredColumn.WHOLE), "", narrow = false)
}

private[advise] final case class Columns(refusal: Option[String], columns: Seq[Declared])
private[advise] final case class Declared(name: String, `type`: String, nullable: Boolean)
private[advise] final case class Understood(
    refusal: Option[String],
    command: Boolean,
    uses: Seq[Use],
    tables: Seq[String])
private[advise] final case class Weighed(
    refusal: Option[String],
    clientParts: Seq[Brought],
    above: Seq[String])
private[advise] final case class Planned(refusal: Option[String], plan: Seq[String])

/**
 * `values`: bytes as they are; `bytes`: as they come; `work`: what engines do below; `encodings`:
 * the stored columns that it works on.
 */
private[advise] final case class Brought(
    rows: Double,
    values: Double,
    bytes: Double,
    columns: Seq[String],
    work: Seq[String],
    encodings: Seq[Seq[String]])
