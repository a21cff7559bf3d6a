"""What `coffer encrypt` and `coffer policy check` say of a policy that nothing is encrypted under
yet."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from coffer.advise.command import AdviseError, ask
from coffer.advise.tables import Table
from coffer.config_dir import OLD_VARIABLE, VARIABLE

# The check itself looks at no more rows of a file.
_SAMPLE_ROWS = 32_768
# Plain rows of a sample are to lie in memory rather than on a disk, where there is room for them.
_MEMORY = Path("/dev/shm")
_ROOM = 256 << 20


@dataclass(frozen=True)
class Warning:
    """A warning: its id, the column, table or nothing, and what it is."""

    id: str
    place: str
    what: str


@dataclass(frozen=True)
class Checked:
    """Warnings, and of each column (table.column) what hosts see. `sampled`: rows of the data were
    sealed and looked at."""

    warnings: tuple[Warning, ...]
    hosts: dict[str, tuple[str, ...]]
    sampled: bool


def check(text: str, tables: Iterable[Table]) -> Checked:
    """Checks a policy's text; if there are files of all tables, over their first rows, sealed in a
    temporary config directory.

    The rows that are to be sealed lie there in plain for a moment, for nobody but the user (0700).
    """
    tables = list(tables)
    sampled = all(table.files for table in tables)
    with tempfile.TemporaryDirectory(prefix="coffer-advise-", dir=_memory()) as folder:
        config_dir = Path(folder) / "config"
        environment = {
            **{name: value for name, value in os.environ.items() if name != OLD_VARIABLE},
            VARIABLE: str(config_dir),
            "COFFER_PASSPHRASE": secrets.token_urlsafe(24),
        }
        if sampled:
            _coffer(environment, "init")
        config_dir.mkdir(exist_ok=True)
        (config_dir / "policy.toml").write_text(text)
        if sampled:
            _coffer(environment, "policy", "sign", "--yes")
        for table in tables if sampled else []:
            source = Path(folder) / f"{table.name}.parquet"
            pq.write_table(_first_rows(table), source)
            _coffer(environment, "encrypt", str(source), str(Path(folder) / "sealed" / table.name))
            source.unlink()
        report = json.loads(_coffer(environment, "policy", "check", "--json"))
    hosts = {
        f"{table['name']}.{column['name']}": tuple(column["hosts"])
        for table in report["tables"]
        for column in table["columns"]
    }
    return Checked(
        tuple(Warning(one["id"], one["place"], one["what"]) for one in report["warnings"]),
        hosts,
        sampled,
    )


def _memory() -> Path | None:
    """A folder in memory, or none: then `$TMPDIR`."""
    usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK | os.X_OK)
    return _MEMORY if usable and shutil.disk_usage(_MEMORY).free >= _ROOM else None


def _coffer(environment: dict[str, str], *arguments: str) -> str:
    done = ask(*arguments, environment=environment)
    # 6: there are warnings.
    if done.returncode not in (0, 6):
        raise AdviseError(
            f"`coffer {arguments[0]}` refuses what would be proposed: {done.stderr.strip()}"
        )
    return done.stdout


def _first_rows(table: Table) -> pa.Table:
    first = table.files[0]
    if first.suffix.lower() == ".csv":
        return pa.Table.from_batches(
            [pacsv.open_csv(first).read_next_batch().slice(0, _SAMPLE_ROWS)]
        )
    batches = pq.ParquetFile(first).iter_batches(_SAMPLE_ROWS)
    found = next(batches, None)
    return (
        pq.ParquetFile(first).schema_arrow.empty_table()
        if found is None
        else pa.Table.from_batches([found])
    )
