package org.apache.spark.sql.coffer.advise

import org.json4s.{jvalue2extractable, DefaultFormats, Formats}
import org.json4s.jackson.JsonMethods
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.CofferExtensions
import org.apache.spark.sql.coffer.fake.PrintedProtections

/**
 * What the planner makes of policies over tables that are only imagined: sites, forms and what
 * comes to the client.
 */
class AdvisorSuite extends AnyFunSuite with BeforeAndAfterAll {
  private implicit val formats: Formats = DefaultFormats
  private var spark: SparkSession = _

  private val people = """{"name": "people", "rows": 100000, "columns": [
    {"name": "id", "type": "BIGINT", "nullable": false, "distinct": 100000},
    {"name": "age", "type": "INT", "nullable": true, "distinct": 50, "low": 18, "high": 68},
    {"name": "job", "type": "STRING", "nullable": true, "distinct": 10, "width": 8},
    {"name": "pay", "type": "DECIMAL(12,2)", "nullable": true}]}"""
  private val jobs = """{"name": "jobs", "rows": 10, "columns": [
    {"name": "title", "type": "STRING", "nullable": false, "distinct": 10, "width": 8},
    {"name": "level", "type": "INT", "nullable": false}]}"""

  override def beforeAll(): Unit = {
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
    spark = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.sql.extensions", classOf[CofferExtensions].getName)
      .getOrCreate()
  }

  override def afterAll(): Unit = spark.stop()

  private def policy(columns: (String, String)*): String =
    columns.groupBy(_._1.split('.').head).map { case (table, members) =>
      members
        .map { case (column, encodings) =>
          val listed = encodings.split('+').map(f => "\"" + f + "\"").mkString(", ")
          val link = if (Set("people.job", "jobs.title")(column)) "job" else ""
          s""""${column.split(
              '.').last}": {"protections": [$listed], "link": "$link", "narrow": true}"""
        }
        .mkString(s""""$table": {""", ", ", "}")
    }.mkString("{", ", ", "}")

  private def weighed(sql: String, columns: (String, String)*): Weighed = {
    val advisor = Advisor.open(spark, s"[$people, $jobs]", PrintedProtections.text)
    advisor.understand("[\"" + sql + "\"]")
    JsonMethods.parse(advisor.weigh(policy(columns: _*), hosts = true, Array(0))).extract[Seq[
      Weighed]].head
  }

  private def uses(sql: String): Set[String] = {
    val understood = Advisor.open(spark, s"[$people, $jobs]", PrintedProtections.text).understand(
      "[\"" + sql + "\"]")
    JsonMethods.parse(understood).extract[Seq[Understood]].head.uses
      .map { u =>
        val other = Seq(u.otherTable, u.other).filter(_.nonEmpty).mkString("/")
        s"${u.column} ${u.kind} $other".trim
      }
      .toSet
  }

  test("what is computed on each column") {
    val found = uses("select job, avg(pay), min(age) from people where age between 20 and 30 and " +
      "id in (1, 2, 3) group by job")
    assert(found == Set("job group", "job output", "pay avg", "age min", "age output",
      "age range 20", "age range 30", "id in"))
    // What is said of a key holds for what it is equal to.
    val joined = uses("select count(distinct level) from people join jobs on job = title where " +
      "pay * 2 > 7 and job like 'a%'")
    assert(joined == Set("job join jobs/title", "title join people/job", "level distinct",
      "pay expression *", "job like", "title like"))
  }

  test("a view serves what comes after it; what is no query is said to be none") {
    val advisor = Advisor.open(spark, s"[$people, $jobs]", PrintedProtections.text)
    val view = "create temporary view young as select * from people where age < 30"
    val sql = Seq(view, "select sum(pay) from young",
      "insert into people select * from " +
        "people", "drop table people", "selec 1")
    advisor.understand(sql.mkString("[\"", "\", \"", "\"]"))
    val planned = JsonMethods.parse(advisor.plan("{}", hosts = false)).extract[Seq[Planned]]
    assert(planned.map(_.refusal.isEmpty) == Seq(true, true, false, false, false))
    assert(planned(2).refusal.exists(_.contains("no query")) &&
      planned(3).refusal == planned(2).refusal)
    assert(planned(4).refusal.exists(_.contains("'selec'")))
  }

  test("a SET counts for what comes after it, each time that the workload is planned") {
    val advisor = Advisor.open(spark, s"[$people, $jobs]", PrintedProtections.text)
    val sql = Seq("select AGE from people", "set spark.sql.caseSensitive=true",
      "select AGE from " +
        "people")
    def refused(planned: Seq[Option[String]]) = planned.map(_.isDefined)
    val understood = JsonMethods.parse(advisor.understand(sql.mkString("[\"", "\", \"",
          "\"]"))).extract[Seq[Understood]]
    assert(refused(understood.map(_.refusal)) == Seq(false, false, true))
    for (_ <- 1 to 2) {
      val planned = JsonMethods.parse(advisor.plan("{}", hosts = false)).extract[Seq[Planned]]
      assert(refused(planned.map(_.refusal)) == Seq(false, false, true))
    }
    spark.conf.unset("spark.sql.caseSensitive")
  }

  test("a sum comes to the client with the rows that it took: some bytes each, or a bit for each " +
    "of the table's and group") {
    def bytes(group: String) =
      weighed(s"select $group, sum(pay) from people group by " +
          s"$group", s"people.$group" -> "det", "people.pay" -> "ashe").clientParts.map(
        _.bytes).sum
    // Ten groups of 8 bytes and det's 16 more, and sums of 8; then a bit for each row of the table
    // and group.
    assert(bytes("job") == 10 * (24 + 8) + 10 * 100000 / 8)
    // Groups of one row.
    assert(bytes("id") == 100000 * (24 + 8) + (2 + 5) * 100000)
    // Average and sum come from one state.
    val both = weighed("select job, sum(pay), avg(pay) from people group by " +
        "job", "people.job" -> "det", "people.pay" -> "ashe")
    assert(both.clientParts.map(_.bytes).sum == bytes("job"))
  }

  test("an order is of the first rows only where there is a limit") {
    assert(uses("select id from people order by age limit 3").contains("age order limit"))
    assert(uses("select id from people order by age").contains("age order"))
  }

  test("groups by an ope that fits a BIGINT rather than by det, and opens det rather than std") {
    val grouped = weighed("select age, count(*) from people group by " +
        "age", "people.age" -> "det+ope")
    assert(grouped.clientParts.flatMap(_.encodings) == Seq(Seq("people", "age", "ope")))
    assert(weighed("select id from " +
        "people", "people.id" -> "std+det").clientParts.flatMap(_.columns) == Seq("id from det"))
    assert(weighed("select id from " +
        "people", "people.id" -> "std+ashe").clientParts.flatMap(_.columns) == Seq("id from ashe"))
  }

  test("what is not told by ciphertexts comes to the client whole") {
    val sql = "select sum(pay) from people where age > 58"
    val inEngines = weighed(sql, "people.age" -> "ore", "people.pay" -> "ashe")
    assert(inEngines.clientParts.map(_.rows) == Seq(1.0) && inEngines.above.isEmpty)
    // A fifth of the ages is above 58.
    val half = weighed(sql, "people.age" -> "ore", "people.pay" -> "std")
    assert(half.clientParts.map(_.rows.round) == Seq(20000L) && half.above == Seq("Aggregate"))
    val clientRows = weighed(sql, "people.age" -> "std", "people.pay" -> "std")
    assert(
      clientRows.clientParts.map(_.rows) == Seq(100000.0) &&
        clientRows.clientParts.map(_.values).sum > half.clientParts.map(_.values).sum)
  }

  test("a small query is worked on at the client, a join with a large table is not") {
    val small = weighed("select level, count(*) from jobs group by " +
        "level", "jobs.level" -> "det", "jobs.title" -> "det")
    assert(small.clientParts.flatMap(_.work).isEmpty && small.above == Seq("Aggregate"))
    val joined = weighed(
      "select level, count(*) from people join jobs on job = title group by level",
      "jobs.level" -> "det",
      "jobs.title" -> "det",
      "people.job" -> "det")
    assert(joined.clientParts.flatMap(_.work).contains("Join") && joined.above.isEmpty)
  }

  test("what no host may open is read at the client") {
    val read = weighed("select id from people where age > " +
        "20", "people.id" -> "tee", "people.age" -> "det")
    assert(read.refusal.isEmpty && read.above == Seq("Filter"))
    assert(read.clientParts.map(_.rows) == Seq(100000.0) &&
      read.clientParts.flatMap(_.columns).exists(_.contains("no engine may open")))
    // There too what is cheapest to open is read.
    val cheapest = weighed("select id from people where age > " +
        "20", "people.id" -> "std+det", "people.age" -> "tee")
    assert(cheapest.clientParts.flatMap(_.columns).contains("id from det"))
  }
}
