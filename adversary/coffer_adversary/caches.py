"""Mutations of an executor's disk about cached rows: the blocks of a cache, between the query that
filled it and one that reads it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coffer_adversary.mutation import Outcome
from coffer_adversary.questions import Question

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster
    from coffer_testing.answers import Answer

_DIRECTORIES = (
    "manager = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager()\n"
    "result = [str(folder) for folder in manager.localDirs()]"
)
# Of the shuffles that Spark knows; what a task of another query still writes adds none.
_SHUFFLES = (
    "known = spark._jvm.org.apache.spark.SparkEnv.get().mapOutputTracker().shuffleStatuses()\n"
    "result = [int(number) for number in known.keys().mkString(',').split(',') if number]"
)
_FILL = (
    "spark.sql('SELECT l_orderkey, l_linenumber, l_comment FROM lineitem WHERE l_quantity < '\n"
    "          + str(below)).createOrReplaceTempView(name)\n"
    "spark.catalog.cacheTable(name)\n"
    "spark.table(name).count()"
)
_SQL = "SELECT l_linenumber, count(*) AS n, max(l_comment) AS c FROM cached GROUP BY l_linenumber"
# What a stream begins with: it names itself, in clear.
_PREAMBLE = 28

Blocks = list[tuple[Path, bytes, bytes]]
"""Of each map output, in order: its data file, index and data."""


class _Disk:
    """Where the cluster's executor keeps what shuffles write."""

    def __init__(self, cluster: AttackCluster) -> None:
        found = cluster.within(lambda: cluster.driver.run(_DIRECTORIES))
        self._roots = [Path(folder) for folder in found]

    def outputs(self, shuffle: int) -> list[Path]:
        """The data files of a shuffle's map outputs, in order."""
        found = (root.rglob(f"shuffle_{shuffle}_*_0.data") for root in self._roots)
        return sorted(
            (path for paths in found for path in paths),
            key=lambda path: int(path.name.split("_")[2]),
        )


def _index(data: Path) -> Path:
    """It lies in whatever folder its own name is hashed to, below the same root."""
    name = data.with_suffix(".index").name
    for found in data.parents[1].rglob(name):
        return found
    raise FileNotFoundError(name)


def _read(outputs: list[Path]) -> Blocks:
    return [(data, _index(data).read_bytes(), data.read_bytes()) for data in outputs]


def _put(blocks: Blocks) -> int:
    """Puts blocks in the place of others; how many."""
    for data, index, content in blocks:
        _index(data).write_bytes(index)
        data.write_bytes(content)
    return len(blocks)


def _as_it_is(_: bytes, other: bytes) -> bytes:
    return other


def _under_its_name(own: bytes, other: bytes) -> bytes:
    """The preamble that is expected, and the other one's frames."""
    return own[:_PREAMBLE] + other[_PREAMBLE:]


@dataclass(frozen=True)
class Cached:
    """Blocks of another cache, or of this one as it was, in the place of a cache's own."""

    name: str
    stale: bool
    label: Callable[[bytes, bytes], bytes]
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        below = rng.randrange(5, 25)
        disk = _Disk(cluster)

        def shuffles() -> set[int]:
            return set(cluster.within(lambda: cluster.driver.run(_SHUFFLES)))

        def fill(name: str, bound: int) -> Blocks:
            before = shuffles()
            cluster.within(lambda: cluster.driver.run(_FILL, name=name, below=bound))
            # Rows are written before anything is made of them.
            return _read(disk.outputs(min(shuffles() - before)))

        def drop(name: str) -> None:
            cluster.within(
                lambda: cluster.driver.run("spark.catalog.uncacheTable(name)", name=name)
            )

        try:
            # The same query for what is stale; other rows for what is foreign.
            other = fill("other", below if self.stale else below + 20)
            if self.stale:
                drop("other")
            own = fill("cached", below)
            right = cluster.within(lambda: cluster.driver.query(_SQL))
            blocks = [
                (data, index, self.label(mine, theirs))
                for (data, _, mine), (_, index, theirs) in zip(own, other, strict=False)
            ]
            done = _put(blocks)

            def run() -> Answer:
                return cluster.within(lambda: cluster.driver.query(_SQL))

            question = Question("cached", _SQL, {}, False, right)
            judgement = cluster.judge(question, run)
        finally:
            cluster.within(lambda: cluster.driver.run("spark.catalog.clearCache()"))
        detail = f"l_quantity < {below}: {done} blocks put in place"
        if judgement.detail:
            detail = f"{detail}: {judgement.detail}"
        return Outcome(done > 0, judgement.verdict, judgement.check, detail)


MUTATIONS = (
    Cached("cache-stale", True, _as_it_is),
    Cached("cache-stale-relabelled", True, _under_its_name),
    Cached("cache-foreign", False, _as_it_is),
    Cached("cache-foreign-relabelled", False, _under_its_name),
)
