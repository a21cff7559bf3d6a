"""Mutations of a host about columns that lie in its files as ciphertexts: it can read them, and so
it knows what it moves.

Nothing but a digest in the manifest ties such a chunk to its place: ciphertexts under `det`, `ope`
and `ore` are as good in any other row, and in any table of their link.
"""

from __future__ import annotations

import random
import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from coffer_adversary import fixtures
from coffer_adversary.fixtures import Pieces, Table
from coffer_adversary.mutation import Outcome
from coffer_testing import protections
from coffer_testing.parquet_layout import Chunk

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster

_SIGNATURE = 28  # nonce and tag behind a footer in the clear
_ROWS = ("row", "file")  # which row of which file `ashe` and `std` values are


@dataclass(frozen=True)
class Target:
    """What is changed: `file` is one of the table's; `words` are the query's; `linked` has columns
    of the same links, and so has `again`, which was sealed of the very same rows."""

    table: Pieces
    file: Path
    words: frozenset[str]
    linked: Pieces
    again: Pieces

    def chunks(self, *encodings: str) -> list[Chunk]:
        """Of the file, those that are clear: of these forms, or of columns that the query names."""
        clear = [chunk for chunk in self.table.layout(self.file).chunks if chunk.clear]
        if encodings:
            return [chunk for chunk in clear if chunk.encoding in encodings]
        return [chunk for chunk in clear if chunk.logical in self.words or chunk.encoding in _ROWS]

    def another(self, rng: random.Random) -> Path:
        """Another file of the table."""
        return rng.choice([file for file in self.table.files if file != self.file])


# Changes the place. Returns what it did, to reproduce it, or None where it found nothing to bite
# on.
Change = Callable[[Target, random.Random], str | None]


@dataclass(frozen=True)
class Cipher:
    """One change of one data file of a table of pieces, while a query reads it."""

    name: str
    change: Change
    needs: frozenset[str] = frozenset({"protected"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        pieces, linked, again = (
            fixtures.pieces(cluster),
            fixtures.linked(cluster),
            fixtures.again(cluster),
        )
        # All values of all columns are asked for more often than not: of what is pruned or not
        # named nothing is read.
        question = rng.choice([Pieces.at_client, Pieces.whole, Pieces.whole, Pieces.question])(
            pieces, rng
        )
        words = frozenset(re.findall(r"\w+", question.sql.lower()))
        target = Target(pieces, rng.choice(pieces.files), words, linked, again)
        with pieces.restored(), linked.restored():
            what = self.change(target, rng)
            judgement = cluster.judge(question, lambda: pieces.ask(cluster, question))
        detail = f"{question.name}: {what or 'nothing'}"
        if judgement.detail:
            detail = f"{detail}: {judgement.detail}"
        return Outcome(what is not None, judgement.verdict, judgement.check, detail)


# ---- bytes of a chunk --------------------------------------------------------------------------


def _flipped(target: Target, rng: random.Random) -> str | None:
    chunk = _one(target, rng)
    if chunk is None:
        return None
    at, bit = rng.randrange(chunk.start, chunk.end), rng.randrange(8)
    fixtures.flip(target.file, at, bit)
    return f"bit {bit} of byte {at} of {target.file.name}, {chunk}"


def _replaced(target: Target, rng: random.Random) -> str | None:
    chunk = _one(target, rng)
    if chunk is None:
        return None
    size = chunk.end - chunk.start
    content = rng.choice([bytes(size), b"\xff" * size, rng.randbytes(size)])
    fixtures.overwrite(target.file, chunk.start, content)
    return f"{size} other bytes ({content[:4].hex()}…) as {chunk} of {target.file.name}"


def _values(repeat: bool) -> Change:
    """Two ciphertexts of a chunk change places, or one is written over the other: what is left is a
    chunk like any other."""

    def change(target: Target, rng: random.Random) -> str | None:
        chunks = target.chunks()
        rng.shuffle(chunks)
        content = target.file.read_bytes()
        for chunk in chunks:
            found = _found(target.table, target.file, chunk, content, rng)
            if found is None:
                continue
            (one, a), (other, b) = found
            fixtures.overwrite(target.file, one, b)
            if not repeat:
                fixtures.overwrite(target.file, other, a)
            return (
                f"values at {one} and {other} of {target.file.name}, {chunk}, "
                f"{'made one' if repeat else 'swapped'}"
            )
        return None

    return change


def _found(
    table: Table, file: Path, chunk: Chunk, content: bytes, rng: random.Random
) -> tuple[tuple[int, bytes], tuple[int, bytes]] | None:
    """Two different values of one length that stand in the chunk's bytes once, and where."""
    column = (
        pq.ParquetFile(table.pristine(file))
        .read_row_group(chunk.row_group, columns=[chunk.column])
        .column(0)
    )
    targets: dict[int, tuple[int, bytes]] = {}
    for index in rng.sample(range(len(column)), min(60, len(column))):
        value = column[index].as_py()
        data = struct.pack("<q", value) if isinstance(value, int) else value
        if not data or content.count(data, chunk.start, chunk.end) != 1:
            continue
        here = (content.index(data, chunk.start, chunk.end), data)
        there = targets.setdefault(len(data), here)
        if there[1] != data:
            return there, here
    return None


# ---- chunks in another's place -----------------------------------------------------------------


def _columns_swapped(target: Target, rng: random.Random) -> str | None:
    pairs = [
        (one, other)
        for one in target.chunks()
        for other in target.table.layout(target.file).chunks
        if other.clear and one.row_group == other.row_group and one.column < other.column
    ]
    return _swapped(target, *rng.choice(pairs)) if pairs else None


def _row_groups_swapped(target: Target, rng: random.Random) -> str | None:
    pairs = _of_two_row_groups(target, target.chunks())
    return _swapped(target, *rng.choice(pairs)) if pairs else None


def _rows_moved(target: Target, rng: random.Random) -> str | None:
    """With the values of `ashe` and `std` columns go the numbers of their rows: they still open."""
    pairs = _of_two_row_groups(target, target.chunks(*protections.PLACED, *_ROWS))
    if not pairs:
        return None
    groups = {(one.row_group, other.row_group) for one, other in pairs}
    chosen = rng.choice(sorted(groups))
    done = [
        _swapped(target, one, other)
        for one, other in pairs
        if (one.row_group, other.row_group) == chosen
    ]
    return "; ".join(what for what in done if what) or None


def _row_numbers(encoding: str) -> Change:
    """The numbers of other rows, or another file's id."""

    def change(target: Target, rng: random.Random) -> str | None:
        mine = target.chunks(encoding)
        if not mine:
            return None
        chunk = rng.choice(mine)
        source = target.file if encoding == "row" and rng.random() < 0.5 else target.another(rng)
        theirs = [
            other
            for other in target.table.layout(source).chunks
            if other.encoding == encoding
            and (source != target.file or other.row_group != chunk.row_group)
        ]
        return _copied(target, chunk, target.table, source, rng.choice(theirs)) if theirs else None

    return change


def _of_another_file(target: Target, rng: random.Random) -> str | None:
    chunk = _one(target, rng)
    if chunk is None:
        return None
    source = target.another(rng)
    theirs = [other for other in target.table.layout(source).chunks if other.column == chunk.column]
    return _copied(target, chunk, target.table, source, rng.choice(theirs)) if theirs else None


def _of_a_linked_table(target: Target, rng: random.Random) -> str | None:
    """Ciphertexts of another table under the very same key."""
    mine = [chunk for chunk in target.chunks() if chunk.encoding in protections.SAME_BYTES]
    if not mine:
        return None
    chunk = rng.choice(mine)
    source = rng.choice(target.linked.files)
    theirs = [
        other
        for other in target.linked.layout(source).chunks
        if (other.logical, other.encoding) == (chunk.logical, chunk.encoding)
    ]
    return _copied(target, chunk, target.linked, source, rng.choice(theirs)) if theirs else None


def _linked_file(target: Target, rng: random.Random) -> str:
    source = rng.choice(target.linked.files)
    shutil.copyfile(source, target.file)
    return f"{source.name} of the linked table as {target.file.name}"


def _sealed_again(target: Target, _: random.Random) -> str:
    """The same rows, as another version of the table would have them. (Tables with stored columns
    have one version only.)"""
    at = target.table.files.index(target.file)
    source = target.again.files[min(at, len(target.again.files) - 1)]
    shutil.copyfile(source, target.file)
    return f"{source.name}, the same rows sealed again, as {target.file.name}"


def _chunk_sealed_again(target: Target, rng: random.Random) -> str | None:
    chunk = _one(target, rng)
    if chunk is None:
        return None
    at = target.table.files.index(target.file)
    source = target.again.files[min(at, len(target.again.files) - 1)]
    theirs = [
        other
        for other in target.again.layout(source).chunks
        if (other.row_group, other.logical, other.encoding)
        == (chunk.row_group, chunk.logical, chunk.encoding)
    ]
    return _copied(target, chunk, target.again, source, theirs[0]) if theirs else None


def _linked_tables(target: Target, _: random.Random) -> str:
    fixtures.exchange(target.table.folder, target.linked.folder)
    return "the folders of two linked tables swapped"


def _linked_data(target: Target, _: random.Random) -> str:
    """All data files of the other table, under the names of this one's."""
    for mine, theirs in zip(target.table.files, target.linked.files, strict=False):
        shutil.copyfile(theirs, mine)
    return "the files of the linked table under the names of this one's"


# ---- the footer, which lies in the clear -------------------------------------------------------


def _footer_flipped(target: Target, rng: random.Random) -> str:
    at, bit = rng.choice(target.table.layout(target.file).footer), rng.randrange(8)
    fixtures.flip(target.file, at, bit)
    return f"bit {bit} of byte {at} of {target.file.name}"


def _footer_names(target: Target, rng: random.Random) -> str | None:
    """Two columns change names, wherever the footer has them: the host reads one for the other."""
    layout = target.table.layout(target.file)
    names = sorted({chunk.column for chunk in layout.chunks})
    pairs = [(a, b) for a in names for b in names if a < b and len(a) == len(b)]
    if not pairs:
        return None
    pair = rng.choice(pairs)
    # In Thrift a text's length stands before it.
    one, other = (bytes([len(name)]) + name.encode() for name in pair)
    names_of = {one: other, other: one}
    footer = target.file.read_bytes()[layout.footer.start : layout.footer.stop]
    renamed = re.sub(
        re.escape(one) + b"|" + re.escape(other), lambda found: names_of[found.group()], footer
    )
    fixtures.overwrite(target.file, layout.footer.start, renamed)
    return f"{' and '.join(pair)} have each other's name in {target.file.name}"


def _footer_unsigned(target: Target, rng: random.Random) -> str:
    footer = target.table.layout(target.file).footer
    fixtures.overwrite(
        target.file,
        footer.stop - _SIGNATURE,
        rng.choice([bytes(_SIGNATURE), rng.randbytes(_SIGNATURE)]),
    )
    return f"the last {_SIGNATURE} bytes of the footer of {target.file.name}"


def _footer_bounds(target: Target, rng: random.Random) -> str | None:
    """Least and greatest value of an `ope` chunk, by which row groups are left out."""
    layout = target.table.layout(target.file)
    metadata = pq.ParquetFile(target.table.pristine(target.file)).metadata
    content = target.file.read_bytes()
    names = [metadata.schema.column(at).name for at in range(metadata.num_columns)]
    for chunk in rng.sample(layout.chunks, len(layout.chunks)):
        if chunk.encoding not in protections.ORDERED:
            continue
        statistics = (
            metadata.row_group(chunk.row_group).column(names.index(chunk.column)).statistics
        )
        bounds = [struct.pack("<q", bound) for bound in (statistics.min, statistics.max)]
        at = [content.find(bound, layout.footer.start, layout.footer.stop) for bound in bounds]
        if min(at) < 0:
            continue
        for where, bound in zip(
            at, rng.choice([bounds[::-1], [bounds[0]] * 2, [bounds[1]] * 2]), strict=True
        ):
            fixtures.overwrite(target.file, where, bound)
        return f"other bounds of {chunk} of {target.file.name}"
    return None


def _footer_of_a_linked_table(target: Target, rng: random.Random) -> str:
    source = rng.choice(target.linked.files)
    footer = source.read_bytes()[target.linked.layout(source).footer.start :]
    content = target.file.read_bytes()[: target.table.layout(target.file).footer.start]
    target.file.write_bytes(content + footer)
    return f"{target.file.name} with the footer of {source.name} of the linked table"


# ---- helpers -----------------------------------------------------------------------------------


def _one(target: Target, rng: random.Random) -> Chunk | None:
    chunks = target.chunks()
    return rng.choice(chunks) if chunks else None


def _of_two_row_groups(target: Target, chunks: list[Chunk]) -> list[tuple[Chunk, Chunk]]:
    return [
        (one, other)
        for one in chunks
        for other in target.table.layout(target.file).chunks
        if one.column == other.column and one.row_group < other.row_group
    ]


def _swapped(target: Target, one: Chunk, other: Chunk) -> str | None:
    """As many bytes as the shorter has."""
    content = target.file.read_bytes()
    length = min(one.end - one.start, other.end - other.start)
    a, b = content[one.start : one.start + length], content[other.start : other.start + length]
    if a == b:
        return None
    fixtures.overwrite(target.file, one.start, b)
    fixtures.overwrite(target.file, other.start, a)
    return f"{one} and {other} of {target.file.name} swapped"


def _copied(target: Target, chunk: Chunk, table: Table, source: Path, theirs: Chunk) -> str | None:
    """As many bytes as there is room for; what is left of a longer chunk stays behind them, where
    no reader looks."""
    content = source.read_bytes()[theirs.start : theirs.end][: chunk.end - chunk.start]
    if target.file.read_bytes()[chunk.start : chunk.start + len(content)] == content:
        return None
    fixtures.overwrite(target.file, chunk.start, content)
    return (
        f"{theirs} of {source.name} of {table.name} in the place of {chunk} of {target.file.name}"
    )


MUTATIONS = (
    Cipher("cipher-chunk-flipped", _flipped),
    Cipher("cipher-chunk-replaced", _replaced),
    Cipher("cipher-values-swapped", _values(repeat=False)),
    Cipher("cipher-value-repeated", _values(repeat=True)),
    Cipher("cipher-columns-swapped", _columns_swapped),
    Cipher("cipher-row-groups-swapped", _row_groups_swapped),
    Cipher("cipher-rows-moved", _rows_moved),
    Cipher("cipher-row-numbers", _row_numbers("row")),
    Cipher("cipher-file-ids", _row_numbers("file")),
    Cipher("cipher-chunk-of-another-file", _of_another_file),
    Cipher("cipher-chunk-of-a-linked-table", _of_a_linked_table),
    Cipher("cipher-file-of-a-linked-table", _linked_file),
    Cipher("cipher-files-of-a-linked-table", _linked_data),
    Cipher("cipher-linked-tables-swapped", _linked_tables),
    Cipher("cipher-file-sealed-again", _sealed_again),
    Cipher("cipher-chunk-sealed-again", _chunk_sealed_again),
    Cipher("cipher-footer-flipped", _footer_flipped),
    Cipher("cipher-footer-names", _footer_names),
    Cipher("cipher-footer-unsigned", _footer_unsigned),
    Cipher("cipher-footer-bounds", _footer_bounds),
    Cipher("cipher-footer-of-a-linked-table", _footer_of_a_linked_table),
)
