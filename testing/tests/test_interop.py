"""Tables that PyArrow and Spark encrypted under our masters are adopted and queried as they are;
both read ours."""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from coffer import find_binary, find_jar
from coffer.kms import CofferKmsClient, KmsError, KmsProgram, crypto_factory
from coffer.pme import read_file
from coffer_testing import data
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.turns import one_of

SMALL = pa.table(
    {"id": pa.array(range(1000), pa.int64()), "s": pa.array([f"text {i % 7}" for i in range(1000)])}
)

# How PyArrow is told to encrypt `edge`; `all` stands for its columns.
PYARROW = {
    "uniform": {"footer_key": "main", "uniform_encryption": True},
    "uniform-single": {"footer_key": "main", "uniform_encryption": True, "double_wrapping": False},
    "uniform-clear-footer": {
        "footer_key": "second",
        "uniform_encryption": True,
        "plaintext_footer": True,
    },
    "columns": {
        "footer_key": "main",
        "column_keys": {"second": "all"},
        "data_key_length_bits": 256,
    },
    "columns-clear-footer": {
        "footer_key": "main",
        "column_keys": {"second": "all"},
        "plaintext_footer": True,
    },
}
SPARK = {
    "spark-uniform": {"parquet.encryption.uniform.key": "main"},
    "spark-columns": {
        "parquet.encryption.footer.key": "main",
        "parquet.encryption.column.keys": "second:id,s;main:ts",
        "parquet.encryption.complete.columns": "true",
    },
    "spark-clear-footer": {
        "parquet.encryption.footer.key": "main",
        "parquet.encryption.column.keys": "second:id",
        "parquet.encryption.complete.columns": "true",
        "parquet.encryption.plaintext.footer": "true",
        "parquet.encryption.double.wrapping": "false",
    },
}
QUERIES = [
    "SELECT * FROM {table}",
    "SELECT count(*), sum(id), min(ts), max(d38) FROM {table} WHERE id BETWEEN 20 AND 400",
    "SELECT k, count(DISTINCT s), max(dt) FROM {table} GROUP BY k",
]


def vanilla_conf(owner: Owner) -> dict[str, str]:
    """Spark as it comes, with parquet-java's encryption switched on."""
    return {
        "spark.jars": str(find_jar()),
        "spark.driver.extraClassPath": str(find_jar()),
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.hadoop.parquet.crypto.factory.class": (
            "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory"
        ),
        "spark.hadoop.parquet.encryption.kms.client.class": (
            "org.apache.spark.sql.coffer.kms.CofferKmsClient"
        ),
        "spark.hadoop.coffer.kms.program": str(find_binary("coffer")),
        "spark.hadoop.coffer.kms.configDir": str(owner.config_dir),
        "spark.hadoop.coffer.kms.passphrase.file": str(owner.passphrase_file),
    }


def write(owner: Owner, path: Path, table: pa.Table, **config: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if "column_keys" in config:
        keys = {
            key: table.column_names if names == "all" else names
            for key, names in config["column_keys"].items()
        }
        config = {**config, "column_keys": keys}
    factory = crypto_factory(owner.config_dir, owner.passphrase_file)
    properties = factory.file_encryption_properties(
        pe.KmsConnectionConfig(), pe.EncryptionConfiguration(**config)
    )
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table, row_group_size=300)


def masters(folder: Path) -> Owner:
    owner = Owner.create(folder)
    owner.coffer("keys", "create", "second")
    return owner


@dataclass
class Site:
    folder: Path
    owner: Owner
    plain: dict[str, Path]
    vanilla: Driver
    coffer: Driver


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("interop")
    plain = data.write(folder / "plain")
    owner = masters(folder / "trusted")
    sealed = owner.encrypt({"edge": plain["edge"]}, folder / "sealed")
    with (
        Driver(
            {"edge": plain["edge"]},
            sealed=False,
            log=folder / "vanilla.log",
            conf=vanilla_conf(owner),
        ) as vanilla,
        Driver(
            sealed,
            sealed=True,
            log=folder / "coffer.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
        ) as coffer,
    ):
        yield Site(folder, owner, plain, vanilla, coffer)


def adopted_rows_are_those_of_edge(site: Site, folder: Path) -> None:
    name = folder.name.replace("-", "_")
    report = json.loads(site.owner.coffer("adopt", folder, "--name", name, "--json").stdout)
    assert report["rows"] == data.EDGE_ROWS
    site.owner.coffer("verify", "--deep", name)
    view = "spark.read.format('coffer').load(path).createOrReplaceTempView(name)"
    site.coffer.run(view, path=str(folder), name=name)
    for query in QUERIES:
        want, got = (
            site.vanilla.query(query.format(table="edge")),
            site.coffer.query(query.format(table=name)),
        )
        assert want.rows and sorted(got.rows, key=repr) == sorted(want.rows, key=repr)
        assert got.schema == want.schema


@pytest.mark.parametrize("name", one_of(PYARROW, 2))
def test_what_pyarrow_wrote(site: Site, name: str) -> None:
    table = pq.read_table(site.plain["edge"])
    half = table.num_rows // 2
    for part, rows in enumerate([table.slice(0, half), table.slice(half)]):
        write(site.owner, site.folder / name / f"part-{part}.parquet", rows, **PYARROW[name])
    adopted_rows_are_those_of_edge(site, site.folder / name)


@pytest.mark.parametrize("name", SPARK)
def test_what_spark_wrote(site: Site, name: str) -> None:
    code = """
writer = spark.table("edge").repartition(2).write
for key, value in options.items():
    writer = writer.option(key, value)
writer.parquet(path)
"""
    site.vanilla.run(code, path=str(site.folder / name), options=SPARK[name])
    adopted_rows_are_those_of_edge(site, site.folder / name)


def test_spark_reads_ours(site: Site) -> None:
    site.vanilla.run(
        "spark.read.parquet(path).createOrReplaceTempView('ours')",
        path=str(site.folder / "sealed" / "edge"),
    )
    for query in QUERIES:
        want, got = (
            site.vanilla.query(query.format(table="edge")),
            site.vanilla.query(query.format(table="ours")),
        )
        assert want.rows and sorted(got.rows, key=repr) == sorted(want.rows, key=repr)


def test_pyarrow_reads_ours(site: Site) -> None:
    factory = crypto_factory(site.owner.config_dir, site.owner.passphrase_file)
    parts = sorted((site.folder / "sealed" / "edge").glob("part-*.parquet"))
    read = pa.concat_tables([read_file(part, factory) for part in parts]).sort_by("id")
    want = pq.read_table(site.plain["edge"]).sort_by("id")
    assert read.num_rows == want.num_rows and read.select(["id", "s"]).equals(
        want.select(["id", "s"])
    )
    used = [
        json.loads(line)
        for line in site.owner.coffer("audit", "show", "--json").stdout.splitlines()
    ]
    assert any(
        record["event"]["action"] == "kms unwrap" and record["event"]["tables"] for record in used
    )


def test_the_class_does_not_work_beside_the_plugin(site: Site) -> None:
    code = """
client = spark._jvm.org.apache.spark.sql.coffer.kms.CofferKmsClient()
client.initialize(spark._jsc.hadoopConfiguration(), "DEFAULT", "DEFAULT", "DEFAULT")
"""
    with pytest.raises(QueryFailed, match="no key of a file comes into a JVM"):
        site.coffer.run(code)


def test_adopted_tables_are_written_and_encrypted_anew(site: Site) -> None:
    folder = site.folder / "grown"
    write(site.owner, folder / "a.parquet", SMALL, footer_key="main", uniform_encryption=True)
    site.owner.coffer("adopt", folder, "--master", "second")
    code = """
spark.read.format('coffer').load(path).createOrReplaceTempView('grown')
spark.sql("INSERT INTO grown VALUES (1000, 'new')")
spark.read.format('coffer').load(path).createOrReplaceTempView('grown')
"""
    site.coffer.run(code, path=str(folder))
    query = "SELECT count(*), sum(id), max(s) FROM grown"
    assert site.coffer.query(query).rows == [["1001", "500500", "text 6"]]
    site.owner.coffer("keys", "rewrap", "--data", "grown")
    # The session still has the version before open, so cleaning leaves its file; the table does not
    # need it any more.
    site.owner.coffer("verify", "--deep", "--clean", "grown")
    (folder / "a.parquet").unlink(missing_ok=True)
    site.owner.coffer("verify", "--deep", "grown")
    site.owner.coffer("decrypt", "grown", site.folder / "grown.parquet")
    assert pq.read_table(site.folder / "grown.parquet").num_rows == 1001


def test_a_changed_file_is_refused(site: Site) -> None:
    folder = site.folder / "changed"
    for part in "ab":
        write(
            site.owner,
            folder / f"{part}.parquet",
            SMALL,
            footer_key="main",
            uniform_encryption=True,
        )
    write(
        site.owner, site.folder / "other.parquet", SMALL, footer_key="main", uniform_encryption=True
    )
    site.owner.coffer("adopt", folder)
    site.coffer.run(
        "spark.read.format('coffer').load(path).createOrReplaceTempView('changed')",
        path=str(folder),
    )
    query = "SELECT sum(id) FROM changed"
    assert site.coffer.query(query).rows == [["999000"]]
    whole = (folder / "a.parquet").read_bytes()

    def refused() -> None:
        with pytest.raises(
            QueryFailed, match=r"\[COFFER_F(ILE|OOTER)\w*\](?s:.*)hint: a file may be"
        ):
            site.coffer.query(query)
        assert site.owner.coffer("verify", "--deep", "changed", check=False).returncode == 1

    for at in [60, len(whole) // 3, len(whole) - 60]:
        (folder / "a.parquet").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        refused()
    (folder / "a.parquet").write_bytes(whole[:-1])
    refused()
    # Of the same writer, under the same keys' master, and as long as need be.
    shutil.copy(site.folder / "other.parquet", folder / "a.parquet")
    refused()
    shutil.copy(folder / "b.parquet", folder / "a.parquet")
    refused()
    (folder / "a.parquet").unlink()
    refused()
    (folder / "a.parquet").write_bytes(whole)
    assert site.coffer.query(query).rows == [["999000"]]
    shutil.copy(site.folder / "other.parquet", folder / "c.parquet")
    assert site.coffer.query(query).rows == [["999000"]]
    assert "c.parquet" in site.owner.coffer("verify", "changed", check=False).stdout


def test_a_forked_process_asks_a_program_of_its_own(tmp_path: Path) -> None:
    """As `multiprocessing` does it: a factory that was used is inherited, and both go on using it
    at once."""
    owner = masters(tmp_path / "trusted")
    program = KmsProgram(owner.config_dir, owner.passphrase_file)
    client = CofferKmsClient(program)
    rounds = 200
    wrapped = {
        key: client.wrap_key(key, "main") for key in (bytes([n]) * 16 for n in range(rounds))
    }

    def are_right() -> bool:
        return all(client.unwrap_key(text, "main") == key for key, text in wrapped.items())

    children = []
    # The lock is held by a thread that is not in the child.
    with program._lock:
        for _ in range(2):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    code = 0 if are_right() else 2
                    del program, client
                    gc.collect()
                finally:
                    os._exit(code)
            children.append(child)
    assert are_right()
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    assert are_right()


def test_what_is_not_adopted(tmp_path: Path) -> None:
    """A clear error, its exit code, and nothing registered; the files stay as they are."""
    owner, stranger = masters(tmp_path / "trusted"), masters(tmp_path / "stranger")
    uniform = {"footer_key": "main", "uniform_encryption": True}
    good = tmp_path / "good.parquet"
    write(owner, good, SMALL, **uniform)

    def refused(name: str, exit_code: int, words: str, *arguments: str) -> None:
        folder = tmp_path / name
        before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        done = owner.coffer("adopt", folder, *arguments, check=False)
        assert (done.returncode, words in done.stderr, "hint: " in done.stderr) == (
            exit_code,
            True,
            True,
        ), done.stderr
        assert {
            path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()
        } == before
        tables = json.loads(owner.coffer("keys", "list", "--json").stdout)["tables"]
        assert name not in [table["name"] for table in tables]

    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        shutil.copy(good, tmp_path / name / "a.parquet")
        return tmp_path / name

    pq.write_table(SMALL, folder("plain") / "b.parquet")
    refused("plain", 1, "b.parquet is plain")
    write(
        owner,
        folder("partly") / "b.parquet",
        SMALL,
        footer_key="main",
        column_keys={"second": ["id"]},
    )
    refused("partly", 1, "column `s` of b.parquet is not encrypted")
    write(stranger, folder("stranger-s") / "b.parquet", SMALL, **uniform)
    refused("stranger-s", 3, "b.parquet: ")
    write(owner, folder("mixed") / "b.parquet", SMALL.select(["id"]), **uniform)
    refused("mixed", 1, "columns or types of b.parquet")
    (folder("nested") / "day=1").mkdir()
    refused("nested", 1, "day=1 is a folder")
    (folder("hidden") / "_temporary").mkdir()
    refused("hidden", 1, "_temporary is a folder")
    (folder("text") / "b.txt").write_text("no Parquet at all")
    refused("text", 1, "b.txt is no Parquet file")
    (tmp_path / "none").mkdir()
    refused("none", 1, "no Parquet file in the folder")
    whole = good.read_bytes()
    (folder("altered") / "b.parquet").write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    refused("altered", 1, "b.parquet: ")
    (folder("footer") / "b.parquet").write_bytes(
        whole[:-60] + bytes([whole[-60] ^ 1]) + whole[-59:]
    )
    refused("footer", 1, "b.parquet: ")
    external = {**uniform, "internal_key_material": False}
    with pytest.raises((OSError, pa.ArrowException)):
        write(owner, tmp_path / "unused.parquet", SMALL, **external)
    folder("known")
    owner.coffer("adopt", tmp_path / "known")
    done = owner.coffer("adopt", tmp_path / "known", "--name", "again", check=False)
    assert done.returncode == 2 and "sealed table already" in done.stderr
    folder("elsewhere")
    done = owner.coffer("adopt", tmp_path / "elsewhere", "--name", "known", check=False)
    assert done.returncode == 2 and "known" in done.stderr
    owner.sign(f'{owner.policy}\n[tables.det.columns]\nid = "det"\n')
    folder("det")
    refused("det", 4, "wants column `id` as det")


def test_a_client_without_keys_says_why(tmp_path: Path) -> None:
    owner = masters(tmp_path / "trusted")
    with pytest.raises(KmsError, match="none"):
        write(owner, tmp_path / "a.parquet", SMALL, footer_key="none", uniform_encryption=True)
    (tmp_path / "wrong").write_text("another passphrase\n")
    closed = Owner(owner.config_dir, tmp_path / "wrong")
    with pytest.raises(KmsError, match="passphrase"):
        write(closed, tmp_path / "a.parquet", SMALL, footer_key="main", uniform_encryption=True)
