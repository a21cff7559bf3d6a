package org.apache.spark.sql.coffer.split

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.PythonBridge
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.ClientBytes
import org.apache.spark.sql.coffer.plugin.Vouched
import org.apache.spark.sql.coffer.proto.plan.{Fragment, Node}
import org.apache.spark.sql.coffer.proto.wire.RunAtClient
import org.apache.spark.sql.coffer.translate.Nodes

/**
 * Tables that the client engine reads itself, where engines hold no keys: what it is asked for, and
 * what is refused before.
 */
class ClientTableSuite extends AnyFunSuite with SitesFixture {
  override protected def settings: Map[String, String] = Map("spark.coffer.enclave" -> "none")

  private def asked(sql: String): RunAtClient = {
    val (before, stages) = (client.ran.size, client.stages.size)
    spark.sql(sql).collect()
    assert(client.ran.size == before + 1 && client.stages.size == stages, "the client engine alone")
    client.ran.asScala.last
  }

  private def refused(body: => Any): CofferException = {
    val e = intercept[Exception](body)
    Iterator.iterate[Throwable](e)(_.getCause).takeWhile(_ != null).collectFirst {
      case c: CofferException => c
    }
      .getOrElse(fail("not refused by us", e))
  }

  private def scans(node: Node): Seq[Node] =
    if (node.hasScan) Seq(node) else Nodes.children(node).flatMap(scans)

  private def onlyScan(request: RunAtClient): Node = {
    val found = scans(Fragment.parseFrom(request.getFragment).getRoot)
    assert(found.size == 1)
    found.head
  }

  test("only the columns that are used are read, and conditions go into the scan") {
    val request = asked("SELECT bonus + 1 FROM e WHERE open = 3")
    assert(request.getScansList.asScala.map(_.getHandle) == Seq(11) && request.getInputsCount == 0)
    val scan = onlyScan(request)
    // bonus as tee, open as it is.
    assert(scan.getScan.getSchema.getFieldsList.asScala.map(_.getName).toSet == Set("c7", "c12"))
    assert(scan.getScan.getPushedCount == 2 && request.getReadBytes == (1L << 30))
  }

  test("a table of which engines may open nothing is read by its own columns") {
    val request = asked("SELECT max(v) FROM t WHERE k > 3")
    val scan = onlyScan(request)
    assert(scan.getScan.getSchema.getFieldsList.asScala.map(_.getName).toSet == Set("k", "v"))
  }

  test("what is not stored as it is, is opened") {
    val root = Fragment.parseFrom(asked("SELECT bonus, name, id FROM e").getFragment).getRoot
    val decrypt = Iterator.iterate(root)(n => if (n.hasProject) n.getProject.getChild else n).find(
      n => !n.hasProject).get
    assert(decrypt.hasDecrypt)
    val opened = decrypt.getDecrypt.getColumnsList.asScala.map(c => c.getName -> c.getStored).toMap
    assert(opened == Map("bonus" -> "", "name" -> "c2", "id" -> "c1"))
  }

  test("conditions on columns that need no opening go into the scan below those that do") {
    val root = Fragment.parseFrom(asked("SELECT id, bonus FROM e WHERE bonus > 100 AND open = 3 " +
        "AND id <> 7").getFragment).getRoot
    val scan = onlyScan(client.ran.asScala.last).getScan
    val names = scan.getSchema.getFieldsList.asScala.map(_.getName)
    val tested = scan.getPushedList.asScala.map(_.getCall).filter(c =>
      Set("gt", "eq")(c.getName)).map(c => names(c.getArgs(0).getColumn))
    assert(tested.toSet == Set("c7", "c12"))
    // What is told of the opened id is above its opening.
    val filters =
      Iterator.iterate(root)(n =>
        Nodes.children(n).headOption.getOrElse(Node.getDefaultInstance)).take(6).filter(
        _.hasFilter).toSeq
    assert(filters.size == 1 && filters.head.getFilter.getChild.hasDecrypt)
  }

  test("a join of a table that is read at the client with one that engines read happens at the " +
    "client") {
    val (ran, stages) = (client.ran.size, client.stages.size)
    val df = spark.sql("SELECT label, bonus FROM e JOIN c ON category = cat")
    assert(!Vouched.verified(df.queryExecution.executedPlan))
    // The stand-in for the client engine keeps no rows.
    assert(refused(df.collect()).code == "COFFER_CLIENT_PROTOCOL")
    assert(client.stages.size > stages && client.ran.size == ran)
  }

  test("what is read at the client alone is verified; with a part in engines it is not") {
    assert(PythonBridge.isVerified(spark.sql("SELECT bonus FROM e")))
    assert(PythonBridge.isVerified(spark.sql("SELECT count(*) FROM t WHERE v > (SELECT avg(v) " +
          "FROM t)")))
    assert(!PythonBridge.isVerified(spark.sql("SELECT id FROM e")))
    assert(!PythonBridge.isVerified(spark.sql("SELECT bonus FROM e WHERE open > (SELECT " +
          "max(size) FROM c)")))
  }

  test("too much is refused before anything is read, with what would help") {
    withConf(ClientBytes.KEY -> "1k") {
      val before = client.ran.size
      val e = refused(spark.sql("SELECT sum(bonus), category FROM e GROUP BY category").collect())
      assert(e.code == "too_much_at_client" && client.ran.size == before)
      assert(e.plain.contains("`bonus`, `category`") ||
          e.plain.contains("`category`, `bonus`"), e.plain)
      assert(e.plain.contains("coffer.`e`") && e.plain.contains("1024.0 B") &&
          e.plain.contains("work on `bonus`"), e.plain)
      assert(e.hint.contains("`bonus` is summed: \"ashe\" in the policy would " +
          "do") && e.hint.contains(ClientBytes.KEY), e.hint)
      // As the advisor has it: an ORDER BY of the result needs no order on hosts, a range only an
      // `ore`.
      val sorted = refused(spark.sql("SELECT bonus FROM e ORDER BY bonus").collect())
      assert(sorted.hint.contains("sorted by there: \"std\" in the policy would do"), sorted.hint)
      val ranged = refused(spark.sql("SELECT id FROM e WHERE bonus > 100 OR name = 'x'").collect())
      assert(ranged.hint.contains("`bonus` is compared by size: \"ore\" in the policy would " +
          "do"), ranged.hint)
      val greatest = refused(spark.sql("SELECT max(bonus) FROM e").collect())
      assert(greatest.hint.contains("\"ope\" in the policy would do"), greatest.hint)
      val both = refused(spark.sql("SELECT bonus, count(*) FROM e GROUP BY bonus ORDER BY " +
          "bonus").collect())
      assert(both.hint.contains("joined or grouped by") && both.hint.contains(": \"det\" in the " +
          "policy would do"), both.hint)
      val carried = refused(spark.sql("SELECT bonus FROM e").collect())
      assert(carried.hint.contains("only brought to the client: \"std\""), carried.hint)
      val computed = refused(spark.sql("SELECT bonus * 2 FROM e").collect())
      assert(computed.hint.contains("only enclaves"), computed.hint)
    }
  }

  test("what may end early, or be pruned, is left to the client engine to judge") {
    withConf(ClientBytes.KEY -> "1k") {
      assert(asked("SELECT bonus FROM e WHERE bonus > 100").getReadBytes == 1024)
      assert(asked("SELECT bonus FROM e LIMIT 3").getReadBytes == 1024)
    }
  }

  test("without keys nothing is written") {
    val e = refused(spark.sql("INSERT INTO t SELECT k, v, s FROM u"))
    assert(e.plain.contains("engines hold no keys") && e.hint.contains("coffer encrypt"))
    assert(refused(spark.sql("INSERT INTO t VALUES (1, 2.0, 'x')")).code == e.code)
  }
}

/** Rows that a query brings along, in enclaves' queries. */
class OwnRowsSuite extends AnyFunSuite with SitesFixture {

  test("rows of the query's own are at the client already") {
    val plan = split("SELECT id FROM e JOIN VALUES (1), (2) AS v(n) ON id = n")
    assert(plan.collect { case h: ClientRows => h }.forall(_.output.map(_.name) == Seq("id")))
  }
}

/** Writing rows of tables with stored columns: enclaves write what they may open. */
class WriteStoredSuite extends AnyFunSuite with SitesFixture {

  private def refused(sql: String): CofferException = {
    val e = intercept[Exception](spark.sql(sql))
    Iterator.iterate[Throwable](e)(_.getCause).takeWhile(_ != null).collectFirst {
      case c: CofferException => c
    }
      .getOrElse(fail("not refused by us", e))
  }

  test("what enclaves may open is written by them, and conditions on ciphertexts are theirs too") {
    val published = client.published.size
    spark.sql("INSERT INTO t SELECT salary, CAST(bonus AS DOUBLE), code FROM e WHERE age > 30 " +
      "AND category = 'nurse'")
    assert(client.published.size == published + 1)
    val scan = client.stages.asScala.last.getScans(0)
    assert(scan.getColumnsList.asScala.toSet == Set("c3", "c4", "c6", "c7", "c11"))
  }

  test("what they may not open is not, and the refusal says so before anything is begun") {
    val begun = client.begun.size
    val e = refused("INSERT INTO t SELECT id, 1.0D, name FROM e")
    assert(e.plain.contains("`id` (det)") && e.plain.contains("`name` (std)") &&
      e.hint.contains("coffer encrypt"))
    assert(refused("INSERT INTO t SELECT salary, 1.0D, upper(name) FROM " +
        "e").plain.contains("name from std"))
    assert(refused("INSERT INTO t SELECT salary, 1.0D, code FROM e WHERE name = " +
        "'x'").plain.contains("name from std"))
    assert(client.begun.size == begun)
  }
}
