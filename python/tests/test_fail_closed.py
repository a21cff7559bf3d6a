"""Whatever cannot be done safely is refused, before a task starts, with what and why and a hint."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coffer.workload import data
from coffer.workload.owner import Owner
from coffer.workload.processes import named
from coffer.workload.runner import Driver, QueryFailed

# How many jobs the scheduler was ever given.
JOBS = "result = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()"


@pytest.fixture
def own(tmp_path: Path) -> tuple[Owner, dict[str, Path]]:
    """An owner and one small sealed table that a test may damage."""
    plain = data.write(tmp_path / "plain")
    owner = Owner.create(tmp_path / "trusted")
    return owner, owner.encrypt({"events": plain["events"]}, tmp_path / "sealed")


def start(owner: Owner, tables: dict[str, Path], log: Path, **more: Any) -> Driver:
    settings: dict[str, Any] = {"home": owner.home, "passphrase_file": owner.passphrase_file, **more}
    return Driver(tables, sealed=True, log=log / "driver.log", **settings)


def refused(action: Callable[[], Any], *words: str) -> str:
    """The message of the error that `action` must end with; it has a hint and all of `words`."""
    with pytest.raises(QueryFailed) as failed:
        action()
    message = failed.value.message
    assert "hint: " in message, message
    for word in words:
        assert word.lower() in message.lower(), message
    return message


# ---- planning ----------------------------------------------------------------------------------------------------


def test_jobs_are_counted(sealed: Driver) -> None:
    before = sealed.run(JOBS)
    sealed.query("SELECT count(*) FROM edge WHERE i8 > 3")
    assert sealed.run(JOBS) > before


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) FROM edge", "Window"),
        ("SELECT explode(sequence(1, 3)), id FROM edge", "Generate"),
        ("SELECT id, sha2(s, 256) FROM edge", "sha2"),
        ("SELECT id FROM edge WHERE regexp_like(s, 'a+')", "regexp_like"),
        ("SELECT k, percentile(n, 0.5) FROM edge GROUP BY k", "percentile"),
        ("SELECT collect_list(s) FROM edge", "collect_list"),
        ("SELECT id, java_method('java.util.UUID', 'fromString', s) FROM edge", "java_method"),
    ],
)
def test_unsupported_is_named_before_any_job(sealed: Driver, sql: str, word: str) -> None:
    before = sealed.run(JOBS)
    refused(lambda: sealed.query(sql), word)
    assert sealed.run(JOBS) == before


def test_explain_of_an_unsupported_query_does_not_run_it(sealed: Driver) -> None:
    before = sealed.run(JOBS)
    sealed.run("spark.sql('SELECT count(*) FROM edge').explain()")
    assert sealed.run(JOBS) == before


# ---- ways out ----------------------------------------------------------------------------------------------------

WAYS_OUT = {
    "rdd": "spark.table('edge').rdd.collect()",
    "foreach": "spark.table('edge').foreach(lambda row: None)",
    "write_parquet": "spark.table('edge').write.parquet(path)",
    "write_csv": "spark.table('edge').select('id', 's').write.csv(path)",
    "write_json": "spark.sql('SELECT count(*) AS c FROM edge').write.json(path)",
    "save_as_table": "spark.table('edge').write.mode('overwrite').option('path', path).saveAsTable('leaked')",
    "ctas_sql": "spark.sql(f\"CREATE TABLE leaked2 USING parquet LOCATION '{path}' AS SELECT id, s FROM edge\")",
    "insert_directory": "spark.sql(f\"INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT id, s FROM edge\")",
    "python_udf": (
        "from pyspark.sql.functions import udf\nspark.table('edge').select(udf(lambda s: s, 'string')('s')).collect()"
    ),
    "map_in_arrow": "spark.table('edge').select('id').mapInArrow(lambda batches: batches, 'id bigint').collect()",
    "checkpoint": "spark.sparkContext.setCheckpointDir(path); spark.table('edge').checkpoint()",
}


@pytest.mark.parametrize("name", WAYS_OUT)
def test_way_out_is_refused(sealed: Driver, tmp_path: Path, name: str) -> None:
    path = tmp_path / "out"
    refused(lambda: sealed.run(WAYS_OUT[name], path=str(path)))
    assert not [found for found in path.rglob("*") if found.is_file() and found.stat().st_size > 0]


def test_cached_rows_do_not_leave_the_seal(sealed: Driver) -> None:
    code = "df = spark.sql('SELECT id, s FROM edge').cache()\ntry:\n    df.count()\nfinally:\n    df.unpersist()"
    refused(lambda: sealed.run(code))


# ---- settings ----------------------------------------------------------------------------------------------------

CLUSTER_MODE = """
from pyspark import SparkConf, SparkContext
import coffer, os
settings = coffer.configuration(home, passphrase_file)
os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {settings['spark.jars']} pyspark-shell"
spark.stop()
SparkContext._ensure_initialized()
conf = SparkConf().setMaster("local[1]").setAppName("cluster mode")
for key, value in {**settings, "spark.submit.deployMode": "cluster"}.items():
    conf.set(key, value)
SparkContext(conf=conf)
"""


def test_cluster_deploy_mode_is_refused(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    # The submitter itself would refuse the mode for a Python driver: the context is made in a JVM that runs already.
    with start(owner, tables, tmp_path) as driver:
        names = {"home": str(owner.home), "passphrase_file": str(owner.passphrase_file)}
        refused(lambda: driver.run(CLUSTER_MODE, **names), "cluster", "trust_cluster_deploy_mode")


def test_secret_in_spark_configuration_is_refused(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    secret = "spark.coffer.passphrase"
    message = refused(lambda: start(owner, tables, tmp_path, conf={secret: "open-sesame-4711"}), secret)
    assert "open-sesame-4711" not in message


def test_event_log_outside_a_trusted_folder_is_refused(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    (tmp_path / "events").mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (tmp_path / "events").as_uri()}
    refused(lambda: start(owner, tables, tmp_path, conf=conf), "eventLog")


# ---- keys, tables, policy ----------------------------------------------------------------------------------------


def test_wrong_passphrase(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    wrong = tmp_path / "wrong"
    wrong.write_text("not the passphrase\n")
    refused(lambda: start(owner, tables, tmp_path, passphrase_file=wrong), "passphrase")


def test_missing_home(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    refused(lambda: start(owner, tables, tmp_path, home=tmp_path / "nowhere"), "coffer init")


def test_foreign_table(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    _, tables = own
    stranger = Owner.create(tmp_path / "stranger")
    refused(lambda: start(stranger, tables, tmp_path))


def test_plain_files_are_no_sealed_table(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, _ = own
    refused(lambda: start(owner, {"events": tmp_path / "plain" / "events"}, tmp_path))


def damage_middle(file: Path) -> None:
    damage(file, file.stat().st_size // 3)


def damage_footer(file: Path) -> None:
    damage(file, file.stat().st_size - 40)


def damage(file: Path, at: int) -> None:
    with file.open("r+b") as target:
        target.seek(at)
        byte = target.read(1)[0]
        target.seek(at)
        target.write(bytes([byte ^ 1]))


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def swap_for_plain(file: Path) -> None:
    plain = file.parents[2] / "plain" / "events" / "part-0.parquet"
    shutil.copyfile(plain, file)


@pytest.mark.parametrize("attack", [damage_middle, damage_footer, truncate, swap_for_plain, Path.unlink])
def test_damaged_file(own: tuple[Owner, dict[str, Path]], tmp_path: Path, attack: Callable[[Path], None]) -> None:
    owner, tables = own
    attack(max((tables["events"]).glob("*.parquet"), key=lambda path: path.stat().st_size))

    def read() -> None:
        with start(owner, tables, tmp_path) as driver:
            driver.query("SELECT * FROM events")

    refused(read)
    verified = owner.coffer("verify", "--deep", tables["events"], check=False)
    assert verified.returncode != 0
    assert "error:" in verified.stderr
    assert "hint:" in verified.stderr


def test_policy_with_an_unknown_column(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, _ = own
    target = tmp_path / "sealed" / "more"
    with (owner.home / "policy.toml").open("a") as policy:
        policy.write(f'\n[tables.more]\npath = "{target}"\n[tables.more.columns]\nno_such_column = "tee"\n')
    done = owner.coffer("encrypt", tmp_path / "plain" / "events", target, check=False)
    assert done.returncode != 0
    assert "no_such_column" in done.stderr
    assert "hint:" in done.stderr
    assert not list(target.glob("*.parquet"))


def test_policy_with_an_unknown_key(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    policy = owner.home / "policy.toml"
    policy.write_text("suprise = true\n" + policy.read_text())
    refused(lambda: start(owner, tables, tmp_path), "suprise")


def test_simulated_evidence_is_refused_unless_named(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    policy = owner.home / "policy.toml"
    before = policy.read_text()
    after = before.replace('accept = ["simulated"]', "accept = []")
    assert after != before
    policy.write_text(after)

    def query() -> None:
        with start(owner, tables, tmp_path) as driver:
            driver.query("SELECT count(*) FROM events WHERE n > 0")

    refused(query, "simulated")


# ---- engines -----------------------------------------------------------------------------------------------------


def test_engine_that_dies_ends_the_query_with_an_error(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    script = tmp_path / "engine"
    # An engine that says it is ready and then ends.
    script.write_text(
        f"#!{sys.executable}\n"
        "import json\n"
        "ready = {'listening': 'tcp:127.0.0.1:9', 'engine_id': '00', 'evidence': 'simulated', 'version': '0.1.0'}\n"
        "print(json.dumps(ready))\n"
    )
    script.chmod(0o755)

    def query() -> None:
        with start(owner, tables, tmp_path, conf={"spark.coffer.engine.path": str(script)}) as driver:
            driver.query("SELECT count(*) FROM events WHERE n > 0")

    refused(query, "engine")


def test_killed_engine_never_gives_a_wrong_answer(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    sql = "SELECT g, count(*) FROM events GROUP BY g ORDER BY g"
    with start(owner, tables, tmp_path) as driver:
        before = driver.query(sql)
        engines = named({driver.pid}, "coffer-engine")
        assert engines
        for engine in engines:
            os.kill(engine, signal.SIGKILL)
        try:
            after = driver.query(sql)
        except QueryFailed as failed:
            assert "hint: " in failed.message
        else:
            assert after.rows == before.rows


def test_engine_of_another_version_is_refused(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    script = tmp_path / "engine"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "ready = {'listening': 'tcp:127.0.0.1:9', 'engine_id': '00', 'evidence': 'simulated', 'version': '9.9.9'}\n"
        "print(json.dumps(ready), flush=True)\n"
        "sys.stdin.read()\n"
    )
    script.chmod(0o755)

    def query() -> None:
        with start(owner, tables, tmp_path, conf={"spark.coffer.engine.path": str(script)}) as driver:
            driver.query("SELECT count(*) FROM events WHERE n > 0")

    refused(query, "9.9.9")


def test_engines_end_with_their_driver(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    with start(owner, tables, tmp_path) as driver:
        driver.query("SELECT count(*) FROM events WHERE n > 0")
        processes = named({driver.pid}, "coffer-engine") + named({driver.pid}, "coffer-client")
        assert len(processes) >= 2
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists() and not _is_zombie(pid)]


def _is_zombie(pid: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        # Gone since it was looked for.
        return True
