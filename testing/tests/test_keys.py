"""The life of keys beside running queries: what Spark's sessions see of `coffer keys`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

ROWS, GROUPS, FEW = 6000, 6, 600
LONG = (
    "SELECT count(*) AS n, sum(a.v + b.v - c.v) AS s FROM t a JOIN t b ON a.g = b.g JOIN t "
    f"c ON b.g = c.g WHERE c.v < {FEW}"
)


def expected() -> list[str]:
    """What `LONG` gives, by arithmetic: in each group all of `a` meet all of `b` and the few of
    `c`."""
    count = total = 0
    for group in range(GROUPS):
        many = range(group, ROWS, GROUPS)
        few = [v for v in many if v < FEW]
        count += len(many) ** 2 * len(few)
        total += 2 * sum(many) * len(many) * len(few) - sum(few) * len(many) ** 2
    return [str(count), str(total)]


class Keys:
    """A session that runs on, and its owner."""

    def __init__(self, owner: Owner, driver: Driver, folder: Path) -> None:
        self.owner = owner
        self.driver = driver
        self.folder = folder

    def coffer(self, *arguments: Any) -> Any:
        return json.loads(self.owner.coffer("keys", *arguments, "--json").stdout)

    def master_of(self, table: str) -> tuple[str, str]:
        row = next(row for row in self.coffer("list")["tables"] if row["name"] == table)
        return row["master"], row["master_version"]

    def count(self, table: str, driver: Driver | None = None) -> int:
        """Opened anew, by its folder."""
        code = "result = spark.read.format('coffer').load(path).count()"
        return (driver or self.driver).run(code, path=str(self.folder / "sealed" / table))

    def beside(self, change: Callable[[], None]) -> None:
        """A query of some seconds is exact, though this happens while it runs; and `t` opens as
        ever then."""
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.driver.query, LONG)
            change()
            still = not running.done()
            assert running.result(timeout=300).rows == [expected()]
        assert still, "the query was over before the keys were changed"
        assert self.driver.query("SELECT count(*) FROM t").rows == [[str(ROWS)]]
        assert self.count("t") == ROWS


@pytest.fixture(scope="module")
def k(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    folder = tmp_path_factory.mktemp("keys")
    owner = Owner.create(folder / "trusted")
    source = folder / "rows.parquet"
    table = pa.table({"g": [v % GROUPS for v in range(ROWS)], "v": list(range(ROWS))})
    pq.write_table(table, source, row_group_size=1000)
    sealed = owner.encrypt({"t": source, "u": source}, folder / "sealed")
    with session(owner, folder, {"t": sealed["t"]}) as driver:
        yield Keys(owner, driver, folder)


def session(owner: Owner, folder: Path, tables: dict[str, Path]) -> Driver:
    return Driver(
        tables,
        sealed=True,
        log=folder / "driver.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
    )


def test_rotated_and_rewrapped_under_a_running_query(k: Keys) -> None:
    def change() -> None:
        assert k.coffer("rotate", "main")["version"] == "2"
        assert k.coffer("rewrap", "--all")["failed"] == 0

    k.beside(change)
    assert k.master_of("t") == ("main", "2")
    # The version that no key needs any more can go, and the session does not notice.
    k.coffer("destroy", "main", "--version", "1", "--yes")
    assert k.count("t") == ROWS


def test_re_encrypted_under_a_running_query(k: Keys) -> None:
    k.beside(lambda: k.coffer("rewrap", "--data", "t"))
    assert json.loads(k.owner.coffer("verify", "--deep", "--json", "t").stdout)["sound"]
    # A query made before reads the version that it opened; its files go only when nobody has them
    # open.
    assert json.loads(k.owner.coffer("verify", "--clean", "--json", "t").stdout)["removed"] == []
    assert k.driver.query("SELECT count(*) FROM t").rows == [[str(ROWS)]]


def test_moved_to_another_master(k: Keys) -> None:
    k.coffer("create", "other")
    k.beside(lambda: k.coffer("rewrap", "t", "--to", "other"))
    assert k.master_of("t") == ("other", "1")


def test_disabled_under_a_session(k: Keys) -> None:
    k.coffer("disable", "main")
    assert k.driver.query("SELECT count(*) FROM t").rows == [[str(ROWS)]]
    with pytest.raises(QueryFailed) as failed:
        k.count("u")
    assert "disabled" in str(failed.value) and '"main"' in str(failed.value), failed.value
    assert "`u`" in str(failed.value), failed.value
    k.coffer("enable", "main")
    assert k.count("u") == ROWS


def test_destroyed_only_when_it_is_said_twice(k: Keys) -> None:
    k.owner.coffer(
        "keys",
        "export",
        "main",
        "--output",
        k.folder / "main.coffer",
        env={"COFFER_EXPORT_PASSPHRASE": "battery"},
    )
    unconfirmed = k.owner.coffer("keys", "destroy", "main", check=False)
    assert unconfirmed.returncode == 2 and "--yes" in unconfirmed.stderr
    needed = k.owner.coffer("keys", "destroy", "main", "--yes", check=False)
    assert needed.returncode == 1 and "`u`" in needed.stderr and "--really main" in needed.stderr
    misspelled = k.owner.coffer("keys", "destroy", "main", "--yes", "--really", "mian", check=False)
    assert misspelled.returncode == 2
    assert k.count("u") == ROWS
    done = k.owner.coffer("keys", "destroy", "main", "--yes", "--really", "main")
    assert "`u` can never be opened again" in done.stderr
    with pytest.raises(QueryFailed) as failed:
        k.count("u")
    assert '"main"' in str(failed.value) and "`u`" in str(failed.value), failed.value
    assert k.count("t") == ROWS
    # An export brings it back.
    k.owner.coffer(
        "keys", "import", k.folder / "main.coffer", env={"COFFER_EXPORT_PASSPHRASE": "battery"}
    )
    assert k.count("u") == ROWS


def test_a_lost_keyring_comes_back_from_three_of_five(k: Keys) -> None:
    k.coffer("export", "--shares", "3-of-5", "--output", k.folder / "shares")
    shutil.copytree(k.owner.config_dir, k.folder / "found")
    (k.folder / "found" / "keyring.coffer").unlink()
    found = Owner(k.folder / "found", k.folder / "fresh-passphrase")
    found.passphrase_file.touch(mode=0o600)
    found.passphrase_file.write_text("another passphrase\n")
    share = [k.folder / "shares" / f"share-{number}.txt" for number in range(1, 6)]
    few = found.coffer("keys", "recover", share[0], share[3], check=False)
    assert few.returncode == 1 and "3 of the 5 are needed" in few.stderr
    found.coffer("keys", "recover", share[4], share[1], share[2])
    tables = {name: k.folder / "sealed" / name for name in ("t", "u")}
    with session(found, k.folder, tables) as driver:
        assert driver.query("SELECT count(*), sum(t.v) FROM t JOIN u ON t.v = u.v").rows == [
            [str(ROWS), str(ROWS * (ROWS - 1) // 2)]
        ]
