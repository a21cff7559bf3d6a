package org.apache.spark.sql.coffer.plugin

import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.coffer.exec.SealedInsert
import org.apache.spark.sql.coffer.split.{SealedFormat, SealedProvider}
import org.apache.spark.sql.coffer.versions.{describesPartition, Constrained, SavedAsTable}
import org.apache.spark.sql.execution.command._
import org.apache.spark.sql.execution.datasources.{
  CreateTable => CreateV1Table,
  SaveIntoDataSourceCommand
}

/** What becomes of a statement that is about a sealed table. */
private[coffer] sealed trait Verdict

/** It does what it does to a table of Spark's; `how`: what to know of it. */
private[coffer] final case class Works(how: String) extends Verdict

/** It is refused before anything is touched. */
private[coffer] final case class Refused(why: String, instead: String) extends Verdict

/**
 * One kind of statement.
 *
 * @param title    as in Spark's reference
 * @param examples of the table `t` (a INT, s STRING, p INT), partitioned by `p`, managed, in the
 *                 database `d`; `{folder}`: a folder
 * @param unopened it works where the table does not open, too
 * @param nodes    the commands that it becomes
 */
private[coffer] final case class Statement(
    title: String,
    verdict: Verdict,
    unopened: Boolean,
    examples: Seq[String])(
    nodes: PartialFunction[LogicalPlan, Any]) {
  def is(command: LogicalPlan): Boolean = nodes.isDefinedAt(command)
}

/**
 * Every statement of Spark's that can be about a sealed table. What is not here is refused where it
 * is. `docs/reference/ddl.md` is made from this table (`StatementsSuite`), and
 * `testing/tests/test_ddl.py` runs its examples.
 */
private[coffer] object Statements {

  private def works(
      title: String,
      examples: String*)(how: String)(nodes: PartialFunction[LogicalPlan, Any]): Statement =
    Statement(title, Works(how), unopened = false, examples)(nodes)

  private def always(
      title: String,
      examples: String*)(how: String)(nodes: PartialFunction[LogicalPlan, Any]): Statement =
    Statement(title, Works(how), unopened = true, examples)(nodes)

  private def refused(title: String, examples: String*)(why: String, instead: String)(
      nodes: PartialFunction[LogicalPlan, Any]): Statement =
    Statement(title, Refused(why, instead), unopened = false, examples)(nodes)

  private val ANEW = "make the table anew: CREATE OR REPLACE TABLE t USING coffer AS SELECT … " +
    "FROM t"
  private val COLUMNS = "the columns are pinned by the manifest, and the catalog's copy of them " +
    "is never read"
  private val PARTITIONS = "partitions are made of rows; their values are in the manifest, not " +
    "in folder names"
  private val BY_ROWS = "write or overwrite rows: INSERT INTO, INSERT OVERWRITE t PARTITION (…)"
  private val REWRITE = "INSERT OVERWRITE t SELECT … FROM t with the rows as they are to be, or " +
    "CREATE OR REPLACE TABLE … AS SELECT"

  private val tables: Seq[Statement] = Seq(
    works(
      "CREATE TABLE … USING coffer",
      "CREATE TABLE u (a INT NOT NULL, b STRING) USING coffer",
      "CREATE TABLE u USING coffer PARTITIONED BY (p) AS SELECT * FROM t",
      "CREATE TABLE IF NOT EXISTS t USING coffer AS SELECT 1 AS a",
      "CREATE TABLE u USING coffer LOCATION '{t}'")(
      "The table is sealed and published before the catalog has its entry. Without columns it " +
        "names the table that lies at LOCATION") {
      case _: CreateTable | _: CreateTableAsSelect => ()
      // Of another format where a sealed table has the name: Spark's answer is that it is there
      // already.
      case _: CreateV1Table | _: CreateDataSourceTableCommand |
          _: CreateDataSourceTableAsSelectCommand | _: CreateTableCommand => ()
    },
    refused("CREATE OR REPLACE TABLE … USING another format",
      "CREATE OR REPLACE TABLE t USING " +
        "parquet AS SELECT 1 AS a")(
      "the sealed table would be deleted behind its register's back",
      "DROP TABLE it first") {
      case r: ReplaceTable if !SealedFormat.is(r.tableSpec) => ()
      case r: ReplaceTableAsSelect if !SealedFormat.is(r.tableSpec) => ()
    },
    works(
      "CREATE OR REPLACE TABLE … USING coffer",
      "CREATE OR REPLACE TABLE t (z INT) USING coffer",
      "CREATE OR REPLACE TABLE t USING coffer AS SELECT a + 1 AS b FROM t",
      "REPLACE TABLE t USING coffer AS SELECT 'x' AS b")("The next version of the same table") {
      case _: ReplaceTable | _: ReplaceTableAsSelect => ()
    },
    refused("CREATE TABLE … LIKE a sealed table, in another format",
      "CREATE TABLE u LIKE t " +
        "USING parquet")(
      "rows that were sealed would be expected in a table that is not",
      "leave USING out, or say USING coffer; for a plain table name its columns") {
      case c: CreateTableLikeCommand
          if c.provider.exists(!SealedFormat.is(_)) ||
            c.fileFormat.inputFormat.isDefined => ()
    },
    works("CREATE TABLE … LIKE", "CREATE TABLE u LIKE t", "CREATE TABLE IF NOT EXISTS t LIKE t")(
      "A sealed table without rows, with the same columns and partition columns; protections are " +
        "the policy's for the new name") {
      case _: CreateTableLikeCommand => ()
    },
    always("DROP TABLE [PURGE]", "DROP TABLE t", "DROP TABLE IF EXISTS t PURGE")(
      "Of a managed table the files go, its record in the register, and with it its key; of an " +
        "external one the entry only. A table " +
        "that does not open is dropped too") {
      case _: DropTable => ()
      case d: DropTableCommand if !d.isView => ()
    },
    always("ALTER TABLE … RENAME TO", "ALTER TABLE t RENAME TO u", "ALTER TABLE t RENAME TO d.u")(
      "Within its database, as in Spark. The catalog's name changes, and the register records " +
        "it; the folder stays, and so does the name in the policy") {
      case _: RenameTable => ()
    },
    works("TRUNCATE TABLE", "TRUNCATE TABLE t")("A version without " +
      "rows") { case _: TruncateTable => () },
    works(
      "INSERT INTO, INSERT OVERWRITE, and what df.write and writeTo make of " +
        "them", "INSERT INTO t VALUES (3, 'z', 1)",
      "INSERT OVERWRITE t PARTITION (p = 1) SELECT 7, 'q'",
      "INSERT OVERWRITE t SELECT * FROM t " +
        "WHERE a = 1")(
      "See the guide; overwriting is of all rows or of whole partitions") {
      case _: SealedInsert | _: V2WriteCommand => ()
      case s: SaveIntoDataSourceCommand if s.dataSource.isInstanceOf[SealedProvider] => ()
    },
    refused("df.write.format(another).saveAsTable",
      "PY: spark.sql('SELECT 1 AS a').write.format('parquet').mode('overwrite').saveAsTable('t')",
      "PY: spark.sql('SELECT 1 AS a').write.format('parquet').mode('append').saveAsTable('t')")(
      "the sealed table would be deleted behind its register's back",
      "use format(\"coffer\"), or DROP TABLE it first") {
      case SavedAsTable(SaveMode.Overwrite | SaveMode.Append) => ()
    },
    works("df.write.format(another).saveAsTable, which changes nothing",
      "PY: spark.sql('SELECT 1 AS " +
        "a').write.format('parquet').mode('ignore').saveAsTable('t')")("The table is there, and " +
      "stays") {
      case SavedAsTable(_) => ()
    })

  private val columns: Seq[Statement] = Seq(
    refused("ALTER TABLE … ADD | DROP | RENAME | REPLACE | ALTER COLUMN",
      "ALTER TABLE t ADD " +
        "COLUMN c INT",
      "ALTER TABLE t ADD COLUMNS (c INT FIRST)", "ALTER TABLE t DROP COLUMN s",
      "ALTER TABLE t " +
        "RENAME COLUMN a TO z",
      "ALTER TABLE t REPLACE COLUMNS (a INT)",
      "ALTER TABLE t ALTER COLUMN a TYPE " +
        "BIGINT", "ALTER TABLE t ALTER COLUMN a COMMENT 'x'",
      "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
      "ALTER TABLE t ALTER COLUMN a DROP NOT " +
        "NULL", "ALTER TABLE t ALTER COLUMN s FIRST",
      "ALTER TABLE t ALTER COLUMN s SET DEFAULT 'x'")(COLUMNS, ANEW) {
      case _: AddColumns | _: DropColumns | _: RenameColumn | _: ReplaceColumns |
          _: AlterColumns => ()
      case _: AlterTableAddColumnsCommand | _: AlterTableChangeColumnCommand => ()
    },
    refused("ALTER TABLE … ADD | DROP CONSTRAINT", "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)",
      "ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY (a)",
      "ALTER TABLE t DROP CONSTRAINT IF EXISTS " +
        "c")(
      "nothing would enforce it: rows are written by engines",
      "declare columns NOT NULL, which is kept; check rows in the query that writes them") {
      case Constrained(_) => ()
    },
    refused("ALTER TABLE … CLUSTER BY, DEFAULT COLLATION",
      "ALTER TABLE t CLUSTER BY " +
        "(a)", "ALTER TABLE t CLUSTER BY NONE",
      "ALTER TABLE t DEFAULT COLLATION UTF8_LCASE")("the order of rows would tell of them, and " +
        "strings are compared by their bytes", ANEW) {
      case _: AlterTableClusterBy | _: AlterTableCollation => ()
    },
    refused("CREATE | DROP INDEX", "CREATE INDEX i ON t (a)",
      "DROP INDEX i ON " +
        "t")("an index beside the table would tell of its values",
      "filters are pushed into the scan as they are") { case _: CreateIndex | _: DropIndex => () })

  private val parts: Seq[Statement] = Seq(
    refused(
      "ALTER TABLE … ADD | DROP | RENAME PARTITION, RECOVER PARTITIONS, MSCK REPAIR " +
        "TABLE", "ALTER TABLE t ADD PARTITION (p = 7)",
      "ALTER TABLE t ADD IF NOT EXISTS PARTITION (p = 1) LOCATION " +
        "'{folder}/elsewhere'", "ALTER TABLE t DROP PARTITION (p = 1)",
      "ALTER TABLE t DROP IF EXISTS PARTITION (p = 1) PURGE",
      "ALTER TABLE t PARTITION (p = 1) " +
        "RENAME TO PARTITION (p = 3)",
      "ALTER TABLE t RECOVER PARTITIONS", "MSCK REPAIR TABLE t",
      "MSCK REPAIR TABLE t DROP " +
        "PARTITIONS",
      "PY: spark.catalog.recoverPartitions('t')")(PARTITIONS, BY_ROWS) {
      case _: AddPartitions | _: DropPartitions | _: RenamePartitions | _: RecoverPartitions |
          _: RepairTable => ()
      case _: AlterTableAddPartitionCommand | _: AlterTableDropPartitionCommand |
          _: AlterTableRenamePartitionCommand => ()
      case _: RepairTableCommand => ()
    },
    refused("TRUNCATE TABLE … PARTITION",
      "TRUNCATE TABLE t PARTITION (p = " +
        "1)")(PARTITIONS, BY_ROWS) {
      case _: TruncatePartition | _: TruncateTableCommand => ()
    },
    refused(
      "SHOW PARTITIONS, SHOW TABLE EXTENDED … PARTITION, DESCRIBE … " +
        "PARTITION", "SHOW PARTITIONS t",
      "SHOW PARTITIONS t PARTITION (p = 1)",
      "SHOW TABLE EXTENDED LIKE 't' PARTITION (p = " +
        "1)", "DESCRIBE t PARTITION (p = 1)")(
      PARTITIONS, "SELECT DISTINCT p FROM t") {
      case _: ShowPartitions | _: ShowPartitionsCommand | _: ShowTablePartition => ()
      case d: DescribeRelation if describesPartition(d) => ()
      case d: DescribeRelationJsonCommand if d.partitionSpec.nonEmpty => ()
    })

  private val rest: Seq[Statement] = Seq(
    refused("ALTER TABLE … SET LOCATION",
      "ALTER TABLE t SET LOCATION " +
        "'{folder}/elsewhere'", "ALTER TABLE t SET LOCATION 's3a://b/t'",
      "ALTER TABLE t PARTITION (p = 1) SET LOCATION '{folder}/elsewhere'")(
      "which table a folder holds is said by policy and register, and the entry would name another",
      "CREATE TABLE u USING coffer LOCATION '…' names the table that lies there") {
      case _: SetTableLocation | _: AlterTableSetLocationCommand => ()
    },
    refused("ALTER TABLE … SET SERDE | SERDEPROPERTIES",
      "ALTER TABLE t SET SERDE " +
        "'x'", "ALTER TABLE t SET SERDEPROPERTIES ('a' = 'b')")(
      "sealed tables have no SerDe", "ALTER TABLE t SET TBLPROPERTIES, for notes of your own") {
      case _: SetTableSerDeProperties | _: AlterTableSerDePropertiesCommand => ()
    },
    refused("ALTER TABLE … SET TBLPROPERTIES of location, path, name and their like",
      "ALTER TABLE t SET TBLPROPERTIES ('PATH' = '/elsewhere')",
      "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('coffer.managed')")(
      "such a property would be read as where the table is", "choose another key") {
      case s: SetTableProperties if s.properties.keys.exists(SealedFormat.reserved) => ()
      case u: UnsetTableProperties if u.propertyKeys.exists(SealedFormat.reserved) => ()
    },
    always("ALTER TABLE … SET | UNSET TBLPROPERTIES, COMMENT ON TABLE",
      "ALTER TABLE t SET " +
        "TBLPROPERTIES ('k' = 'v')",
      "ALTER TABLE t UNSET TBLPROPERTIES ('k')", "COMMENT ON TABLE t IS 'a note'")(
      "They are kept in the catalog, in clear, and mean nothing to Coffer") {
      case _: SetTableProperties | _: UnsetTableProperties | _: CommentOnTable => ()
    },
    refused("ANALYZE TABLE … PARTITION | FOR COLUMNS",
      "ANALYZE TABLE t COMPUTE STATISTICS FOR " +
        "ALL COLUMNS",
      "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a",
      "ANALYZE TABLE t PARTITION (p = 1) " +
        "COMPUTE STATISTICS")(
      "statistics of values would lie in the catalog in clear",
      "ANALYZE TABLE t COMPUTE " +
        "STATISTICS works") {
      case _: AnalyzeColumn | _: AnalyzeColumnCommand | _: AnalyzePartitionCommand => ()
      case a: AnalyzeTable if a.partitionSpec.nonEmpty => ()
    },
    works("ANALYZE TABLE, ANALYZE TABLES", "ANALYZE TABLE t COMPUTE STATISTICS",
      "ANALYZE TABLE " +
        "t COMPUTE STATISTICS NOSCAN",
      "ANALYZE TABLES COMPUTE STATISTICS")(
      "Nothing is computed: rows and bytes are in the manifest, and are never written into the " +
        "catalog. Plain tables of the database are analysed") {
      case _: AnalyzeTable | _: AnalyzeTables | _: AnalyzeTablesCommand => ()
    },
    refused("DELETE, UPDATE, MERGE", "DELETE FROM t", "DELETE FROM t WHERE a = 1",
      "UPDATE t SET " +
        "a = 2",
      "MERGE INTO t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE")(
      "single rows of sealed files cannot be changed yet", REWRITE) {
      case _: DeleteFromTable | _: DeleteFromTableWithFilters | _: UpdateTable |
          _: MergeIntoTable => ()
    },
    refused("LOAD DATA", "LOAD DATA INPATH '{folder}/elsewhere' INTO TABLE t",
      "LOAD DATA LOCAL INPATH '{folder}/elsewhere' OVERWRITE INTO TABLE t")(
      "files are not part of a table by lying in its folder",
      "`coffer encrypt --append`, or " +
        "INSERT INTO … SELECT") {
      case _: LoadData | _: LoadDataCommand => ()
    },
    works("CACHE TABLE, spark.catalog.cacheTable, cache, persist", "CACHE TABLE t",
      "CACHE LAZY TABLE t", "CACHE TABLE c AS SELECT * FROM t",
      "PY: spark.catalog.cacheTable('t')", "PY: spark.table('t').cache()")(
      "Rows are kept sealed, on executors' disks whatever the storage level, under the " +
        "application's cache key; UNCACHE TABLE, unpersist and clearCache drop them") {
      case _: CacheTable | _: CacheTableAsSelect => ()
    },
    works("UNCACHE TABLE, REFRESH TABLE", "UNCACHE TABLE IF EXISTS t",
      "REFRESH TABLE " +
        "t", "PY: spark.catalog.refreshTable('t')",
      "PY: spark.catalog.uncacheTable('t')")(
      "Every query reads the newest version as it " +
        "is") { case _: UncacheTable | _: RefreshTable | _: RefreshTableCommand => () },
    refused("SHOW CREATE TABLE … AS SERDE, DESCRIBE … AS JSON",
      "SHOW CREATE TABLE t AS " +
        "SERDE", "DESCRIBE EXTENDED t AS JSON")(
      "Spark has it for its own tables only", "SHOW CREATE TABLE t, DESCRIBE EXTENDED t") {
      case s: ShowCreateTable if s.asSerde => ()
      case _: DescribeRelationJsonCommand | _: ShowCreateTableAsSerdeCommand => ()
    },
    always("DESCRIBE, SHOW TBLPROPERTIES", "DESCRIBE t",
      "DESCRIBE EXTENDED " +
        "t", "SHOW TBLPROPERTIES t")(
      "Of a table that does not open they say " +
        "why") { case _: DescribeRelation | _: ShowTableProperties => () },
    works("DESCRIBE of a column, SHOW COLUMNS, SHOW CREATE TABLE", "DESCRIBE t a",
      "SHOW COLUMNS " +
        "IN t", "SHOW CREATE TABLE t",
      "PY: result = [c.name for c in spark.catalog.listColumns('t')]")("") {
      case _: DescribeColumn | _: ShowColumns | _: ShowCreateTable => ()
    },
    works("CREATE | ALTER | DROP VIEW over sealed tables",
      "CREATE OR REPLACE TEMPORARY VIEW v " +
        "AS SELECT a FROM t",
      "CREATE VIEW u AS SELECT a FROM t")(
      "The catalog has the view's text and its columns' names and types, in clear. A permanent " +
        "view works in a catalog in memory; in one that others can write to, COFFER_CATALOG_TEXT " +
        "refuses it, and a temporary view does the same") {
      case _: CreateView | _: CreateViewCommand | _: AlterViewAs | _: AlterViewAsCommand => ()
    },
    works("EXPLAIN", "EXPLAIN SELECT a FROM t")("") { case _: ExplainCommand => () })

  /** In order: the first that a command is decides. */
  val all: Seq[Statement] = tables ++ columns ++ parts ++ rest

  /** What is said of a statement that is none of these. */
  val unknown: Refused = Refused("what it would do to a sealed table is not " +
      "known", "docs/reference/ddl.md lists the statements that work")

  /** Statements that are about no table, and have to do with sealed ones all the same. */
  val others: Seq[(String, String)] = Seq(
    "SHOW TABLES, SHOW TABLE EXTENDED, spark.catalog.listTables" ->
      "A table that does not open is listed as any other; whoever uses it learns why it does not",
    "DROP DATABASE … CASCADE" ->
      ("Each managed sealed table of the database is dropped as by DROP TABLE. Before the first " +
        "one goes, the client engine is asked " +
        "whether all may. Refused where a sealed table that is not to be dropped lies in the " +
        "database's folder, which Spark deletes whole"),
    "SELECT … FROM coffer.`path`" ->
      ("Refused by Spark: only its own file formats are read so; use " +
        "spark.read.format(\"coffer\").load(path)"),
    "INSERT OVERWRITE DIRECTORY, and any command that would write rows of a sealed table " +
      "elsewhere" ->
      "Refused (COFFER_PLAINTEXT_SINK)")

  /** The reference page. */
  def page: String = {
    def cell(text: String): String = text.replace("|", "\\|")
    def row(s: Statement): String = {
      val examples = s.examples.map(e => s"`${cell(e.stripPrefix("PY: "))}`").mkString("<br>")
      val outcome = s.verdict match {
        case Works(how) => "works" + (if (s.unopened) ", also where the table does not " +
                                        "open"
                                      else "") + (if (how.isEmpty) "" else s". $how")
        case Refused(why, instead) => s"refused: $why. Instead: $instead"
      }
      s"| ${cell(s.title)} | $examples | ${cell(outcome)} |\n"
    }
    val besides = others.map { case (what, becomes) => s"| ${cell(what)} | ${cell(becomes)} |\n" }
    intro + "| Statement | For example | What becomes of it " +
      "|\n|---|---|---|\n" + all.map(row).mkString +
      "\n## Besides\n\n| Statement | What becomes of it |\n|---|---|\n" + besides.mkString
  }

  private val intro =
    """# Statements about sealed tables
      |
      |What Spark's statements do where they are about a sealed table `t` of its catalog, in-memory
      |or Hive's. *Works* means: whole, as for a table of Spark's own. *Refused* means `COFFER_DDL`,
      |before anything is touched: no file, no entry of the catalog, no record of the register. A
      |statement that is not here is refused where it names a sealed table. This page is made from
      |the code (`StatementsSuite`); `testing/tests/test_ddl.py` runs every line of it.
      |
      |Which folder is a sealed table's is said by policy and register; a catalog's entry is a name
      |for a folder. Folders are paths of a file system that driver and executors share, `file:`
      |URLs, or URLs of a storage for which Spark's Hadoop configuration names a file system
      |([storage](../guides/storage.md)); a path without a scheme is one of `fs.defaultFS`. Whatever
      |is none of these is refused (`COFFER_STORAGE_SCHEME`, `COFFER_LOCATION`).
      |
      |""".stripMargin

  /** The same for tests in other languages. */
  def json: String = {
    def text(s: String): String = "\"" + s.replace("\\", "\\\\").replace("\"", "\\\"") + "\""
    all.map { s =>
      val refused = s.verdict.isInstanceOf[Refused]
      s"""{"title": ${text(
          s.title)}, "refused": $refused, "unopened": ${s.unopened}, "examples": [${s.examples.map(
          text).mkString(
          ", ")}]}"""
    }.mkString("[", ", ", "]")
  }
}
