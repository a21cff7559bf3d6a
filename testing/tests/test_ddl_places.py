"""Tables that do not open spoil no listing, other storage is taken for no folder, and Hive's
catalog is served as Spark's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coffer_testing.ddl import MAKE, ROWS, Session, in_database, refused, session
from coffer_testing.runner import QueryFailed


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with in_database(tmp_path_factory.mktemp("ddl")) as session:
        yield session


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
            condition = failed.value.condition or ""
            codes = ("COFFER_", "manifest_", "file_kind", "table")
            assert condition.startswith(codes), (name, failed.value)
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
        if name == "forgotten":
            # Its id is in the policy until the owner takes it out.
            with pytest.raises(QueryFailed, match="take it out of the policy"):
                s.sql(f"CREATE TABLE {name} USING coffer AS SELECT 5 AS a")
            continue
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


TEXT = "COFFER_CATALOG_TEXT"


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
        refused(lambda text=text: h.sql(text), TEXT)
    # Nor as the first thing that a session is asked.
    for text in (f"SELECT d.{exit}", "SELECT d.twice(1)"):
        refused(lambda text=text: h.run("spark.newSession().sql(text)", text=text), TEXT)
    # A view's text is analysed in the middle of the query that reads it.
    h.sql("CREATE VIEW others AS SELECT 1 AS a")
    with pytest.raises(QueryFailed):
        h.run("spark.newSession().sql(text)", text=f"SELECT d.{exit}, a FROM d.others")
    h.sql("DROP VIEW others")
    assert h.run("result = spark._jvm.java.lang.System.getProperty('coffer.called')") is None
    assert h.sql("SELECT a FROM guesses") == [["1"]]
    h.sql("CREATE TEMPORARY VIEW own AS SELECT a FROM t")
    h.sql("CREATE TEMPORARY FUNCTION thrice(x INT) RETURNS INT RETURN x * 3")
    assert sorted(h.sql("SELECT thrice(a) FROM own")) == [["3"], ["6"]]
    for statement in ("VIEW own", "VIEW guesses", "FUNCTION called", "FUNCTION twice"):
        h.sql(f"DROP {statement}")


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
