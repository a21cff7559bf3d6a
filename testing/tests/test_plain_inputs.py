"""Plain Parquet tables beside sealed ones: only where the policy lists them, read by the engines,
never by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing import data
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.sql_tab import shown

# Each names `edge` (sealed for Coffer, plain for Spark) and `listed`, a plain table under both.
QUERIES = [
    "SELECT count(*), sum(id) FROM (SELECT id FROM edge UNION ALL SELECT id FROM listed)",
    "SELECT i8, i16, i32, i64, s, dt, ts FROM edge WHERE id < 40 UNION ALL "
    "SELECT i8, i16, i32, i64, s, dt, ts FROM listed WHERE id BETWEEN 20 AND 60",
    "SELECT id, d38 FROM edge WHERE id > (SELECT max(id) - 5 FROM listed WHERE n > 0)",
    "SELECT k, count(DISTINCT s), min(dt), max(ts) FROM (SELECT k, s, dt, ts FROM listed UNION ALL "
    "SELECT k, s, dt, ts FROM edge) GROUP BY k",
    "SELECT old.at, count(*) FROM old GROUP BY old.at UNION ALL SELECT ts, count(*) FROM edge "
    "GROUP BY ts",
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Driver, Driver, Path]]:
    """Plaintext Spark and Coffer over the same tables; `unlisted` is the one that the policy does
    not name."""
    folder = tmp_path_factory.mktemp("plain-inputs")
    plain = data.write(folder / "source")
    owner = Owner.create(folder / "trusted")
    listed = data.write(folder / "listed")
    owner.sign(
        owner.policy.replace(
            "unverified_inputs = []", f'unverified_inputs = ["{folder / "listed"}"]'
        )
    )
    # As Spark writes times unless told otherwise: INT96.
    table = pq.read_table(listed["edge"], columns=["id", "ts"]).rename_columns(["id", "at"])
    (folder / "listed" / "old").mkdir()
    pq.write_table(
        table, folder / "listed" / "old" / "int96.parquet", use_deprecated_int96_timestamps=True
    )
    sealed = owner.encrypt({"edge": plain["edge"]}, folder / "sealed")
    views = {
        "listed": listed["edge"],
        "old": folder / "listed" / "old",
        "unlisted": plain["events"],
    }
    make = "for name, path in views.items(): spark.read.parquet(path).createOrReplaceTempView(name)"
    with (
        Driver({"edge": plain["edge"]}, sealed=False, log=folder / "plain.log") as vanilla,
        Driver(
            sealed,
            sealed=True,
            log=folder / "sealed.log",
            config_dir=owner.config_dir,
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
    assert "unverified." in plan and "not verified" in plan
    assert "nothing that they reach is compressed" in plan
    assert "FileScan parquet" not in plan


def test_no_key_of_theirs_narrows_a_scan(site: tuple[Driver, Driver, Path]) -> None:
    """Which pages are read would tell a host which of its guesses are keys."""
    _, coffer, _ = site
    sql = "SELECT count(*) FROM edge e JOIN {} f ON e.id = f.id WHERE f.k = 1 AND f.n > 0"
    shuffled = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
    (every,) = coffer.query("SELECT count(*) FROM edge").rows[0]
    few, narrowed = shown(coffer, sql.format("edge"), shuffled).scanned()
    assert 0 < few <= narrowed < int(str(every))
    *_, read = shown(coffer, sql.format("listed"), shuffled).scanned()
    assert read == int(str(every))


def test_a_recursion_over_their_cached_rows_is_not_verified(
    site: tuple[Driver, Driver, Path],
) -> None:
    _, coffer, _ = site
    code = """
import coffer
both = spark.sql(f"SELECT id FROM edge UNION ALL SELECT id FROM {other}").cache()
both.createOrReplaceTempView("both")
query = (
    "WITH RECURSIVE r(i, d) AS (SELECT id, 0 FROM both UNION ALL "
    "SELECT i + 1, d + 1 FROM r WHERE d < 1) SELECT count(*) AS n FROM r"
)
df = spark.sql(query)
result = [df.collect()[0][0] > 0, coffer.verified(df)]
both.unpersist()
"""
    assert coffer.run(code, other="edge") == [True, True]
    assert coffer.run(code, other="listed") == [True, False]


def test_a_table_that_is_not_listed_is_refused(site: tuple[Driver, Driver, Path]) -> None:
    _, coffer, _ = site
    with pytest.raises(QueryFailed, match="unverified_inputs") as failed:
        coffer.query("SELECT id FROM edge UNION ALL SELECT id FROM unlisted")
    assert "hint: " in failed.value.message


def test_plain_tables_alone_are_sparks(site: tuple[Driver, Driver, Path]) -> None:
    vanilla, coffer, _ = site
    sql = "SELECT count(*), sum(n) FROM unlisted"
    assert coffer.query(sql).rows == vanilla.query(sql).rows


def hold(coffer: Driver, folder: Path, sql: str) -> None:
    """A DataFrame over a view `swapped` of a folder, analysed and not run."""
    coffer.run(
        "spark.read.parquet(path).createOrReplaceTempView('swapped')\nimport builtins; "
        "builtins.held = spark.sql(sql)",
        path=str(folder),
        sql=sql,
    )


COLLECT = "import builtins; result = len(builtins.held.collect())"


def test_a_file_that_changes_under_a_query_is_noticed(site: tuple[Driver, Driver, Path]) -> None:
    """The client engine pins footers when a query is analysed; a file swapped before it runs is
    refused, not read."""
    _, coffer, folder = site
    swapped = folder / "listed" / "swapped"
    swapped.mkdir()
    table = pq.read_table(folder / "listed" / "edge", columns=["id"])
    pq.write_table(table, swapped / "a.parquet")
    hold(coffer, swapped, "SELECT id FROM edge UNION ALL SELECT id FROM swapped")
    pq.write_table(table.slice(7), swapped / "a.parquet")
    with pytest.raises(QueryFailed, match="not what it was when the query first read it") as failed:
        coffer.run(COLLECT)
    assert "hint: run the query again" in failed.value.message


def test_a_page_that_changes_under_a_query_is_noticed_in_each_of_its_runs(
    site: tuple[Driver, Driver, Path],
) -> None:
    """Pages too: rewritten in place, under the same footer, between two runs of one query."""
    _, coffer, folder = site
    swapped = folder / "listed" / "guesses"
    swapped.mkdir()

    def plant(first: int) -> bytes:
        # Neither statistics nor a dictionary: the footer tells of lengths alone.
        table = pa.table({"id": pa.array(range(first, first + 50), pa.int64())})
        path = swapped / "a.parquet"
        pq.write_table(
            table,
            path,
            use_dictionary=False,
            write_statistics=False,
            compression="none",
            store_schema=False,
        )
        return path.read_bytes()

    before = plant(0)
    # Its result stage scans, so that each run reads the files.
    hold(coffer, swapped, "SELECT id FROM edge UNION ALL SELECT id FROM swapped")
    coffer.run(COLLECT)
    after = plant(1_000_000)
    footer = int.from_bytes(before[-8:-4], "little") + 8
    assert before[-footer:] == after[-footer:] and before != after
    with pytest.raises(QueryFailed, match="COFFER_INPUT_CHANGED") as failed:
        coffer.run(COLLECT)
    assert "hint: run the query again" in failed.value.message
    # Another query reads what there is now.
    coffer.run(
        "result = spark.sql('SELECT count(*) FROM edge JOIN swapped ON edge.id = "
        "swapped.id').collect()"
    )
