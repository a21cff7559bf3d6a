"""End to end in `make quick`: one sealed session with a join, a write and a refusal.

Its tables are small and its answers are computed here, so that nothing else has to start.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.search import files, search, text

pytestmark = pytest.mark.quick

SECRET = "bilby-Tq3-copper-8846"
PEOPLE = {
    "id": list(range(2000)),
    "team": [None if i % 17 == 0 else i % 7 for i in range(2000)],
    "name": [f"{SECRET}-{i}" for i in range(2000)],
}
TEAMS = {"team": [0, 1, 2, 9], "label": ["red", "green", "blue", "none"]}
JOIN = """
SELECT t.label, count(*) AS n, max(p.name) AS last FROM people p JOIN teams t ON p.team = t.team
WHERE p.id >= 100 GROUP BY t.label ORDER BY t.label
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quick")


@pytest.fixture(scope="module")
def driver(folder: Path) -> Iterator[Driver]:
    (folder / "plain").mkdir()
    plain = {name: folder / "plain" / f"{name}.parquet" for name in ("people", "teams")}
    pq.write_table(pa.table(PEOPLE), plain["people"], compression="none", use_dictionary=False)
    pq.write_table(pa.table(TEAMS), plain["teams"])
    owner = Owner.create(folder / "trusted")
    sealed = owner.encrypt(plain, folder / "sealed")
    with Driver(
        sealed,
        sealed=True,
        log=folder / "driver.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={"spark.sql.warehouse.dir": str(folder / "warehouse")},
    ) as running:
        yield running


def expected() -> list[list[str]]:
    """The join's answer."""
    labels = dict(zip(TEAMS["team"], TEAMS["label"], strict=True))
    found: dict[str, list[str]] = {}
    for identity, team, name in zip(*PEOPLE.values(), strict=True):
        if identity >= 100 and team in labels:
            found.setdefault(labels[team], []).append(name)
    return [[label, str(len(names)), max(names)] for label, names in sorted(found.items())]


def test_a_join_has_the_right_answer(driver: Driver) -> None:
    assert driver.query(JOIN).rows == expected()


def test_a_written_table_reads_back_and_shows_nothing(driver: Driver, folder: Path) -> None:
    driver.run(f"spark.sql('''CREATE TABLE joined USING coffer AS {JOIN}''')")
    assert driver.query("SELECT * FROM joined ORDER BY label").rows == expected()
    control, _ = search([folder / "plain"], [text(SECRET)])
    written = [folder / "warehouse", folder / "sealed"]
    assert control and any(path.suffix == ".parquet" for path in files(written[:1]))
    hits, _ = search(written, [text(SECRET)])
    assert not hits


def test_what_cannot_be_sealed_is_refused(driver: Driver, folder: Path) -> None:
    with pytest.raises(QueryFailed, match="COFFER_UNSUPPORTED"):
        driver.query("SELECT reflect('java.lang.Math', 'abs', id) FROM people")
    with pytest.raises(QueryFailed, match="COFFER_"):
        out = str(folder / "out")
        driver.run("spark.table('people').write.parquet(path)", path=out)
    assert not (folder / "out").exists() or not files([folder / "out"])
