"""Mutations of a host about a table's data files: other bytes, other files, files that are none."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coffer_adversary import fixtures, forged
from coffer_adversary.fixtures import Pieces, Table
from coffer_adversary.mutation import Outcome
from coffer_adversary.questions import Question
from coffer_testing.parquet_layout import Chunk, pages

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster


@dataclass(frozen=True)
class Target:
    """What a mutation changes: `file` is one of the table's; `words` are the query's, columns that
    it reads among them; `others` are further tables of the owner."""

    table: Table
    file: Path
    words: frozenset[str]
    others: tuple[Table, ...]

    def chunks(self) -> list[Chunk]:
        """Of the file: those of columns that the query names."""
        return [
            chunk for chunk in self.table.layout(self.file).chunks if chunk.logical in self.words
        ]

    def encrypted(self) -> list[Chunk]:
        """Of these: those whose pages are encrypted."""
        return [chunk for chunk in self.chunks() if not chunk.clear]


# Changes the place. Returns what it did, to reproduce it, or None where it found nothing to bite
# on.
Change = Callable[[Target, random.Random], str | None]


@dataclass(frozen=True)
class Stored:
    """One change of one data file while a query that reads the table is asked. `pieces`: only of
    the table that has several files and row groups; `asked`: what is asked of that table then, if
    not any of its questions."""

    name: str
    change: Change
    pieces: bool = False
    needs: frozenset[str] = frozenset({"local", "query"})
    asked: Callable[[Pieces, random.Random], Question] = Pieces.question

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        pieces = fixtures.pieces(cluster)
        if self.pieces or rng.random() < 0.5:
            table: Table = pieces
            question = self.asked(pieces, rng)
            run = lambda: pieces.ask(cluster, question)  # noqa: E731
        else:
            question = cluster.ask(rng)
            table = fixtures.of_tpch(cluster, rng.choice(fixtures.read_by(cluster, question)))
            run = lambda: cluster.run(question)  # noqa: E731
        others = tuple(
            fixtures.of_tpch(cluster, name) for name in ("orders", "customer") if name != table.name
        )
        words = frozenset(re.findall(r"\w+", question.sql.lower()))
        target = Target(table, rng.choice(table.files), words, others)
        with table.restored(), others[0].restored():
            what = self.change(target, rng)
            judgement = cluster.judge(question, run)
        detail = f"{question.name}: {table.name}: {what or 'nothing'}"
        if judgement.detail:
            detail = f"{detail}: {judgement.detail}"
        return Outcome(what is not None, judgement.verdict, judgement.check, detail)


# ---- bytes -------------------------------------------------------------------------------------


def _flip_in(part: Callable[[Target, random.Random], range]) -> Change:
    def change(target: Target, rng: random.Random) -> str | None:
        where = part(target, rng)
        if not where:
            return None
        at, bit = rng.choice(where), rng.randrange(8)
        fixtures.flip(target.file, at, bit)
        return f"bit {bit} of byte {at} of {target.file.name}"

    return change


def _zero_in(part: Callable[[Target, random.Random], range], most: int | None = None) -> Change:
    def change(target: Target, rng: random.Random) -> str | None:
        where = part(target, rng)
        if most is not None and len(where) > most:
            length = rng.randrange(1, most + 1)
            first = rng.randrange(where.start, where.stop - length + 1)
            where = range(first, first + length)
        if not where or not any(target.file.read_bytes()[where.start : where.stop]):
            return None
        fixtures.overwrite(target.file, where.start, bytes(len(where)))
        return f"zeros at {where.start} to {where.stop} of {target.file.name}"

    return change


def _anywhere(target: Target, rng: random.Random) -> range:
    """Any part of the file that the query reads; a chunk as often as the rest."""
    parts = [_chunk, _chunk, _footer, _tail]
    return rng.choice(parts)(target, rng)


def _chunk(target: Target, rng: random.Random) -> range:
    chunks = target.chunks()
    if not chunks:
        return range(0)
    chunk = rng.choice(chunks)
    return range(chunk.start, chunk.end)


def _module_length(target: Target, rng: random.Random) -> range:
    """The length of a chunk's first module, which stands in the clear: what a reader allocates
    by."""
    chunks = target.encrypted()
    if not chunks:
        return range(0)
    start = rng.choice(chunks).start
    return range(start, start + 4)


def _footer(target: Target, _: random.Random) -> range:
    return target.table.layout(target.file).footer


def _tail(target: Target, _: random.Random) -> range:
    return target.table.layout(target.file).tail


def _page_index(target: Target, _: random.Random) -> range:
    return target.table.layout(target.file).page_index


def _cut(target: Target, rng: random.Random) -> str:
    size = target.file.stat().st_size
    left = rng.choice([rng.randrange(size), size - rng.randrange(1, 64), rng.randrange(64), 0])
    os.truncate(target.file, left)
    return f"{target.file.name} cut to {left} bytes"


def _extended(target: Target, rng: random.Random) -> str:
    more = rng.randbytes(rng.randrange(1, 200))
    with target.file.open("ab") as file:
        file.write(more)
    return f"{len(more)} bytes behind {target.file.name}"


def _huge(target: Target, rng: random.Random) -> str:
    size = 1 << rng.randrange(34, 43)
    os.truncate(target.file, size)
    return f"{target.file.name} became {size} bytes, most of them a hole"


# ---- parts of a file ---------------------------------------------------------------------------


def _exchange_chunks(same_column: bool) -> Change:
    """Two chunks change places: columns within a row group, or row groups within a column. Of
    unequal ones, as many bytes as the shorter has."""

    def change(target: Target, rng: random.Random) -> str | None:
        pairs = [
            (one, other)
            for one in target.chunks()
            for other in target.table.layout(target.file).chunks
            if (one.column == other.column) == same_column
            and (one.row_group == other.row_group) != same_column
        ]
        if not pairs:
            return None
        one, other = rng.choice(pairs)
        content = target.file.read_bytes()
        length = min(one.end - one.start, other.end - other.start)
        a, b = content[one.start : one.start + length], content[other.start : other.start + length]
        if a == b:
            return None
        fixtures.overwrite(target.file, one.start, b)
        fixtures.overwrite(target.file, other.start, a)
        return f"{one} and {other} of {target.file.name} swapped"

    return change


def _exchange_pages(target: Target, rng: random.Random) -> str | None:
    """Two whole pages of one chunk, each with its header; of one length where there are such, or
    those between them move."""
    content = target.file.read_bytes()
    pairs = [
        (one, other)
        for chunk in target.encrypted()
        for found in [pages(content, chunk)]
        for at, one in enumerate(found)
        for other in found[at + 1 :]
    ]
    if not pairs:
        return None
    equal = [(one, other) for one, other in pairs if len(one) == len(other)]
    one, other = rng.choice(equal or pairs)
    first, between, last = (
        content[one.start : one.stop],
        content[one.stop : other.start],
        content[other.start : other.stop],
    )
    fixtures.overwrite(target.file, one.start, last + between + first)
    return f"pages at {one} and {other} of {target.file.name} swapped"


def _chunk_of_another_file(target: Target, rng: random.Random) -> str | None:
    other = _another(target, rng)
    if other is None:
        return None
    mine = target.chunks()
    if not mine:
        return None
    chunk = rng.choice(mine)
    same = [theirs for theirs in target.table.layout(other).chunks if theirs.column == chunk.column]
    theirs = rng.choice(same)
    content = other.read_bytes()[theirs.start : theirs.end][: chunk.end - chunk.start]
    fixtures.overwrite(target.file, chunk.start, content)
    return f"{theirs} of {other.name} in the place of {chunk} of {target.file.name}"


def _footer_of_another_file(target: Target, rng: random.Random) -> str | None:
    other = _another(target, rng)
    if other is None:
        return None
    footer = other.read_bytes()[target.table.layout(other).footer.start :]
    content = target.file.read_bytes()[: target.table.layout(target.file).footer.start]
    target.file.write_bytes(content + footer)
    return f"{target.file.name} with the footer of {other.name}"


# ---- whole files -------------------------------------------------------------------------------


def _another(target: Target, rng: random.Random) -> Path | None:
    others = [file for file in target.table.files if file != target.file]
    return rng.choice(others) if others else None


def _missing(target: Target, _: random.Random) -> str:
    target.file.unlink()
    return f"{target.file.name} removed"


def _swapped(target: Target, rng: random.Random) -> str | None:
    other = _another(target, rng)
    if other is None:
        return None
    fixtures.exchange(target.file, other)
    return f"{target.file.name} and {other.name} swapped"


def _twice(target: Target, rng: random.Random) -> str | None:
    other = _another(target, rng)
    if other is None:
        return None
    shutil.copyfile(other, target.file)
    return f"{other.name} also as {target.file.name}"


def _of_another_table(target: Target, rng: random.Random) -> str:
    other = target.others[0]
    file = rng.choice(other.files)
    fixtures.exchange(target.file, file)
    return f"{target.file.name} and {file.name} of {other.name} swapped"


def _link(target: Target, rng: random.Random) -> str:
    other = _another(target, rng) or target.others[0].files[0]
    target.file.unlink()
    target.file.symlink_to(other)
    return f"{target.file.name} became a link to {other.name}"


def _link_to_itself(target: Target, _: random.Random) -> str:
    target.file.unlink()
    target.file.symlink_to(target.file)
    return f"{target.file.name} became a link to itself"


def _device(target: Target, rng: random.Random) -> str:
    device = rng.choice(["/dev/zero", "/dev/null", "/dev/urandom"])
    target.file.unlink()
    target.file.symlink_to(device)
    return f"{target.file.name} became a link to {device}"


def _pipe(target: Target, _: random.Random) -> str:
    target.file.unlink()
    os.mkfifo(target.file)
    return f"{target.file.name} became a pipe that nobody writes to"


def _folder(target: Target, _: random.Random) -> str:
    target.file.unlink()
    target.file.mkdir()
    return f"{target.file.name} became a folder"


def _forgery(make: Callable[[Path, int], bytes | None]) -> Change:
    """A file of the harness's own making, of the same size, rows and columns."""

    def change(target: Target, _: random.Random) -> str | None:
        size = target.file.stat().st_size
        content = make(target.table.plain, size)
        if content is None or len(content) != size:
            return None
        target.file.write_bytes(content)
        return f"{target.file.name} became a forgery of the {size} bytes it had"

    return change


# The page index is read of files without clear columns alone.
_LOCAL = frozenset({"local"})

MUTATIONS = (
    Stored("stored-bit-flipped", _flip_in(_anywhere), asked=Pieces.whole),
    Stored("stored-page-flipped", _flip_in(_chunk)),
    Stored("stored-module-length-flipped", _flip_in(_module_length)),
    Stored(
        "stored-page-index-flipped",
        _flip_in(_page_index),
        pieces=True,
        needs=_LOCAL,
        asked=Pieces.by_index,
    ),
    Stored("stored-footer-flipped", _flip_in(_footer)),
    Stored("stored-tail-flipped", _flip_in(_tail)),
    Stored("stored-range-zeroed", _zero_in(_anywhere, 4096), asked=Pieces.whole),
    Stored(
        "stored-page-index-zeroed",
        _zero_in(_page_index),
        pieces=True,
        needs=_LOCAL,
        asked=Pieces.by_index,
    ),
    Stored("stored-footer-part-zeroed", _zero_in(_footer, 16)),
    Stored("stored-footer-zeroed", _zero_in(_footer)),
    Stored("stored-cut", _cut),
    Stored("stored-extended", _extended),
    Stored("stored-huge", _huge),
    Stored("stored-columns-swapped", _exchange_chunks(same_column=False)),
    Stored("stored-row-groups-swapped", _exchange_chunks(same_column=True), pieces=True),
    Stored("stored-pages-swapped", _exchange_pages, asked=Pieces.whole),
    Stored("stored-chunk-of-another-file", _chunk_of_another_file, pieces=True, asked=Pieces.whole),
    Stored("stored-footer-of-another-file", _footer_of_another_file, pieces=True),
    Stored("stored-file-missing", _missing),
    Stored("stored-files-swapped", _swapped, pieces=True),
    Stored("stored-file-twice", _twice, pieces=True),
    Stored("stored-tables-swapped", _of_another_table),
    Stored("stored-file-a-link", _link),
    Stored("stored-file-a-link-to-itself", _link_to_itself),
    Stored("stored-file-a-device", _device),
    Stored("stored-file-a-pipe", _pipe),
    Stored("stored-file-a-folder", _folder),
    Stored("stored-plain-file", _forgery(forged.plain)),
    Stored("stored-plain-file-of-sealed-magic", _forgery(forged.plain_with_sealed_magic)),
    Stored("stored-file-of-foreign-keys", _forgery(forged.foreign)),
)
