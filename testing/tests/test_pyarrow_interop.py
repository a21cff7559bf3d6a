"""PyArrow reads our files and we read PyArrow's, given the same keys."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from base64 import b64encode
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from cryptography.exceptions import InvalidTag

from coffer import find_binary
from coffer.pme import crypto_factory, load_keks, read_file

TABLE = pa.table(
    {
        "flag": pa.array([True, None, False]),
        "i": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
        "l": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
        "d": pa.array([-0.5, None, 1e300], pa.float64()),
        "money": pa.array([Decimal("-9.99"), None, Decimal("0.01")], pa.decimal128(38, 2)),
        "text": pa.array(["", None, "naïve 🙂"], pa.string()),
        "raw": pa.array([b"", None, b"\x00\xff"], pa.binary()),
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
        "at": pa.array([0, None, 253402300799999999], pa.timestamp("us", tz="UTC")),
        "clock": pa.array([-1, None, 1], pa.timestamp("us")),
    }
)


class Site:
    """An owner with one sealed table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.coffer("init")
        pq.write_table(TABLE, folder / "in.parquet")
        self.coffer("encrypt", "in.parquet", "sealed")
        self.coffer("keys", "export-keks", "--table", "sealed", "--output", "keks.json")
        self.keks = load_keks(folder / "keks.json")
        (self.part,) = (folder / "sealed").glob("part-*.parquet")

    def coffer(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "COFFER_CONFIG_DIR": str(self.folder / "config"),
            "COFFER_PASSPHRASE": "correct horse",
        }
        command = [str(find_binary("coffer")), *map(str, arguments)]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            text=True,
            capture_output=True,
            check=True,
            timeout=300,
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("pme"))


def test_pyarrow_reads_ours(site: Site) -> None:
    assert read_file(site.part, site.keks).equals(TABLE)


def test_pyarrow_reads_only_columns_whose_keys_it_holds(site: Site) -> None:
    site.coffer(
        "keys", "export-keks", "--table", "sealed", "--columns", "i,text", "--output", "some.json"
    )
    some = load_keks(site.folder / "some.json")
    assert read_file(site.part, some, ["i", "text"]).equals(TABLE.select(["i", "text"]))
    with pytest.raises((OSError, KeyError, pa.ArrowException)):
        read_file(site.part, some, ["raw"])


def test_pyarrow_without_keys_or_with_others_reads_nothing(site: Site) -> None:
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_table(site.part)
    wrong = {kek_id: bytes(32) for kek_id in site.keks}
    with pytest.raises(InvalidTag):
        read_file(site.part, wrong)


@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
@pytest.mark.parametrize(
    "plaintext_footer", [False, True], ids=["encrypted-footer", "plaintext-footer"]
)
def test_we_read_pyarrows(site: Site, double: bool, plaintext_footer: bool) -> None:
    name = f"theirs-{double}-{plaintext_footer}"
    keks = {"kf": os.urandom(16), "kc": os.urandom(32)}
    config = pe.EncryptionConfiguration(
        footer_key="kf",
        column_keys={"kc": TABLE.column_names},
        double_wrapping=double,
        plaintext_footer=plaintext_footer,
        data_key_length_bits=256,
    )
    properties = crypto_factory(keks).file_encryption_properties(pe.KmsConnectionConfig(), config)
    with pq.ParquetWriter(
        site.folder / f"{name}.parquet", TABLE.schema, encryption_properties=properties
    ) as writer:
        writer.write_table(TABLE)
    coded = {kek_id: b64encode(kek).decode() for kek_id, kek in keks.items()}
    (site.folder / f"{name}.json").write_text(json.dumps({"keks": coded}))
    site.coffer("decrypt", f"{name}.parquet", f"{name}-plain.parquet", "--kek-file", f"{name}.json")
    assert pq.read_table(site.folder / f"{name}-plain.parquet").equals(TABLE)
    coded["kc"] = b64encode(bytes(32)).decode()
    (site.folder / f"{name}.json").write_text(json.dumps({"keks": coded}))
    with pytest.raises(subprocess.CalledProcessError):
        site.coffer(
            "decrypt", f"{name}.parquet", f"{name}-wrong.parquet", "--kek-file", f"{name}.json"
        )
    assert not (site.folder / f"{name}-wrong.parquet").exists()


def test_int96_is_an_instant(site: Site) -> None:
    times = pa.table({"at": pa.array([-1, None, 9_000_000_000_000_000], pa.timestamp("us"))})
    pq.write_table(times, site.folder / "int96.parquet", use_deprecated_int96_timestamps=True)
    site.coffer("encrypt", "int96.parquet", "int96")
    site.coffer("decrypt", "int96", "int96-plain.parquet")
    back = pq.read_table(site.folder / "int96-plain.parquet")
    assert back.equals(times.cast(pa.schema([("at", pa.timestamp("us", tz="UTC"))])))


PROTECTIONS = {
    "flag": ["tee", "det", "ope", "ore"],
    "i": ["det", "ope", "ashe", "std"],
    "l": ["std", "det", "ope", "ore"],
    "d": ["std", "det"],
    "money": ["det", "ope"],
    "text": ["tee", "ope", "det"],
    "raw": ["det"],
    "day": ["ope", "ore"],
    "at": ["det", "ope"],
    "clock": ["plain"],
}


def test_columns_of_many_protections(site: Site) -> None:
    """They go round; PyArrow reads `tee` columns with keys, and the others without, as what they
    are."""
    policy = site.folder / "config" / "policy.toml"
    columns = "\n".join(f"{name} = {json.dumps(all_of)}" for name, all_of in PROTECTIONS.items())
    policy.write_text(f"{policy.read_text()}\n[tables.mixed.columns]\n{columns}\n")
    site.coffer("policy", "sign", "--yes")
    site.coffer("encrypt", "in.parquet", "mixed")
    site.coffer("verify", "--deep", "mixed")
    site.coffer("decrypt", "mixed", "mixed-plain.parquet")
    assert pq.read_table(site.folder / "mixed-plain.parquet").equals(TABLE)

    stored = json.loads(site.coffer("inspect", "--json", "mixed").stdout)["stored"]
    names = {(entry["column"], entry["form"]): entry["name"] for entry in stored}
    assert [entry["form"] for entry in stored] == [
        *(form for all_of in PROTECTIONS.values() for form in all_of),
        "file",
        "row",
    ]
    (part,) = (site.folder / "mixed").glob("part-*.parquet")
    site.coffer("keys", "export-keks", "--table", "mixed", "--output", "mixed.json")
    keks = load_keks(site.folder / "mixed.json")
    text, clock, det, ope = (
        names[key] for key in [("text", "tee"), ("clock", "plain"), ("i", "det"), ("i", "ope")]
    )
    read = read_file(part, keks, [text, clock])
    assert read.column(text).equals(TABLE.column("text")) and read.column(clock).equals(
        TABLE.column("clock")
    )
    shown = pq.ParquetFile(part).read(columns=[clock, det, ope])
    assert shown.column(clock).equals(TABLE.column("clock"))
    ciphertexts = shown.column(det).to_pylist()
    assert ciphertexts[1] is None and len({len(value) for value in ciphertexts if value}) == 1
    low, none, high = shown.column(ope).to_pylist()
    assert none is None and low < high
    with pytest.raises((OSError, pa.ArrowException)):
        pq.ParquetFile(part).read(columns=[text])
