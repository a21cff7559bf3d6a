"""Plain Parquet tables beside sealed ones: only where the policy lists them, read by the engines, never by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from coffer.workload import data
from coffer.workload.owner import Owner
from coffer.workload.runner import Driver, QueryFailed

# Each names `edge` (sealed for Coffer, plain for Spark) and `listed`, a plain table under both.
QUERIES = [
    "SELECT count(*), sum(id) FROM (SELECT id FROM edge UNION ALL SELECT id FROM listed)",
    "SELECT i8, i16, i32, i64, s, dt, ts FROM edge WHERE id < 40 UNION ALL "
    "SELECT i8, i16, i32, i64, s, dt, ts FROM listed WHERE id BETWEEN 20 AND 60",
    "SELECT id, d38 FROM edge WHERE id > (SELECT max(id) - 5 FROM listed WHERE n > 0)",
    "SELECT k, count(DISTINCT s), min(dt), max(ts) FROM (SELECT k, s, dt, ts FROM listed UNION ALL "
    "SELECT k, s, dt, ts FROM edge) GROUP BY k",
    "SELECT old.at, count(*) FROM old GROUP BY old.at UNION ALL SELECT ts, count(*) FROM edge GROUP BY ts",
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Driver, Driver, Path]]:
    """Plaintext Spark and Coffer over the same tables; `unlisted` is the one that the policy does not name."""
    folder = tmp_path_factory.mktemp("plain-inputs")
    plain = data.write(folder / "source")
    owner = Owner.create(folder / "trusted")
    policy = owner.home / "policy.toml"
    listed = data.write(folder / "listed")
    policy.write_text(policy.read_text().replace("unverified_inputs = []", f'unverified_inputs = ["{folder / "listed"}"]'))
    # As Spark writes times unless told otherwise: INT96.
    table = pq.read_table(listed["edge"], columns=["id", "ts"]).rename_columns(["id", "at"])
    (folder / "listed" / "old").mkdir()
    pq.write_table(table, folder / "listed" / "old" / "int96.parquet", use_deprecated_int96_timestamps=True)
    sealed = owner.encrypt({"edge": plain["edge"]}, folder / "sealed")
    views = {"listed": listed["edge"], "old": folder / "listed" / "old", "unlisted": plain["events"]}
    make = "for name, path in views.items(): spark.read.parquet(path).createOrReplaceTempView(name)"
    with (
        Driver({"edge": plain["edge"]}, sealed=False, log=folder / "plain.log") as vanilla,
        Driver(
            sealed,
            sealed=True,
            log=folder / "sealed.log",
            home=owner.home,
            passphrase_file=owner.passphrase_file,
        ) as coffer,
    ):
        for driver in (vanilla, coffer):
            driver.run(make, views={name: str(path) for name, path in views.items()})
        yield vanilla, coffer, folder


@pytest.mark.parametrize("sql", QUERIES)
def test_same_rows(site: tuple[Driver, Driver, Path], sql: str) -> None:
    vanilla, coffer, _ = site
    want, got = vanilla.query(sql), coffer.query(sql)
    assert got.schema == want.schema
    assert sorted(got.rows, key=repr) == sorted(want.rows, key=repr)
    assert want.rows


def test_engines_read_the_plain_table_and_say_so(site: tuple[Driver, Driver, Path]) -> None:
    _, coffer, _ = site
    plan = coffer.run("result = spark.sql(sql)._jdf.queryExecution().toString()", sql=QUERIES[0])
    assert "unverified." in plan and "nobody vouches" in plan
    assert "FileScan parquet" not in plan


def test_a_table_that_is_not_listed_is_refused(site: tuple[Driver, Driver, Path]) -> None:
    _, coffer, _ = site
    with pytest.raises(QueryFailed, match="unverified_inputs") as failed:
        coffer.query("SELECT id FROM edge UNION ALL SELECT id FROM unlisted")
    assert "hint: " in failed.value.message


def test_plain_tables_alone_are_sparks(site: tuple[Driver, Driver, Path]) -> None:
    vanilla, coffer, _ = site
    sql = "SELECT count(*), sum(n) FROM unlisted"
    assert coffer.query(sql).rows == vanilla.query(sql).rows


def test_a_file_that_changes_under_a_query_is_noticed(site: tuple[Driver, Driver, Path]) -> None:
    """The client engine pins footers when a query is analysed; a file swapped before it runs is refused, not read."""
    _, coffer, folder = site
    swapped = folder / "listed" / "swapped"
    swapped.mkdir()
    table = pq.read_table(folder / "listed" / "edge", columns=["id"])
    pq.write_table(table, swapped / "a.parquet")
    coffer.run(
        "spark.read.parquet(path).createOrReplaceTempView('swapped')\n"
        "df = spark.sql('SELECT id FROM edge UNION ALL SELECT id FROM swapped')\n"
        "import builtins; builtins.held = df",
        path=str(swapped),
    )
    pq.write_table(table.slice(7), swapped / "a.parquet")
    with pytest.raises(QueryFailed, match=r"(?i)footer|storage gave"):
        coffer.run("import builtins; result = len(builtins.held.collect())")
