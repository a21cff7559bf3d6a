"""TPC-DS's own queries, all of them, over tables with Spark's own definitions: exactly plaintext
Spark's rows, or a refusal that is declared here. Also under the policies of SafeSpark's table, in
which engines may not open all columns, and a part of a query runs at the client."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from coffer_testing import spark_tests, tpcds
from coffer_testing.answers import Answer, difference
from coffer_testing.cluster import Cluster
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.turns import in_turns
from conftest import CLUSTERED

SCALE = "0.01"

# Each scan of a large table is several tasks, each shuffle several partitions.
CONF = {
    "spark.coffer.scan.targetBytes": "1m",
    # Engines have all of it.
    "spark.coffer.client.tail": "off",
}
# Small tables are broadcast. Shuffled: none, so that joins meet in shuffles, which AQE then turns
# into broadcasts where what comes out is small. As Spark plans without statistics of columns, some
# queries then take a while.
SHUFFLED = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "1000",
}
WAYS = {
    "local": ("sealed", {}),
    "cluster": ("clustered", {}),
    "local-shuffled": ("sealed", SHUFFLED),
    "cluster-shuffled": ("clustered", SHUFFLED),
}

# What is refused, and why: what the refusal must say. An entry that no longer holds fails.
REFUSED: dict[str, str] = {}
# Of those with columns under several protections. Of query 72 engines may compare keys and not the
# quantities that leave few of the rows: all that have the same keys would come to the client.
REFUSED_PROTECTED = dict.fromkeys(("q72", "q72_v2.7"), "too_much_at_client")


# Texts of 2.7 of queries that 1.4 has too differ in a few words.
REPEATED = [
    pytest.param(name, way, id=f"{name}-{way}", marks=[pytest.mark.full])
    for name in tpcds.QUERIES
    if name not in tpcds.NEW
    for way in WAYS
]

POLICIES = Path(__file__).parents[2] / "bench" / "policies"
SETUPS = ("ope-first", "det-first")
# Those for which the policies were made.
OF_SAFESPARK = ["q24a", "q24b", "q27", "q31", "q37", "q40", "q46", "q73", "q82"]
OTHERS = [
    pytest.param(name, setup, id=f"{name}-{setup}", marks=[pytest.mark.full])
    for name in tpcds.QUERIES
    if name not in OF_SAFESPARK
    for setup in SETUPS
]


@pytest.fixture(scope="module")
def tables() -> dict[str, Path]:
    return tpcds.data(SCALE)


@pytest.fixture(scope="module")
def answers(
    tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tpcds.Expected]:
    """Plaintext Spark's. It is started where an answer is not kept from an earlier run."""
    with ExitStack() as stack:
        started: list[Driver] = []

        def start() -> Driver:
            if not started:
                log = tmp_path_factory.mktemp("plain") / "log"
                # One query broadcasts more than a JVM of 2 GiB has room for.
                conf = {"spark.driver.memory": "4g"}
                driver = Driver(tables, sealed=False, log=log, conf=conf)
                started.append(stack.enter_context(driver))
            return started[0]

        yield tpcds.Expected(tables, start)


Start = Callable[..., Driver]


def starter(base: Path, tables: dict[str, Path], policy: str = "") -> Start:
    """What starts Coffer over the tables, which are sealed once; by an owner of their own, as TPC-H
    has a table of customers too."""
    owner = Owner.create(base / "tpcds-trusted")
    if policy:
        owner.sign(owner.policy + policy)
    sealed = owner.encrypt(tables, base / "tpcds")

    def start(name: str, master: str, conf: dict[str, str]) -> Driver:
        return Driver(
            sealed,
            sealed=True,
            log=base / f"{name}.log",
            master=master,
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={**CONF, **conf},
        )

    return start


@pytest.fixture(scope="module")
def start(base: Path, tables: dict[str, Path]) -> Start:
    return starter(base, tables)


@pytest.fixture(scope="module")
def sealed(start: Start) -> Iterator[Driver]:
    with start("tpcds-sealed", "local[2]", {}) as driver:
        yield driver


@pytest.fixture(scope="module")
def clustered(start: Start, cluster: Cluster) -> Iterator[Driver]:
    with start("tpcds-clustered", cluster.master, CLUSTERED) as driver:
        yield driver


@pytest.mark.parametrize(("name", "way"), in_turns(tpcds.NEW, list(WAYS), 12) + REPEATED)
def test_answers_are_sparks(
    name: str, way: str, answers: tpcds.Expected, request: pytest.FixtureRequest
) -> None:
    fixture, conf = WAYS[way]
    check(name, request.getfixturevalue(fixture), conf, answers, REFUSED)


@pytest.fixture(scope="module")
def protected(base: Path, tables: dict[str, Path]) -> Iterator[Callable[[str], Driver]]:
    """Coffer over the tables under a policy of `SETUPS`."""
    with ExitStack() as stack:

        @functools.cache
        def started(setup: str) -> Driver:
            policy = (POLICIES / f"{setup}.toml").read_text()
            start = starter(base / setup, tables, policy)
            return stack.enter_context(start(setup, "local[2]", {}))

        yield started


@pytest.mark.full
@pytest.mark.parametrize(("name", "setup"), in_turns(OF_SAFESPARK, SETUPS, 2) + OTHERS)
def test_columns_under_several_protections(
    name: str, setup: str, answers: tpcds.Expected, protected: Callable[[str], Driver]
) -> None:
    check(name, protected(setup), {}, answers, REFUSED_PROTECTED)


def check(
    name: str,
    driver: Driver,
    conf: dict[str, str],
    answers: tpcds.Expected,
    refused: dict[str, str],
) -> None:
    sql, want = answers.query(name)
    if name in refused or isinstance(want, str):
        with pytest.raises(QueryFailed) as failed:
            driver.query(sql, conf)
        expected = refused.get(name) or re.escape(str(want))
        assert re.search(expected, failed.value.message, re.DOTALL), failed.value.message
        return
    got = driver.query(sql, conf)
    tolerance = tpcds.APPROXIMATE.get(name, 0.0)
    assert difference(want, got, ordered=tpcds.is_ordered(sql), tolerance=tolerance) is None


@pytest.mark.full
def test_most_answers_have_rows(answers: tpcds.Expected) -> None:
    found = [answers.query(name)[1] for name in tpcds.QUERIES]
    rows = [len(answer.rows) for answer in found if isinstance(answer, Answer)]
    assert len(rows) >= 130 and sum(count > 0 for count in rows) >= 105
    assert sum(count >= 100 for count in rows) >= 40


def test_every_query_of_spark_is_here() -> None:
    assert len(tpcds.QUERIES) == 103 + 32
    folders = [spark_tests.names(folder) for folder in ("tpcds", "tpcds-v2.7.0")]
    assert sorted(tpcds.QUERIES.values()) == sorted(itertools.chain(*folders))
    assert {*REFUSED, *tpcds.APPROXIMATE} <= {*tpcds.QUERIES}


def test_tables_are_sparks(sealed: Driver) -> None:
    """CHAR and VARCHAR included: what is read is padded, and their lengths are known."""
    definitions = tpcds.schema()
    assert len(definitions) == 24
    for name, columns in definitions.items():
        declared = [column.split()[0].strip("`") for column in re.split(r",(?![^(]*\))", columns)]
        assert sealed.run("result = spark.table(name).columns", name=name) == declared
    sql = (
        "SELECT count(*), max(length(i_category)), min(length(i_category)) FROM item WHERE "
        "i_category = 'Books'"
    )
    count, longest, shortest = sealed.query(sql).rows[0]
    assert int(count or 0) > 0 and (longest, shortest) == ("50", "50")


def test_an_order_is_made_total() -> None:
    text = "SELECT a FROM (SELECT * FROM t ORDER BY x) -- ORDER BY q\nORDER BY ')', b DESC\nLIMIT 5"
    made = (
        "SELECT a FROM (SELECT * FROM t ORDER BY x) -- ORDER BY q\nORDER BY ')', b DESC\n, "
        "1, 2\nLIMIT 5"
    )
    assert tpcds.total_order(text, 2) == made
    assert tpcds.total_order("SELECT a FROM t\norder by a", 1).split("\n")[-2] == ", 1"
    for unordered in (
        "SELECT (a) FROM t LIMIT 3",
        "SELECT 'ORDER BY a' FROM (SELECT 1 ORDER BY 1)",
    ):
        assert tpcds.total_order(unordered, 1) == unordered and not tpcds.is_ordered(unordered)
