"""Data that is not sealed yet, and rows that only the driver can make, sealed by `df.write` and by
SQL: read in the driver's process, streamed to the client engine, and in no job of Spark's."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from coffer_testing import data
from coffer_testing.owner import Owner
from coffer_testing.processes import named, running
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.search import search, text
from coffer_testing.servers.s3 import S3

# In every source.
SECRET = "bilby-Qm3-copper-8841"
ROWS = 25_000

DERBY = f"""
java = spark._jvm.java
connection = java.sql.DriverManager.getConnection("jdbc:derby:memory:ways;create=true")
statement = connection.createStatement()
statement.execute("CREATE TABLE people (id INT, name VARCHAR(40))")
statement.execute("INSERT INTO people VALUES (1, '{SECRET}'), (2, NULL), (3, 'cy')")
"""

# How a DataFrame of each source is made.
SOURCES = {
    "csv": "spark.read.csv(folder + '/csv', schema='id INT, name STRING, at TIMESTAMP')",
    "json": "spark.read.json(folder + '/rows.json')",
    "text": "spark.read.text(folder + '/rows.txt')",
    "parquet": "spark.read.parquet(folder + '/plain/edge')",
    "orc": "spark.read.orc(folder + '/rows.orc')",
    "jdbc": "spark.read.jdbc('jdbc:derby:memory:ways', 'people', properties="
    "{'driver': 'org.apache.derby.jdbc.EmbeddedDriver', 'password': 'p'})",
    "nested": "spark.read.json(folder + '/rows.json').where('name IS NOT NULL')"
    ".selectExpr('id', 'array(name, NULL) AS names', 'map(name, named_struct(\"a\", id)) AS m')",
    # More bytes than what goes to engines as a query's own values.
    "list": f"spark.createDataFrame([(n, '{SECRET}' * 40) for n in range({ROWS})], "
    "'n INT, s STRING')",
}


class Ways:
    """A session, its owner, and a folder with plain data."""

    def __init__(self, owner: Owner, driver: Driver, folder: Path, store: S3 | None = None) -> None:
        self.owner = owner
        self.driver = driver
        self.folder = folder
        self.store = store

    def run(self, code: str, **names: Any) -> Any:
        return self.driver.run(code, folder=str(self.folder), **names)

    def sql(self, text: str) -> list[list[Any]]:
        return self.driver.query(text).rows

    def loaded(self, name: str) -> list[list[str]]:
        code = (
            "result = [list(map(str, row)) for row in "
            "spark.read.format('coffer').load(folder + '/sealed/' + name).collect()]"
        )
        return sorted(self.run(code, name=name))

    def save(self, source: str, name: str, mode: str = "errorifexists", by: str = "") -> int:
        """The number of jobs that the write ran."""
        code = f"""
df = {source}
spark.sparkContext.setJobGroup(name, "")
writer = df.write.format("coffer").mode(mode)
(writer.partitionBy(*by.split(",")) if by else writer).save(folder + "/sealed/" + name)
result = len(spark.sparkContext.statusTracker().getJobIdsForGroup(name))
spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
"""
        return self.run(code, name=name, mode=mode, by=by)

    def files(self, name: str) -> list[Path]:
        return sorted((self.folder / "sealed" / name).rglob("*.parquet"))


def make(folder: Path) -> None:
    """Plain data; the CSV in several files, so that several threads read."""
    (folder / "csv").mkdir()
    for part in range(4):
        lines = (f"{n},{SECRET},2024-02-29 12:00:{n % 60:02}" for n in range(part, ROWS, 4))
        (folder / "csv" / f"{part}.csv").write_text("\n".join(lines) + "\n")
    rows = [{"id": n, "name": f"{SECRET}-{n}" if n % 7 else None} for n in range(100)]
    (folder / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rows.txt").write_text(f"{SECRET}\n\nzwölf\n")
    orc.write_table(pa.table({"id": [1, 2], "name": [SECRET, None]}), folder / "rows.orc")


@pytest.fixture(scope="module")
def w(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    folder = tmp_path_factory.mktemp("ways")
    make(folder)
    owner = Owner.create(folder / "trusted")
    plain = data.write(folder / "plain")
    sealed = owner.encrypt({"edge": plain["edge"]}, folder / "tables")
    (folder / "events").mkdir()
    (folder / "local").mkdir()
    conf = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.files.maxPartitionBytes": "262144",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{folder}/events",
        "spark.coffer.eventLog.trustedDir": str(folder / "events"),
        "spark.local.dir": str(folder / "local"),
    }
    store = S3(folder / "store").start()
    try:
        with Driver(
            sealed,
            sealed=True,
            log=folder / "driver.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={**conf, **store.conf()},
        ) as driver:
            driver.run(DERBY)
            yield Ways(owner, driver, folder, store)
    finally:
        store.stop()


def soon(holds: Callable[[], bool]) -> bool:
    """Whether it comes true: a connection that is closed gives its files up in its own time."""
    end = time.monotonic() + 20
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def refused(action: Callable[[], Any], *words: str) -> str:
    with pytest.raises(QueryFailed) as failed:
        action()
    for word in words:
        assert word.lower() in failed.value.message.lower(), failed.value.message
    return failed.value.message


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_is_sealed_as_spark_reads_it(source: str, w: Ways) -> None:
    code = f"df = {SOURCES[source]}\nresult = [list(map(str, row)) for row in df.collect()]"
    want = sorted(w.run(code))
    assert want
    assert w.save(SOURCES[source], source) == 0, "rows are in no job"
    assert w.loaded(source) == want
    w.owner.coffer("verify", "--deep", w.folder / "sealed" / source)
    assert search([w.folder / "sealed" / source], [text(SECRET)])[0] == []


def test_threads_write_files_of_their_own(w: Ways) -> None:
    w.save(SOURCES["csv"], "threads")
    # Of four source files and many more partitions; one may have taken them all.
    assert len(w.files("threads")) in (1, 2)
    assert len(w.loaded("threads")) == ROWS


def test_modes_and_partitions(w: Ways) -> None:
    people = "spark.createDataFrame([(1, 'a'), (2, None), (1, 'b')], 'id INT, name STRING')"
    w.run(f"{people}.write.mode('overwrite').csv(folder + '/people')")
    source = "spark.read.csv(folder + '/people', schema='id INT, name STRING')"
    rows = [["1", "a"], ["1", "b"], ["2", "None"]]
    w.save(source, "modes", by="id")
    assert w.loaded("modes") == rows
    assert len(w.files("modes")) in (2, 3), "one for each partition of each thread"
    refused(lambda: w.save(source, "modes", by="id"), "already exists")
    w.save(source, "modes", mode="ignore", by="id")
    w.save(source, "modes", mode="append", by="id")
    assert w.loaded("modes") == sorted(rows * 2)
    w.save(f"{source}.where('id = 1')", "modes", mode="overwrite", by="id")
    assert w.loaded("modes") == rows[:2]
    w.run("spark.conf.set('spark.sql.sources.partitionOverwriteMode', 'dynamic')")
    w.save(f"{source}.where('id = 2')", "modes", mode="overwrite", by="id")
    w.run("spark.conf.unset('spark.sql.sources.partitionOverwriteMode')")
    assert w.loaded("modes") == rows
    # Nothing to read is a table without rows.
    w.save(f"{source}.where('id = 9')", "none")
    assert w.loaded("none") == []


def test_sql(w: Ways) -> None:
    w.run(f"{SOURCES['csv']}.createOrReplaceTempView('incoming')")
    w.sql("CREATE TABLE taken USING coffer AS SELECT id, name FROM incoming WHERE id < 10")
    w.sql("INSERT INTO taken SELECT id, name FROM incoming WHERE id BETWEEN 10 AND 19")
    w.sql("CREATE TABLE short (a INT NOT NULL, b VARCHAR(5), c CHAR(3)) USING coffer")
    w.sql("INSERT INTO short SELECT id, 'abc', 'x' FROM incoming WHERE id < 2")
    assert [row[1:] for row in w.sql("SELECT * FROM short")] == [["abc", "x  "]] * 2
    too_long = "INSERT INTO short SELECT id, name, 'x' FROM incoming"
    refused(lambda: w.sql(too_long), "EXCEED_LIMIT_LENGTH")
    null = "INSERT INTO short SELECT nullif(id, 77), 'a', 'x' FROM incoming"
    refused(lambda: w.sql(null), "NOT_NULL_ASSERT_VIOLATION")
    assert w.sql("SELECT count(*) FROM short") == [["2"]]
    assert w.sql("SELECT count(*), max(name) FROM taken") == [["20", SECRET]]
    # Beside sealed rows, and grouped: in the driver, in one partition.
    w.sql(
        "CREATE TABLE joined USING coffer AS SELECT i.name, count(*) AS c FROM incoming i "
        "JOIN edge e ON i.id = e.id GROUP BY i.name"
    )
    both = w.sql(f"SELECT count(*) FROM edge WHERE id BETWEEN 0 AND {ROWS - 1}")
    assert w.sql("SELECT c FROM joined") == both
    # Files of the policy's own list are the engines' to read; others the driver's.
    plan = w.run(
        'df = spark.sql("EXPLAIN EXTENDED INSERT INTO taken SELECT id, name FROM incoming")\n'
        "result = df.collect()[0][0]"
    )
    assert "sealed by the client engine" in plan, plan


def test_what_only_the_driver_can_make_is_written(w: Ways) -> None:
    code = """
from pyspark.sql.functions import udf, col
shout = udf(lambda s: None if s is None else s.upper() + "!", "string")
made = spark.table("edge").select("id", shout(col("s")).alias("s"))
result = [list(map(str, row)) for row in made.collect()]
made.write.format("coffer").save(folder + "/sealed/shouted")
"""
    want = sorted(w.run(code))
    assert w.loaded("shouted") == want
    w.sql("CREATE TABLE formats USING coffer AS SELECT id, format_string('%S', s) AS x FROM edge")
    assert w.sql("SELECT count(*) FROM formats") == w.sql("SELECT count(*) FROM edge")


def test_a_table_at_a_url(w: Ways) -> None:
    assert w.store
    w.run(f"{SOURCES['csv']}.createOrReplaceTempView('incoming')")
    w.sql(
        f"CREATE TABLE away USING coffer PARTITIONED BY (p) LOCATION '{w.store.root}/away' AS "
        "SELECT id, name, id % 3 AS p FROM incoming"
    )
    w.sql("INSERT INTO away SELECT -1, 'one', 1 FROM incoming WHERE id = 1")
    assert w.sql("SELECT p, count(*), min(id) FROM away GROUP BY p ORDER BY p") == [
        ["0", "8334", "0"],
        ["1", "8334", "-1"],
        ["2", "8333", "2"],
    ]


def test_a_row_that_fails_leaves_nothing(w: Ways) -> None:
    w.run(f"{SOURCES['csv']}.createOrReplaceTempView('incoming')")
    failing = "SELECT id, IF(id = 20000, raise_error('no such row'), name) AS name FROM incoming"
    w.sql("CREATE TABLE firm USING coffer AS SELECT id, name FROM incoming WHERE id < 5")
    before = sorted((w.folder / "warehouse" / "firm").rglob("*"))
    refused(lambda: w.sql(f"INSERT INTO firm {failing}"), "no such row")
    assert soon(lambda: sorted((w.folder / "warehouse" / "firm").rglob("*")) == before)
    assert w.sql("SELECT count(*) FROM firm") == [["5"]]
    refused(lambda: w.sql(f"CREATE TABLE broken USING coffer AS {failing}"), "no such row")
    refused(lambda: w.sql("SELECT * FROM broken"), "broken")
    assert soon(lambda: not (w.folder / "warehouse" / "broken").exists())
    # The name is free.
    w.sql("CREATE TABLE broken USING coffer AS SELECT 1 AS a")


def test_rows_are_in_no_log_and_no_file_of_sparks(w: Ways) -> None:
    secret = "numbat-Jp6-olive-2207"
    (w.folder / "quiet.csv").write_text("".join(f"{n},{secret}\n" for n in range(5000)))
    w.save("spark.read.csv(folder + '/quiet.csv', schema='n INT, s STRING')", "quiet")
    assert len(w.loaded("quiet")) == 5000
    hits, _ = search([w.folder / place for place in ("events", "local", "sealed")], [text(secret)])
    assert hits == []


def test_other_plain_rows_stay_refused(w: Ways) -> None:
    cached = f"{SOURCES['json']}.cache()"
    refused(lambda: w.save(cached, "cached"), "cached")
    w.run("spark.catalog.clearCache()")
    rdd = (
        "spark.createDataFrame(spark.sparkContext.textFile(folder + '/rows.txt').map(lambda "
        "l: (l,)), 's STRING')"
    )
    refused(lambda: w.save(rdd, "rdd"), "rdd")
    # Read, and not written: its rows would go beside sealed ones into executors.
    w.run(f"{SOURCES['csv']}.createOrReplaceTempView('incoming')")
    refused(lambda: w.sql("SELECT * FROM edge JOIN incoming USING (id)"), "plaintext table")
    w.run("spark.conf.set('spark.coffer.client.tail', 'off')")
    try:
        refused(lambda: w.save(SOURCES["csv"], "off"), "plaintext table")
    finally:
        w.run("spark.conf.unset('spark.coffer.client.tail')")


def test_executors_of_another_site_must_be_trusted(w: Ways) -> None:
    conf = {
        "spark.executor.memory": "512m",
        "spark.authenticate": "true",
        "spark.authenticate.secret": "of the cluster",
        "spark.network.crypto.enabled": "true",
        "spark.sql.warehouse.dir": str(w.folder / "warehouse"),
    }
    with Driver(
        {},
        sealed=True,
        log=w.folder / "clustered.log",
        master="local-cluster[1,1,768]",
        config_dir=w.owner.config_dir,
        passphrase_file=w.owner.passphrase_file,
        conf=conf,
    ) as driver:
        there = Ways(w.owner, driver, w.folder)
        words = ("plain_source", "csv file:", "coffer encrypt", "local master")
        refused(lambda: there.save(SOURCES["csv"], "there"), *words)
        # The driver's own list needs no trust: no row of it is in a task.
        assert there.save(SOURCES["list"], "listed_there") == 0
        before = w.owner.policy
        w.owner.sign(before.replace("trust_executors = false", "trust_executors = true"))
        try:
            assert there.save(SOURCES["csv"], "there") == 0
        finally:
            w.owner.sign(before)
        refused(lambda: there.save(SOURCES["csv"], "there", mode="append"), "plain_source")
    assert len(w.loaded("there")) == ROWS


# ---- how much memory it takes ------------------------------------------------------------------


def peak(pid: int) -> int:
    """The most memory that a process ever had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"no process {pid}")


def sealed_within(folder: Path, size: int) -> dict[str, int]:
    """Seals a CSV of so many bytes in a driver with 1 GiB of heap; peaks by process."""
    owner = Owner.create(folder / "trusted")
    block = "".join(
        f"{n},{n * 7919 % 100_003},{SECRET}-{n * 31 % 4099},{n / 3:.6f}\n" for n in range(200_000)
    )
    rows = 0
    with (folder / "big.csv").open("w") as file:
        while file.tell() < size:
            file.write(block)
            rows += 200_000
    with Driver(
        {},
        sealed=True,
        log=folder / "driver.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={"spark.driver.memory": "1g"},
    ) as driver:
        w = Ways(owner, driver, folder)
        w.save(
            "spark.read.csv(folder + '/big.csv', schema='a INT, b INT, c STRING, d DOUBLE')", "big"
        )
        pids = {
            "jvm": running({driver.pid}, "org.apache.spark.deploy.SparkSubmit")[0],
            "client": named({driver.pid}, "coffer-client")[0],
        }
        peaks = {name: peak(pid) for name, pid in pids.items()}
        code = "result = spark.read.format('coffer').load(folder + '/sealed/big').count()"
        assert w.run(code) == rows
    return peaks


@pytest.mark.full
def test_five_gigabytes_within_two(tmp_path: Path) -> None:
    peaks = sealed_within(tmp_path, 5 << 30)
    assert sum(peaks.values()) < 2 << 30, peaks


TAILS = {
    "functions of Java": "spark.sql(\"SELECT concat('{word}-', format_string('%S', k)) AS w, "
    'count(*) FROM edge GROUP BY w ORDER BY w")',
    "Python": "spark.table('edge').select(udf(lambda k: f'{word}-{{k}}')('k').alias('w'))"
    ".distinct().orderBy('w')",
    "mapInPandas": "spark.table('edge').select('k').mapInPandas("
    "lambda parts: (p.assign(w='{word}-' + p.k.astype(str))[['w']] for p in parts), 'w STRING')",
    "applyInPandas": "spark.table('edge').select('k').na.drop().groupBy('k').applyInPandas("
    "lambda p: p.assign(w='{word}')[['w']].head(1), 'w STRING')",
}


@pytest.mark.parametrize("tail", TAILS)
def test_rows_of_the_tail_stay_with_whoever_asks(tail: str, w: Ways) -> None:
    """They are in no block of the driver's, in none of its files and not in its event log."""
    word = f"planted-{tail.replace(' ', '-')}"
    code = (
        "from pyspark.sql.functions import udf\n"
        "store = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().memoryStore()\n"
        "before = store.memoryUsed()\n"
        f"rows = {TAILS[tail].format(word=word)}.toLocalIterator()\n"
        "first = next(rows)\n"
        "held = store.memoryUsed()\n"
        "result = [before, held, 1 + sum(1 for _ in rows), store.memoryUsed(), first[0]]\n"
    )
    before, held, count, after, first = w.run(code)
    assert count > 1 and first.startswith(word)
    # What broadcasts and shuffles hold is sealed; rows of this many would show.
    assert max(held, after) - before < 32 << 10
    folder = w.folder / "control"
    folder.mkdir(exist_ok=True)
    (folder / "word").write_text(word)
    assert search([folder], [text(word)])[0]
    found, _ = search([w.folder / "local"], [text(word)])
    assert found == []
    # The event log has the plan, and with it the literals that its writer typed.
    log = b"".join(path.read_bytes() for path in (w.folder / "events").rglob("*") if path.is_file())
    assert not re.search(re.escape(word).encode() + rb"-(NULL|\d)", log)
