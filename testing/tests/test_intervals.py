"""Intervals and times of day: in sealed tables, in expressions and in every operator, with exactly
plaintext Spark's rows, errors and types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer.pme import load_keks, read_file
from coffer_testing.intervals import ERRORS, MAKE, QUERIES
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed, same_error
from coffer_testing.turns import one_of

TIMES = {"spark.sql.timeType.enabled": "true", "spark.sql.session.timeZone": "America/New_York"}

# PySpark cannot collect intervals of months: those come as texts.
ROWS = """
df = {df}
df = df.toDF(*(f"{{at}} {{name}}" for at, name in enumerate(df.columns)))
kept = [f"string(`{{name}}`)" if "month" in kind or "year" in kind else f"`{{name}}`"
        for name, kind in df.dtypes]
result = sorted(repr(tuple(row)) for row in df.selectExpr(*kept).collect())
"""
ARROW = """
table = spark.sql(sql).toArrow()
result = [str(table.schema).replace(" not null", ""), sorted(map(repr, table.to_pylist()))]
"""
PANDAS = """
frame = spark.sql(sql).toPandas()
result = [str(frame.dtypes), sorted(map(repr, frame.values.tolist()))]
"""


def rows(driver: Driver, df: str, **names: Any) -> list[str]:
    return driver.run(ROWS.format(df=df), **names)


class Site:
    """Plaintext Spark with the table `t` of its files, and a sealed session with it sealed."""

    def __init__(self, folder: Path, owner: Owner, plain: Driver, sealed: Driver) -> None:
        self.folder, self.owner, self.plain, self.sealed = folder, owner, plain, sealed

    def same(self, sql: str) -> None:
        found = rows(self.sealed, "spark.sql(sql)", sql=sql)
        assert found == rows(self.plain, "spark.sql(sql)", sql=sql)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("intervals")
    with Driver({}, sealed=False, log=folder / "plain.log", conf=TIMES) as plain:
        plain.run(
            MAKE + "\nspark.read.parquet(folder).createOrReplaceTempView('t')",
            folder=str(folder / "plain"),
        )
        owner = Owner.create(folder / "trusted")
        sealed = owner.encrypt({"t": folder / "plain"}, folder / "sealed")
        with Driver(
            sealed,
            sealed=True,
            log=folder / "sealed.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={**TIMES, "spark.sql.warehouse.dir": str(folder / "warehouse")},
        ) as driver:
            yield Site(folder, owner, plain, driver)


def test_types_are_sparks(site: Site) -> None:
    code = "result = spark.table('t').dtypes"
    assert site.sealed.run(code) == site.plain.run(code)
    shown = json.loads(site.owner.coffer("inspect", "--json", site.folder / "sealed" / "t").stdout)
    types = {column["name"]: column["type"] for column in shown["columns"]}
    assert (types["y"], types["h"]) == ("interval year", "interval hour to minute")
    assert (types["c"], types["c2"]) == ("time(6)", "time(2)")
    site.owner.coffer("verify", "--deep", site.folder / "sealed" / "t")


@pytest.mark.parametrize("name", one_of(QUERIES, 2))
def test_rows_are_plaintext_sparks(site: Site, name: str) -> None:
    site.same(QUERIES[name])


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_plaintext_sparks(site: Site, name: str) -> None:
    with pytest.raises(QueryFailed) as theirs:
        site.plain.query(ERRORS[name])
    with pytest.raises(QueryFailed) as ours:
        site.sealed.query(ERRORS[name])
    assert same_error(theirs.value, ours.value), (theirs.value.message, ours.value.message)


@pytest.mark.parametrize("code", [ARROW, PANDAS])
def test_arrow_and_pandas_are_plaintext_sparks(site: Site, code: str) -> None:
    for sql in ("SELECT id, dt, h, a FROM t", "SELECT ym, y FROM t", "SELECT c, c2, s.t FROM t"):
        answers = []
        for driver in (site.plain, site.sealed):
            try:
                answers.append(driver.run(code, sql=sql))
            except QueryFailed as failed:
                answers.append(failed.condition or "failed")
        assert answers[0] == answers[1]


def test_shown(site: Site) -> None:
    code = (
        "result = spark.sql('SELECT ym, y, dt, h, c, c2, a, s FROM t ORDER BY id LIMIT 40')"
        "._jdf.showString(40, 0, False)"
    )
    assert site.sealed.run(code) == site.plain.run(code)


def test_made_inserted_and_read(site: Site) -> None:
    sql = "spark.sql(sql)"
    site.sealed.run(sql, sql="CREATE TABLE made USING coffer AS SELECT * FROM t")
    expected = rows(site.plain, "spark.table('t')")
    assert rows(site.sealed, "spark.table('made')") == expected
    site.sealed.run(
        sql,
        sql="CREATE TABLE parts (id BIGINT, dt INTERVAL DAY TO SECOND, c2 TIME(2), "
        "y INTERVAL YEAR) USING coffer PARTITIONED BY (y, c2)",
    )
    site.sealed.run(sql, sql="INSERT INTO parts SELECT id, dt, c2, y FROM t")
    for condition in ("true", "y = INTERVAL '1' YEAR", "c2 > cast(TIME'01:00:00' as time(2))"):
        found = rows(site.sealed, "spark.table('parts').where(c)", c=condition)
        wanted = "spark.sql('SELECT id, dt, c2, y FROM t WHERE ' + c)"
        assert found == rows(site.plain, wanted, c=condition)
    site.sealed.run(
        sql,
        sql="INSERT INTO parts VALUES (-1, INTERVAL '-3 00:00:00' DAY TO SECOND, "
        "TIME'12:00:00', NULL)",
    )
    (one,) = rows(
        site.sealed, "spark.sql('SELECT string(dt), string(c2) FROM parts WHERE id = -1')"
    )
    assert one == repr(("INTERVAL '-3 00:00:00' DAY TO SECOND", "12:00:00"))
    site.owner.coffer("verify", "--deep", site.folder / "warehouse" / "parts")


def test_cached(site: Site) -> None:
    site.sealed.run("spark.sql('SELECT id, ym, dt, c, s FROM t').cache().createTempView('kept')")
    wanted = rows(site.plain, "spark.sql('SELECT id, ym, dt, c, s FROM t')")
    for _ in range(2):
        assert rows(site.sealed, "spark.table('kept')") == wanted


def test_opened_again(site: Site) -> None:
    site.owner.coffer("decrypt", site.folder / "sealed" / "t", site.folder / "opened")
    back = "spark.read.parquet(folder)"
    found = rows(site.plain, back, folder=str(site.folder / "opened"))
    assert found == rows(site.plain, "spark.table('t')")
    with pytest.raises(Exception, match="a number without a unit"):
        site.owner.coffer("decrypt", site.folder / "sealed" / "t", site.folder / "opened.csv")


def test_other_readers_see_parquets_types(site: Site) -> None:
    keks = site.folder / "keks.json"
    site.owner.coffer("keys", "export-keks", "--table", "t", "--output", keks)
    (part, *_) = (site.folder / "sealed" / "t").glob("part-*.parquet")
    kinds = read_file(part, load_keks(keks)).schema
    names = ("ym", "dt", "c", "c2")
    found = [kinds.field(name).type for name in names]
    assert found == [pa.int32(), pa.int64(), pa.time64("us"), pa.time64("us")]


def test_what_pyarrow_writes_is_sealed(site: Site) -> None:
    source = site.folder / "arrow.parquet"
    times = pa.array([0, 5_000_000, None], pa.time64("us"))
    pq.write_table(pa.table({"t": times, "m": times.cast(pa.time32("ms"))}), source)
    at = site.folder / "sealed" / "arrow"
    site.owner.coffer("encrypt", source, at)
    found = rows(site.sealed, "spark.read.format('coffer').load(folder)", folder=str(at))
    at_midnight, at_five, none = ("datetime.time(0, 0)", "datetime.time(0, 0, 5)", "None")
    assert found == sorted(f"({text}, {text})" for text in (at_midnight, at_five, none))


def test_schemes_keep_the_order_of_intervals(site: Site) -> None:
    policy = site.owner.policy
    try:
        columns = 'ym = "ope"\nh = "det"\ny = "plain"\nc2 = "plain"\n'
        site.owner.sign(policy + f"\n[tables.schemes.columns]\n{columns}")
        site.owner.coffer("encrypt", site.folder / "plain", site.folder / "sealed" / "schemes")
        site.sealed.run(
            "spark.read.format('coffer').load(folder).createOrReplaceTempView('schemes')",
            folder=str(site.folder / "sealed" / "schemes"),
        )
        for condition in (
            "ym > INTERVAL '1' YEAR",
            "h = INTERVAL '-24:01' HOUR TO MINUTE",
            "y = INTERVAL '1' YEAR AND c2 > cast(TIME'01:00:00' AS time(2))",
        ):
            found = rows(site.sealed, "spark.table('schemes').where(c)", c=condition)
            assert found == rows(site.plain, "spark.table('t').where(c)", c=condition)
        site.owner.sign(policy + '\n[tables.times.columns]\nc = "det"\n')
        with pytest.raises(Exception, match="Time64"):
            site.owner.coffer("encrypt", site.folder / "plain", site.folder / "sealed" / "times")
    finally:
        site.owner.sign(policy)
