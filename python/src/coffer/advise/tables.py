"""What the tables of a workload are: names, types, and what their data says of rows, sizes and
values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from coffer.advise.command import AdviseError, ask

# Values of so many rows are counted, from the beginnings of so many files at most.
_SAMPLE_ROWS = 100_000
_SAMPLE_FILES = 4
# What is assumed of a table of which only the schema is known.
UNKNOWN_ROWS = 1_000_000

_DDL = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:EXTERNAL\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"`?([\w.]+)`?\s*\((.*?)\)\s*"
    r"(?:USING\s+\w+[^;]*|STORED\s[^;]*|LOCATION\s[^;]*|COMMENT\s[^;]*)?(?:;|$)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Column:
    """A column. `type`: as Spark's DDL has it. Numbers are in the type's units: days, microseconds,
    values of decimals. `low` and `high`: bounds of all its values, never of a sample."""

    name: str
    type: str
    nullable: bool = True
    distinct: float | None = None
    low: float | None = None
    high: float | None = None
    width: float | None = None
    packed: float | None = None
    """Bytes in the plain Parquet files."""


@dataclass(frozen=True)
class Table:
    """A table. `source`: where its figures come from, in words."""

    name: str
    rows: int
    columns: tuple[Column, ...]
    source: str
    files: tuple[Path, ...] = field(default=())

    def column(self, name: str) -> Column:
        """The column of this name."""
        return next(column for column in self.columns if column.name == name)


Schema = Callable[[str], list[dict[str, Any]]]
"""Spark's reading of DDL columns: name, type, nullable."""


def read(
    arguments: Iterable[str], schema: Schema, config_dir: Path, passphrase: Path | None
) -> list[Table]:
    """The tables that the command line names: `name=path`, files, folders of tables, DDL, sealed
    tables by their names."""
    tables: dict[str, Table] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if equals and (Path(path).expanduser() / "_coffer").is_dir():
            found = [replace(_sealed(path, config_dir, passphrase), name=name)]
        else:
            found = (
                _named(name, Path(path).expanduser(), schema)
                if equals
                else _any(argument, schema, config_dir, passphrase)
            )
        for table in found:
            if table.name in tables:
                raise AdviseError(
                    f"there are two tables `{table.name}`\nhint: name them: NAME=PATH"
                )
            tables[table.name] = table
    return list(tables.values())


def _any(argument: str, schema: Schema, config_dir: Path, passphrase: Path | None) -> list[Table]:
    path = Path(argument).expanduser()
    if (path / "_coffer").is_dir():
        return [_sealed(argument, config_dir, passphrase)]
    if path.is_dir() and not _parts(path):
        tables = [
            table
            for p in sorted(path.iterdir())
            if _is_table(p)
            for table in _named(p.stem, p, schema)
        ]
        if not tables:
            raise AdviseError(f"no Parquet, CSV or DDL is in {path}")
        return tables
    if path.exists():
        return _named(path.stem, path, schema)
    if _kind(path) or path.name != argument:
        raise AdviseError(f"there is nothing at {path}")
    return [_sealed(argument, config_dir, passphrase)]


def _kind(path: Path) -> str | None:
    suffix = path.suffix.lower()
    return {".parquet": "parquet", ".csv": "csv", ".sql": "ddl", ".ddl": "ddl"}.get(suffix)


def _is_table(path: Path) -> bool:
    """Whether something in a folder is a table's: data, or DDL among other files."""
    if path.name.startswith((".", "_")) or (path / "_coffer").is_dir():
        return False
    if path.is_dir():
        return any(_kind(p) in ("parquet", "csv") for p in path.iterdir())
    return (
        bool(_DDL.search(path.read_text(errors="replace")))
        if _kind(path) == "ddl"
        else bool(_kind(path))
    )


def _parts(folder: Path) -> bool:
    """Whether a folder is one table, as Spark writes them, rather than one of tables."""
    names = [p.name for p in folder.iterdir() if _kind(p)]
    return bool(names) and all(name.startswith("part-") for name in names)


def _named(name: str, path: Path, schema: Schema) -> list[Table]:
    if not path.exists():
        raise AdviseError(f"there is nothing at {path}")
    files = sorted(p for p in path.rglob("*") if _kind(p)) if path.is_dir() else [path]
    kinds = {_kind(p) for p in files}
    try:
        if kinds == {"ddl"}:
            return [table for p in files for table in _ddl(p, schema)]
        if kinds == {"parquet"}:
            return [_parquet(name, files)]
        if kinds == {"csv"}:
            return [_csv(name, files)]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise AdviseError(f"{path} cannot be read: {error}") from error
    raise AdviseError(f"{path} is no Parquet, CSV or DDL (.sql)")


def _ddl(path: Path, schema: Schema) -> list[Table]:
    tables = []
    for name, body in _DDL.findall(path.read_text()):
        columns = tuple(Column(**column) for column in schema(_without_constraints(body)))
        source = f"by its types alone, with {UNKNOWN_ROWS:,} rows assumed"
        tables.append(Table(name.split(".")[-1], UNKNOWN_ROWS, columns, source))
    if not tables:
        raise AdviseError(f"{path} has no CREATE TABLE name (columns)")
    return tables


def _without_constraints(body: str) -> str:
    body = re.sub(
        r",\s*(?:CONSTRAINT\s+\w+\s+)?(?:PRIMARY|FOREIGN|UNIQUE|CHECK)\b.*",
        "",
        body,
        flags=re.I | re.S,
    )
    return re.sub(r"\s+PRIMARY\s+KEY", " NOT NULL", body, flags=re.I)


def _sealed(name: str, config_dir: Path, passphrase: Path | None) -> Table:
    key = ("--passphrase-file", str(passphrase)) if passphrase else ()
    done = ask("--config-dir", str(config_dir), "inspect", "--json", name, *key)
    if done.returncode != 0:
        raise AdviseError(
            f"{name} is no file or folder, and no sealed table of this config directory: "
            f"{done.stderr.strip()}"
        )
    found = json.loads(done.stdout)
    if not found["verified"]:
        raise AdviseError(
            f"{name} is sealed, and its columns cannot be read without the passphrase"
        )
    columns = tuple(Column(c["name"], c["type"], c["nullable"]) for c in found["columns"])
    source = "a sealed table: rows from its manifest, values by their types alone"
    return Table(found["name"], found["rows"], columns, source)


def _parquet(name: str, files: list[Path]) -> Table:
    readers = [pq.ParquetFile(path) for path in files]
    rows = sum(reader.metadata.num_rows for reader in readers)
    sample = _sample(readers)
    whole = sample is not None and sample.num_rows == rows
    columns = []
    for index, arrow in enumerate(readers[0].schema_arrow):
        chunks = [
            reader.metadata.row_group(group).column(index)
            for reader in readers
            for group in range(reader.metadata.num_row_groups)
        ]
        bounds = [
            chunk.statistics
            for chunk in chunks
            if chunk.statistics is not None and chunk.statistics.has_min_max
        ]
        column = _column(arrow, sample.column(index) if sample is not None else None, rows, whole)
        if (
            bounds
            and len(bounds) == len(chunks)
            and _numeric(arrow.type)
            and not _nanoseconds(arrow.type)
        ):
            low, high = (
                min(_number(b.min, arrow.type) for b in bounds),
                max(_number(b.max, arrow.type) for b in bounds),
            )
            column = _bounded(replace(column, low=low, high=high), arrow.type)
        columns.append(
            replace(column, packed=float(sum(chunk.total_compressed_size for chunk in chunks)))
        )
    seen = 0 if sample is None else sample.num_rows
    return Table(
        name,
        rows,
        tuple(columns),
        f"from its Parquet files; values of {seen:,} rows were counted",
        tuple(files),
    )


def _sample(readers: list[pq.ParquetFile]) -> pa.Table | None:
    step = -(-len(readers) // _SAMPLE_FILES)
    some = readers[::step]
    batches = []
    for reader in some:
        left = _SAMPLE_ROWS // len(some)
        for batch in reader.iter_batches(min(left, 16_384) or 1):
            batches.append(batch.slice(0, left))
            left -= batch.num_rows
            if left <= 0:
                break
    return pa.Table.from_batches(batches) if batches else None


def _csv(name: str, files: list[Path]) -> Table:
    """Of the first block of each file; how many rows there are in all, by their length if there are
    more."""
    readers = [pacsv.open_csv(path) for path in files[:_SAMPLE_FILES]]
    blocks = [reader.read_next_batch() for reader in readers]
    sample = pa.Table.from_batches([block.slice(0, _SAMPLE_ROWS) for block in blocks])
    seen = sample.num_rows
    whole = (
        len(readers) == len(files)
        and seen == sum(map(len, blocks))
        and not any(map(_more, readers))
    )
    rows = seen
    source = f"from its CSV; values of {seen:,} rows were counted"
    if not whole:
        row = sample.nbytes / max(1, seen)
        rows = max(seen, int(sum(path.stat().st_size for path in files) / max(1.0, row)))
        source += f", and about {rows:,} rows assumed"
    columns = tuple(
        _column(arrow, sample.column(index), rows, whole)
        for index, arrow in enumerate(sample.schema)
    )
    return Table(name, rows, columns, source, tuple(files))


def _more(reader: pacsv.CSVStreamingReader) -> bool:
    try:
        return len(reader.read_next_batch()) > 0
    except StopIteration:
        return False
    except pa.ArrowInvalid:
        # The types of its first block do not fit what follows.
        return True


def _column(arrow: pa.Field, sample: pa.ChunkedArray | None, rows: int, whole: bool) -> Column:
    """What a sample says; of bounds nothing unless it is the whole: values beyond would not
    encrypt."""
    column = Column(arrow.name, _ddl_type(arrow), arrow.nullable)
    if sample is None or len(sample) == sample.null_count:
        return column
    values = sample.cast(_plain_type(arrow.type), safe=False).drop_null()
    column = replace(column, distinct=_distinct(values, rows))
    if _numeric(arrow.type):
        if not whole:
            return column
        found = pc.min_max(values)
        low, high = (
            _number(found["min"].as_py(), arrow.type),
            _number(found["max"].as_py(), arrow.type),
        )
        return _bounded(replace(column, low=low, high=high), arrow.type)
    if pa.types.is_boolean(arrow.type):
        return replace(column, width=1.0)
    return replace(column, width=pc.mean(pc.binary_length(values)).as_py())


def _distinct(values: pa.ChunkedArray, rows: int) -> float:
    """Values that repeat in the sample are taken to be all that there are; others to go on as they
    do there."""
    found, seen = float(len(pc.unique(values))), len(values)
    return found if found < seen / 10 else found * max(1.0, rows / seen)


def _bounded(column: Column, arrow: pa.DataType) -> Column:
    """No more values than lie between the bounds."""
    if column.low is None or column.high is None or pa.types.is_floating(arrow):
        return column
    unit = 10.0**-arrow.scale if pa.types.is_decimal(arrow) else 1.0
    most = (column.high - column.low) / unit + 1
    return replace(column, distinct=min(column.distinct, most) if column.distinct else None)


def _numeric(arrow: pa.DataType) -> bool:
    kinds = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_timestamp,
    )
    return any(kind(arrow) for kind in kinds)


def _nanoseconds(arrow: pa.DataType) -> bool:
    return pa.types.is_timestamp(arrow) and arrow.unit == "ns"


def _number(value: Any, arrow: pa.DataType) -> float:
    if isinstance(value, datetime):
        return (
            value.replace(tzinfo=None).toordinal() * 86_400e6
            - date(1970, 1, 1).toordinal() * 86_400e6
        )
    if isinstance(value, date):
        return float(value.toordinal() - date(1970, 1, 1).toordinal())
    if pa.types.is_decimal(arrow) and not isinstance(value, Decimal):
        return float(Decimal(value).scaleb(-arrow.scale))
    return float(value)


def _plain_type(arrow: pa.DataType) -> pa.DataType:
    """Without dictionaries, views and nanoseconds, for which Arrow and Python have few
    functions."""
    kind = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_fixed_size_binary(kind):
        return pa.large_binary()
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(
        kind, kind
    )


def _ddl_type(arrow: pa.Field) -> str:
    kind = _plain_type(arrow.type)
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    names = {
        pa.bool_(): "BOOLEAN",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INT",
        pa.int64(): "BIGINT",
        # As `coffer encrypt` takes them.
        pa.uint8(): "SMALLINT",
        pa.uint16(): "INT",
        pa.uint32(): "BIGINT",
        pa.uint64(): "DECIMAL(20,0)",
        pa.float16(): "FLOAT",
        pa.date64(): "DATE",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.string(): "STRING",
        pa.large_string(): "STRING",
        pa.binary(): "BINARY",
        pa.large_binary(): "BINARY",
        pa.date32(): "DATE",
    }
    if kind not in names:
        raise AdviseError(f"column {arrow.name} is {arrow.type}, which sealed tables do not have")
    return names[kind]
