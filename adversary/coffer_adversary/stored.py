"""Lies of a host about a table's data files: other bytes, other files, files that are none."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coffer_adversary import forged, ground
from coffer_adversary.ground import Pieces, Table
from coffer_adversary.mutation import Outcome
from coffer_adversary.questions import Question
from coffer_testing.parquet_layout import Chunk, pages

if TYPE_CHECKING:
    from coffer_adversary.arena import Arena


@dataclass(frozen=True)
class Place:
    """What a mutation changes: `file` is one of the table's; `words` are the query's, columns that it reads among them;
    `others` are further tables of the owner."""

    table: Table
    file: Path
    words: frozenset[str]
    others: tuple[Table, ...]

    def chunks(self) -> list[Chunk]:
        """Of the file: those of columns that the query names."""
        return [chunk for chunk in self.table.layout(self.file).chunks if chunk.logical in self.words]

    def encrypted(self) -> list[Chunk]:
        """Of these: those whose pages are encrypted."""
        return [chunk for chunk in self.chunks() if not chunk.clear]


# Changes the place. Returns what it did, to reproduce it, or None where it found nothing to bite on.
Change = Callable[[Place, random.Random], str | None]


@dataclass(frozen=True)
class Stored:
    """One change of one data file while a query that reads the table is asked. `pieces`: only of the table that has several
    files and row groups; `asked`: what is asked of that table then, if not any of its questions."""

    name: str
    change: Change
    pieces: bool = False
    needs: frozenset[str] = frozenset({"local", "query"})
    asked: Callable[[Pieces, random.Random], Question] = Pieces.question

    def attempt(self, arena: Arena, rng: random.Random) -> Outcome:
        pieces = ground.pieces(arena)
        if self.pieces or rng.random() < 0.5:
            table: Table = pieces
            question = self.asked(pieces, rng)
            run = lambda: pieces.ask(arena, question)  # noqa: E731
        else:
            question = arena.ask(rng)
            table = ground.of_tpch(arena, rng.choice(ground.read_by(arena, question)))
            run = lambda: arena.run(question)  # noqa: E731
        others = tuple(ground.of_tpch(arena, name) for name in ("orders", "customer") if name != table.name)
        words = frozenset(re.findall(r"\w+", question.sql.lower()))
        place = Place(table, rng.choice(table.files), words, others)
        with table.restored(), others[0].restored():
            what = self.change(place, rng)
            judgement = arena.judge(question, run)
        detail = f"{question.name}: {table.name}: {what or 'nothing'}"
        if judgement.detail:
            detail = f"{detail}: {judgement.detail}"
        return Outcome(what is not None, judgement.verdict, judgement.check, detail)


# ---- bytes -------------------------------------------------------------------------------------------------------------


def _flip_in(part: Callable[[Place, random.Random], range]) -> Change:
    def change(place: Place, rng: random.Random) -> str | None:
        where = part(place, rng)
        if not where:
            return None
        at, bit = rng.choice(where), rng.randrange(8)
        ground.flip(place.file, at, bit)
        return f"bit {bit} of byte {at} of {place.file.name}"

    return change


def _zero_in(part: Callable[[Place, random.Random], range], most: int | None = None) -> Change:
    def change(place: Place, rng: random.Random) -> str | None:
        where = part(place, rng)
        if most is not None and len(where) > most:
            length = rng.randrange(1, most + 1)
            first = rng.randrange(where.start, where.stop - length + 1)
            where = range(first, first + length)
        if not where or not any(place.file.read_bytes()[where.start : where.stop]):
            return None
        ground.overwrite(place.file, where.start, bytes(len(where)))
        return f"zeros at {where.start} to {where.stop} of {place.file.name}"

    return change


def _anywhere(place: Place, rng: random.Random) -> range:
    """Any part of the file that the query reads; a chunk as often as the rest."""
    parts = [_chunk, _chunk, _footer, _tail]
    return rng.choice(parts)(place, rng)


def _chunk(place: Place, rng: random.Random) -> range:
    chunks = place.chunks()
    if not chunks:
        return range(0)
    chunk = rng.choice(chunks)
    return range(chunk.start, chunk.end)


def _module_length(place: Place, rng: random.Random) -> range:
    """The length of a chunk's first module, which stands in the clear: what a reader allocates by."""
    chunks = place.encrypted()
    if not chunks:
        return range(0)
    start = rng.choice(chunks).start
    return range(start, start + 4)


def _footer(place: Place, _: random.Random) -> range:
    return place.table.layout(place.file).footer


def _tail(place: Place, _: random.Random) -> range:
    return place.table.layout(place.file).tail


def _page_index(place: Place, _: random.Random) -> range:
    return place.table.layout(place.file).page_index


def _cut(place: Place, rng: random.Random) -> str:
    size = place.file.stat().st_size
    left = rng.choice([rng.randrange(size), size - rng.randrange(1, 64), rng.randrange(64), 0])
    os.truncate(place.file, left)
    return f"{place.file.name} cut to {left} bytes"


def _extended(place: Place, rng: random.Random) -> str:
    more = rng.randbytes(rng.randrange(1, 200))
    with place.file.open("ab") as file:
        file.write(more)
    return f"{len(more)} bytes behind {place.file.name}"


def _huge(place: Place, rng: random.Random) -> str:
    size = 1 << rng.randrange(34, 43)
    os.truncate(place.file, size)
    return f"{place.file.name} became {size} bytes, most of them a hole"


# ---- parts of a file ---------------------------------------------------------------------------------------------------


def _exchange_chunks(same_column: bool) -> Change:
    """Two chunks change places: columns within a row group, or row groups within a column. Of unequal ones, as many bytes
    as the shorter has."""

    def change(place: Place, rng: random.Random) -> str | None:
        pairs = [
            (one, other)
            for one in place.chunks()
            for other in place.table.layout(place.file).chunks
            if (one.column == other.column) == same_column and (one.row_group == other.row_group) != same_column
        ]
        if not pairs:
            return None
        one, other = rng.choice(pairs)
        content = place.file.read_bytes()
        length = min(one.end - one.start, other.end - other.start)
        a, b = content[one.start : one.start + length], content[other.start : other.start + length]
        if a == b:
            return None
        ground.overwrite(place.file, one.start, b)
        ground.overwrite(place.file, other.start, a)
        return f"{one} and {other} of {place.file.name} swapped"

    return change


def _exchange_pages(place: Place, rng: random.Random) -> str | None:
    """Two whole pages of one chunk, each with its header; of one length where there are such, or those between them move."""
    content = place.file.read_bytes()
    pairs = [
        (one, other)
        for chunk in place.encrypted()
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
    ground.overwrite(place.file, one.start, last + between + first)
    return f"pages at {one} and {other} of {place.file.name} swapped"


def _chunk_of_another_file(place: Place, rng: random.Random) -> str | None:
    other = _another(place, rng)
    if other is None:
        return None
    mine = place.chunks()
    if not mine:
        return None
    chunk = rng.choice(mine)
    same = [theirs for theirs in place.table.layout(other).chunks if theirs.column == chunk.column]
    theirs = rng.choice(same)
    content = other.read_bytes()[theirs.start : theirs.end][: chunk.end - chunk.start]
    ground.overwrite(place.file, chunk.start, content)
    return f"{theirs} of {other.name} in the place of {chunk} of {place.file.name}"


def _footer_of_another_file(place: Place, rng: random.Random) -> str | None:
    other = _another(place, rng)
    if other is None:
        return None
    footer = other.read_bytes()[place.table.layout(other).footer.start :]
    content = place.file.read_bytes()[: place.table.layout(place.file).footer.start]
    place.file.write_bytes(content + footer)
    return f"{place.file.name} with the footer of {other.name}"


# ---- whole files -------------------------------------------------------------------------------------------------------


def _another(place: Place, rng: random.Random) -> Path | None:
    others = [file for file in place.table.files if file != place.file]
    return rng.choice(others) if others else None


def _missing(place: Place, _: random.Random) -> str:
    place.file.unlink()
    return f"{place.file.name} removed"


def _swapped(place: Place, rng: random.Random) -> str | None:
    other = _another(place, rng)
    if other is None:
        return None
    ground.exchange(place.file, other)
    return f"{place.file.name} and {other.name} swapped"


def _twice(place: Place, rng: random.Random) -> str | None:
    other = _another(place, rng)
    if other is None:
        return None
    shutil.copyfile(other, place.file)
    return f"{other.name} also as {place.file.name}"


def _of_another_table(place: Place, rng: random.Random) -> str:
    other = place.others[0]
    file = rng.choice(other.files)
    ground.exchange(place.file, file)
    return f"{place.file.name} and {file.name} of {other.name} swapped"


def _link(place: Place, rng: random.Random) -> str:
    other = _another(place, rng) or place.others[0].files[0]
    place.file.unlink()
    place.file.symlink_to(other)
    return f"{place.file.name} became a link to {other.name}"


def _link_to_itself(place: Place, _: random.Random) -> str:
    place.file.unlink()
    place.file.symlink_to(place.file)
    return f"{place.file.name} became a link to itself"


def _device(place: Place, rng: random.Random) -> str:
    device = rng.choice(["/dev/zero", "/dev/null", "/dev/urandom"])
    place.file.unlink()
    place.file.symlink_to(device)
    return f"{place.file.name} became a link to {device}"


def _pipe(place: Place, _: random.Random) -> str:
    place.file.unlink()
    os.mkfifo(place.file)
    return f"{place.file.name} became a pipe that nobody writes to"


def _folder(place: Place, _: random.Random) -> str:
    place.file.unlink()
    place.file.mkdir()
    return f"{place.file.name} became a folder"


def _forgery(make: Callable[[Path, int], bytes | None]) -> Change:
    """A file of the harness's own making, of the same size, rows and columns."""

    def change(place: Place, _: random.Random) -> str | None:
        size = place.file.stat().st_size
        content = make(place.table.plain, size)
        if content is None or len(content) != size:
            return None
        place.file.write_bytes(content)
        return f"{place.file.name} became a forgery of the {size} bytes it had"

    return change


# The page index is read of files without clear columns alone.
_LOCAL = frozenset({"local"})

MUTATIONS = (
    Stored("stored-bit-flipped", _flip_in(_anywhere), asked=Pieces.whole),
    Stored("stored-page-flipped", _flip_in(_chunk)),
    Stored("stored-module-length-flipped", _flip_in(_module_length)),
    Stored("stored-page-index-flipped", _flip_in(_page_index), pieces=True, needs=_LOCAL, asked=Pieces.by_index),
    Stored("stored-footer-flipped", _flip_in(_footer)),
    Stored("stored-tail-flipped", _flip_in(_tail)),
    Stored("stored-range-zeroed", _zero_in(_anywhere, 4096), asked=Pieces.whole),
    Stored("stored-page-index-zeroed", _zero_in(_page_index), pieces=True, needs=_LOCAL, asked=Pieces.by_index),
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
