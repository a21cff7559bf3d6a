"""With padding and without pruning the answers are the same, at the scale of TPC-H; and what Spark
stores of an exchange, and an engine counts of its reads, is as it should be. What each operator
shows a host: test_sizes.py."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coffer_testing import tpch
from coffer_testing.answers import difference
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.turns import in_turns
from conftest import CONF, Expected

MODES = {
    "pow2": {"spark.coffer.pad": "pow2"},
    "fixed": {"spark.coffer.pad": "fixed", "spark.coffer.pad.bytes": "8192"},
    "whole": {"spark.coffer.prune": "off"},
    "all": {"spark.coffer.pad": "pow2", "spark.coffer.prune": "off"},
}
TPCH = [3, 6, 16, 18, 21, 22]


@pytest.mark.parametrize(("number", "mode"), in_turns(TPCH, list(MODES)))
def test_the_answers_are_the_same(
    number: int, mode: str, expected: Expected, sealed: Driver
) -> None:
    sql = tpch.query(number)
    found = sealed.query(sql, MODES[mode])
    assert difference(expected.answer(sql), found, ordered="order by" in sql) is None


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.coffer.pad", "pow3"),
        ("spark.coffer.prune", "maybe"),
        ("spark.coffer.pad.bytes", "5000"),
        ("spark.coffer.pad.bytes", "64k"),
    ],
)
def test_an_unknown_setting_is_refused(setting: str, value: str, sealed: Driver) -> None:
    conf = {"spark.coffer.pad": "fixed", setting: value}
    with pytest.raises(QueryFailed, match=re.escape(setting)):
        sealed.query("SELECT count(*) FROM orders", conf)


@pytest.fixture(scope="module")
def watched(
    base: Path, owner: Owner, sealed_tables: dict[str, Path]
) -> Iterator[tuple[Driver, Path]]:
    """Coffer whose shuffle files lie where the test can count their bytes, one reducer's after the
    other's."""
    scratch = base / "watched-scratch"
    with Driver(
        {"orders": sealed_tables["orders"], "lineitem": sealed_tables["lineitem"]},
        sealed=True,
        log=base / "watched.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={
            **CONF,
            "spark.local.dir": str(scratch),
            # What is measured must cross the host, as with other masters.
            "spark.coffer.exchange.inMemory": "off",
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        },
    ) as driver:
        yield driver, scratch


# The filter lets few, some or nearly all rows into the exchange: the groups are as many as the
# rows.
SHUFFLE = "SELECT o_orderkey, count(*) FROM orders WHERE o_orderkey {} GROUP BY o_orderkey"
FILTERS = ["< 100", "BETWEEN 1000 AND 90000", "> 0"]


def stream_lengths(watched: tuple[Driver, Path], sql: str, conf: dict[str, str]) -> set[int]:
    """Bytes of the shuffle's streams, from the index files that Spark writes beside its shuffle
    data."""
    driver, scratch = watched
    before = set(scratch.rglob("*.index"))
    driver.query(sql, conf)
    lengths: set[int] = set()
    for file in set(scratch.rglob("*.index")) - before:
        data = file.read_bytes()
        ends = [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 8)]
        lengths |= {end - start for start, end in itertools.pairwise(ends)}
    assert lengths, "no shuffle file was written: the test counts nothing"
    return lengths


def test_lengths_of_streams_fall_into_few_classes(watched: tuple[Driver, Path]) -> None:
    for condition in FILTERS:
        sql = SHUFFLE.format(condition)
        preamble = {length & 0xFF for length in stream_lengths(watched, sql, MODES["pow2"])}
        assert len(preamble) == 1, "all streams are a power of two and the preamble"
        head = preamble.pop()
        powers = {length - head for length in stream_lengths(watched, sql, MODES["pow2"])}
        assert all(length & (length - 1) == 0 for length in powers), powers
        multiples = {length - head for length in stream_lengths(watched, sql, MODES["fixed"])}
        assert all(length % 8192 == 0 for length in multiples), multiples


def test_without_padding_lengths_tell_the_number_of_rows(watched: tuple[Driver, Path]) -> None:
    """The control, and what the document says of `pad = none`."""
    few, some, most = (sum(stream_lengths(watched, SHUFFLE.format(f), {})) for f in FILTERS)
    assert few < some < most


def bytes_read(driver: Driver, sql: str, conf: dict[str, str]) -> int:
    return driver.timed(sql, conf)["counters"]["bytes_read"]


READS = [
    "SELECT max(o_totalprice) FROM orders WHERE o_orderkey < 100",
    "SELECT max(o_totalprice) FROM orders WHERE o_orderkey > 100",
    "SELECT max(o_totalprice) FROM orders WHERE o_orderkey < 0",
]


def test_reads_without_pruning_do_not_depend_on_the_rows(watched: tuple[Driver, Path]) -> None:
    driver, _ = watched
    read = {bytes_read(driver, sql, MODES["whole"]) for sql in READS}
    assert len(read) == 1, read
    # A limit that is reached early, and one side of a join that is empty.
    limits = [
        f"SELECT o_totalprice FROM orders WHERE o_orderkey > {least} LIMIT 1"
        for least in (0, 500_000)
    ]
    assert len({bytes_read(driver, sql, MODES["whole"]) for sql in limits}) == 1
    joins = [
        f"SELECT count(*) FROM lineitem JOIN (SELECT DISTINCT o_orderkey FROM orders WHERE "
        f"o_totalprice > {least}) "
        "ON l_orderkey = o_orderkey"
        for least in (0, 1e12)
    ]
    assert len({bytes_read(driver, sql, MODES["whole"]) for sql in joins}) == 1


def test_reads_with_pruning_depend_on_the_rows(watched: tuple[Driver, Path]) -> None:
    driver, _ = watched
    assert len({bytes_read(driver, sql, {}) for sql in READS}) > 1
