"""Statements about sealed tables: each works whole or touches nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from coffer_testing.ddl import MAKE, ROWS, Session, in_database, refused
from coffer_testing.runner import QueryFailed


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with in_database(tmp_path_factory.mktemp("ddl")) as session:
        yield session


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
