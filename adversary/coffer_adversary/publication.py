"""Attacks on a publication that failed: the host lets it fail, keeps all that was written for it,
and puts that back when it likes.

A user who is told that an INSERT failed says it again. Whatever the host puts back, the rows must
be there once, or the table is refused.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from coffer_adversary import fixtures
from coffer_adversary.attack_cluster import Unwritten
from coffer_adversary.judge import DEFECTS, named
from coffer_adversary.mutation import Outcome
from coffer_adversary.questions import Question
from coffer_testing.answers import Answer
from coffer_testing.processes import ended
from coffer_testing.runner import QueryFailed

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster

_MANIFESTS = "_coffer"
_numbers = count()
_OLD = "SELECT n_nationkey AS k, n_name AS s FROM nation"
_NEW = "SELECT r_regionkey AS k, r_name AS s FROM region"

When = Literal["before", "between", "during", "after"]


class Keeper:
    """Keeps, from a thread of its own, every file that is ever in a table's folder, by a link to
    its bytes: also what is there for the blink of an eye only, and what is removed again. `begun`
    is called once, when the first new data file is there."""

    def __init__(self, folder: Path, museum: Path, begun: Callable[[], object]) -> None:
        self._begun = begun
        self.folder = folder
        self.museum = museum
        self.kept: dict[Path, Path] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Keeper:
        self.museum.mkdir(parents=True)
        self._look()
        self.before = frozenset(self.kept)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        ended(self._thread)

    @property
    def staged(self) -> Path | None:
        """The manifest of the publication that failed: what its temporary file held."""
        found = [
            copy
            for path, copy in self.kept.items()
            if path not in self.before and path.name.startswith(".tmp-")
        ]
        return found[0] if found else None

    def files(self) -> list[tuple[Path, Path]]:
        """New data files: where they lay, and what is left of them."""
        return [
            (path, copy)
            for path, copy in self.kept.items()
            if path not in self.before and path.suffix == ".parquet"
        ]

    def _watch(self) -> None:
        begun = False
        while not self._over.is_set():
            self._look()
            if not begun and self.files():
                begun = True
                self._begun()
            time.sleep(0.0002)

    def _look(self) -> None:
        for folder in (self.folder, self.folder / _MANIFESTS):
            with suppress(OSError):
                for entry in os.scandir(folder):
                    path = Path(entry.path)
                    if path not in self.kept and entry.is_file(follow_symlinks=False):
                        copy = self.museum / str(len(self.kept))
                        os.link(path, copy)
                        self.kept[path] = copy


@dataclass(frozen=True)
class PutBack:
    """An INSERT whose manifest finds its name taken; then the host clears the name and puts
    manifest and files there: before the INSERT is said again, with a look at the table in between,
    while it runs again, or when it has ended well."""

    name: str
    when: When
    needs: frozenset[str] = frozenset({"local", "write"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        table = f"published_{next(_numbers)}"
        folder = cluster.folder / "warehouse" / table

        def run(sql: str) -> Answer:
            answer: Answer = cluster.within(lambda: cluster.driver.query(sql))
            return answer

        run(f"CREATE TABLE {table} USING coffer AS {_OLD}")
        old, new = run(f"SELECT * FROM {table}"), run(_NEW)
        expected = Answer(old.schema, [*old.rows, *new.rows], 0.0)
        question = Question(self.name, "", {}, False, expected)
        insert = f"INSERT INTO {table} {_NEW}"
        taken = folder / _MANIFESTS / "manifest-0000000002"
        what = ["nothing"]
        try:
            how = rng.choice(["noise", "folder", "older"])
            with Keeper(
                folder, cluster.folder / "kept" / table, lambda: self._take(taken, how, rng)
            ) as keeper:
                try:
                    run(insert)
                except QueryFailed as error:
                    code = named(error.message)
                    if code is None or code in DEFECTS:
                        return Outcome(
                            True,
                            "wrong",
                            code or "no-code",
                            f"the name taken ({how}): {error.message[:300]}",
                        )
                else:
                    return Outcome(
                        False, "right_rows", "", "it was published before its name was taken"
                    )
            fixtures.remove(taken)
            if keeper.staged is None:
                return Outcome(False, "right_rows", "", "the manifest was not seen")
            what = [
                f"the name taken ({how}), then manifest and {len(keeper.files())} files put back "
                f"{self.when} the retry"
            ]
            judgement = cluster.judge(
                question, lambda: self._retried(cluster, insert, table, keeper, taken)
            )
        finally:
            _drop(cluster, table, folder)
        detail = f"{what[0]}: {judgement.detail}" if judgement.detail else what[0]
        return Outcome(True, judgement.verdict, judgement.check, detail)

    def _take(self, taken: Path, how: str, rng: random.Random) -> None:
        # Published already: then this run comes to nothing.
        if taken.exists():
            return
        with suppress(FileExistsError):
            if how == "folder":
                taken.mkdir()
            elif how == "noise":
                taken.write_bytes(rng.randbytes(300))
            else:
                shutil.copy(taken.with_name("manifest-0000000001"), taken)

    def _retried(
        self, cluster: AttackCluster, insert: str, table: str, keeper: Keeper, taken: Path
    ) -> Answer:
        def put_back() -> None:
            assert keeper.staged
            for path, copy in [(taken, keeper.staged), *keeper.files()]:
                with suppress(FileExistsError):
                    os.link(copy, path)

        def run(sql: str) -> Answer:
            answer: Answer = cluster.within(lambda: cluster.driver.query(sql))
            return answer

        read = f"SELECT * FROM {table}"
        if self.when in ("before", "between"):
            put_back()
        if self.when == "between":
            seen = run(read)
            if len(seen.rows) != 25:
                raise Unwritten(
                    f"after an INSERT that failed the table has {len(seen.rows)} rows of 25"
                )
        if self.when == "during":
            over = threading.Event()

            def insist() -> None:
                while not over.is_set():
                    put_back()
                    time.sleep(0.001)

            thread = threading.Thread(target=insist, daemon=True)
            thread.start()
            try:
                run(insert)
            finally:
                over.set()
                ended(thread)
        else:
            run(insert)
        if self.when == "after":
            put_back()
            # Of its own version the retry has the name already: there the host writes over it.
            assert keeper.staged
            shutil.copyfile(keeper.staged, taken.with_name(".put-back"))
            taken.with_name(".put-back").replace(taken)
        return run(read)


def _drop(cluster: AttackCluster, table: str, folder: Path) -> None:
    try:
        cluster.within(lambda: cluster.driver.query(f"DROP TABLE IF EXISTS {table}"))
    except QueryFailed:
        fixtures.remove(folder)
    fixtures.remove(folder)


MUTATIONS = (
    PutBack("publication-put-back-before-the-retry", "before"),
    PutBack("publication-put-back-and-read", "between"),
    PutBack("publication-put-back-during-the-retry", "during"),
    PutBack("publication-put-back-after-the-retry", "after"),
)
