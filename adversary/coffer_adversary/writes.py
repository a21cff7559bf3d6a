"""Mutations of a host while a table is written: about files that are being written, and about what
lies beside them."""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from coffer_adversary import fixtures, questions
from coffer_adversary.attack_cluster import Unwritten
from coffer_adversary.judge import DEFECTS, named
from coffer_adversary.mutation import Outcome
from coffer_testing.answers import Answer, difference
from coffer_testing.processes import ended
from coffer_testing.runner import QueryFailed

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster
    from coffer_adversary.questions import Question

_MANIFESTS = "_coffer"
_TAIL = 8  # the footer's length and the magic
_numbers = count()

When = Literal["begun", "whole", "published"]


@dataclass
class Write:
    """A write that is under way, as the host sees it: the table's folder, the files that this write
    has begun, those that were there, and files of earlier writes. `undo` takes away what a change
    put beside them."""

    folder: Path
    before: frozenset[Path]
    museum: Path
    new: list[Path] = field(default_factory=list)
    undo: list[Callable[[], object]] = field(default_factory=list)


Change = Callable[[Write, random.Random], str | None]


@dataclass(frozen=True)
class Writing:
    """One change in the course of a write: when its first file has begun, when its files are whole
    but not yet published, or when it is published and not yet read back."""

    name: str
    when: When
    change: Change
    needs: frozenset[str] = frozenset({"local", "write"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        question = cluster.ask(rng, writes=True)
        table = f"attacked_{next(_numbers)}"
        folder = cluster.folder / "warehouse" / table
        museum = cluster.folder / "museum"
        museum.mkdir(exist_ok=True)
        for command in question.before:
            cluster.within(
                lambda command=command: cluster.driver.query(command.format(table=table))
            )
        host = _Host(self, Write(folder, frozenset(folder.rglob("*")), museum), rng)
        try:
            judgement = cluster.judge(question, lambda: _written(cluster, question, table, host))
        finally:
            host.stop()
            for file in host.write.new[:1]:
                if file.is_file():
                    shutil.copyfile(file, museum / f"{rng.randrange(8)}.parquet")
            _drop(cluster, table, folder)
        detail = f"{question.name}: {host.what or 'nothing'}"
        if judgement.detail:
            detail = f"{detail}: {judgement.detail}"
        return Outcome(host.what is not None, judgement.verdict, judgement.check, detail)


class _Host:
    """Watches the table's folder from a thread of its own, and makes one change when its time has
    come."""

    def __init__(self, mutation: Writing, write: Write, rng: random.Random) -> None:
        self.write = write
        self.what: str | None = None
        self._mutation = mutation
        self._rng = rng
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if mutation.when != "published":
            self._thread.start()

    def published(self) -> None:
        """The write has ended well."""
        if self._mutation.when == "published":
            self.write.new = self._files()
            self._act()

    def stop(self) -> None:
        """No change from now on; those made beside the table's own files are undone."""
        self._over.set()
        if self._thread.is_alive():
            ended(self._thread)
        while self.write.undo:
            self.write.undo.pop()()

    def _watch(self) -> None:
        while not self._over.is_set() and self.what is None:
            try:
                files = self._files()
            except FileNotFoundError:
                continue
            # A file that is whole ends with its magic.
            if files and (self._mutation.when == "begun" or all(_is_whole(path) for path in files)):
                self.write.new = files
                self._act()
            time.sleep(0.0003)

    def _act(self) -> None:
        try:
            self.what = self._mutation.change(self.write, self._rng)
        except FileNotFoundError:
            self.what = None  # the writer was faster

    def _files(self) -> list[Path]:
        return sorted(
            path
            for path in self.write.folder.rglob("part-*.parquet")
            if path not in self.write.before
        )


def _is_whole(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < 12:
                return False
            file.seek(-4, os.SEEK_END)
            return file.read() == b"PARE"
    except OSError:
        return False


def _written(cluster: AttackCluster, question: Question, table: str, host: _Host) -> Answer:
    """What the write left. One that failed left nothing; its error is raised then."""
    back = questions.read_back(table)
    try:
        cluster.within(
            lambda: cluster.driver.query(question.sql.format(table=table), question.conf)
        )
    except QueryFailed:
        host.stop()
        amiss = left_behind(question, lambda: cluster.within(lambda: cluster.driver.query(back)))
        if amiss:
            raise Unwritten(amiss) from None
        raise
    host.published()
    return cluster.within(lambda: cluster.driver.query(back))


def left_behind(question: Question, read: Callable[[], Answer]) -> str | None:
    """What is amiss with what a failed write left, which `read` reads; None if nothing is.

    The table is as it was: a publication that failed is never completed by somebody else. Of a
    table that was to be new there is none, or one that cannot be read, for a reason of ours.
    """
    try:
        left = read()
    except QueryFailed as error:
        code = named(error.message)
        if question.unwritten is None and (
            "TABLE_OR_VIEW_NOT_FOUND" in error.message or (code and code not in DEFECTS)
        ):
            return None
        return f"after the failed write the table cannot be read: {error.message[:300]}"
    if question.unwritten is None:
        return f"after the failed write there is a table of {len(left.rows)} rows"
    found = difference(question.unwritten, left, ordered=False)
    return f"after the failed write: {found}" if found else None


def _drop(cluster: AttackCluster, table: str, folder: Path) -> None:
    """Whatever became of the table, its name is free again and its folder gone."""
    try:
        cluster.within(lambda: cluster.driver.query(f"DROP TABLE IF EXISTS {table}"))
    except QueryFailed:
        fixtures.remove(folder)
    fixtures.remove(folder)


# ---- changes of written files ------------------------------------------------------------------


def _flip(write: Write, rng: random.Random) -> str | None:
    file = rng.choice(write.new)
    size = file.stat().st_size
    if not size:
        return None
    at = rng.randrange(size)
    fixtures.flip(file, at, rng.randrange(8))
    return f"byte {at} of {size} of a new file"


def _cut(write: Write, rng: random.Random) -> str | None:
    file = rng.choice(write.new)
    size = file.stat().st_size
    if not size:
        return None
    os.truncate(file, rng.randrange(size))
    return "a new file cut"


def _footer_flipped(write: Write, rng: random.Random) -> str | None:
    file = rng.choice(write.new)
    content = file.read_bytes()
    start = _footer_start(content)
    at = rng.randrange(start, len(content) - _TAIL)
    fixtures.flip(file, at, rng.randrange(8))
    return f"byte {at} of a new file, in its footer from {start}"


def _footer_of_another(write: Write, rng: random.Random) -> str | None:
    """A whole footer with its tail: of a file of an earlier write, or of another one of this
    write."""
    file = rng.choice(write.new)
    others = [
        path for path in (*write.new, *write.museum.iterdir()) if path != file and _is_whole(path)
    ]
    if not others:
        return None
    mine, theirs = file.read_bytes(), rng.choice(others).read_bytes()
    changed = mine[: _footer_start(mine)] + theirs[_footer_start(theirs) :]
    if changed == mine:
        return None
    file.write_bytes(changed)
    return "a new file with the footer of another one"


def _footer_start(content: bytes) -> int:
    return len(content) - _TAIL - int.from_bytes(content[-_TAIL:-4], "little")


def _extended(write: Write, rng: random.Random) -> str:
    with rng.choice(write.new).open("ab") as file:
        file.write(rng.randbytes(rng.randrange(1, 99)))
    return "bytes behind a new file"


def _zeroed(write: Write, rng: random.Random) -> str | None:
    file = rng.choice(write.new)
    size = file.stat().st_size
    if not size:
        return None
    at = rng.randrange(size)
    fixtures.overwrite(file, at, bytes(min(64, size - at)))
    return f"zeros at {at} of {size} of a new file"


def _removed(write: Write, rng: random.Random) -> str:
    rng.choice(write.new).unlink()
    return "a new file removed"


def _of_an_earlier_write(write: Write, rng: random.Random) -> str | None:
    old = sorted(write.museum.iterdir())
    if not old:
        return None
    shutil.copyfile(rng.choice(old), rng.choice(write.new))
    return "a file of an earlier write in a new one's place"


def _two(write: Write, rng: random.Random) -> tuple[Path, Path] | None:
    """A new file, and another of the table."""
    old = [path for path in write.before if path.suffix == ".parquet"]
    one = rng.choice(write.new)
    others = sorted(path for path in (*write.new, *old) if path != one)
    return (one, rng.choice(others)) if others else None


def _swapped(write: Write, rng: random.Random) -> str | None:
    two = _two(write, rng)
    if two is None:
        return None
    fixtures.exchange(*two)
    return "a new file and another one swapped"


def _twice(write: Write, rng: random.Random) -> str | None:
    two = _two(write, rng)
    if two is None:
        return None
    shutil.copyfile(two[1], two[0])
    return "another file in a new one's place too"


def _a_link(write: Write, rng: random.Random) -> str:
    file = rng.choice(write.new)
    elsewhere = write.museum / f"elsewhere-{rng.getrandbits(32):08x}"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    write.undo.append(lambda: elsewhere.unlink(missing_ok=True))
    return "a new file became a link to itself, elsewhere"


# ---- what lies beside --------------------------------------------------------------------------


def _beside(write: Write, path: Path, content: Callable[[Path], object]) -> None:
    content(path)
    write.undo.append(lambda: fixtures.remove(path))


def _extra_of_this_write(write: Write, rng: random.Random) -> str:
    file = rng.choice(write.new)
    # The first half of a file's name is the write's, the other the file's.
    other = file.with_name(f"{file.name[:21]}{rng.randbytes(8).hex()}.parquet")
    _beside(write, other, lambda path: shutil.copyfile(file, path))
    return "a copy of a new file under a name of this write"


def _extra_of_another_write(write: Write, rng: random.Random) -> str:
    file = rng.choice(write.new)
    other = file.with_name(f"part-{rng.randbytes(16).hex()}.parquet")
    _beside(write, other, lambda path: shutil.copyfile(file, path))
    return "a copy of a new file under a name of another write, as an aborted one leaves them"


def _manifests(write: Write) -> tuple[Path, int]:
    folder = write.folder / _MANIFESTS
    folder.mkdir(exist_ok=True)
    versions = [int(path.name.removeprefix("manifest-")) for path in folder.glob("manifest-*")]
    return folder, max(versions, default=0)


def _manifest_taken(write: Write, rng: random.Random) -> str:
    folder, newest = _manifests(write)
    path = folder / f"manifest-{newest + 1:010}"
    old = folder / f"manifest-{newest:010}"
    content = old.read_bytes() if old.exists() and rng.random() < 0.5 else rng.randbytes(300)
    _beside(write, path, lambda path: path.write_bytes(content))
    return f"a manifest of version {newest + 1} is there already, of {len(content)} bytes"


def _manifest_of_a_later_version(write: Write, rng: random.Random) -> str:
    folder, newest = _manifests(write)
    version = newest + rng.randrange(2, 9)
    _beside(
        write, folder / f"manifest-{version:010}", lambda path: path.write_bytes(rng.randbytes(300))
    )
    return f"noise as manifest {version}"


def _parents_manifest_missing(write: Write, _: random.Random) -> str | None:
    folder, newest = _manifests(write)
    path = folder / f"manifest-{newest:010}"
    if not path.exists():
        return None
    content = path.read_bytes()
    path.unlink()
    write.undo.append(lambda: path.write_bytes(content))
    return f"manifest {newest} removed"


def _temporary_noise(write: Write, rng: random.Random) -> str:
    folder, _ = _manifests(write)
    for _ in range(3):
        _beside(
            write,
            folder / f".tmp-{rng.randbytes(8).hex()}",
            lambda path: path.write_bytes(rng.randbytes(30)),
        )
    return "files in the form of temporary ones"


_CHANGES: dict[str, Change] = {
    "flipped": _flip,
    "cut": _cut,
    "extended": _extended,
    "zeroed": _zeroed,
    "removed": _removed,
    "of-an-earlier-write": _of_an_earlier_write,
    "a-link": _a_link,
}

MUTATIONS = (
    *(
        Writing(f"write-begun-file-{name}", "begun", change)
        for name, change in _CHANGES.items()
        if name != "of-an-earlier-write"
    ),
    *(Writing(f"write-whole-file-{name}", "whole", change) for name, change in _CHANGES.items()),
    *(
        Writing(f"write-published-file-{name}", "published", change)
        for name, change in _CHANGES.items()
    ),
    Writing("write-whole-footer-flipped", "whole", _footer_flipped),
    Writing("write-whole-footer-of-another", "whole", _footer_of_another),
    Writing("write-files-swapped", "published", _swapped),
    Writing("write-file-twice", "published", _twice),
    Writing("write-extra-file", "whole", _extra_of_this_write),
    Writing("write-extra-file-of-another", "begun", _extra_of_another_write),
    Writing("write-manifest-taken", "begun", _manifest_taken),
    Writing("write-manifest-of-a-later-version", "begun", _manifest_of_a_later_version),
    Writing("write-parents-manifest-missing", "begun", _parents_manifest_missing),
    Writing("write-temporary-files", "begun", _temporary_noise),
)
