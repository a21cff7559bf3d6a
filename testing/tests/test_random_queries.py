"""Random queries over a table with every protection, in each way of running, against plaintext
Spark's rows.

COFFER_RANDOM_QUERIES says how many are drawn for each way (default 12), COFFER_RANDOM_SEED from
where.
"""

from __future__ import annotations

import datetime
import functools
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing.answers import difference
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver
from conftest import CONF, Expected

COUNT = int(os.environ.get("COFFER_RANDOM_QUERIES", "12"))
SEED = int(os.environ.get("COFFER_RANDOM_SEED", "7"))
# All of those that are asked for; else one in three, and in `make test-full` the others too.
NUMBERED = [
    pytest.param(number, marks=[pytest.mark.full])
    if number % 3 and "COFFER_RANDOM_QUERIES" not in os.environ
    else number
    for number in range(COUNT)
]

POLICY = """
[tables.r.columns]
id = "det"
d = { protection = ["det", OPEN], link = "d" }
o = { protection = ["ope", OPEN], domain = [-100, 100] }
p = { protection = ["ore", OPEN], domain = [-100, 100] }
s = { protection = ["ashe", "ope"], domain = ["-50.00", "50.00"], rows = 100000 }
t = "tee"
w = { protection = ["ope", OPEN], prefix = 2 }
v = { protection = ["ore", OPEN], prefix = 2 }
c = "std"
day = { protection = "ope", domain = ["2020-01-01", "2021-12-31"] }
x = "plain"

[tables.q.columns]
k = { protection = "det", link = "d" }
n = { protection = ["ope", OPEN], domain = [-100, 100] }
u = "tee"
"""
WAYS = {
    "enclaves": ({"OPEN": '"tee"'}, {}),
    "hosts": ({"OPEN": '"std"', '"tee"': '"std"'}, {"spark.coffer.enclave": "none"}),
    "client": ({"OPEN": '"tee"'}, {"spark.coffer.enclave": "none"}),
}
# More than so few that their joins and groups are left to the client engine (SiteCosts.SMALL_ROWS).
ROWS = 1200
NUMBERS = ("d", "o", "p", "t", "x")
TEXTS = ("w", "v", "c")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("random")
    draw = random.Random(SEED)

    def some(values: list[object], nulls: float = 0.15) -> list[object]:
        return [None if draw.random() < nulls else draw.choice(values) for _ in range(ROWS)]

    texts = ["", "a", "ab", "abc", "abd", "ac", "b", "ba", "é", "ab\u0000", "zz"]
    first = datetime.date(2020, 1, 1)
    numbers = pa.int32()
    columns = {
        "id": pa.array(range(ROWS), pa.int64()),
        "d": pa.array(some(list(range(-5, 6))), numbers),
        "o": pa.array(some([-100, *range(-5, 6), 100]), numbers),
        "p": pa.array(some([-100, *range(-5, 6), 100]), numbers),
        "s": pa.array(
            some([Decimal(c).scaleb(-2) for c in (-5000, -1, 0, 1, 1234, 5000)]),
            pa.decimal128(9, 2),
        ),
        "t": pa.array(some(list(range(-5, 6))), numbers),
        "w": pa.array(some(texts), pa.string()),
        "v": pa.array(some(texts), pa.string()),
        "c": pa.array(some(texts), pa.string()),
        "day": pa.array(
            some([first + datetime.timedelta(days=d) for d in (0, 1, 31, 366, 730)]), pa.date32()
        ),
        "x": pa.array(some(list(range(-5, 6))), numbers),
    }
    other = {
        "k": pa.array([None, *range(-3, 4), 2, 99], numbers),
        "n": pa.array([0, None, *range(-4, 3), 100], numbers),
        "u": pa.array([f"u{i % 4}" for i in range(10)]),
    }
    files = {"r": folder / "r.parquet", "q": folder / "q.parquet"}
    pq.write_table(pa.table(columns), files["r"], row_group_size=300)
    pq.write_table(pa.table(other), files["q"])
    return files


@pytest.fixture(scope="module")
def expected_rows(
    tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Expected]:
    with ExitStack() as stack:

        @functools.cache
        def start() -> Driver:
            log = tmp_path_factory.mktemp("plain") / "log"
            return stack.enter_context(Driver(tables, sealed=False, log=log, conf=CONF))

        yield Expected("random", tables, start)


@pytest.fixture(scope="module", params=WAYS)
def sealed_way(
    request: pytest.FixtureRequest,
    tables: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Driver]]:
    words, conf = WAYS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    owner = Owner.create(folder / "trusted")
    text = POLICY
    for word, instead in words.items():
        text = text.replace(word, instead)
    accepting = owner.policy.replace('host_results = "refuse"', 'host_results = "accept"')
    owner.sign(accepting + text.replace('"std", "std"', '"std"'))
    sealed = owner.encrypt(tables, folder / "sealed")
    with Driver(
        sealed,
        sealed=True,
        log=folder / "log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={**CONF, **conf},
    ) as driver:
        yield request.param, driver


class Queries:
    """Queries of which each has one right answer, as a multiset of rows or, with ORDER BY, in
    order."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def query(self) -> str:
        shape = self._draw.choice(
            [self._rows, self._rows, self._groups, self._groups, self._totals, self._joined]
        )
        return shape()

    def _rows(self) -> str:
        columns = ["id", *self._some([*NUMBERS, *TEXTS, "s", "day"])]
        sql = f"select {', '.join(columns)} from r where {self._condition()}"
        if self._draw.random() < 0.6:
            key = self._draw.choice(columns)
            way = self._draw.choice(["", " desc", " nulls last", " desc nulls first"])
            sql += f" order by {key}{way}, id"
            if self._draw.random() < 0.7:
                sql += f" limit {self._draw.randrange(1, 40)}" + self._draw.choice(
                    ["", " offset 3"]
                )
        return sql

    def _groups(self) -> str:
        keys = self._some([*NUMBERS, *TEXTS, "day"])[:2]
        calls = self._calls()
        sql = (
            f"select {', '.join([*keys, *calls])} from r where {self._condition()} group by "
            f"{', '.join(keys)}"
        )
        return sql + self._draw.choice(
            ["", " having count(*) > 3", f" having max({self._draw.choice(NUMBERS)}) > 0"]
        )

    def _totals(self) -> str:
        return f"select {', '.join(self._calls())} from r where {self._condition()}"

    def _joined(self) -> str:
        kind = self._draw.choice(
            ["join", "left join", "right join", "full join", "left semi join", "left anti join"]
        )
        on = self._draw.choice(
            ["d = k", "d = k and o < n", "o = n", "d = k and t = x", "d <=> k", "w = u"]
        )
        right = "" if "semi" in kind or "anti" in kind else ", k, n, u"
        rows = "(select * from r where " + self._condition() + ")"
        return f"select id, d, o{right} from {rows} {kind} q on {on}"

    def _calls(self) -> list[str]:
        number = self._draw.choice(NUMBERS)
        text = self._draw.choice(TEXTS)
        calls = [
            *(
                "count(*)",
                f"count({number})",
                f"count(distinct {number})",
                f"min({number})",
                f"max({number})",
            ),
            *(
                f"sum({number})",
                "sum(s)",
                "avg(s)",
                "min(s)",
                f"min({text})",
                f"max({text})",
                f"count(distinct {text})",
            ),
            *(
                "max(day)",
                f"sum(s) filter (where {self._comparison()})",
                "sum(s + 1)",
                f"avg({number})",
            ),
        ]
        return [f"{call} as a{i}" for i, call in enumerate(self._some(calls)[:4])]

    def _condition(self, depth: int = 0) -> str:
        roll = self._draw.random()
        if depth > 2 or roll < 0.5:
            return self._comparison()
        if roll < 0.7:
            return f"({self._condition(depth + 1)} and {self._condition(depth + 1)})"
        if roll < 0.88:
            return f"({self._condition(depth + 1)} or {self._condition(depth + 1)})"
        return f"not ({self._condition(depth + 1)})"

    def _comparison(self) -> str:
        kind = self._draw.choice(
            [
                "number",
                "number",
                "text",
                "in",
                "null",
                "between",
                "columns",
                "day",
                "sum",
                "like",
                "safe",
            ]
        )
        sign = self._draw.choice(["=", "<>", "<", "<=", ">", ">="])
        number, text = self._draw.choice(NUMBERS), self._draw.choice(TEXTS)
        value = self._draw.choice(
            ["-1000", "-101", "-100", "-5", "-1", "0", "1", "3", "100", "101", "1000"]
        )
        word = self._draw.choice(["", "a", "ab", "abc", "abcd", "b", "é", "zzz"])
        match kind:
            case "number":
                return self._draw.choice([f"{number} {sign} {value}", f"{value} {sign} {number}"])
            case "text":
                return f"{text} {sign} '{word}'"
            case "in":
                values = self._draw.choice(["1, 2, 3", "1, null", "5000, 0", "-100, 100, 7"])
                return f"{number} {self._draw.choice(['in', 'not in'])} ({values})"
            case "null":
                column = self._draw.choice([*NUMBERS, *TEXTS, "s", "day"])
                return f"{column} is {self._draw.choice(['', 'not '])}null"
            case "between":
                return f"{number} between {value} and 4"
            case "columns":
                return f"{number} {sign} {self._draw.choice(NUMBERS)}"
            case "day":
                days = ["2019-01-01", "2020-02-01", "2020-12-31", "2031-01-01"]
                return f"day {sign} date'{self._draw.choice(days)}'"
            case "sum":
                return f"s {sign} {self._draw.choice(['0.00', '-50.00', '12.34', '99.00'])}"
            case "like":
                return f"{text} like '{word}%'"
            case _:
                return (
                    f"{number} <=> {self._draw.choice([value, 'null', self._draw.choice(NUMBERS)])}"
                )

    def _some(self, of: list[str]) -> list[str]:
        return self._draw.sample(of, self._draw.randrange(1, 5))


@pytest.mark.parametrize("number", NUMBERED)
def test_random_query(number: int, expected_rows: Expected, sealed_way: tuple[str, Driver]) -> None:
    way, driver = sealed_way
    # Other queries for each way: more of them in all.
    sql = Queries(SEED * 1000 + number * 10 + list(WAYS).index(way)).query()
    wanted, got = expected_rows.answer(sql), driver.query(sql)
    assert difference(wanted, got, ordered="order by" in sql) is None, sql
