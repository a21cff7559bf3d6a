"""Sessions that run statements about sealed tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

ROWS = [["1", "x", "1"], ["2", "y", "2"]]
MAKE = (
    "CREATE TABLE t USING coffer PARTITIONED BY (p) AS SELECT * FROM VALUES (1, 'x', 1), (2, "
    "'y', 2) AS t(a, s, p)"
)


class Session:
    """A session in the database `d`, its owner, and the folder of all of it."""

    def __init__(self, owner: Owner, driver: Driver, folder: Path) -> None:
        self.owner = owner
        self.driver = driver
        self.folder = folder
        self.warehouse = folder / "warehouse" / "d.db"

    def run(self, code: str, **names: Any) -> Any:
        return self.driver.run(code, folder=str(self.folder), **names)

    def sql(self, text: str) -> list[list[Any]]:
        return self.driver.query(text).rows

    def statement(self, text: str) -> Any:
        text = text.replace("{folder}", str(self.folder)).replace("{t}", str(self.warehouse / "t"))
        return self.run(text.removeprefix("PY: ")) if text.startswith("PY: ") else self.sql(text)

    def rows(self, table: str = "t") -> list[list[str]]:
        return sorted(
            self.run(f"result = [list(map(str, row)) for row in spark.table('{table}').collect()]")
        )

    def names(self) -> list[str]:
        return sorted(row[1] for row in self.sql("SHOW TABLES IN d"))

    def registered(self) -> list[str]:
        listed = json.loads(self.owner.coffer("keys", "list", "--json").stdout)["tables"]
        return sorted(table["name"] for table in listed)

    def state(self) -> dict[str, Any]:
        """All that a statement could touch: rows, entries of the catalog, files, register, policy,
        the working directory."""
        entry = (
            "str(spark._jsparkSession.sessionState().catalog().listTables('d').mkString(',')) + "
        )
        entry += (
            "'\\n'.join(r[3] for r in spark.sql(\"SHOW TABLE EXTENDED IN d LIKE '*'\").collect())"
        )
        return {
            "rows": self.rows(),
            "entries": self.run(f"result = {entry}"),
            "files": {
                str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
                for root in (self.folder / "warehouse", self.folder / "elsewhere")
                for path in root.rglob("*")
            },
            "register": self.owner.coffer("keys", "list", "--json").stdout,
            "policy": (self.owner.config_dir / "policy.toml").read_text(),
            "here": self.run("import os\nresult = sorted(os.listdir('.'))"),
        }

    def fresh(self) -> None:
        """Only `t`, as it is made."""
        self.run("for x in spark.sql('SHOW VIEWS').collect(): spark.sql(f'DROP VIEW {x.viewName}')")
        for name in self.names():
            self.sql(f"DROP TABLE IF EXISTS d.{name}")
        self.sql(MAKE)


def session(folder: Path, **conf: str) -> tuple[Owner, Driver]:
    owner = Owner.create(folder / "trusted")
    settings = {"spark.sql.warehouse.dir": str(folder / "warehouse"), **conf}
    log = folder / "driver.log"
    return owner, Driver(
        {},
        sealed=True,
        log=log,
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=settings,
    )


@contextmanager
def in_database(folder: Path) -> Iterator[Session]:
    """A session in a new database."""
    owner, running = session(folder)
    with running as driver:
        driver.run("spark.sql('CREATE DATABASE d')\nspark.sql('USE d')")
        yield Session(owner, driver, folder)


def refused(action: Callable[[], Any], code: str) -> str:
    with pytest.raises(QueryFailed) as failed:
        action()
    assert f"[{code}]" in failed.value.message, failed.value.message
    assert "hint: " in failed.value.message
    return failed.value.message
