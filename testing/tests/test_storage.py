"""Sealed tables where users keep them: each operation on each store, through Spark's own Hadoop
configuration, by real servers on loopback."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from coffer.kms import crypto_factory
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.servers.hadoop_kms import HadoopKms
from coffer_testing.servers.hdfs import Hdfs
from coffer_testing.servers.s3 import S3

# Planted: it is found wherever bytes lie unencrypted.
SECRET = "quoll-Wq3-violet-8841"
ROWS = [[i, f"{SECRET}-{i}", i % 3] for i in range(200)]
VALUES = (
    f"SELECT CAST(id AS INT) AS id, concat('{SECRET}-', id) AS name, CAST(id % 3 AS INT) AS "
    "day FROM range(200)"
)


class Folder:
    """The local file system, with what a server has."""

    scheme = "file"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)

    @property
    def root(self) -> str:
        return f"file:{self._folder}"

    def start(self) -> Folder:
        return self

    def stop(self) -> None:
        pass

    def conf(self) -> dict[str, str]:
        return {}


class Zone:
    """An encryption zone of HDFS, whose clients encrypt again, with keys of a Hadoop KMS."""

    scheme = "hdfs"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kms = HadoopKms(folder / "kms", users="*", cache=True)

    def start(self) -> Zone:
        self._kms.start()
        self._hdfs = Hdfs(self._folder / "hdfs", self._kms)
        self._kms.create("zone")
        self._hdfs.start()
        log = self._folder / "zone.log"
        with Driver({}, sealed=False, log=log, conf=self._hdfs.conf()) as driver:
            driver.run(MAKE_ZONE, path=self.root, key="zone")
        return self

    def stop(self) -> None:
        self._hdfs.stop()
        self._kms.stop()

    @property
    def root(self) -> str:
        return f"{self._hdfs.root}/zone"

    @property
    def log(self) -> Path:
        return self._hdfs.log

    def conf(self) -> dict[str, str]:
        return self._hdfs.conf()

    def environment(self) -> dict[str, str]:
        return self._hdfs.environment()


MAKE_ZONE = """
hadoop = spark._jvm.org.apache.hadoop
conf = spark._jsc.hadoopConfiguration()
zone = hadoop.fs.Path(path)
zone.getFileSystem(conf).mkdirs(zone)
hadoop.hdfs.client.HdfsAdmin(zone.toUri(), conf).createEncryptionZone(zone, key)
"""
STORES: dict[str, Callable[[Path], Any]] = {
    "file": Folder,
    "s3": S3,
    "hdfs": Hdfs,
    "zone": Zone,
}
ZONE = pytest.param("zone", marks=pytest.mark.full)
SERVED = pytest.mark.parametrize("s", ["s3", "hdfs", ZONE], indirect=True)


class Stored:
    """A store, an owner, and a session that reaches it."""

    def __init__(self, store: Any, owner: Owner, driver: Driver) -> None:
        self.store = store
        self.owner = owner
        self.driver = driver

    def at(self, name: str) -> str:
        return f"{self.store.root}/{name}"

    def sql(self, text: str, **conf: str) -> list[list[str]]:
        """All rows, each value as text."""
        return self.driver.query(text, conf).rows

    def run(self, code: str, **names: Any) -> Any:
        return self.driver.run(code, **names)

    def rows(self, path: str) -> list[list[Any]]:
        code = "result = [list(row) for row in spark.read.format('coffer').load(path).collect()]"
        return sorted(self.run(code, path=path))

    def files(self, path: str) -> dict[str, bytes]:
        """What lies below a folder, as the store's own client gives it."""
        if isinstance(self.store, S3):
            return self.store.files(path)
        code = """
import base64
hadoop = spark._jvm.org.apache.hadoop
root = hadoop.fs.Path(path)
fs = root.getFileSystem(spark._jsc.hadoopConfiguration())
found, below = {}, fs.listFiles(root, True)
while below.hasNext():
    file = below.next()
    stream = fs.open(file.getPath())
    bytes = stream.readAllBytes()
    stream.close()
    name = file.getPath().toString().split("/" + root.getName() + "/", 1)[1]
    found[name] = base64.b64encode(bytes).decode()
result = found
"""
        return {name: base64.b64decode(b) for name, b in self.run(code, path=path).items()}

    def put(self, path: str, content: bytes) -> None:
        """Makes or replaces a file."""
        if isinstance(self.store, S3):
            self.store.put(path, content)
            return
        code = """
import base64
hadoop = spark._jvm.org.apache.hadoop
at = hadoop.fs.Path(path)
stream = at.getFileSystem(spark._jsc.hadoopConfiguration()).create(at, True)
stream.write(base64.b64decode(content))
stream.close()
"""
        self.run(code, path=path, content=base64.b64encode(content).decode())

    def delete(self, path: str) -> None:
        """Removes a file."""
        if isinstance(self.store, S3):
            self.store.delete(path)
            return
        code = """
at = spark._jvm.org.apache.hadoop.fs.Path(path)
at.getFileSystem(spark._jsc.hadoopConfiguration()).delete(at, False)
"""
        self.run(code, path=path)

    def is_there(self, path: str) -> bool:
        """Whether there is a file or a folder, to Spark."""
        code = """
at = spark._jvm.org.apache.hadoop.fs.Path(path)
result = at.getFileSystem(spark._jsc.hadoopConfiguration()).exists(at)
"""
        return bool(self.run(code, path=path))

    def make(self, name: str) -> str:
        path = self.at(name)
        self.sql(f"CREATE TABLE {name} USING coffer LOCATION '{path}' AS {VALUES}")
        return path


@pytest.fixture(
    scope="module",
    params=["s3", ZONE, *(pytest.param(p, marks=pytest.mark.full) for p in ("file", "hdfs"))],
)
def s(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp(f"storage-{request.param}")
    owner = Owner.create(folder / "trusted")
    store = STORES[request.param](folder / "store").start()
    try:
        none, listed = "unverified_inputs = []", f'unverified_inputs = ["{store.root}/listed"]'
        assert none in owner.policy
        owner.sign(owner.policy.replace(none, listed))
        conf = {
            "spark.sql.warehouse.dir": f"{store.root}/warehouse",
            "spark.coffer.scan.targetBytes": "65536",
            **store.conf(),
        }
        with Driver(
            {},
            sealed=True,
            log=folder / "driver.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf=conf,
        ) as driver:
            yield Stored(store, owner, driver)
    finally:
        store.stop()


def test_a_table_is_made_and_read(s: Stored) -> None:
    path = s.make("made")
    assert s.rows(path) == ROWS
    assert s.sql("SELECT name FROM made WHERE id = 7") == [[f"{SECRET}-7"]]
    assert s.sql("SELECT day, count(*) FROM made GROUP BY day ORDER BY day") == [
        ["0", "67"],
        ["1", "67"],
        ["2", "66"],
    ]
    joined = "SELECT count(*) FROM made a JOIN made b ON a.id = b.day"
    assert s.sql(joined) == [["200"]]


def test_nothing_of_it_is_readable_there(s: Stored) -> None:
    path = s.make("sealed")
    files = s.files(path)
    assert "_coffer/manifest-0000000001" in files
    assert any(name.startswith("part-") for name in files)
    for name, content in files.items():
        assert SECRET.encode() not in content, name
        assert not name.startswith(".tmp-")


def test_rows_are_appended_and_overwritten(s: Stored) -> None:
    path = s.make("written")
    s.sql("INSERT INTO written VALUES (1000, 'more', 9)")
    assert s.rows(path) == sorted([*ROWS, [1000, "more", 9]])
    s.sql("INSERT OVERWRITE written VALUES (1, 'one', 1)")
    assert s.rows(path) == [[1, "one", 1]]
    manifests = [name for name in s.files(path) if name.startswith("_coffer/")]
    assert sorted(manifests) == [f"_coffer/manifest-{n:010}" for n in (1, 2, 3)]


def test_save_modes(s: Stored) -> None:
    path = s.at("saved")
    save = "spark.sql(sql).write.format('coffer').mode(mode).save(path)"
    s.run(save, sql=VALUES, mode="errorifexists", path=path)
    assert s.rows(path) == ROWS
    with pytest.raises(QueryFailed, match="already exists"):
        s.run(save, sql=VALUES, mode="errorifexists", path=path)
    one = "SELECT 1 AS id, 'one' AS name, 1 AS day"
    s.run(save, sql=one, mode="ignore", path=path)
    assert s.rows(path) == ROWS
    s.run(save, sql=one, mode="append", path=path)
    assert s.rows(path) == sorted([*ROWS, [1, "one", 1]])
    s.run(save, sql=one, mode="overwrite", path=path)
    assert s.rows(path) == [[1, "one", 1]]


def test_partitions(s: Stored) -> None:
    path = s.at("parted")
    s.sql(f"CREATE TABLE parted USING coffer PARTITIONED BY (day) LOCATION '{path}' AS {VALUES}")
    assert s.rows(path) == ROWS
    assert s.sql("SELECT count(*) FROM parted WHERE day = 2") == [["66"]]
    dynamic = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    s.sql("INSERT OVERWRITE parted PARTITION (day) SELECT 5, 'new', 2", **dynamic)
    assert s.sql("SELECT day, count(*) FROM parted GROUP BY day ORDER BY day") == [
        ["0", "67"],
        ["1", "67"],
        ["2", "1"],
    ]


def test_managed_tables(s: Stored) -> None:
    """Below a warehouse that lies there too."""
    s.sql(f"CREATE TABLE managed USING coffer AS {VALUES}")
    path = s.at("warehouse/managed")
    assert s.rows(path) == ROWS
    s.sql("ALTER TABLE managed RENAME TO renamed")
    assert s.sql("SELECT count(*) FROM renamed") == [["200"]]
    s.sql("CREATE OR REPLACE TABLE renamed USING coffer AS SELECT 7 AS id")
    assert s.sql("SELECT id FROM renamed") == [["7"]]
    s.sql("DROP TABLE renamed")
    assert not s.is_there(path) and not s.is_there(s.at("warehouse/renamed"))
    s.sql(f"CREATE TABLE managed USING coffer AS {VALUES}")
    assert s.rows(path) == ROWS
    s.sql("DROP TABLE managed")


def parquet(**columns: Any) -> bytes:
    """A plain file."""
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="none", use_dictionary=False)
    return out.getvalue()


def test_plain_inputs(s: Stored) -> None:
    s.make("beside")
    view = "spark.read.parquet(path).createOrReplaceTempView(name)"
    # A name that is written otherwise in a URL.
    file = s.at("listed/plain/a b%41.parquet")
    s.put(file, parquet(id=pa.array([7, 8, 500], pa.int32()), n=[1, 2, 3]))
    s.run(view, path=s.at("listed/plain"), name="listed")
    join = "SELECT name, n FROM beside JOIN {plain} USING (id) ORDER BY n"
    assert s.sql(join.format(plain="listed")) == [[f"{SECRET}-7", "1"], [f"{SECRET}-8", "2"]]
    plan = s.run(
        "result = spark.sql(sql)._jdf.queryExecution().toString()", sql=join.format(plain="listed")
    )
    assert "not verified" in plan and "FileScan parquet" not in plan
    s.put(s.at("unlisted/plain/a.parquet"), parquet(id=pa.array([7], pa.int32()), n=[1]))
    s.run(view, path=s.at("unlisted/plain"), name="unlisted")
    with pytest.raises(QueryFailed, match="unverified_inputs"):
        s.sql(join.format(plain="unlisted"))

    # Pinned when the query is analysed: another file is not read.
    hold = "import builtins\nbuiltins.held = spark.sql(sql)\nbuiltins.held.schema"
    s.run(hold, sql="SELECT id FROM beside UNION ALL SELECT id FROM listed")
    s.put(file, parquet(id=pa.array([7, 8, 9], pa.int32()), n=[4, 5, 6]))
    with pytest.raises(QueryFailed, match=r"COFFER_INPUT_CHANGED|not what it was"):
        s.run("import builtins\nresult = len(builtins.held.collect())")
    s.run(view, path=s.at("listed/plain"), name="listed")
    assert len(s.sql(join.format(plain="listed"))) == 3


def test_one_place_has_one_name(s: Stored) -> None:
    path = s.make("named")
    others = [f"{path}/", path.replace("/named", "//x/.././named")]
    for other in others:
        assert s.rows(other) == ROWS, other


def test_a_write_that_fails_leaves_nothing(s: Stored) -> None:
    path = s.make("failing")
    before = set(s.files(path))
    with pytest.raises(QueryFailed):
        s.sql(
            "INSERT INTO failing SELECT CAST(assert_true(id < 150) IS NULL AS INT), name, day "
            "FROM failing"
        )
    assert s.rows(path) == ROWS
    left = {name for name in set(s.files(path)) - before if not name.endswith(".crc")}
    assert left == set()


@SERVED
def test_an_altered_file_is_refused(s: Stored) -> None:
    path = s.make("altered")
    files = s.files(path)
    part = next(name for name in files if name.startswith("part-"))
    good = files[part]
    for bad in (good[:-1], good[:100] + bytes([good[100] ^ 1]) + good[101:], good[:9], b""):
        s.put(f"{path}/{part}", bad)
        with pytest.raises(QueryFailed):
            s.rows(path)
    s.put(f"{path}/{part}", good)
    assert s.rows(path) == ROWS
    # From now on the engine has the footer, by its digest, and does not read it again.
    s.put(f"{path}/{part}", good[:-1])
    assert s.rows(path) == ROWS
    # What lies behind the end is never asked for.
    s.put(f"{path}/{part}", good + b"x")
    assert s.rows(path) == ROWS
    s.delete(f"{path}/{part}")
    with pytest.raises(QueryFailed, match="missing"):
        s.rows(path)
    s.put(f"{path}/{part}", good)
    assert s.rows(path) == ROWS


@SERVED
def test_an_old_state_is_refused(s: Stored) -> None:
    path = s.make("old")
    first = s.files(path)["_coffer/manifest-0000000001"]
    s.sql("INSERT INTO old VALUES (1000, 'more', 9)")
    newest = f"{path}/_coffer/manifest-0000000002"
    second = s.files(path)["_coffer/manifest-0000000002"]
    s.delete(newest)
    with pytest.raises(QueryFailed, match=r"(?i)version|rollback"):
        s.rows(path)
    s.put(newest, first)
    with pytest.raises(QueryFailed):
        s.rows(path)
    s.put(newest, second)
    assert len(s.rows(path)) == 201


@SERVED
def test_the_command_line_reaches_it(s: Stored, tmp_path: Path) -> None:
    env = s.store.environment()
    source = tmp_path / "in.csv"
    source.write_text("id,name\n" + "".join(f"{i},{SECRET}-{i}\n" for i in range(50)))
    schema = "id INT, name STRING"
    # As users write it, who may know S3 by another name than Hadoop does.
    url = s.at("typed").replace("s3a:", "s3:")

    def coffer(*arguments: str | Path) -> str:
        return s.owner.coffer(*arguments, env=env).stdout

    coffer("encrypt", "--header", "--schema", schema, source, url)
    wanted = [[i, f"{SECRET}-{i}"] for i in range(50)]
    assert s.rows(s.at("typed")) == wanted
    more = tmp_path / "more.csv"
    more.write_text("id,name\n99,more\n")
    coffer("encrypt", "--append", "--header", "--schema", schema, more, f"{url}/")
    assert s.rows(s.at("typed")) == [*wanted, [99, "more"]]
    assert "sound" in coffer("verify", "--deep", url)
    coffer("decrypt", url, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().count(SECRET) == 50
    assert "version  2" in coffer("inspect", url)
    closed = s.owner.coffer("inspect", "--json", url, env={**env, "COFFER_PASSPHRASE": None})
    shown = json.loads(closed.stdout)
    assert (shown["version"], shown["verified"]) == (2, False)
    assert len(shown["files"]) == 2 and all(file["size"] > 0 for file in shown["files"])

    # The same rows under new keys, in new files.
    before = set(s.files(s.at("typed")))
    coffer("keys", "rewrap", "--data", "typed")
    assert s.rows(s.at("typed")) == [*wanted, [99, "more"]]
    assert {name for name in s.files(s.at("typed")) if name.startswith("part-")} - before
    # The old ones stay as long as this session may read them.
    assert "sound" in coffer("verify", "--clean", url)
    assert s.rows(s.at("typed")) == [*wanted, [99, "more"]]

    # What Spark wrote, and what a writer that was killed left.
    path = s.make("checked")
    assert "sound" in coffer("verify", "--deep", path)
    left = f"part-{'0' * 32}.parquet"
    s.put(f"{path}/{left}", b"half of a file")
    assert s.owner.coffer("verify", path, env=env, check=False).returncode != 0
    coffer("verify", "--clean", path)
    assert left not in s.files(path)
    assert s.rows(path) == ROWS
    assert SECRET not in s.store.log.read_text(errors="replace")

    # A store that the program does not know is said to be that.
    refused = s.owner.coffer("verify", "oss://nowhere/t", env=env, check=False)
    assert refused.returncode != 0


@SERVED
def test_files_of_others_are_adopted(s: Stored, tmp_path: Path) -> None:
    env = s.store.environment()
    path = s.at("adopted")
    factory = crypto_factory(s.owner.config_dir, s.owner.passphrase_file)
    properties = factory.file_encryption_properties(
        pe.KmsConnectionConfig(),
        pe.EncryptionConfiguration(footer_key="main", uniform_encryption=True),
    )
    for part in range(2):
        ids = range(part * 100, part * 100 + 100)
        table = pa.table(
            {
                "id": pa.array(ids, pa.int32()),
                "name": [f"{SECRET}-{i}" for i in ids],
                "day": pa.array([i % 3 for i in ids], pa.int32()),
            }
        )
        file = tmp_path / "part.parquet"
        with pq.ParquetWriter(file, table.schema, encryption_properties=properties) as writer:
            writer.write_table(table, row_group_size=30)
        s.put(f"{path}/of-pyarrow-{part}.parquet", file.read_bytes())

    s.put(f"{path}/plain.parquet", parquet(id=pa.array([1], pa.int32()), name=["x"]))
    refused = s.owner.coffer("adopt", path, env=env, check=False)
    assert refused.returncode != 0 and "nothing in it is encrypted" in refused.stderr
    s.delete(f"{path}/plain.parquet")
    s.owner.coffer("adopt", path, env=env)
    assert s.rows(path) == ROWS
    s.sql(f"CREATE TABLE adopted USING coffer LOCATION '{path}'")
    s.sql("INSERT INTO adopted VALUES (1000, 'more', 9)")
    assert s.rows(path) == sorted([*ROWS, [1000, "more", 9]])
    again = s.owner.coffer("adopt", path, "--name", "again", env=env, check=False)
    assert again.returncode != 0 and "sealed table already" in again.stderr
    assert "sound" in s.owner.coffer("verify", "--deep", path, env=env).stdout
    file = "of-pyarrow-1.parquet"
    good = s.files(path)[file]
    s.put(f"{path}/{file}", good[:200] + bytes([good[200] ^ 1]) + good[201:])
    assert s.owner.coffer("verify", "--deep", path, env=env, check=False).returncode != 0


@pytest.mark.parametrize("s", ["s3"], indirect=True)
def test_a_file_beside_a_folder_of_its_name(s: Stored) -> None:
    """An object store may have both; a listing names it once."""
    path = s.make("both")
    s.put(f"{path}/_coffer", b"not a folder")
    assert s.rows(path) == ROWS
    s.sql("INSERT INTO both VALUES (1000, 'more', 9)")
    assert len(s.rows(path)) == 201
    checked = s.owner.coffer("verify", path, env=s.store.environment(), check=False)
    assert "storage gave" not in checked.stderr


@pytest.mark.parametrize("s", ["s3"], indirect=True)
def test_the_command_line_has_the_profile_s_credentials(s: Stored, tmp_path: Path) -> None:
    path = s.make("profiled")
    of_environment = s.store.environment()
    (tmp_path / "config").write_text(
        f"[profile tables]\nregion = {of_environment['AWS_REGION']}\n"
        f"endpoint_url = {s.store.address}\n[profile empty]\nregion = us-east-1\n"
        f"endpoint_url = {s.store.address}\n"
    )
    (tmp_path / "credentials").write_text(
        f"[tables]\naws_access_key_id = {of_environment['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {of_environment['AWS_SECRET_ACCESS_KEY']}\n"
    )
    env: dict[str, str | None] = {
        **dict.fromkeys(of_environment),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    verified = s.owner.coffer("verify", path, env={**env, "AWS_PROFILE": "tables"})
    assert "sound" in verified.stdout
    refused = s.owner.coffer("verify", path, env={**env, "AWS_PROFILE": "empty"}, check=False)
    assert refused.returncode != 0
