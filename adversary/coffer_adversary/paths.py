"""Attacks on which table a path means: a host gives one sealed table's path to another one's bytes,
by links, by names, by copies.

All tables here have the same columns under the same owner, so nothing but the table's identity
tells them apart. Links move bytes, not names: what a path is spelled as decides which table is
meant.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from coffer_adversary import fixtures
from coffer_adversary.attack_cluster import Unwritten
from coffer_adversary.mutation import Outcome
from coffer_adversary.questions import Question
from coffer_testing.answers import difference
from coffer_testing.runner import QueryFailed

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster
    from coffer_testing.answers import Answer

_MANIFESTS = "_coffer"
_numbers = count()
_LOCAL = frozenset({"local"})
# folder of the shelf → the rows of the table that lies there: no two have one in common.
_TABLES = {"first/one": 1, "first/two": 2, "second/one": 3, "second/two": 4}
_ROWS = (
    "SELECT o_orderkey AS k, o_totalprice AS v, o_clerk AS s FROM orders WHERE o_orderkey % 7 = {}"
)
_NEW = "SELECT CAST(-1 AS BIGINT) AS k, CAST(0 AS DECIMAL(15, 2)) AS v, 'new' AS s"


class Shelf:
    """Four tables in two folders, each with a name in the catalog, whose LOCATION is its folder."""

    def __init__(self, cluster: AttackCluster) -> None:
        number = next(_numbers)
        self.folder = cluster.folder / f"shelf-{number}"
        self._pristine = cluster.folder / f"shelf-{number}-pristine"
        self._cluster_for = cluster
        self.names = {target: f"shelf_{number}_{target.replace('/', '_')}" for target in _TABLES}
        self.rows: dict[str, Answer] = {}
        for target, rest in _TABLES.items():
            (self.folder / target).parent.mkdir(parents=True, exist_ok=True)
            rows = _ROWS.format(rest)
            self._run(
                f"CREATE TABLE {self.names[target]} USING coffer "
                f"LOCATION '{self.folder / target}' AS {rows}"
            )
            self.rows[target] = self._run(f"SELECT * FROM {self.names[target]}")
        shutil.copytree(self.folder, self._pristine, symlinks=True)

    def pristine(self, target: str) -> Path:
        return self._pristine / target

    def restore(self) -> None:
        fixtures.put_back(self._pristine, self.folder)

    def amiss(self) -> str | None:
        """What is wrong with the tables, when all lies where it was."""
        for target, rows in self.rows.items():
            try:
                found = difference(rows, self.read(target), ordered=False)
            except QueryFailed as error:
                return f"{target} cannot be read: {error.message[:300]}"
            if found:
                return f"{target}: {found}"
        return None

    def read(self, target: str) -> Answer:
        fixtures.load(self._cluster_for, "shelf_view", self.folder / target)
        return self._run("SELECT * FROM shelf_view")

    def _run(self, sql: str) -> Answer:
        answer: Answer = self._cluster_for.within(lambda: self._cluster_for.driver.query(sql))
        return answer


def shelf(cluster: AttackCluster) -> Shelf:
    return cluster.keep("shelf", lambda: Shelf(cluster))


# ---- what a host does to the path of the second table ------------------------------------------

# The table that is meant, and the one whose bytes lie there then.
_MEANT, _OTHER = "first/two", "first/one"


def _link(shelf: Shelf, rng: random.Random) -> str:
    two, one = shelf.folder / _MEANT, shelf.folder / _OTHER
    fixtures.remove(two)
    how = rng.choice(["absolute", "relative", "chained", "to second"])
    if how == "relative":
        two.symlink_to("one")
    elif how == "chained":
        hop = shelf.folder / "hop"
        hop.symlink_to(one)
        two.symlink_to(hop)
    else:
        two.symlink_to(shelf.folder / "second/one" if how == "to second" else one)
    return f"a link ({how}) in its place"


def _renamed(shelf: Shelf, rng: random.Random) -> str:
    other = rng.choice([_OTHER, "second/one"])
    fixtures.exchange(shelf.folder / _MEANT, shelf.folder / other)
    return f"{other} and it changed names"


def _copied(shelf: Shelf, rng: random.Random) -> str:
    other = rng.choice([_OTHER, "second/two"])
    fixtures.put_back(shelf.pristine(other), shelf.folder / _MEANT)
    return f"a copy of {other} in its place"


def _manifest(shelf: Shelf, rng: random.Random) -> str:
    """Its own files stay; those of the other are beside them."""
    other = rng.choice([_OTHER, "second/one"])
    fixtures.put_back(shelf.pristine(other) / _MANIFESTS, shelf.folder / _MEANT / _MANIFESTS)
    for file in shelf.pristine(other).glob("part-*.parquet"):
        shutil.copy(file, shelf.folder / _MEANT)
    return f"the manifests and files of {other} in its folder"


def _manifests_linked(shelf: Shelf, _: random.Random) -> str:
    meant = shelf.folder / _MEANT
    fixtures.remove(meant / _MANIFESTS)
    (meant / _MANIFESTS).symlink_to(shelf.folder / _OTHER / _MANIFESTS)
    for file in (shelf.folder / _OTHER).glob("part-*.parquet"):
        os.link(file, meant / file.name)
    return "its folder of manifests became a link to the other's, with hard links to its files"


def _parent_link(shelf: Shelf, _: random.Random) -> str:
    fixtures.remove(shelf.folder / "first")
    (shelf.folder / "first").symlink_to(shelf.folder / "second")
    return "its parent became a link to another folder, with tables of the same names"


def _parent_renamed(shelf: Shelf, _: random.Random) -> str:
    fixtures.exchange(shelf.folder / "first", shelf.folder / "second")
    return "its parent and another folder changed names"


_CHANGES: dict[str, Callable[[Shelf, random.Random], str]] = {
    "link": _link,
    "renamed": _renamed,
    "copied": _copied,
    "manifest-swapped": _manifest,
    "manifests-linked": _manifests_linked,
    "parent-link": _parent_link,
    "parent-renamed": _parent_renamed,
}


def _moved(shelf: Shelf, _: random.Random) -> str:
    """Its own bytes, elsewhere, and a link to them where they were: the right table."""
    elsewhere = shelf.folder / "elsewhere"
    (shelf.folder / _MEANT).rename(elsewhere)
    (shelf.folder / _MEANT).symlink_to(elsewhere)
    return "its folder moved, and a link to it in its place"


# ---- what is asked meanwhile -------------------------------------------------------------------

_APPEND = "spark.sql(rows).write.format('coffer').mode(mode).save(path)"


def _by_path(shelf: Shelf, cluster: AttackCluster) -> Answer:
    del cluster
    return shelf.read(_MEANT)


def _by_location(shelf: Shelf, cluster: AttackCluster) -> Answer:
    name = shelf.names[_MEANT]
    cluster.within(lambda: cluster.driver.query(f"REFRESH TABLE {name}"))
    answer: Answer = cluster.within(lambda: cluster.driver.query(f"SELECT * FROM {name}"))
    return answer


def _saved(mode: str) -> Callable[[Shelf, AttackCluster], None]:
    def save(shelf: Shelf, cluster: AttackCluster) -> None:
        path = str(shelf.folder / _MEANT)
        cluster.within(lambda: cluster.driver.run(_APPEND, rows=_NEW, mode=mode, path=path))

    return save


def _sql(command: str) -> Callable[[Shelf, AttackCluster], None]:
    def run(shelf: Shelf, cluster: AttackCluster) -> None:
        sql = command.format(table=shelf.names[_MEANT], rows=_NEW, path=shelf.folder / _MEANT)
        cluster.within(lambda: cluster.driver.query(sql))

    return run


_READS: dict[str, Callable[[Shelf, AttackCluster], Answer]] = {
    "load": _by_path,
    "location": _by_location,
}
_WRITES: dict[str, Callable[[Shelf, AttackCluster], None]] = {
    "append": _saved("append"),
    "overwrite": _saved("overwrite"),
    "insert": _sql("INSERT INTO {table} {rows}"),
    "insert-overwrite": _sql("INSERT OVERWRITE {table} {rows}"),
    "replace": _sql("CREATE OR REPLACE TABLE {table} USING coffer LOCATION '{path}' AS {rows}"),
}


@dataclass(frozen=True)
class Astray:
    """One change of a path while its table is read or written. A write must be refused, and leave
    every table as it was."""

    name: str
    change: Callable[[Shelf, random.Random], str]
    read: Callable[[Shelf, AttackCluster], Answer] | None = None
    write: Callable[[Shelf, AttackCluster], None] | None = None
    needs: frozenset[str] = _LOCAL

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        mine = shelf(cluster)
        question = Question(self.name, "", {}, False, mine.rows[_MEANT])
        what = self.change(mine, rng)
        try:
            judgement = cluster.judge(question, lambda: self._run(mine, cluster))
        finally:
            mine.restore()
        if self.write is not None and judgement.verdict == "wrong":
            # Its tables are not what they were.
            cluster.forget("shelf")
        detail = f"{what}: {judgement.detail}" if judgement.detail else what
        return Outcome(True, judgement.verdict, judgement.check, detail)

    def _run(self, mine: Shelf, cluster: AttackCluster) -> Answer:
        if self.read is not None:
            return self.read(mine, cluster)
        assert self.write is not None
        try:
            self.write(mine, cluster)
        except QueryFailed:
            mine.restore()
            amiss = mine.amiss()
            if amiss:
                raise Unwritten(f"after the refused write {amiss}") from None
            raise
        mine.restore()
        raise Unwritten(
            f"the write was not refused; then {mine.amiss() or 'all tables are as they were'}"
        )


MUTATIONS = (
    *(
        Astray(f"path-{how}-{use}", change, read=read)
        for how, change in _CHANGES.items()
        for use, read in _READS.items()
    ),
    *(
        Astray(f"path-{how}-{use}", change, write=write)
        for how, change in _CHANGES.items()
        for use, write in _WRITES.items()
    ),
    *(Astray(f"path-moved-behind-a-link-{use}", _moved, read=read) for use, read in _READS.items()),
)
