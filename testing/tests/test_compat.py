"""Config directories and tables that earlier builds made (compat/) are opened, read and added to by
this one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from coffer.pme import load_keks, read_file
from coffer_testing.answers import difference
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver

COMPAT = Path(__file__).parents[2] / "compat"
BUILDS = sorted(path.name for path in COMPAT.iterdir() if (path / "home").is_dir())

# Tables in a folder of their own below `tables/`.
NESTED = {"zoned": "zone/zoned"}
GROWS = ("versions", "parts", "sealed_parts", "adopted_uniform", "zoned", "rekeyed")


@dataclass
class Kept:
    """A copy of what a build left, its owner, and both sides' drivers over all of its tables."""

    folder: Path
    owner: Owner
    tables: dict[str, Path]
    plain: Driver
    coffer: Driver


def copied(build: str, folder: Path) -> Owner:
    """Git keeps neither modes nor empty folders."""
    shutil.copytree(COMPAT / build, folder)
    owner = Owner(folder / "home", folder / "passphrase")
    owner.passphrase_file.chmod(0o600)
    owner.config_dir.chmod(0o700)
    for path in owner.config_dir.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    policy = owner.config_dir / "policy.toml"
    policy.write_text(policy.read_text().replace("@tables@", str(folder / "tables")))
    # Builds before policies were signed left none; and this one was edited here.
    refused = owner.coffer("keys", "list", check=False)
    assert refused.returncode == 4 and "coffer policy sign" in refused.stderr
    owner.sign()
    return owner


@pytest.fixture(scope="module", params=BUILDS)
def kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kept]:
    folder = tmp_path_factory.mktemp("compat") / request.param
    owner = copied(request.param, folder)
    names = [path.stem for path in sorted((folder / "plain").iterdir())]
    plain = {name: folder / "plain" / f"{name}.parquet" for name in names}
    tables = {name: folder / "tables" / NESTED.get(name, name) for name in names}
    with (
        Driver(plain, sealed=False, log=folder / "plain.log") as vanilla,
        Driver(
            tables,
            sealed=True,
            log=folder / "coffer.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
        ) as coffer,
    ):
        yield Kept(folder, owner, tables, vanilla, coffer)


def test_there_are_some() -> None:
    assert "fd45ae6" in BUILDS
    assert len(list((COMPAT / "fd45ae6" / "plain").iterdir())) >= 15


def test_each_table_has_its_rows(kept: Kept) -> None:
    for name in kept.tables:
        sql = f"SELECT * FROM {name}"
        assert difference(kept.plain.query(sql), kept.coffer.query(sql), ordered=False) is None, (
            name
        )


def test_protections_still_serve(kept: Kept) -> None:
    for sql in (
        "SELECT category, count(*), sum(bonus) FROM protected WHERE age BETWEEN 25 AND 50 GROUP "
        "BY category",
        "SELECT label, count(*), max(hired) FROM protected JOIN linked ON category = cat GROUP BY "
        "label",
        "SELECT name, salary FROM protected WHERE id = 77 AND grade > 5",
        "SELECT place, count(*), max(d18) FROM parts WHERE place <> 'none' GROUP BY place",
        "SELECT k, count(*), max(dt) FROM sealed_parts GROUP BY k",
    ):
        assert difference(kept.plain.query(sql), kept.coffer.query(sql), ordered=False) is None, sql


def test_keys_and_log_are_whole(kept: Kept) -> None:
    before = json.loads((kept.folder / "keys.json").read_text())
    now = json.loads(kept.owner.coffer("keys", "list", "--json").stdout)
    assert [table["name"] for table in now["tables"]] == [
        table["name"] for table in before["tables"]
    ]
    assert [(key["name"], key["versions"]) for key in now["masters"]] == [
        (key["name"], key["versions"]) for key in before["masters"]
    ]
    kept.owner.coffer("audit", "verify")
    kept.owner.coffer("keys", "verify")
    for name in kept.tables:
        kept.owner.coffer("verify", "--deep", name)


def test_exports_and_shares_open(kept: Kept, tmp_path: Path) -> None:
    phrase = {"COFFER_EXPORT_PASSPHRASE": "an export's own passphrase"}
    for name, command in {
        "import": ["keys", "import", kept.folder / "keyring.export"],
        "shares": ["keys", "recover", *sorted((kept.folder / "shares").iterdir())[:2]],
    }.items():
        other = Owner(tmp_path / name, kept.owner.passphrase_file)
        other.coffer(*command, env=phrase)
        masters = json.loads(other.coffer("keys", "list", "--json").stdout)["masters"]
        assert {"main", "second"} <= {master["name"] for master in masters}
    keks = load_keks(kept.folder / "edge-keks.json")
    (part,) = (kept.folder / "tables" / "edge").glob("part-*.parquet")
    assert (
        read_file(part, keks).num_rows
        == pq.read_table(kept.folder / "plain" / "edge.parquet").num_rows
    )


def test_they_grow(kept: Kept) -> None:
    """Last: a row twice, by this build's writers."""
    for name in GROWS:
        (count,) = kept.coffer.query(f"SELECT count(*) FROM {name}").rows[0]
        kept.coffer.query(f"INSERT INTO {name} SELECT * FROM {name} LIMIT 1")
        view = "spark.read.format('coffer').load(path).createOrReplaceTempView(name)"
        kept.coffer.run(view, path=str(kept.tables[name]), name=name)
        assert kept.coffer.query(f"SELECT count(*) FROM {name}").rows == [[str(int(count) + 1)]], (
            name
        )
        kept.owner.coffer("verify", "--deep", name)
    kept.owner.coffer(
        "encrypt", "--append", kept.folder / "plain" / "protected.parquet", "protected"
    )
    kept.owner.coffer("verify", "--deep", "protected")
