"""Receipts: what a query brings is what `coffer verify --receipt` finds in audit log and tables; a
receipt, a result or a log that is another is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

CONF = "spark.coffer.receipts"
QUERY = "SELECT k, s, d38, ts, array(k, NULL) AS a, map('x', id) AS m FROM edge WHERE id < 200"
ARROW = """
import coffer, pyarrow.feather
table = coffer.to_arrow(spark.sql(sql))
pyarrow.feather.write_feather(table, path, compression='uncompressed')
result = table.num_rows
"""


class Site:
    """An owner with one sealed table, and a driver that asks for receipts."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder = folder
        self.receipts = folder / "receipts"
        self.owner = Owner.create(folder / "trusted")
        self.tables = self.owner.encrypt({"edge": source}, folder / "sealed")

    def driver(self) -> Driver:
        return Driver(
            self.tables,
            sealed=True,
            log=self.folder / "driver.log",
            config_dir=self.owner.config_dir,
            passphrase_file=self.owner.passphrase_file,
            conf={CONF: str(self.receipts)},
        )

    def files(self) -> list[Path]:
        return sorted(self.receipts.glob("*.json"), key=lambda p: int(p.stem.rpartition("-")[2]))

    def brought(self, do: Callable[[], Any]) -> list[Path]:
        """The receipts that something brought."""
        before = set(self.files())
        do()
        return [path for path in self.files() if path not in before]

    def verify(self, receipt: Path, *more: str | Path, exit: int = 0) -> dict[str, Any]:
        done = self.owner.coffer("verify", "--receipt", receipt, "--json", *more, check=False)
        assert done.returncode == exit, done.stderr
        return json.loads(done.stdout) if done.stdout else {"error": done.stderr}


@pytest.fixture(scope="module")
def site(base: Path, plain_tables: dict[str, Path]) -> Site:
    return Site(base / "receipts", plain_tables["edge"])


@pytest.fixture(scope="module")
def driver(site: Site) -> Iterator[Driver]:
    with site.driver() as driver:
        yield driver


@pytest.fixture(scope="module")
def receipt(site: Site, driver: Driver) -> tuple[Path, Path]:
    """A receipt, and the rows that it is of."""
    rows = site.folder / "rows.arrow"
    (file,) = site.brought(lambda: driver.run(ARROW, sql=QUERY, path=str(rows)))
    return file, rows


def checks(report: dict[str, Any]) -> dict[str, list[bool | None]]:
    found: dict[str, list[bool | None]] = {}
    for check in report["checks"]:
        found.setdefault(check["name"], []).append(check["passed"])
    return found


def test_it_says_what_ran(site: Site, receipt: tuple[Path, Path]) -> None:
    file, rows = receipt
    assert file.stat().st_mode & 0o777 == 0o600
    report = site.verify(file, "--result", rows)
    assert checks(report) == {
        name: [True]
        for name in (
            "signature", "audit log", "user", "engine", "input", "policy", "table", "result",
        )
    }  # fmt: skip
    said = report["receipt"]
    assert said["inputs"][0]["name"] == "edge"
    assert set(said["inputs"][0]["columns"]) == {"k", "s", "d38", "ts", "id"}
    manifest = site.tables["edge"] / "_coffer"
    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in manifest.iterdir()}
    assert said["inputs"][0]["manifest"] in hashes
    policy = hashlib.sha256(site.owner.policy.encode()).hexdigest()
    assert said["policies"] == [policy]
    assert said["query"]["text_sha256"] == hashlib.sha256(QUERY.encode()).hexdigest()
    assert [engine["kind"] for engine in said["engines"]] == ["simulated"]
    assert said["results"][0]["rows"] == 200
    words = site.owner.coffer("verify", "--receipt", file).stdout
    assert "✗" not in words and "by simulated evidence" in words


def test_a_result_is_known_in_any_order_and_file(
    site: Site, receipt: tuple[Path, Path], tmp_path: Path
) -> None:
    file, rows = receipt
    table = pyarrow.feather.read_table(rows)
    turned = table.take(list(range(table.num_rows - 1, -1, -1)))
    pyarrow.parquet.write_table(turned, tmp_path / "turned.parquet")
    site.verify(file, "--result", tmp_path / "turned.parquet")
    for name, other in {
        "one less": table.slice(1),
        "one twice": pa.concat_tables([table, table.slice(0, 1)]),
        "changed": table.set_column(0, "k", pa.compute.add(table["k"], 1)),
        "columns turned": table.select(table.column_names[::-1]),
    }.items():
        pyarrow.parquet.write_table(other, tmp_path / f"{name}.parquet")
        report = site.verify(file, "--result", tmp_path / f"{name}.parquet", exit=1)
        assert checks(report)["result"] == [False], name


def _encoded(value: Any) -> bytes:
    if value is None:
        return b"\0"
    if isinstance(value, int):
        return b"\x02" + struct.pack("<q", value)
    text = value.encode()
    return b"\x05" + struct.pack("<Q", len(text)) + text


def test_the_digest_is_as_documented(site: Site, driver: Driver) -> None:
    sql = "SELECT k, s FROM edge WHERE id < 50"
    got: list[list[Any]] = []
    code = "result = [list(row) for row in spark.sql(sql).collect()]"
    (file,) = site.brought(lambda: got.extend(driver.run(code, sql=sql)))
    lanes = [0] * 1024
    for row in got:
        digest = hashlib.shake_128(b"".join(map(_encoded, row))).digest(2048)
        parts = struct.unpack("<1024H", digest)
        lanes = [(a + b) & 0xFFFF for a, b in zip(lanes, parts, strict=True)]
    packed = struct.pack("<Q", len(got)) + struct.pack("<1024H", *lanes)
    want = hashlib.sha256(b"coffer result 1\0" + packed).hexdigest()
    assert [part["digest"] for part in site.verify(file)["receipt"]["results"]] == [want]


ACTIONS = {
    "collect": "result = len(spark.sql(sql).collect())",
    "count": "result = spark.sql(sql).count()",
    "take": "result = len(spark.sql(sql).take(3))",
    "show": "result = spark.sql(sql)._jdf.showString(5, 20, False)",
    "toLocalIterator": "result = sum(1 for _ in spark.sql(sql).toLocalIterator())",
    "toPandas": "result = len(spark.sql(sql).drop('ts').toPandas())",
}


@pytest.mark.parametrize("action", ACTIONS)
def test_each_action_brings_one(action: str, site: Site, driver: Driver) -> None:
    (file,) = site.brought(lambda: driver.run(ACTIONS[action], sql=QUERY))
    results = site.verify(file)["receipt"]["results"]
    rows = sum(part["rows"] for part in results)
    assert rows == {"count": 1, "take": 3, "show": 6}.get(action, 200)


def test_what_is_of_the_driver_is_said(site: Site, driver: Driver) -> None:
    code = (
        "from pyspark.sql.functions import udf\n"
        "result = len(spark.table('edge').select(udf(lambda x: 1)('k')).collect())"
    )
    (file,) = site.brought(lambda: driver.run(code))
    said = site.verify(file)["receipt"]["at_client"]
    assert any("Python" in name for name in said["driver"]), said


def test_parts_that_the_driver_joins_are_one_receipt(site: Site, driver: Driver) -> None:
    code = (
        "from pyspark.sql.functions import udf\n"
        "t = spark.table('edge').where('id < 50')\n"
        "same = udf(lambda a, b: a == b, 'boolean')\n"
        "a, b = t.select('id'), t.selectExpr('id AS other', 'k')\n"
        "result = a.crossJoin(b).where(same('id', 'other')).count()"
    )
    (file,) = site.brought(lambda: driver.run(code))
    assert site.verify(file)["receipt"]["results"]


def test_a_write_names_its_table(site: Site, driver: Driver) -> None:
    path = site.folder / "written"
    code = f"spark.sql('SELECT k, s FROM edge').write.format('coffer').save('{path}')\nresult = 0"
    (file,) = site.brought(lambda: driver.run(code))
    report = site.verify(file)
    assert checks(report)["written"] == [True]
    assert [table["version"] for table in report["receipt"]["written"]] == [1]
    assert report["receipt"]["results"] == []


def test_what_failed_brings_none(site: Site, driver: Driver) -> None:
    def fails() -> None:
        with pytest.raises(QueryFailed):
            driver.run("spark.sql('SELECT 1 / (id - 700) FROM edge').collect()")

    def fails_later() -> None:
        with pytest.raises(QueryFailed):
            driver.run("list(spark.sql('SELECT 1 / (id - 700) FROM edge').toLocalIterator())")

    assert site.brought(fails) == []
    assert site.brought(fails_later) == []


def test_a_folder_that_cannot_be_written_fails_the_query(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (f"{tmp_path}/file", "relative"):
        with pytest.raises(QueryFailed, match=r"spark\.coffer\.receipts"):
            driver.query("SELECT k FROM edge WHERE id < 3", {CONF: folder})


def _changed(file: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The receipt with another payload under the same signature."""
    envelope = json.loads(file.read_text())
    payload = json.loads(base64.b64decode(envelope["payload"]))
    change(payload)
    envelope["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    to.write_text(json.dumps(envelope))
    return to


def test_a_changed_receipt_is_refused(
    site: Site, receipt: tuple[Path, Path], tmp_path: Path
) -> None:
    file, _ = receipt
    same = _changed(file, tmp_path / "same.json", lambda _: None)
    changes: list[Callable[[dict[str, Any]], None]] = [
        lambda p: p["inputs"].clear(),
        lambda p: p["results"][0].update(rows=1),
        lambda p: p["engines"][0].update(measurement="00"),
        lambda p: p["query"].update(user="somebody"),
    ]
    others = [_changed(file, tmp_path / f"{n}.json", c) for n, c in enumerate(changes)]
    unsigned = json.loads(file.read_text()) | {"signatures": []}
    (tmp_path / "unsigned.json").write_text(json.dumps(unsigned))
    (tmp_path / "none.json").write_text("{}")
    for other in [same, *others, tmp_path / "unsigned.json", tmp_path / "none.json"]:
        site.verify(other, exit=1)


def test_others_check_it_by_the_key_alone(
    site: Site, receipt: tuple[Path, Path], tmp_path: Path
) -> None:
    file, rows = receipt
    key = json.loads(site.owner.coffer("keys", "list", "--json").stdout)["receipt_key"]
    other = Owner.create(tmp_path / "other")
    reviewer = {"COFFER_CONFIG_DIR": str(tmp_path / "nothing"), "COFFER_PASSPHRASE": None}

    def verify(*more: str | Path) -> subprocess.CompletedProcess[str]:
        arguments = ("verify", "--receipt", file, "--result", rows, "--json", *more)
        return other.coffer(*arguments, check=False, env=reviewer)

    done = verify("--signer", key)
    assert done.returncode == 0, done.stderr
    assert checks(json.loads(done.stdout)) == {"signature": [True], "result": [True]}
    theirs = json.loads(other.coffer("keys", "list", "--json").stdout)["receipt_key"]
    assert verify("--signer", theirs).returncode == 1
    assert verify("--signer", "abc").returncode == 2
    # Another owner's home did not sign it.
    assert other.coffer("verify", "--receipt", file, check=False).returncode == 1


def test_the_log_must_have_it(site: Site, receipt: tuple[Path, Path]) -> None:
    """A receipt that is signed by the right key, and that nobody recorded."""
    file, _ = receipt
    lines = (site.owner.config_dir / "audit" / "log").read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if '"receipt"' not in line)
    held = "".join(lines)
    log = site.owner.config_dir / "audit" / "log"
    try:
        log.write_text(kept)
        assert "audit log" in site.verify(file, exit=1)["error"]
    finally:
        log.write_text(held)
    site.verify(file)


def test_tables_go_on_and_go_away(base: Path, plain_tables: dict[str, Path]) -> None:
    site = Site(base / "receipts-later", plain_tables["edge"])
    with site.driver() as driver:
        (file,) = site.brought(lambda: driver.query("SELECT count(*) FROM edge WHERE k > 0"))
        site.verify(file)
        driver.run(
            "spark.table('edge').limit(5).write.format('coffer').mode('append')"
            f".save('{site.tables['edge']}')\nresult = 0"
        )
        assert checks(site.verify(file))["table"] == [True]
    shutil.rmtree(site.tables["edge"])
    site.owner.coffer("keys", "forget", "edge", "--yes")
    assert checks(site.verify(file, exit=6))["table"] == [None]


def test_no_receipt_is_made_unasked(sealed: Driver, owner: Owner) -> None:
    sealed.query("SELECT count(*) FROM edge")
    events = owner.coffer("audit", "show", "--json").stdout
    assert '"action":"receipt"' not in events.replace(" ", "")
