"""Sealed tables written from Spark: made, appended to, overwritten, by SQL and by `df.write`; whole
or not at all."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer.pme import load_keks, read_file
from coffer_testing import data
from coffer_testing.owner import Owner
from coffer_testing.processes import ended, named
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.search import search, text

# A planted value for each kind of place in which one could show: data, partition, literal.
SECRET, PARTITION = "quokka-Zr7-amber-5519", "numbat-Kd4-indigo-6628"


class Writing:
    """A session, its owner, and a folder for the tables that tests make."""

    def __init__(self, owner: Owner, driver: Driver, folder: Path) -> None:
        self.owner = owner
        self.driver = driver
        self.folder = folder

    def sql(self, text: str, **conf: str) -> list[list[Any]]:
        return self.driver.query(text, conf).rows

    def run(self, code: str, **names: Any) -> Any:
        return self.driver.run(code, folder=str(self.folder), **names)

    def rows(self, table: str) -> list[list[Any]]:
        """Of a table's newest version, in order of all its columns."""
        code = f"result = [list(map(str, row)) for row in spark.table('{table}').collect()]"
        return sorted(self.run(code))

    def loaded(self, name: str) -> list[list[Any]]:
        """The same of a folder."""
        code = (
            "result = [list(map(str, row)) for row in "
            "spark.read.format('coffer').load(folder + '/' + name).collect()]"
        )
        return sorted(self.run(code, name=name))

    def verified(self, path: Path) -> None:
        self.owner.coffer("verify", "--deep", path)


@pytest.fixture(scope="module")
def w(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writing]:
    folder = tmp_path_factory.mktemp("writes")
    owner = Owner.create(folder / "trusted")
    sealed = owner.encrypt(data.write(folder / "plain"), folder / "sealed")
    conf = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.coffer.scan.targetBytes": "65536",
    }
    with Driver(
        sealed,
        sealed=True,
        log=folder / "driver.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=conf,
    ) as driver:
        yield Writing(owner, driver, folder)


def refused(action: Callable[[], Any], *words: str) -> str:
    with pytest.raises(QueryFailed) as failed:
        action()
    for word in words:
        assert word.lower() in failed.value.message.lower(), failed.value.message
    return failed.value.message


def canonical(w: Writing, sql: str) -> list[list[str]]:
    return sorted(
        w.run("result = [list(map(str, row)) for row in spark.sql(sql).collect()]", sql=sql)
    )


# ---- SQL ---------------------------------------------------------------------------------------


def test_every_type_comes_back_and_other_readers_read_it(w: Writing) -> None:
    w.sql("CREATE TABLE every USING coffer AS SELECT * FROM edge")
    assert w.rows("every") == canonical(w, "SELECT * FROM edge")
    path = w.folder / "warehouse" / "every"
    w.verified(path)
    w.owner.coffer("keys", "export-keks", "--table", "every", "--output", w.folder / "keks.json")
    keks = load_keks(w.folder / "keks.json")
    read = pa.concat_tables([read_file(part, keks) for part in sorted(path.glob("part-*.parquet"))])
    wanted = pa.concat_tables(
        [pq.read_table(part) for part in sorted((w.folder / "plain" / "edge").glob("*.parquet"))]
    )
    assert read.schema.equals(wanted.schema)
    # As text: NaN is not equal to itself.
    assert str(read.sort_by("id").to_pylist()) == str(wanted.sort_by("id").to_pylist())


def test_insert_appends_reorders_and_casts(w: Writing) -> None:
    w.sql("CREATE TABLE inserted (a BIGINT, b STRING, c DECIMAL(10, 2)) USING coffer")
    assert w.rows("inserted") == []
    w.sql("INSERT INTO inserted VALUES (1, 'x', 1.5), (2, NULL, NULL)")
    w.sql("INSERT INTO inserted (c, b, a) SELECT 7, 'y', CAST(3 AS INT)")
    w.sql("INSERT INTO inserted (a) VALUES (4)")
    assert w.rows("inserted") == [
        ["1", "x", "1.50"],
        ["2", "None", "None"],
        ["3", "y", "7.00"],
        ["4", "None", "None"],
    ]
    w.sql("INSERT INTO inserted SELECT a + 10, b, c FROM inserted WHERE a < 3")
    assert len(w.rows("inserted")) == 6
    refused(
        lambda: w.sql("INSERT INTO inserted VALUES ('no number', 'x', 1)"), "CANNOT_SAFELY_CAST"
    )
    overflow = "INSERT INTO inserted SELECT id, s, d38 FROM edge WHERE d38 > 1000000000000"
    refused(lambda: w.sql(overflow), "NUMERIC_VALUE_OUT_OF_RANGE")
    assert len(w.rows("inserted")) == 6
    w.sql("INSERT OVERWRITE inserted SELECT 9, upper(b), c FROM inserted WHERE a = 1")
    assert w.rows("inserted") == [["9", "X", "1.50"]]


def test_not_null_is_kept(w: Writing) -> None:
    w.sql("CREATE TABLE strict (a INT NOT NULL, b STRING) USING coffer")
    w.sql("INSERT INTO strict VALUES (1, NULL)")
    refused(
        lambda: w.sql("INSERT INTO strict SELECT nullif(i32, 0), s FROM edge"),
        "NOT_NULL_ASSERT_VIOLATION",
    )
    assert w.rows("strict") == [["1", "None"]]


def test_rows_of_joins_aggregates_orders_and_limits(w: Writing) -> None:
    sql = "SELECT k, count(*) AS c, max(s) AS m FROM edge GROUP BY k"
    w.sql(f"CREATE TABLE grouped USING coffer AS {sql}")
    assert w.rows("grouped") == canonical(w, sql)
    sql = "SELECT id, n FROM events ORDER BY n DESC, id LIMIT 100"
    w.sql(f"CREATE TABLE top USING coffer AS {sql}")
    assert w.rows("top") == canonical(w, sql)
    w.sql("CREATE TABLE ordered USING coffer AS SELECT id FROM events ORDER BY id")
    assert w.sql("SELECT count(*), min(id), max(id) FROM ordered") == w.sql(
        "SELECT count(*), min(id), max(id) FROM events"
    )
    w.sql("CREATE TABLE none USING coffer AS SELECT id FROM edge WHERE id < -5")
    assert w.rows("none") == []
    w.sql(
        "CREATE TABLE joined USING coffer AS SELECT e.id, g.c FROM edge e JOIN grouped g ON e.k = "
        "g.k"
    )
    assert len(w.rows("joined")) == int(
        w.sql("SELECT count(*) FROM edge WHERE k IS NOT NULL")[0][0]
    )
    with_off = {"spark.sql.adaptive.enabled": "false"}
    w.sql(
        "CREATE TABLE plainly USING coffer AS SELECT k, count(*) AS c FROM edge GROUP BY k",
        **with_off,
    )
    assert len(w.rows("plainly")) == len(w.rows("grouped"))


def test_existing_replaced_and_dropped(w: Writing) -> None:
    w.sql("CREATE TABLE again USING coffer AS SELECT 1 AS a")
    refused(
        lambda: w.sql("CREATE TABLE again USING coffer AS SELECT 2 AS a"),
        "TABLE_OR_VIEW_ALREADY_EXISTS",
    )
    w.sql("CREATE TABLE IF NOT EXISTS again USING coffer AS SELECT 3 AS a")
    assert w.rows("again") == [["1"]]
    w.sql("CREATE OR REPLACE TABLE again USING coffer AS SELECT 'x' AS b, a FROM again")
    assert w.rows("again") == [["x", "1"]]
    w.verified(w.folder / "warehouse" / "again")
    w.sql("DROP TABLE again")
    w.sql("CREATE TABLE again USING coffer AS SELECT 4 AS a")
    assert w.rows("again") == [["4"]]


def test_without_using_the_default_source_decides(w: Writing) -> None:
    default = {"spark.sql.sources.default": "coffer"}
    w.sql("CREATE TABLE bare AS SELECT id, s FROM edge", **default)
    assert w.rows("bare") == canonical(w, "SELECT id, s FROM edge")
    w.verified(w.folder / "warehouse" / "bare")
    w.sql("CREATE OR REPLACE TABLE bare AS SELECT id FROM bare WHERE id < 3", **default)
    w.sql("INSERT INTO bare VALUES (-7)")
    assert w.rows("bare") == canonical(w, "SELECT id FROM edge WHERE id < 3 UNION ALL SELECT -7")
    w.sql("CREATE TABLE bare_columns (a INT)", **default)
    assert w.rows("bare_columns") == []
    w.sql("DROP TABLE bare")
    refused(lambda: w.sql("CREATE TABLE bare AS SELECT id, s FROM edge"), "COFFER_PLAINTEXT_SINK")


def test_overflow_leaves_the_old_version(w: Writing) -> None:
    w.sql("CREATE TABLE steady USING coffer AS SELECT id, i32 FROM edge")
    before = w.rows("steady")
    refused(
        lambda: w.sql("INSERT OVERWRITE steady SELECT id, i32 + 1 FROM edge"), "ARITHMETIC_OVERFLOW"
    )
    assert w.rows("steady") == before
    w.verified(w.folder / "warehouse" / "steady")
    refused(
        lambda: w.sql("CREATE TABLE unsteady USING coffer AS SELECT i32 + 1 AS x FROM edge"),
        "ARITHMETIC_OVERFLOW",
    )
    assert not (w.folder / "warehouse" / "unsteady").exists()
    w.sql("CREATE TABLE unsteady USING coffer AS SELECT 1 AS x")


# ---- partitions --------------------------------------------------------------------------------


def test_partitions_show_nothing_and_are_overwritten(w: Writing) -> None:
    rows = f"VALUES (1, '{SECRET}', '{PARTITION}'), (2, 'b', 'other'), (3, 'c', NULL)"
    w.sql(
        f"CREATE TABLE parted USING coffer PARTITIONED BY (p) AS SELECT * FROM {rows} AS t(a, s, p)"
    )
    path = w.folder / "warehouse" / "parted"
    hits, searched = search([path], [text(SECRET), text(PARTITION)])
    assert not hits
    assert searched > 1000
    assert not [found for found in path.rglob("*") if PARTITION in str(found) or "p=" in str(found)]
    assert len(list(path.glob("part-*.parquet"))) == 3
    assert w.sql(f"SELECT a FROM parted WHERE p = '{PARTITION}'") == [["1"]]
    dynamic = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    w.sql("INSERT OVERWRITE parted VALUES (20, 'bb', 'other'), (4, 'd', 'new')", **dynamic)
    assert [row[0] for row in w.rows("parted")] == ["1", "20", "3", "4"]
    w.sql("INSERT OVERWRITE parted PARTITION (p = 'new') SELECT 5, 'e'")
    assert [row[0] for row in w.rows("parted")] == ["1", "20", "3", "5"]
    w.sql("INSERT INTO parted SELECT id, s, CAST(k AS STRING) FROM edge")
    w.verified(path)
    w.sql("INSERT OVERWRITE parted VALUES (6, 'f', 'other')")
    assert w.rows("parted") == [["6", "f", "other"]]


def test_a_plain_partition_column_is_in_paths(w: Writing) -> None:
    w.owner.sign(w.owner.policy + '\n[tables.plainly_parted.columns]\nday = "plain"\n')
    w.sql(
        "CREATE TABLE plainly_parted USING coffer PARTITIONED BY (day, who) AS "
        f"SELECT 1 AS a, DATE'2024-02-29' AS day, '{PARTITION}' AS who"
    )
    path = w.folder / "warehouse" / "plainly_parted"
    (part,) = path.rglob("part-*.parquet")
    assert part.parent.name == "day=2024-02-29"
    assert w.rows("plainly_parted") == [["1", "2024-02-29", PARTITION]]
    w.verified(path)


def test_columns_that_hosts_can_read_are_not_written(w: Writing) -> None:
    columns = 'shown = { protection = ["tee", "ope"], domain = [0, 9] }'
    w.owner.sign(w.owner.policy + f"\n[tables.readable.columns]\n{columns}\n")
    words = ("COFFER_HOST_READABLE_WRITE", "coffer encrypt")
    refused(
        lambda: w.sql("CREATE TABLE readable USING coffer AS SELECT 1 AS a, 2 AS shown"), *words
    )
    refused(lambda: w.sql("CREATE TABLE readable (a INT, shown INT) USING coffer"), *words)
    assert not (w.folder / "warehouse" / "readable").exists()
    source = w.folder / "readable.parquet"
    pq.write_table(
        pa.table({"a": pa.array([1], pa.int32()), "shown": pa.array([2], pa.int32())}), source
    )
    sealed = w.owner.encrypt({"readable": source}, w.folder / "readable-sealed")["readable"]
    append = (
        "spark.sql('SELECT 3 AS a, 4 AS shown').write.format('coffer').mode('append').save(path)"
    )
    refused(lambda: w.run(append, path=str(sealed)), *words)
    w.verified(sealed)


# ---- df.write ----------------------------------------------------------------------------------


def test_save_in_all_modes(w: Writing) -> None:
    save = "spark.sql(sql).write.format('coffer').mode(mode).save(folder + '/saved')"
    w.run(save, sql="SELECT 1 AS a, 'x' AS b", mode="errorifexists")
    assert w.loaded("saved") == [["1", "x"]]
    refused(
        lambda: w.run(save, sql="SELECT 2 AS a, 'y' AS b", mode="errorifexists"),
        "PATH_ALREADY_EXISTS",
    )
    w.run(save, sql="SELECT 2 AS a, 'y' AS b", mode="ignore")
    w.run(save, sql="SELECT 'y' AS b, 2 AS a", mode="append")
    assert w.loaded("saved") == [["1", "x"], ["2", "y"]]
    w.run(save, sql="SELECT 3 AS a, 'z' AS b", mode="overwrite")
    assert w.loaded("saved") == [["3", "z"]]
    refused(lambda: w.run(save, sql="SELECT 3 AS other", mode="overwrite"))
    w.run(
        save.replace(".save", ".option('overwriteSchema', True).save"),
        sql="SELECT 3 AS other",
        mode="overwrite",
    )
    assert w.loaded("saved") == [["3"]]
    w.verified(w.folder / "saved")


def test_save_by_default_partitioned_and_as_table(w: Writing) -> None:
    w.run(
        "spark.table('edge').select('id', 's', "
        "'k').write.format('coffer').partitionBy('k').save(folder + '/default')"
    )
    assert w.loaded("default") == canonical(w, "SELECT id, s, k FROM edge")
    w.run(
        "spark.sql('SELECT 1 AS a').write.format('coffer').mode('overwrite').save(path=folder "
        "+ '/new')"
    )
    w.run(
        "spark.sql('SELECT 2 AS a').write.format('coffer').mode('append').save(path=folder "
        "+ '/new')"
    )
    assert w.loaded("new") == [["1"], ["2"]]
    w.run("spark.sql('SELECT 1 AS a').write.format('coffer').saveAsTable('as_table')")
    w.run(
        "spark.sql('SELECT 2 AS a').write.format('coffer').mode('append').saveAsTable('as_table')"
    )
    w.run("spark.sql('SELECT 3 AS a').write.insertInto('as_table')")
    assert w.rows("as_table") == [["1"], ["2"], ["3"]]
    w.run(
        "spark.sql('SELECT 4 AS "
        "b').write.format('coffer').mode('overwrite').saveAsTable('as_table')"
    )
    assert w.rows("as_table") == [["4"]]
    w.run("spark.sql('SELECT 5 AS b').writeTo('as_table').append()")
    assert w.rows("as_table") == [["4"], ["5"]]
    refused(
        lambda: w.run("spark.sql('SELECT 1 AS a').write.format('coffer').save()"), "COFFER_NO_PATH"
    )
    refused(lambda: w.loaded("nothing_there"), "COFFER_NO_TABLE")


def test_plain_rows_do_not_travel(w: Writing) -> None:
    # Engines make these numbers themselves.
    w.run("spark.range(5).write.format('coffer').save(folder + '/range')")
    assert w.loaded("range") == [[str(number)] for number in range(5)]
    code = (
        "spark.createDataFrame([(1, 'a')], 'a INT, b "
        "STRING').write.format('coffer').save(folder + '/rows')"
    )
    # A list's rows go to engines as sealed values, as an Arrow table's do.
    w.run(code)
    assert w.loaded("rows") == [["1", "a"]]
    w.run(
        "import pyarrow as "
        "pa\nspark.createDataFrame(pa.table({'a': [1, 2]})).write.format('coffer').save(folder "
        "+ '/arrow')"
    )
    assert w.loaded("arrow") == [["1"], ["2"]]
    plain = f"CREATE TABLE from_plain USING coffer AS SELECT * FROM parquet.`{w.folder}/plain/edge`"
    # Files that the policy does not list are the driver's to read: test_ways_in. Listed ones are
    # engines'.
    listed = w.owner.policy.replace(
        "unverified_inputs = []", f'unverified_inputs = ["{w.folder}/plain"]'
    )
    w.owner.sign(listed)
    w.sql(plain)
    assert w.rows("from_plain") == canonical(w, "SELECT * FROM edge")


# ---- in each other's way -----------------------------------------------------------------------


def test_concurrent_writers_conflict_clearly(w: Writing) -> None:
    w.sql("CREATE TABLE busy USING coffer AS SELECT 0 AS a")
    code = """
import threading
answers = []
def insert(i):
    try:
        spark.sql(f'INSERT INTO busy SELECT {i} + (count(*) * 0) FROM events')
        answers.append('done')
    except Exception as e:
        answers.append(str(e))
threads = [threading.Thread(target=insert, args=(i,)) for i in range(1, 5)]
for t in threads: t.start()
for t in threads: t.join()
result = answers
"""
    answers = w.run(code)
    done = answers.count("done")
    assert done >= 1
    for answer in answers:
        assert answer == "done" or ("write_conflict" in answer and "hint: " in answer), answer
    assert len(w.rows("busy")) == 1 + done


def test_a_table_is_read_while_it_is_overwritten(w: Writing) -> None:
    w.sql("CREATE TABLE moving USING coffer AS SELECT id FROM events")
    code = (
        "pinned = spark.table('moving'); spark.sql('INSERT OVERWRITE moving SELECT 1'); "
        "result = pinned.count()"
    )
    assert w.run(code) == data.EVENTS_ROWS
    assert w.rows("moving") == [["1"]]
    cleaned = w.owner.coffer("verify", "--clean", w.folder / "warehouse" / "moving")
    assert "has `moving` open" in cleaned.stderr


def test_killed_engine_leaves_the_old_version_and_what_it_left_is_removed(tmp_path: Path) -> None:
    owner = Owner.create(tmp_path / "trusted")
    sealed = owner.encrypt(
        {"events": data.write(tmp_path / "plain")["events"]}, tmp_path / "sealed"
    )
    conf = {"spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    with Driver(
        sealed,
        sealed=True,
        log=tmp_path / "driver.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=conf,
    ) as driver:
        driver.query("CREATE TABLE t USING coffer AS SELECT id, v AS s FROM events")
        before = driver.query("SELECT count(*), sum(id) FROM t").rows
        path = tmp_path / "warehouse" / "t"
        files = set(path.iterdir())
        failed: list[QueryFailed] = []

        def insert() -> None:
            try:
                driver.query(
                    "INSERT OVERWRITE t SELECT a.id, a.v FROM events a CROSS JOIN (VALUES (1), "
                    "(2), (3), (4)) b(x)"
                )
            except QueryFailed as error:
                failed.append(error)

        thread = threading.Thread(target=insert)
        thread.start()
        deadline = time.monotonic() + 60
        while set(path.iterdir()) <= files and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        for engine in named({driver.pid}, "coffer-engine"):
            os.kill(engine, signal.SIGKILL)
        ended(thread, 300)
        # In local mode Spark does not repeat a task, so the command fails; had it been over, there
        # would be nothing to test.
        assert failed, "it was over before it could be interrupted"
        assert driver.query("SELECT count(*), sum(id) FROM t").rows == before
        driver.query("INSERT INTO t SELECT 1, 'after'")
    owner.coffer("verify", "--clean", path)
    verified = owner.coffer("verify", "--deep", path)
    assert "version 2" in verified.stdout


@pytest.mark.cluster
def test_engines_of_several_executors_write_one_version(
    clustered: Driver, owner: Owner, tmp_path: Path
) -> None:
    on_cluster = Writing(owner, clustered, tmp_path)
    source = "SELECT id, s, dt, k FROM edge"
    made = (
        "CREATE TABLE spread USING coffer PARTITIONED BY (k) LOCATION "
        f"'{tmp_path / 'spread'}' AS {source} WHERE id < 600"
    )
    on_cluster.sql(made)
    on_cluster.sql(f"INSERT INTO spread {source} WHERE id >= 600")
    assert on_cluster.rows("spread") == canonical(on_cluster, source)
    on_cluster.verified(tmp_path / "spread")
    on_cluster.sql(f"INSERT OVERWRITE spread {source} WHERE id % 7 = 0")
    assert on_cluster.rows("spread") == canonical(on_cluster, f"{source} WHERE id % 7 = 0")
    on_cluster.sql("DROP TABLE spread")


# ---- Names -------------------------------------------------------------------------------------


def test_a_link_in_a_tables_place_makes_it_no_other(w: Writing) -> None:
    folder = w.folder / "names"
    for value, name in enumerate(("ledger", "ledger_v2"), 1):
        w.sql(
            f"CREATE TABLE {name} USING coffer LOCATION '{folder / name}' AS SELECT CAST({value} "
            f"AS BIGINT) AS a"
        )
    (folder / "ledger_v2").rename(folder / "away")
    (folder / "ledger_v2").symlink_to(folder / "ledger")

    def save(mode: str, path: str = "names/ledger_v2", **options: str) -> None:
        code = (
            "df = spark.sql('SELECT CAST(9 AS BIGINT) AS a')\n"
            "df.write.format('coffer').mode(mode).options(**options).save(folder + '/' + "
            "path)\nresult = None"
        )
        w.run(code, mode=mode, path=path, options=options)

    actions: list[Callable[[], Any]] = [
        lambda: w.loaded("names/ledger_v2"),
        lambda: w.loaded("names/ledger/../ledger_v2/"),
        lambda: w.rows("ledger_v2"),
        lambda: w.sql("INSERT INTO ledger_v2 VALUES (9)"),
        lambda: w.sql("INSERT OVERWRITE ledger_v2 VALUES (9)"),
        lambda: w.sql("CREATE OR REPLACE TABLE ledger_v2 USING coffer AS SELECT 9 AS a"),
        lambda: save("append"),
        lambda: save("overwrite"),
        lambda: save("overwrite", overwriteSchema="true"),
        lambda: save("error"),
    ]
    for action in actions:
        refused(action, "belongs to table")
    assert w.loaded("names/ledger") == w.rows("ledger") == [["1"]]
    # A name that only a host gave.
    (folder / "other").symlink_to(folder / "ledger")
    for action in (lambda: w.loaded("names/other"), lambda: save("append", "names/other")):
        refused(action, "nobody recorded it as a path of that table")
    # Put back, all is as it was.
    (folder / "ledger_v2").unlink()
    (folder / "away").rename(folder / "ledger_v2")
    w.sql("INSERT INTO ledger_v2 VALUES (3)")
    assert w.loaded("names/ledger_v2") == w.rows("ledger_v2") == [["2"], ["3"]]
    assert w.loaded("names/ledger") == [["1"]]


def test_a_publication_that_failed_stays_failed(w: Writing) -> None:
    path = w.folder / "names" / "failed"
    w.sql(f"CREATE TABLE failed USING coffer LOCATION '{path}' AS SELECT CAST(1 AS BIGINT) AS a")
    planted = path / "_coffer" / "manifest-0000000002"
    seen: dict[Path, bytes] = {}
    done = threading.Event()

    def watch() -> None:
        # Keeps what it sees, half-made manifests too, and has something in the place of the next
        # one once a file is written.
        while not done.is_set():
            for file in [*path.glob("part-*"), *path.glob("_coffer/.tmp-*")]:
                try:
                    seen[file] = file.read_bytes()
                except OSError:
                    continue
                if (
                    len([one for one in seen if one.name.startswith("part-")]) > 1
                    and not planted.exists()
                ):
                    planted.write_bytes(b"planted")

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        refused(lambda: w.sql("INSERT INTO failed VALUES (2)"), "exists already")
    finally:
        done.set()
        ended(watcher)
    # The host puts back what it kept, whole.
    manifests = [
        bytes_
        for file, bytes_ in seen.items()
        if file.name.startswith(".tmp-") and bytes_.startswith(b"CFTM")
    ]
    for file, bytes_ in seen.items():
        if file.name.startswith("part-"):
            file.write_bytes(bytes_)
    planted.unlink()
    if manifests:
        planted.write_bytes(max(manifests, key=len))
    assert w.rows("failed") == [["1"]]
    w.sql("INSERT INTO failed VALUES (2)")
    assert w.rows("failed") == [["1"], ["2"]]
