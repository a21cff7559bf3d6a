"""Statements about sealed tables: each works whole or touches nothing, and one bad table spoils no
listing."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

ROWS = [["1", "x", "1"], ["2", "y", "2"]]
MAKE = (
    "CREATE TABLE t USING coffer PARTITIONED BY (p) AS SELECT * FROM VALUES (1, 'x', 1), (2, "
    "'y', 2) AS t(a, s, p)"
)


class Session:
    """A session in the database `d`, its owner, and the folder of all of it."""

    def __init__(self, owner: Owner, driver: Driver, folder: Path) -> None:
        self.owner = owner
        self.driver = driver
        self.folder = folder
        self.warehouse = folder / "warehouse" / "d.db"

    def run(self, code: str, **names: Any) -> Any:
        return self.driver.run(code, folder=str(self.folder), **names)

    def sql(self, text: str) -> list[list[Any]]:
        return self.driver.query(text).rows

    def statement(self, text: str) -> Any:
        text = text.replace("{folder}", str(self.folder)).replace("{t}", str(self.warehouse / "t"))
        return self.run(text.removeprefix("PY: ")) if text.startswith("PY: ") else self.sql(text)

    def rows(self, table: str = "t") -> list[list[str]]:
        return sorted(
            self.run(f"result = [list(map(str, row)) for row in spark.table('{table}').collect()]")
        )

    def names(self) -> list[str]:
        return sorted(row[1] for row in self.sql("SHOW TABLES IN d"))

    def registered(self) -> list[str]:
        listed = json.loads(self.owner.coffer("keys", "list", "--json").stdout)["tables"]
        return sorted(table["name"] for table in listed)

    def state(self) -> dict[str, Any]:
        """All that a statement could touch: rows, entries of the catalog, files, register, policy,
        the working directory."""
        entry = (
            "str(spark._jsparkSession.sessionState().catalog().listTables('d').mkString(',')) + "
        )
        entry += (
            "'\\n'.join(r[3] for r in spark.sql(\"SHOW TABLE EXTENDED IN d LIKE '*'\").collect())"
        )
        return {
            "rows": self.rows(),
            "entries": self.run(f"result = {entry}"),
            "files": {
                str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
                for root in (self.folder / "warehouse", self.folder / "elsewhere")
                for path in root.rglob("*")
            },
            "register": self.owner.coffer("keys", "list", "--json").stdout,
            "policy": (self.owner.config_dir / "policy.toml").read_text(),
            "here": self.run("import os\nresult = sorted(os.listdir('.'))"),
        }

    def fresh(self) -> None:
        """Only `t`, as it is made."""
        self.run("for x in spark.sql('SHOW VIEWS').collect(): spark.sql(f'DROP VIEW {x.viewName}')")
        for name in self.names():
            self.sql(f"DROP TABLE IF EXISTS d.{name}")
        self.sql(MAKE)


def session(folder: Path, **conf: str) -> tuple[Owner, Driver]:
    owner = Owner.create(folder / "trusted")
    settings = {"spark.sql.warehouse.dir": str(folder / "warehouse"), **conf}
    log = folder / "driver.log"
    return owner, Driver(
        {},
        sealed=True,
        log=log,
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=settings,
    )


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("ddl")
    owner, running = session(folder)
    with running as driver:
        driver.run("spark.sql('CREATE DATABASE d')\nspark.sql('USE d')")
        yield Session(owner, driver, folder)


def refused(action: Callable[[], Any], code: str) -> str:
    with pytest.raises(QueryFailed) as failed:
        action()
    assert f"[{code}]" in failed.value.message, failed.value.message
    assert "hint: " in failed.value.message
    return failed.value.message


# ---- the list ----------------------------------------------------------------------------------


def listed(s: Session) -> list[dict[str, Any]]:
    statements: list[dict[str, Any]] = json.loads(
        s.run("result = spark._jvm.org.apache.spark.sql.coffer.PythonBridge.statements()")
    )
    return statements


# What is refused by another rule, or by Spark, before it is asked which statement it is.
OTHERWISE = {
    "CREATE OR REPLACE TABLE t USING parquet AS SELECT 1 AS a": (
        "UNSUPPORTED_FEATURE.TABLE_OPERATION"
    ),
}


def test_what_is_refused_touches_nothing(s: Session) -> None:
    s.fresh()
    before = s.state()
    count = 0
    wrong: list[str] = []
    for statement in listed(s):
        for example in statement["examples"] if statement["refused"] else []:
            code = OTHERWISE.get(example, "COFFER_DDL")
            try:
                s.statement(example)
                wrong.append(f"{example}: it is not refused")
            except QueryFailed as error:
                if f"[{code}]" not in error.message or (
                    code.startswith("COFFER_") and "hint: " not in error.message
                ):
                    wrong.append(f"{example}: {error.message[:300]}")
            if (after := s.state()) != before:
                wrong.append(
                    f"{example}: {[key for key in before if after[key] != before[key]]} changed"
                )
                before = after
            count += 1
    assert not wrong, "\n".join(wrong)
    assert count > 50


EMPTY: list[list[str]] = []

# Of each example that works: what `t` and `u` hold then; None: there is no such table.
WORKS: dict[str, tuple[list[list[str]] | None, list[list[str]] | None]] = {
    "CREATE TABLE u (a INT NOT NULL, b STRING) USING coffer": (ROWS, EMPTY),
    "CREATE TABLE u USING coffer PARTITIONED BY (p) AS SELECT * FROM t": (ROWS, ROWS),
    "CREATE TABLE IF NOT EXISTS t USING coffer AS SELECT 1 AS a": (ROWS, None),
    "CREATE TABLE u USING coffer LOCATION '{t}'": (ROWS, ROWS),
    "CREATE OR REPLACE TABLE t (z INT) USING coffer": (EMPTY, None),
    "CREATE OR REPLACE TABLE t USING coffer AS SELECT a + 1 AS b FROM t": ([["2"], ["3"]], None),
    "REPLACE TABLE t USING coffer AS SELECT 'x' AS b": ([["x"]], None),
    "CREATE TABLE u LIKE t": (ROWS, EMPTY),
    "CREATE TABLE IF NOT EXISTS t LIKE t": (ROWS, None),
    "DROP TABLE t": (None, None),
    "DROP TABLE IF EXISTS t PURGE": (None, None),
    "ALTER TABLE t RENAME TO u": (None, ROWS),
    "ALTER TABLE t RENAME TO d.u": (None, ROWS),
    "TRUNCATE TABLE t": (EMPTY, None),
    "INSERT INTO t VALUES (3, 'z', 1)": ([*ROWS, ["3", "z", "1"]], None),
    "INSERT OVERWRITE t PARTITION (p = 1) SELECT 7, 'q'": (
        [["2", "y", "2"], ["7", "q", "1"]],
        None,
    ),
    "INSERT OVERWRITE t SELECT * FROM t WHERE a = 1": ([ROWS[0]], None),
    "CREATE VIEW u AS SELECT a FROM t": (ROWS, [["1"], ["2"]]),
}

# And what it shows, where it shows something: in part.
SHOWS = {
    "DESCRIBE t": "'a', 'int'",
    "DESCRIBE EXTENDED t": "'Provider', 'coffer'",
    "DESCRIBE t a": "'data_type', 'int'",
    "SHOW COLUMNS IN t": "['p']",
    "SHOW CREATE TABLE t": "USING coffer",
    "SHOW TBLPROPERTIES t": "[]",
    "PY: result = [c.name for c in spark.catalog.listColumns('t')]": "['a', 's', 'p']",
    "EXPLAIN SELECT a FROM t": "coffer",
}


def test_what_works_works_whole(s: Session) -> None:
    count = 0
    wrong: list[str] = []
    for statement in listed(s):
        for example in [] if statement["refused"] else statement["examples"]:
            s.fresh()
            t, u = WORKS.get(example, (ROWS, None))
            want = {name: rows for name, rows in (("t", t), ("u", u)) if rows is not None}
            try:
                shown = s.statement(example)
                if (got := {name: s.rows(name) for name in s.names() if name in "tu"}) != want:
                    wrong.append(f"{example}: {got}")
                if SHOWS.get(example, "") not in str(shown):
                    wrong.append(f"{example}: {shown}")
            except QueryFailed as error:
                wrong.append(f"{example}: {error.message[:300]}")
            count += 1
    assert not wrong, "\n".join(wrong)
    assert count > 35
    examples = {example for statement in listed(s) for example in statement["examples"]}
    assert not (WORKS.keys() | SHOWS.keys() | OTHERWISE.keys()) - examples


# ---- what they leave ---------------------------------------------------------------------------


def test_a_renamed_table_is_read_written_and_dropped(s: Session) -> None:
    s.fresh()
    place = s.warehouse / "t"
    s.sql("ALTER TABLE t RENAME TO u")
    assert place.is_dir()
    assert not (s.warehouse / "u").exists()
    s.sql("INSERT INTO u VALUES (3, 'z', 3)")
    assert s.rows("u") == [*ROWS, ["3", "z", "3"]]
    assert "MANAGED" in str(s.sql("DESCRIBE EXTENDED u"))
    s.owner.coffer("verify", "--deep", place)
    # The policy's name is not the catalog's to give.
    assert s.registered() == ["d.t"]
    refused(lambda: s.sql("CREATE TABLE t USING coffer AS SELECT 1 AS a"), "table")
    assert s.names() == ["u"]
    # A name of the renamed table is no other's, in the register as little as in the catalog.
    for own in ("d.u", "D.U", "D.T"):
        refused(
            lambda own=own: s.sql(
                f"CREATE TABLE z USING coffer OPTIONS (name '{own}') AS SELECT 1 AS a"
            ),
            "table",
        )
    assert not (s.warehouse / "z").exists()
    s.sql("CREATE TABLE v USING coffer AS SELECT 1 AS a")
    with pytest.raises(QueryFailed, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        s.sql("ALTER TABLE u RENAME TO v")
    s.sql("CREATE DATABASE other")
    with pytest.raises(QueryFailed, match=r"source and destination databases do not match"):
        s.sql("ALTER TABLE u RENAME TO other.w")
    s.sql("DROP DATABASE other")
    assert "MANAGED" in str(s.sql("DESCRIBE EXTENDED u"))
    s.sql("ALTER TABLE u RENAME TO w")
    s.sql("ALTER TABLE w RENAME TO t")
    assert len(s.rows("t")) == 3
    s.sql("DROP TABLE t")
    assert not place.exists()
    assert s.registered() == ["d.v"]
    s.sql(MAKE)


def test_properties_and_comments_are_shown(s: Session) -> None:
    s.fresh()
    s.sql("ALTER TABLE t SET TBLPROPERTIES ('k' = 'v', 'l' = 'w')")
    s.sql("ALTER TABLE t UNSET TBLPROPERTIES ('l')")
    s.sql("COMMENT ON TABLE t IS 'a note'")
    assert ["k", "v"] in s.sql("SHOW TBLPROPERTIES t")
    assert "'l'" not in str(s.sql("SHOW TBLPROPERTIES t"))
    assert ["Comment", "a note", ""] in s.sql("DESCRIBE EXTENDED t")
    assert "a note" in str(s.run("result = [str(t) for t in spark.catalog.listTables()]"))
    assert s.rows() == ROWS


def test_views_over_a_sealed_table(s: Session) -> None:
    s.fresh()
    s.sql("CREATE VIEW x AS SELECT a FROM t")
    s.sql("ALTER VIEW x AS SELECT a + 1 AS b FROM t")
    s.sql("ALTER VIEW x SET TBLPROPERTIES ('k' = 'v')")
    s.sql("ALTER VIEW x RENAME TO y")
    assert s.rows("y") == [["2"], ["3"]]
    s.sql("DROP VIEW y")
    assert s.rows() == ROWS


def test_analyze_tables_writes_nothing_about_sealed_ones(s: Session) -> None:
    s.fresh()
    s.sql("CREATE TABLE plain USING parquet AS SELECT 1 AS a")
    s.sql("ANALYZE TABLES COMPUTE STATISTICS")
    assert "Statistics" in str(s.sql("DESCRIBE EXTENDED plain"))
    assert "Statistics" not in str(s.sql("SHOW TABLE EXTENDED LIKE 't'"))
    s.sql("DROP TABLE plain")


def test_what_a_table_cannot_keep_is_refused_when_it_is_made(s: Session) -> None:
    s.fresh()
    before = s.state()
    for columns in (
        "(a INT DEFAULT 1)",
        "(a INT, CONSTRAINT c CHECK (a > 0))",
        "(a INT PRIMARY KEY)",
    ):
        with pytest.raises(QueryFailed):
            s.sql(f"CREATE TABLE u {columns} USING coffer")
        assert s.state() == before, columns
    refused(
        lambda: s.sql("CREATE TABLE u (a INT) USING coffer TBLPROPERTIES ('Path' = '/x')"),
        "COFFER_DDL",
    )
    refused(lambda: s.sql("CREATE TABLE u USING coffer"), "COFFER_NO_PATH")
    refused(
        lambda: s.sql(f"CREATE TABLE u USING coffer LOCATION '{s.folder}/nothing'"),
        "COFFER_NO_TABLE",
    )
    assert s.state() == before


def test_the_old_commands_know_sealed_tables_too(s: Session) -> None:
    s.fresh()
    s.sql("SET spark.sql.legacy.useV1Command=true")
    try:
        s.sql("DROP TABLE t")
        assert s.registered() == []
        s.sql(MAKE)
        s.sql("CREATE DATABASE e")
        s.sql("CREATE TABLE e.t USING coffer AS SELECT 1 AS a")
        s.sql("DROP DATABASE e CASCADE")
        assert s.registered() == ["d.t"]
    finally:
        s.sql("SET spark.sql.legacy.useV1Command=false")


# ---- databases ---------------------------------------------------------------------------------


def test_dropping_a_database(s: Session) -> None:
    s.fresh()
    s.sql("CREATE DATABASE e")
    s.sql("CREATE TABLE e.one USING coffer AS SELECT 1 AS a")
    s.sql("CREATE TABLE e.two USING coffer AS SELECT 2 AS a")
    s.sql("CREATE TABLE e.plain USING parquet AS SELECT 3 AS a")
    s.sql(f"CREATE TABLE e.named USING coffer LOCATION '{s.warehouse}/t'")
    with pytest.raises(QueryFailed, match="SCHEMA_NOT_EMPTY"):
        s.sql("DROP DATABASE e")
    folder = s.folder / "warehouse" / "e.db"
    # A sealed table of another database in its folder: it would be deleted behind its back.
    s.sql(f"CREATE TABLE inside USING coffer LOCATION '{folder}/inside' AS SELECT 4 AS a")
    refused(lambda: s.sql("DROP DATABASE e CASCADE"), "COFFER_DDL")
    assert sorted(s.registered()) == ["d.inside", "d.t", "e.one", "e.two"]
    assert s.rows("e.one") == [["1"]]
    assert s.rows("inside") == [["4"]]
    s.sql("DROP TABLE inside")
    shutil.rmtree(folder / "inside")
    s.owner.coffer("keys", "forget", "--yes", "d.inside")
    # One that does not open is no hindrance.
    shutil.rmtree(folder / "two")
    s.sql("DROP DATABASE e CASCADE")
    assert "d.t" in s.registered()
    assert not [name for name in s.registered() if name.startswith("e.")]
    assert not folder.exists()
    assert s.rows() == ROWS
    s.sql("DROP DATABASE IF EXISTS e CASCADE")
    with pytest.raises(QueryFailed, match="SCHEMA_NOT_FOUND"):
        s.sql("DROP DATABASE e")


def test_an_entry_that_leads_to_another_table_drops_and_renames_none(s: Session) -> None:
    """The catalog is the host's: it points a name at another table's folder, whether that opens or
    not."""
    s.fresh()
    s.sql("CREATE TABLE u USING coffer AS SELECT 7 AS a")
    point = """
catalog = spark._jsparkSession.sessionState().catalog()
option = spark._jvm.scala.Option
identifier = spark._jvm.org.apache.spark.sql.catalyst.TableIdentifier
entry = catalog.getTableMetadata(identifier(table, option.apply("d")))
is_at = entry.storage()
place = option.apply(spark._jvm.java.net.URI(uri))
catalog.alterTable(entry.withNewStorage(
    place, is_at.inputFormat(), is_at.outputFormat(), is_at.compressed(), is_at.serde(),
    is_at.properties()))
catalog.invalidateCachedTable(entry.identifier())
"""
    # One that was renamed: the register has another name for it than the catalog.
    s.sql("ALTER TABLE u RENAME TO r")
    own, others = s.warehouse / "t", s.warehouse / "u"
    statements = (
        "DROP TABLE t",
        "DROP TABLE IF EXISTS t PURGE",
        "ALTER TABLE t RENAME TO w",
        "TRUNCATE TABLE t",
        "INSERT OVERWRITE t VALUES (1)",
        "CREATE OR REPLACE TABLE t USING coffer AS SELECT 1 AS a",
        "SELECT * FROM t",
    )
    hidden = s.folder / "hidden"
    before = s.state() | {"entries": None}
    for damaged in (False, True):
        s.run(point, table="t", uri=f"file:{others}")
        if damaged:
            (others / "_coffer").rename(hidden)
        for statement in statements:
            with pytest.raises(QueryFailed) as failed:
                s.sql(statement)
            assert damaged or "[other_table]" in failed.value.message, (
                f"{statement}: {failed.value.message}"
            )
        if damaged:
            hidden.rename(others / "_coffer")
        s.run(point, table="t", uri=f"file:{own}")
        assert s.state() | {"entries": None} == before
        assert s.rows("r") == [["7"]]
    # The same, of the renamed table's own entry, and of one whose entry calls itself otherwise.
    s.run(point, table="r", uri=f"file:{own}")
    for statement in ("DROP TABLE r", "ALTER TABLE r RENAME TO w", "DROP DATABASE d CASCADE"):
        with pytest.raises(QueryFailed, match="other_table"):
            s.sql(statement)
    s.run(point, table="r", uri=f"file:{others}")
    assert s.state() | {"entries": None} == before
    s.sql("DROP TABLE r")
    assert not others.exists()
    assert s.registered() == ["d.t"]


# ---- tables that do not open -------------------------------------------------------------------


def damage(path: Path) -> None:
    (manifest,) = (path / "_coffer").glob("manifest-*")
    body = bytearray(manifest.read_bytes())
    body[-20] ^= 1
    manifest.write_bytes(body)


BAD: dict[str, Callable[[Session, Path], Any]] = {
    "gone": lambda _, path: shutil.rmtree(path),
    "moved": lambda s, path: path.rename(s.folder / "elsewhere" / path.name),
    "forgotten": lambda s, path: s.owner.coffer("keys", "forget", "--yes", f"d.{path.name}"),
    "damaged": lambda _, path: damage(path),
    "empty": lambda _, path: [shutil.rmtree(path), path.mkdir()],
    "a_file": lambda _, path: [shutil.rmtree(path), path.write_text("none")],
    "a_link_to_nowhere": lambda s, path: [
        shutil.rmtree(path),
        path.symlink_to(s.folder / "nowhere"),
    ],
}


@pytest.mark.full
def test_a_bad_table_spoils_no_listing(s: Session) -> None:
    s.fresh()
    (s.folder / "elsewhere").mkdir(exist_ok=True)
    for name in BAD:
        s.sql(f"CREATE TABLE {name} USING coffer AS SELECT 1 AS a")
    s.sql("CREATE VIEW over_gone AS SELECT * FROM gone")
    for name, break_it in BAD.items():
        break_it(s, s.warehouse / name)
    everything = sorted([*BAD, "t", "over_gone"])
    assert sorted(s.run("result = [t.name for t in spark.catalog.listTables()]")) == everything
    assert s.names() == everything
    assert sorted(row[1] for row in s.sql("SHOW TABLE EXTENDED LIKE '*'")) == everything
    assert s.rows() == ROWS
    assert s.sql("DESCRIBE t")[0][0] == "a"
    s.sql("ANALYZE TABLES COMPUTE STATISTICS")
    for name in BAD:
        assert s.run(f"result = spark.catalog.tableExists('{name}')")
        assert s.run(f"result = spark.catalog.getTable('{name}').name") == name
        assert s.sql(f"DESCRIBE {name}")[0][0] == "# Cannot be opened"
        assert "coffer" in str(s.sql(f"DESCRIBE EXTENDED {name}"))
        assert "status" in str(s.sql(f"SHOW TBLPROPERTIES {name}"))
        uses = [
            lambda name=name: s.rows(name),
            lambda name=name: s.sql(f"SELECT nothing FROM {name}"),
            lambda name=name: s.sql(f"INSERT INTO {name} VALUES (1, 2, 3)"),
            lambda name=name: s.sql(f"INSERT OVERWRITE {name} SELECT 1"),
            lambda name=name: s.run(f"spark.sql('SELECT 1 AS a').writeTo('{name}').append()"),
            lambda name=name: s.run(f"spark.sql('SELECT 1 AS a').write.insertInto('{name}')"),
            lambda name=name: s.run(
                f"spark.sql('SELECT 1 AS "
                f"a').write.format('coffer').mode('append').saveAsTable('{name}')"
            ),
            lambda name=name: s.sql(f"SHOW COLUMNS IN {name}"),
            lambda name=name: s.sql(f"SHOW CREATE TABLE {name}"),
            lambda name=name: s.sql(f"TRUNCATE TABLE {name}"),
            lambda name=name: s.run(f"spark.catalog.listColumns('{name}')"),
            lambda name=name: s.run(f"spark.catalog.refreshTable('{name}')"),
            lambda name=name: s.sql(f"SELECT * FROM t WHERE a IN (SELECT a FROM {name})"),
        ]
        for use in uses:
            with pytest.raises(QueryFailed) as failed:
                use()
            assert (failed.value.condition or "").startswith("COFFER_"), (name, failed.value)
            assert "hint: " in failed.value.message
    # Spark counts the columns of a view before any rule of ours is asked.
    with pytest.raises(QueryFailed, match=r"COFFER_|INCOMPATIBLE_VIEW_SCHEMA_CHANGE"):
        s.rows("over_gone")
    # Each can be dropped, and another made under its name.
    s.sql("DROP VIEW over_gone")
    for name in BAD:
        path = s.warehouse / name
        if name in ("a_file", "a_link_to_nowhere"):
            path.unlink()
        s.sql(f"DROP TABLE {name}")
        assert not path.exists(), name
        s.sql(f"CREATE TABLE {name} USING coffer AS SELECT 5 AS a")
        assert s.rows(name) == [["5"]]
        s.sql(f"DROP TABLE {name}")
    assert s.registered() == ["d.t"]


# ---- other storage -----------------------------------------------------------------------------

ELSEWHERE = [
    "s3a://b/t",
    "S3A://b/t",
    "s3a:/b/t",
    "s3a:t",
    "hdfs:///t",
    "viewfs://c/t",
    "jar:file:/a!/t",
    "local:/t",
    "C:\\\\t",
    " s3a://b/t",
]
NO_PATHS = ["file://host/t", "//host/t", "file:t"]
WAYS = {
    "load": "spark.read.format('coffer').load(at)",
    "load by option": "spark.read.format('coffer').option('path', at).load()",
    "save": "spark.sql('SELECT 1 AS a').write.format('coffer').save(at)",
    "overwrite": "spark.sql('SELECT 1 AS a').write.format('coffer').mode('overwrite').save(at)",
    "append": "spark.sql('SELECT 1 AS a').write.format('coffer').mode('append').save(at)",
    "saveAsTable": "spark.sql('SELECT 1 AS a').write.format('coffer').option('path', "
    "at).saveAsTable('w')",
    "CREATE TABLE": "spark.sql(f\"CREATE TABLE w (a INT) USING coffer LOCATION '{at}'\")",
    "CREATE TABLE without columns": "spark.sql(f\"CREATE TABLE w USING coffer LOCATION '{at}'\")",
    "CTAS": "spark.sql(f\"CREATE TABLE w USING coffer LOCATION '{at}' AS SELECT 1 AS a\")",
    "LIKE": "spark.sql(f\"CREATE TABLE w LIKE t USING coffer LOCATION '{at}'\")",
    "REPLACE": "spark.sql(f\"CREATE OR REPLACE TABLE w USING coffer LOCATION '{at}' AS SELECT 1 "
    'AS a")',
    "createTable": "spark.catalog.createTable('w', path=at, source='coffer')",
    "writeTo": "spark.sql('SELECT 1 AS a').writeTo('w').using('coffer').tableProperty('location', "
    "at).create()",
}


@pytest.mark.full
def test_no_other_storage_is_taken_for_a_folder(s: Session) -> None:
    s.fresh()
    before = s.state()
    for way, code in WAYS.items():
        for at in ELSEWHERE + NO_PATHS:
            with pytest.raises(QueryFailed) as failed:
                s.run(code, at=at)
                pytest.fail(f"{way} took {at}")
            # Spark's own parser of paths speaks before us where it makes a URI of one.
            ours = ("COFFER_STORAGE_SCHEME", "COFFER_LOCATION", "COFFER_DDL")
            words = (*ours, "Relative path in absolute URI", "Illegal character in scheme name")
            assert any(word in failed.value.message for word in words), (
                way,
                at,
                failed.value.message,
            )
    assert s.state() == before
    refused(lambda: s.run(WAYS["save"], at="s3a://b/t"), "COFFER_STORAGE_SCHEME")
    refused(lambda: s.run(WAYS["CTAS"], at="hdfs:///t"), "COFFER_STORAGE_SCHEME")
    refused(
        lambda: s.run(WAYS["CREATE TABLE without columns"], at="s3a://b/t"), "COFFER_STORAGE_SCHEME"
    )


@pytest.mark.full
def test_a_path_means_the_default_file_system(s: Session) -> None:
    s.fresh()
    before = s.state()
    s.sql("SET fs.defaultFS=s3a://nobodys")
    try:
        for way in ("load", "save", "append"):
            refused(
                lambda way=way: s.run(WAYS[way], at=str(s.folder / "new")), "COFFER_STORAGE_SCHEME"
            )
    finally:
        s.sql("RESET fs.defaultFS")
    by_option = WAYS["save"].replace(".save", ".option('fs.defaultFS', 's3a://b').save")
    refused(lambda: s.run(by_option, at=str(s.folder / "new")), "COFFER_STORAGE_SCHEME")
    assert s.state() == before
    assert not (s.folder / "new").exists()


@pytest.mark.full
def test_folders_with_odd_names_are_served(s: Session) -> None:
    for count, name in enumerate(("a:b", "s3a:", "per%20cent", "with blank", "größe", "q?x#y")):
        at = str(s.folder / "odd" / name)
        s.run(
            WAYS["save"].replace(".save", ".option('name', name).save"), at=at, name=f"odd{count}"
        )
        assert Path(at).is_dir()
        assert s.run("result = spark.read.format('coffer').load('file:' + at).count()", at=at) == 1
    s.sql("CREATE TABLE d.relative (a INT) USING coffer LOCATION 'sub/relative'")
    assert (s.warehouse / "sub" / "relative").is_dir()
    assert s.rows("relative") == []
    s.sql("DROP TABLE d.relative")


# ---- Hive's catalog ----------------------------------------------------------------------------


def texts_of_others(h: Session) -> None:
    """What Hive's catalog says to be run is refused, nothing of it loaded; what the session says
    works."""
    h.sql("CREATE VIEW guesses AS SELECT 1 AS a")
    h.sql("CREATE FUNCTION called AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect'")
    h.sql("CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2")
    exit = "called('java.lang.System', 'setProperty', 'coffer.called', 'yes')"
    for text in (
        "SELECT t.a FROM t JOIN guesses ON t.a = guesses.a",
        "CREATE VIEW kept AS SELECT a FROM t",
        "CREATE OR REPLACE VIEW guesses AS SELECT a FROM t",
        "ALTER VIEW guesses AS SELECT a FROM t",
        f"SELECT {exit} FROM t",
        f"SELECT {exit}",
        "SELECT twice(a) FROM t",
        "SELECT d.twice(a) FROM t",
    ):
        refused(lambda text=text: h.sql(text), "COFFER_CATALOG_TEXT")
    assert h.run("result = spark._jvm.java.lang.System.getProperty('coffer.called')") is None
    assert h.sql("SELECT a FROM guesses") == [[1]]
    h.sql("CREATE TEMPORARY VIEW own AS SELECT a FROM t")
    h.sql("CREATE TEMPORARY FUNCTION thrice(x INT) RETURNS INT RETURN x * 3")
    assert sorted(h.sql("SELECT thrice(a) FROM own")) == [[3], [6]]
    for statement in ("VIEW own", "VIEW guesses", "FUNCTION called", "FUNCTION twice"):
        h.sql(f"DROP {statement}")


@pytest.mark.full
def test_hive_s_catalog(tmp_path: Path) -> None:
    owner, running = session(
        tmp_path,
        **{
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:ddl;create=true",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={tmp_path}",
        },
    )
    with running as driver:
        h = Session(owner, driver, tmp_path)
        h.run("spark.sql('CREATE DATABASE d')\nspark.sql('USE d')")
        h.sql(MAKE)
        h.sql("ALTER TABLE t RENAME TO u")
        assert h.names() == ["u"]
        assert h.rows("u") == ROWS
        assert (h.warehouse / "t").is_dir()
        assert "MANAGED" in str(h.sql("SHOW TABLE EXTENDED LIKE 'u'"))
        h.sql("INSERT INTO u VALUES (3, 'z', 3)")
        h.sql("COMMENT ON TABLE u IS 'a note'")
        h.sql("ALTER TABLE u SET TBLPROPERTIES ('k' = 'v')")
        h.sql("CREATE TABLE v LIKE u")
        h.sql("TRUNCATE TABLE u")
        assert h.rows("u") == []
        refused(lambda: h.sql("ALTER TABLE u ADD COLUMN c INT"), "COFFER_DDL")
        refused(lambda: h.sql("ANALYZE TABLE u COMPUTE STATISTICS FOR ALL COLUMNS"), "COFFER_DDL")
        shutil.rmtree(h.warehouse / "v")
        assert sorted(h.run("result = [t.name for t in spark.catalog.listTables()]")) == ["u", "v"]
        h.sql("DROP TABLE u")
        assert not (h.warehouse / "t").exists()
        h.sql(MAKE)
        texts_of_others(h)
        h.sql("USE default")
        h.sql("DROP DATABASE d CASCADE")
        assert h.registered() == []
