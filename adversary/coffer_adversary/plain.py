"""Attacks through plain inputs: tables that the policy lists as unverified, whose bytes a host may
choose, and choose again.

What a host plants there may be read; it must not tell guesses. So a query reads the bytes that were
there when it began, in every task and every repetition, and no length of a frame tells what lies
beside the host's bytes in it.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from coffer_adversary import fixtures
from coffer_adversary.mutation import Outcome
from coffer_adversary.questions import Question
from coffer_testing.answers import Answer

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster

_LOCAL = frozenset({"local"})
_ROWS = 400
# Numbers that stand nowhere else in the files, to be found and changed in the pages.
_FIRST = 0x5EA1ED0000000000


class Inputs:
    """A plain table beside the sealed ones, written so that a page can be changed without a change
    of any length."""

    def __init__(self, cluster: AttackCluster) -> None:
        self.folder = cluster.inputs / "offers"
        self.folder.mkdir(parents=True)
        self._cluster_for = cluster
        self.numbers = list(range(_FIRST, _FIRST + _ROWS))
        self.write([f"offer-{number:06}" for number in range(_ROWS)])
        self._pristine = cluster.folder / "offers-pristine"
        shutil.copytree(self.folder, self._pristine)
        orders = pq.read_table(cluster.plain["orders"], columns=["o_orderkey", "o_clerk"])
        rows = list(zip(*(orders[name].to_pylist() for name in orders.schema.names), strict=True))
        self.orders = sorted(row for row in rows if row[0] < 1600)

    @property
    def file(self) -> Path:
        return self.folder / "offers.parquet"

    def write(self, texts: list[str]) -> None:
        table = pa.table({"k": list(range(_ROWS)), "n": self.numbers, "t": texts})
        options = {
            "compression": "none",
            "use_dictionary": False,
            "write_statistics": False,
            "store_schema": False,
        }
        pq.write_table(table, self.file, **options)

    def restore(self) -> None:
        fixtures.put_back(self._pristine, self.folder)

    def load(self) -> None:
        path = str(self.folder)
        self._cluster_for.within(lambda: self._cluster_for.driver.run(_VIEW, path=path))


_VIEW = "spark.read.parquet(path).createOrReplaceTempView('offers')"


def inputs(cluster: AttackCluster) -> Inputs:
    return cluster.keep("plain inputs", lambda: Inputs(cluster))


# ---- other bytes for a query that has begun ----------------------------------------------------

# The same DataFrame twice, with something done in between: what a repeated task reads.
_BEGIN = """
from coffer_testing.answers import encode
for key, value in conf.items():
    spark.conf.set(key, value)
try:
    spark.begun = spark.sql(sql)
    rows = [[encode(value) for value in row] for row in spark.begun.collect()]
finally:
    for key in conf:
        spark.conf.unset(key)
folders = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs()
schema = [[field.name, field.dataType.simpleString()] for field in spark.begun.schema.fields]
result = [schema, rows, [str(folder) for folder in folders]]
"""
_AGAIN = """
from coffer_testing.answers import encode
result = [[encode(value) for value in row] for row in spark.begun.collect()]
"""
_NO_SHUFFLE = (
    "SELECT k, n FROM offers WHERE k < 50 UNION ALL SELECT o_orderkey AS k, o_orderkey AS n FROM "
    "orders "
    "WHERE o_orderkey < 100"
)
_SHUFFLED = (
    "SELECT /*+ MERGE(p) */ o.o_orderkey AS k, p.n AS n FROM orders o JOIN offers p ON "
    "o.o_orderkey = p.k "
    "WHERE o.o_orderkey < 400"
)

Change = Callable[[Inputs, random.Random], str]


def _values(inputs: Inputs, rng: random.Random) -> str:
    """Other numbers in the pages; the footer stays as it is, and so does each length."""
    content = inputs.file.read_bytes()
    changed = 0
    for number in rng.sample(inputs.numbers[:50], 20):
        old = number.to_bytes(8, "little")
        assert content.count(old) == 1
        content = content.replace(old, rng.randbytes(7) + b"\x11")
        changed += 1
    inputs.file.write_bytes(content)
    return f"{changed} numbers in its pages changed"


def _swapped(inputs: Inputs, rng: random.Random) -> str:
    """Two numbers of a page, each in the other's place."""
    content = inputs.file.read_bytes()
    one, other = (number.to_bytes(8, "little") for number in rng.sample(inputs.numbers[:50], 2))
    a, b = content.index(one), content.index(other)
    fixtures.overwrite(inputs.file, a, other)
    fixtures.overwrite(inputs.file, b, one)
    return "two numbers of a page swapped"


def _rewritten(inputs: Inputs, rng: random.Random) -> str:
    kept = inputs.numbers
    inputs.numbers = rng.sample(kept, len(kept))
    try:
        inputs.write([f"other-{rng.randrange(10**6):06}" for _ in kept])
    finally:
        inputs.numbers = kept
    return "another file of the same shape"


def _gone(inputs: Inputs, _: random.Random) -> str:
    inputs.file.unlink()
    return "its file removed"


@dataclass(frozen=True)
class Rewritten:
    """A query is begun, the plain table's bytes become others, and tasks of the query run again:
    with `lost`, because what the first ones wrote is lost, else because the user asks for the rows
    once more."""

    name: str
    change: Change
    lost: bool = False
    needs: frozenset[str] = _LOCAL

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        mine = inputs(cluster)
        mine.load()
        sql = _SHUFFLED if self.lost else _NO_SHUFFLE
        conf = (
            {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
            if self.lost
            else {}
        )
        what = []
        try:
            schema, rows, folders = cluster.within(
                lambda: cluster.driver.run(_BEGIN, sql=sql, conf=conf)
            )
            question = Question(self.name, sql, {}, False, Answer(schema, rows, 0.0))
            what.append(self.change(mine, rng))
            if self.lost:
                files = [path for folder in folders for path in Path(folder).rglob("shuffle_*")]
                for path in files:
                    path.unlink(missing_ok=True)
                what.append(f"{len(files)} shuffle files lost")
            judgement = cluster.judge(
                question,
                lambda: Answer(schema, cluster.within(lambda: cluster.driver.run(_AGAIN)), 0.0),
            )
        finally:
            mine.restore()
        detail = "; ".join(what)
        return Outcome(True, judgement.verdict, judgement.check, f"{detail}: {judgement.detail}")


# ---- guesses -----------------------------------------------------------------------------------

# A task holds sealed words and the host's in one batch, and sends them on in one frame.
_GUESSED = (
    "SELECT /*+ REPARTITION(1) */ s, t, k FROM (SELECT /*+ BROADCAST(p) */ o.o_clerk AS s, p.t AS "
    "t, o.o_orderkey AS k "
    "FROM orders o JOIN offers p ON o.o_orderkey % 400 = p.k WHERE o.o_orderkey < 1600)"
)
_WRITTEN = """
rows = spark.sql(sql).collect()
folders = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs()
import os
sizes = {}
for folder in folders:
    for place, _, files in os.walk(str(folder)):
        for file in files:
            if file.startswith('shuffle_') and file.endswith('.data'):
                sizes[file] = os.path.getsize(os.path.join(place, file))
result = [len(rows), sizes]
"""


@dataclass(frozen=True)
class Guess:
    """The host plants a guess and sees what its executor sends: were words of the table packed
    together with the host's, one that is there would make shorter frames than one that is not.
    `words`: of how many rows are guessed."""

    name: str
    words: int
    needs: frozenset[str] = _LOCAL

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        mine = inputs(cluster)
        clerks = sorted({clerk for _, clerk in mine.orders})
        try:
            lengths = []
            for hit in (True, False):
                guesses = rng.sample(clerks, self.words)
                if not hit:
                    # Of the same letters and lengths, and of nobody.
                    guesses = [
                        guess[:6] + "".join(rng.sample(guess[6:], len(guess) - 6))
                        for guess in guesses
                    ]
                    guesses = [guess if guess not in clerks else guess[::-1] for guess in guesses]
                mine.write([guesses[row % len(guesses)] for row in range(_ROWS)])
                lengths.append(self._sent(cluster, mine))
        finally:
            mine.restore()
        detail = (
            f"{self.words} words guessed: {lengths[0]} bytes where they are there, "
            f"{lengths[1]} where not"
        )
        if lengths[0] != lengths[1]:
            return Outcome(True, "wrong", "lengths-tell", detail)
        return Outcome(True, "right_rows", "", detail)

    def _sent(self, cluster: AttackCluster, mine: Inputs) -> int:
        """Bytes of shuffle files that a query over the guess leaves."""
        before = cluster.within(lambda: cluster.driver.run(_WRITTEN, sql="SELECT 1"))[1]
        mine.load()
        rows, after = cluster.within(lambda: cluster.driver.run(_WRITTEN, sql=_GUESSED))
        new = {name: size for name, size in after.items() if name not in before}
        if not rows or not new:
            raise RuntimeError(f"the query gave {rows} rows and wrote {len(new)} shuffle files")
        return sum(new.values())


MUTATIONS = (
    Rewritten("plain-pages-changed-between-runs", _values),
    Rewritten("plain-values-swapped-between-runs", _swapped),
    Rewritten("plain-file-rewritten-between-runs", _rewritten),
    Rewritten("plain-file-removed-between-runs", _gone),
    Rewritten("plain-pages-changed-and-maps-lost", _values, lost=True),
    Rewritten("plain-values-swapped-and-maps-lost", _swapped, lost=True),
    Rewritten("plain-file-rewritten-and-maps-lost", _rewritten, lost=True),
    Guess("plain-guess-of-a-word", 1),
    Guess("plain-guess-of-many-words", 40),
)
