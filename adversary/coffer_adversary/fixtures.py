"""Where attacks on storage happen: tables whose files may be damaged, because a copy of each is
kept and put back."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coffer.pme import load_keks
from coffer_adversary.questions import Question
from coffer_testing.answers import Answer
from coffer_testing.owner import Owner
from coffer_testing.parquet_layout import Layout, layout

if TYPE_CHECKING:
    import random

    from coffer_adversary.attack_cluster import AttackCluster

_LOAD = "spark.read.format('coffer').load(path).createOrReplaceTempView(name)"


# What the policies say of the tables of pieces; those of one link are encrypted alike in both.
_PROTECTED = {
    "det-ope": """
id = { protection = ["tee", "ope"], domain = [0, 1000000], link = "id" }
a = { protection = "det", link = "a" }
b = "tee"
s = "std"
""",
    "mixed": """
id = { protection = "ope", domain = [0, 1000000], link = "id" }
a = { protection = "det", link = "a" }
b = { protection = "ashe", domain = [0, 1099511627775], rows = 1000000 }
s = ["ore", "std"]
""",
}


class Table:
    """A sealed table's folder, and where in its files things lie. The host does not know that as
    well; it may guess."""

    def __init__(self, cluster: AttackCluster, name: str, folder: Path, plain: Path) -> None:
        self.name = name
        self.folder = folder
        self.plain = plain
        self._pristine = cluster.folder / "pristine" / name
        shutil.copytree(folder, self._pristine)
        keks = cluster.folder / f"keks-{name}.json"
        cluster.owner.coffer("keys", "export-keks", "--table", name, "--output", keks)
        self._keks = load_keks(keks)
        self._columns = _stored(cluster, folder) if cluster.policy else {}
        self._layouts: dict[str, Layout] = {}

    @property
    def files(self) -> list[Path]:
        """Its data files as they were sealed."""
        return sorted(self.folder / path.name for path in self._pristine.glob("part-*.parquet"))

    def layout(self, file: Path) -> Layout:
        """Where chunks, page index and footer of a data file lie."""
        if file.name not in self._layouts:
            self._layouts[file.name] = layout(self._pristine / file.name, self._keks, self._columns)
        return self._layouts[file.name]

    def pristine(self, file: Path) -> Path:
        """A copy of one of its files, as it was sealed."""
        return self._pristine / file.name

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Whatever happens to the folder inside is undone."""
        try:
            yield
        finally:
            put_back(self._pristine, self.folder)


class Pieces(Table):
    """A table of several files with several row groups each, of columns that have the same form,
    with questions whose answers need no Spark."""

    ROWS = 140_000

    def __init__(self, cluster: AttackCluster, name: str = "pieces", seed: int = 20261121) -> None:
        plain = self._make(cluster, name, seed)
        sealed = cluster.folder / "sealed" / name
        # So little memory that a file gets several row groups, and threads enough for several
        # files.
        cluster.owner.coffer("encrypt", "--threads", "3", "--memory", "1MiB", plain, sealed)
        super().__init__(cluster, name, sealed, plain / "pieces.parquet")

    def _make(self, cluster: AttackCluster, name: str, seed: int) -> Path:
        """A folder with its rows in the clear."""
        plain = cluster.folder / "plain" / name
        plain.mkdir(parents=True)
        rng = np.random.default_rng(seed)
        self._id = np.arange(self.ROWS)
        self._a = rng.integers(0, 1 << 40, self.ROWS)
        self._b = rng.integers(0, 1 << 40, self.ROWS)
        self._s = [f"piece-{value % 997:03d}" for value in self._a.tolist()]
        rows = pa.table({"id": self._id, "a": self._a, "b": self._b, "s": self._s})
        pq.write_table(rows, plain / "pieces.parquet", row_group_size=8192)
        return plain

    def question(self, rng: random.Random) -> Question:
        """About all rows, some, or one; with its answer."""
        which = rng.randrange(4)
        first = rng.randrange(self.ROWS - 3000)
        if which == 0:
            return self.whole(rng)
        if which == 1:
            sql = "SELECT a % 5 AS k, count(*) AS n, sum(b) AS b FROM pieces GROUP BY a % 5"
            groups = [(k, self._b[self._a % 5 == k]) for k in range(5)]
            rows = [[str(k), str(len(of)), str(int(of.sum()))] for k, of in groups]
            return _question(sql, {"k": "bigint", "n": "bigint", "b": "bigint"}, rows)
        if which == 2:
            last = first + rng.randrange(1, 3000)
            sql = (
                "SELECT count(*) AS n, sum(a) AS a, sum(b) AS b FROM pieces WHERE id "
                f"BETWEEN {first} AND {last}"
            )
            return self.sums(first, last, sql)
        sql = f"SELECT a, b, s FROM pieces WHERE id = {first}"
        row = [str(self._a[first]), str(self._b[first]), self._s[first]]
        return _question(sql, {"a": "bigint", "b": "bigint", "s": "string"}, [row])

    def whole(self, _: random.Random) -> Question:
        """About all values of all columns."""
        sql = (
            "SELECT count(*) AS n, sum(id) AS i, sum(a) AS a, sum(b) AS b, min(s) AS f, "
            "max(s) AS l FROM pieces"
        )
        sums = [int(column.sum()) for column in (self._id, self._a, self._b)]
        row = [str(self.ROWS), *map(str, sums), min(self._s), max(self._s)]
        types = ["bigint", "bigint", "bigint", "bigint", "string", "string"]
        return _question(sql, dict(zip("niabfl", types, strict=True)), [row])

    def sums(self, first: int, last: int, sql: str) -> Question:
        """How many rows there are of those with these ids, and what `a` and `b` add up to."""
        some = slice(first, last + 1)
        row = [str(last + 1 - first), str(int(self._a[some].sum())), str(int(self._b[some].sum()))]
        return _question(sql, {"n": "bigint", "a": "bigint", "b": "bigint"}, [row])

    def by_index(self, rng: random.Random) -> Question:
        """About few rows, of all columns, found by a condition that every row group may fulfil:
        then engines look at the page index of all."""
        below = rng.randrange(1 << 31, 1 << 32)
        sql = f"SELECT id, a, b, s FROM pieces WHERE a < {below}"
        found = np.flatnonzero(self._a < below).tolist()
        rows = [[str(at), str(self._a[at]), str(self._b[at]), self._s[at]] for at in found]
        return _question(sql, {"id": "bigint", "a": "bigint", "b": "bigint", "s": "string"}, rows)

    def at_client(self, rng: random.Random) -> Question:
        """What the client engine must put together from two parts that engines bring."""
        first, last = rng.randrange(self.ROWS - 3000), rng.randrange(self.ROWS - 3000)
        some = rng.randrange(2, 9)
        sql = (
            f"SELECT s AS t, b AS v FROM pieces WHERE id BETWEEN {first} AND {first + some} UNION "
            f"ALL "
            f"SELECT concat(s, '!') AS t, a AS v FROM pieces WHERE id BETWEEN {last} AND "
            f"{last + some}"
        )
        rows = [[self._s[at], str(self._b[at])] for at in range(first, first + some + 1)]
        rows += [[self._s[at] + "!", str(self._a[at])] for at in range(last, last + some + 1)]
        return _question(sql, {"t": "string", "v": "bigint"}, rows)

    def spilling(self, rng: random.Random) -> Question:
        """A join or an aggregate that an engine with little memory must spill."""
        _, groups = np.unique(self._a, return_counts=True)
        modulus = rng.randrange(3, 9)
        some = self._b[self._id % modulus != 0]
        if rng.random() < 0.5:
            sql = (
                "SELECT count(*) AS n, count(DISTINCT k) AS k FROM (SELECT x.a AS k, x.s, y.b, "
                "y.id FROM pieces x "
                f"JOIN pieces y ON x.a = y.a WHERE x.b > {-modulus} ORDER BY y.b, x.s)"
            )
            row = [str(int((groups**2).sum())), str(len(groups))]
            return _question(sql, {"n": "bigint", "k": "bigint"}, [row])
        sql = (
            "SELECT count(*) AS n, sum(m) AS m FROM "
            f"(SELECT id, a, s, sum(b) AS m FROM pieces WHERE id % {modulus} <> 0 GROUP BY id, a, "
            f"s)"
        )
        return _question(
            sql, {"n": "bigint", "m": "bigint"}, [[str(len(some)), str(int(some.sum()))]]
        )

    def broadcasting(self, rng: random.Random) -> Question:
        """A join whose broadcast side comes from several tasks."""
        modulus = rng.randrange(20, 60)
        some = self._b[self._id % modulus == 3]
        sql = (
            "SELECT /*+ BROADCAST(y) */ count(*) AS n, sum(y.b) AS b FROM pieces x "
            f"JOIN (SELECT id, b FROM pieces WHERE id % {modulus} = 3) y ON x.id = y.id"
        )
        return _question(
            sql, {"n": "bigint", "b": "bigint"}, [[str(len(some)), str(int(some.sum()))]]
        )

    def ask(self, cluster: AttackCluster, question: Question) -> Answer:
        """The answer now, over the table as it is opened now."""
        load(cluster, "pieces", self.folder)
        return cluster.run(question)


def _stored(cluster: AttackCluster, folder: Path) -> dict[str, tuple[str, str]]:
    """By their names in the files: what the stored columns of a table hold, and how."""
    answer = json.loads(cluster.owner.coffer("inspect", folder, "--json").stdout)
    return {
        stored["name"]: (stored["column"] or stored["form"], stored["form"])
        for stored in answer.get("stored", [])
    }


def _question(sql: str, columns: dict[str, str], rows: list[list[str]]) -> Question:
    return Question(
        sql,
        sql,
        {},
        False,
        Answer([[name, kind] for name, kind in columns.items()], list(rows), 0.0),
    )


def load(cluster: AttackCluster, name: str, folder: Path | str) -> None:
    """Opens a sealed table anew, as a view of that name."""
    cluster.within(lambda: cluster.driver.run(_LOAD, name=name, path=str(folder)))


def pieces(cluster: AttackCluster) -> Pieces:
    """the cluster's table of pieces."""
    return cluster.keep("pieces", lambda: Pieces(cluster))


def protect(name: str, owner: Owner) -> None:
    """Appends to a config directory's policy file what the policy of that name says of the tables
    of pieces."""
    tables = "".join(
        f"\n[tables.{table}.columns]{_PROTECTED[name]}" for table in ("pieces", "twin", "again")
    )
    owner.sign(owner.policy + tables)


def linked(cluster: AttackCluster) -> Pieces:
    """A second table of pieces: other rows, the same columns, some of which are linked with the
    first one's."""
    return cluster.keep("twin", lambda: Pieces(cluster, "twin", 20261122))


def again(cluster: AttackCluster) -> Pieces:
    """The rows of the first table of pieces, sealed once more."""
    return cluster.keep("again", lambda: Pieces(cluster, "again"))


def of_tpch(cluster: AttackCluster, name: str) -> Table:
    """One of the cluster's own tables."""
    return cluster.keep(
        f"table {name}", lambda: Table(cluster, name, cluster.sealed[name], cluster.plain[name])
    )


def read_by(cluster: AttackCluster, question: Question) -> list[str]:
    """The names of the cluster's tables that a query reads."""
    words = set(re.findall(r"\w+", question.sql.lower()))
    return sorted(words & set(cluster.sealed))


def put_back(pristine: Path, folder: Path) -> None:
    """Makes a folder what its copy is, whatever it has become."""
    remove(folder)
    shutil.copytree(pristine, folder, symlinks=True)


def remove(path: Path) -> None:
    """Removes a file, a link or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flip(path: Path, at: int, bit: int) -> None:
    """Another bit at a place of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))


def overwrite(path: Path, at: int, content: bytes) -> None:
    """Other bytes at a place of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def exchange(one: Path, other: Path) -> None:
    """Each takes the other's name."""
    aside = one.with_name(f"{one.name}.aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
