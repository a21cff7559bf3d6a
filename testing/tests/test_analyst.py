"""A whole program, as an analyst writes it, gives over sealed tables what it gives over plain ones;
only its session differs."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver

PATIENTS, VISITS = 400, 6_000
CODES = ["I21", "I25", "I50", "E11", "J18", "J44", "M16", "N17", "S72", "C50"]
RUN = """
from pathlib import Path
from coffer_testing import clinic
result = clinic.report(spark, Path(folder))
"""


def test_a_program_of_an_analyst_gives_the_same(base: Path) -> None:
    folder = base / "clinic"
    plain_tables = tables(folder / "plain")
    owner = Owner.create(folder / "trusted")
    sealed_tables = owner.encrypt(plain_tables, folder / "sealed")
    expected = report(folder, "in-clear", plain_tables, None)
    assert len(expected) > 20
    assert all(figure not in ([], 0) for figure in expected.values())
    assert report(folder, "sealed-run", sealed_tables, owner) == expected
    for name in ("days.csv", "days.png", "sample.png"):
        assert (folder / "sealed-run" / name).stat().st_size > 1000
    same = [(folder / run / "days.csv").read_text() for run in ("in-clear", "sealed-run")]
    assert same[0] == same[1]


def report(folder: Path, run: str, tables: dict[str, Path], owner: Owner | None) -> dict[str, Any]:
    place = folder / run
    place.mkdir()
    conf = {
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        **({"spark.sql.sources.default": "coffer"} if owner else {}),
    }
    log = folder / f"{run}.log"
    if owner is None:
        driver = Driver(tables, sealed=False, log=log, conf=conf)
    else:
        of_owner = {"config_dir": owner.config_dir, "passphrase_file": owner.passphrase_file}
        driver = Driver(tables, sealed=True, log=log, conf=conf, **of_owner)
    with driver:
        return driver.run(RUN, folder=str(place))


def tables(folder: Path) -> dict[str, Path]:
    rng = random.Random(11)
    patients = pa.table(
        {
            "patient": pa.array(range(PATIENTS), pa.int64()),
            "born": [
                None if rng.random() < 0.02 else date(1930, 1, 1) + timedelta(rng.randrange(33_000))
                for _ in range(PATIENTS)
            ],
            "address": [
                {"city": rng.choice(["Lund", "Malmö", "Ystad"]), "zip": str(rng.randrange(10**5))}
                for _ in range(PATIENTS)
            ],
        }
    )
    visits = pa.Table.from_pylist([visit(rng, n) for n in range(VISITS)], VISIT)
    paths = {}
    for name, table in (("patients", patients), ("visits", visits)):
        paths[name] = folder / name
        paths[name].mkdir(parents=True)
        for part in range(2):
            rows = table.slice(part * table.num_rows // 2, table.num_rows // 2)
            pq.write_table(rows, paths[name] / f"part-{part}.parquet")
    return paths


VISIT = pa.schema(
    [
        ("visit", pa.int64()),
        ("patient", pa.int64()),
        ("ward", pa.string()),
        ("admitted", pa.timestamp("us", "UTC")),
        ("days", pa.int32()),
        ("cost", pa.decimal128(10, 2)),
        ("diagnoses", pa.list_(pa.string())),
        ("vitals", pa.map_(pa.string(), pa.int32())),
    ]
)


def visit(rng: random.Random, n: int) -> dict[str, Any]:
    """One row in fifty is as real data are: a negative stay, no date, or an earlier visit's row."""
    fault = rng.randrange(150)
    vitals = {"pulse": rng.randrange(45, 140), "temp": rng.randrange(35, 41)}
    admitted = datetime(2022, 1, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(3 * 525_600))
    return {
        "visit": n,
        "patient": rng.randrange(PATIENTS),
        "ward": rng.choice(["A1", "B2", "C3", "D4", None]),
        "admitted": None if fault == 1 else admitted,
        "days": -1 if fault == 2 else min(60, int(rng.expovariate(0.2))),
        "cost": Decimal(rng.randrange(10_000, 500_000)) / 100,
        "diagnoses": rng.sample(CODES, rng.randrange(4)),
        "vitals": dict(list(vitals.items())[: rng.randrange(3)]),
    }
