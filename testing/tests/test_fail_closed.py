"""Whatever cannot be done safely is refused, before a task starts, with what and why and a hint."""

from __future__ import annotations

import base64
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coffer._find import find_jar
from coffer_testing import data
from coffer_testing.owner import Owner
from coffer_testing.processes import named
from coffer_testing.runner import Driver, QueryFailed
from conftest import with_client_tail

# What users are told to do instead.
REWRITE = "rewrite this part of the query, or run it on the result"
BRING = (
    "bring the result to the client (collect, coffer.to_arrow, coffer.to_pandas) and write it there"
)
TAKE = (
    "use collect, take, show, toLocalIterator, coffer.to_arrow(df) or coffer.to_pandas(df); "
    "coffer.local(df) keeps working on rows in the driver, and under a local master (local[*]) "
    "rdd, foreach and fit run there"
)

# How many jobs the scheduler was ever given.
JOBS = "result = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()"


@pytest.fixture
def own(tmp_path: Path) -> tuple[Owner, dict[str, Path]]:
    """An owner and one small sealed table that a test may damage."""
    plain = data.write(tmp_path / "plain")
    owner = Owner.create(tmp_path / "trusted")
    return owner, owner.encrypt({"events": plain["events"]}, tmp_path / "sealed")


def start(owner: Owner, tables: dict[str, Path], log: Path, **more: Any) -> Driver:
    settings: dict[str, Any] = {
        "config_dir": owner.config_dir,
        "passphrase_file": owner.passphrase_file,
        **more,
    }
    return Driver(tables, sealed=True, log=log / "driver.log", **settings)


def refused(action: Callable[[], Any], code: str, hint: str, *words: str) -> str:
    """The message of the error that `action` must end with: Coffer's of that code, with that hint
    (its beginning) and all of `words`."""
    with pytest.raises(QueryFailed) as failed:
        action()
    message = failed.value.message
    assert failed.value.condition == code, message
    assert len(message.splitlines()) <= 5, message
    assert f"\nhint: {hint}" in message, message
    for word in words:
        assert word.lower() in message.lower(), message
    return message


# ---- planning ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sealed(sealed: Driver) -> Iterator[Driver]:
    yield from with_client_tail(sealed)


def test_jobs_are_counted(sealed: Driver) -> None:
    before = sealed.run(JOBS)
    sealed.query("SELECT count(*) FROM edge WHERE i8 > 3")
    assert sealed.run(JOBS) > before


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT id, java_method('java.util.UUID', 'fromString', s) FROM edge", "java_method"),
        ("SELECT id, reflect('java.lang.Math', 'abs', k) FROM edge", "reflect"),
        ("SELECT id, input_file_name(), sha2(s, 256) FROM edge", "input_file_name"),
        ("SELECT id, if(k > 1, input_file_name(), '') FROM edge", "input_file_name"),
        ("SELECT TRANSFORM(id) USING 'cat' AS (x) FROM edge", "ScriptTransformation"),
    ],
)
def test_unsupported_is_named_before_any_job(sealed: Driver, sql: str, word: str) -> None:
    before = sealed.run(JOBS)
    refused(lambda: sealed.query(sql), "COFFER_UNSUPPORTED", REWRITE, word)
    assert sealed.run(JOBS) == before


def test_what_runs_at_the_client_is_refused_where_it_is_off(sealed: Driver) -> None:
    before = sealed.run(JOBS)
    off = {"spark.coffer.client.tail": "off"}
    for sql, word in (
        ("SELECT id, format_string('%S', k) FROM edge", "format_string"),
        ("SELECT explode(sentences(s)), id FROM edge", "Generate"),
        ("SELECT k, hll_sketch_agg(n) FROM edge GROUP BY k", "hll_sketch_agg"),
    ):
        refused(lambda sql=sql: sealed.query(sql, off), "COFFER_UNSUPPORTED", REWRITE, word)
    assert sealed.run(JOBS) == before


def test_explain_of_an_unsupported_query_does_not_run_it(sealed: Driver) -> None:
    before = sealed.run(JOBS)
    sealed.run("spark.sql('SELECT count(*) FROM edge').explain()")
    assert sealed.run(JOBS) == before


# ---- ways out ----------------------------------------------------------------------------------

WAYS_OUT = {
    "write_parquet": "spark.table('edge').write.parquet(path)",
    "write_csv": "spark.table('edge').select('id', 's').write.csv(path)",
    "write_json": "spark.sql('SELECT count(*) AS c FROM edge').write.json(path)",
    "save_as_table": "spark.table('edge').write.mode('overwrite').option('path', "
    "path).saveAsTable('leaked')",
    "ctas_sql": "spark.sql(f\"CREATE TABLE leaked2 USING parquet LOCATION '{path}' AS SELECT id, "
    's FROM edge")',
    "insert_directory": "spark.sql(f\"INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT "
    'id, s FROM edge")',
    "checkpoint": "spark.sparkContext.setCheckpointDir(path); "
    "spark.table('edge')._jdf.checkpoint()",
}


ROWS = ("checkpoint",)


@pytest.mark.parametrize("name", WAYS_OUT)
def test_way_out_is_refused(sealed: Driver, tmp_path: Path, name: str) -> None:
    path = tmp_path / "out"
    code, hint = "COFFER_PLAINTEXT_SINK", BRING
    if name in ROWS:
        code, hint = "COFFER_ROWS_ON_EXECUTORS", TAKE
    refused(lambda: sealed.run(WAYS_OUT[name], path=str(path)), code, hint)
    assert not [found for found in path.rglob("*") if found.is_file() and found.stat().st_size > 0]


# ---- settings ----------------------------------------------------------------------------------

CLUSTER_MODE = """
from pyspark import SparkConf, SparkContext
import coffer, os
settings = coffer.configuration(config_dir, passphrase_file)
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
    # The submitter itself would refuse the mode for a Python driver: the context is made in a JVM
    # that runs already.
    with start(owner, tables, tmp_path) as driver:
        names = {
            "config_dir": str(owner.config_dir),
            "passphrase_file": str(owner.passphrase_file),
        }
        hint = (
            "use --deploy-mode client, or set trust_cluster_deploy_mode = true under "
            "[driver] in the policy"
        )
        refused(lambda: driver.run(CLUSTER_MODE, **names), "cluster_deploy_mode", hint, "cluster")


RUNNING_JVM = """
import coffer
from pyspark.sql import SparkSession
spark.stop()
master = "spark://127.0.0.1:1"
if by_hand:
    builder = SparkSession.builder.master(master)
    for key, value in coffer.configuration(config_dir, passphrase_file).items():
        builder = builder.config(key, value)
    builder.getOrCreate()
else:
    coffer.session(config_dir, master, passphrase_file=passphrase_file)
"""


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_jvm_without_the_filter_is_refused(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path, by_hand: bool
) -> None:
    owner, _ = own
    names = {
        "config_dir": str(owner.config_dir),
        "passphrase_file": str(owner.passphrase_file),
        "by_hand": by_hand,
    }
    conf = {"spark.driver.extraClassPath": str(find_jar())}
    with Driver(
        {}, sealed=False, log=tmp_path / "plain.log", master="local[1]", conf=conf
    ) as driver:
        line = "spark.driver.extraJavaOptions=-Djdk.serialFilterFactory="
        if by_hand:
            refused(
                lambda: driver.run(RUNNING_JVM, **names),
                "COFFER_DESERIALIZATION_FILTER",
                "start",
                line,
                "start a new",
            )
            return
        with pytest.raises(QueryFailed) as failed:
            driver.run(RUNNING_JVM, **names)
        assert (
            "hint: start a new Python process" in failed.value.message
            and line in failed.value.message
        )


def test_the_filter_is_set_beside_options_of_the_users(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, tables = own
    conf = {"spark.driver.extraJavaOptions": "-Dcoffer.test.kept=yes"}
    with start(owner, tables, tmp_path, conf=conf) as driver:
        code = "result = [spark._jvm.System.getProperty(k) for k in keys]"
        found = driver.run(code, keys=["coffer.test.kept", "jdk.serialFilterFactory"])
        assert found == ["yes", "org.apache.spark.sql.coffer.driver.SerialFilterFactory"]


def test_packages_and_dangerous_classes_are_not_added_to_the_filter(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, tables = own
    for names, hint, part in (
        ("org.apache.spark.", "name each class in full", "no class's name"),
        ("org.apache.spark.sql.*", "name each class in full", "no class's name"),
        ("java.util.PriorityQueue", "have tasks return plain values", "holds a comparator"),
    ):
        conf = {"spark.coffer.driver.allowClasses": names}
        refused(
            lambda conf=conf: start(owner, tables, tmp_path, conf=conf),
            "COFFER_CONF",
            hint,
            "allowClasses",
            part,
        )


def test_secret_in_spark_configuration_is_refused(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, tables = own
    secret = "spark.coffer.passphrase"
    conf = {secret: "open-sesame-4711"}
    message = refused(
        lambda: start(owner, tables, tmp_path, conf=conf),
        "COFFER_SECRET_IN_CONF",
        "remove it",
        secret,
    )
    assert "open-sesame-4711" not in message


def test_the_passphrase_under_another_name_is_refused(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, tables = own
    passphrase = owner.passphrase_file.read_text().strip()
    encoded = base64.b64encode(f"user:{passphrase}".encode()).decode()
    conf = {"spark.executorEnv.NOTE": encoded}
    message = refused(
        lambda: start(owner, tables, tmp_path, conf=conf),
        "COFFER_SECRET_IN_CONF",
        "remove it",
        "executorEnv.NOTE",
    )
    assert passphrase not in message and encoded not in message


def test_the_passphrase_set_while_it_runs_is_refused(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, tables = own
    passphrase = owner.passphrase_file.read_text().strip()
    ask = "result = spark.sql('SELECT 1').collect()[0][0]"
    with start(owner, tables, tmp_path) as driver:
        assert driver.run(ask) == 1
        for sets, word in [
            ("spark.conf.set('spark.note', f'-Dx={secret}')", "spark.note"),
            ("spark.sql('SET spark.other=' + bytes(secret, 'utf8').hex())", "spark.other"),
            ("spark.sparkContext.setLocalProperty('my.note', secret)", "my.note"),
        ]:
            undo = (
                f"spark.conf.unset('{word}'); spark.sparkContext.setLocalProperty('{word}', None)"
            )
            action = partial(driver.run, f"{sets}\n{ask}", secret=passphrase)
            message = refused(action, "COFFER_SECRET_IN_CONF", "remove it", word)
            assert passphrase not in message
            driver.run(f"{undo}\nresult = None")
        assert driver.run(ask) == 1


def test_event_log_outside_a_trusted_folder_is_refused(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, tables = own
    (tmp_path / "events").mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (tmp_path / "events").as_uri()}
    hint = "set spark.coffer.eventLog.trustedDir to a local folder of the client site"
    refused(lambda: start(owner, tables, tmp_path, conf=conf), "COFFER_EVENT_LOG", hint, "eventLog")


# ---- keys, tables, policy ----------------------------------------------------------------------


def test_wrong_passphrase(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    wrong = tmp_path / "wrong"
    wrong.write_text("not the passphrase\n")
    refused(
        lambda: start(owner, tables, tmp_path, passphrase_file=wrong),
        "COFFER_ENGINE_START",
        "check the passphrase",
    )


def test_missing_config_dir(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    hint = "make one with coffer init"
    refused(
        lambda: start(owner, tables, tmp_path, config_dir=tmp_path / "nowhere"),
        "COFFER_ENGINE_START",
        hint,
    )


def test_foreign_table(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    _, tables = own
    stranger = Owner.create(tmp_path / "stranger")
    refused(lambda: start(stranger, tables, tmp_path), "manifest_foreign", "check the path or name")


def test_plain_files_are_no_sealed_table(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, _ = own
    refused(
        lambda: start(owner, {"events": tmp_path / "plain" / "events"}, tmp_path),
        "COFFER_NO_TABLE",
        "look at the path",
    )


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
    """Of the same length, and with the end of a plain file where the sealed one's was."""
    plain = (file.parents[2] / "plain" / "events" / "part-0.parquet").read_bytes()
    length = file.stat().st_size
    file.write_bytes(plain[-length:].rjust(length, b"\0"))


DAMAGE: dict[Callable[[Path], None], str] = {
    damage_middle: "COFFER_FILE_TAG",
    damage_footer: "COFFER_FILE_DIGEST",
    truncate: "COFFER_FILE_LENGTH",
    swap_for_plain: "COFFER_FILE_MAGIC",
    Path.unlink: "COFFER_FILE_MISSING",
}


@pytest.mark.parametrize("attack", DAMAGE)
def test_damaged_file(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path, attack: Callable[[Path], None]
) -> None:
    owner, tables = own
    attack(max((tables["events"]).glob("*.parquet"), key=lambda path: path.stat().st_size))

    def read() -> None:
        with start(owner, tables, tmp_path) as driver:
            driver.query("SELECT * FROM events")

    refused(
        read,
        DAMAGE[attack],
        "a file may be damaged, missing or changed: check the table with `coffer verify --deep`",
    )
    verified = owner.coffer("verify", "--deep", tables["events"], check=False)
    assert verified.returncode != 0
    assert "error:" in verified.stderr
    assert "hint:" in verified.stderr


def test_policy_with_an_unknown_column(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, _ = own
    target = tmp_path / "sealed" / "more"
    owner.sign(
        f'{owner.policy}\n[tables.more]\npath = "{target}"\n[tables.more.columns]\nno_such_column '
        f'= "tee"\n'
    )
    done = owner.coffer("encrypt", tmp_path / "plain" / "events", target, check=False)
    assert done.returncode != 0
    assert "no_such_column" in done.stderr
    assert "hint:" in done.stderr
    assert not list(target.glob("*.parquet"))


def test_policy_with_an_unknown_key(own: tuple[Owner, dict[str, Path]], tmp_path: Path) -> None:
    owner, tables = own
    policy = owner.config_dir / "policy.toml"
    policy.write_text("suprise = true\n" + policy.read_text())
    # Nobody signed it, and nobody can: signing reads it first.
    hint = "if that is what you want, run coffer policy sign"
    refused(lambda: start(owner, tables, tmp_path), "COFFER_ENGINE_START", hint, "suprise")
    signing = owner.coffer("policy", "sign", "--yes", check=False)
    assert signing.returncode == 4
    assert "suprise" in signing.stderr and "docs/reference/policy.md" in signing.stderr


def test_simulated_evidence_is_refused_unless_named(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, tables = own
    before = owner.policy
    after = before.replace('accept = ["simulated"]', "accept = []")
    assert after != before
    owner.sign(after)

    def query() -> None:
        with start(owner, tables, tmp_path) as driver:
            driver.query("SELECT count(*) FROM events WHERE n > 0")

    refused(query, "evidence_not_accepted", 'for a trial, set accept = ["simulated"]', "simulated")


# ---- engines -----------------------------------------------------------------------------------


def test_engine_that_dies_ends_the_query_with_an_error(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, tables = own
    script = tmp_path / "engine"
    # An engine that says it is ready and then ends.
    script.write_text(
        f"#!{sys.executable}\n"
        "import json\n"
        "ready = {'listening': 'tcp:127.0.0.1:9', 'engine_id': '00', 'evidence': "
        "'simulated', 'version': '0.1.0'}\n"
        "print(json.dumps(ready))\n"
    )
    script.chmod(0o755)

    def query() -> None:
        with start(
            owner, tables, tmp_path, conf={"spark.coffer.engine.path": str(script)}
        ) as driver:
            driver.query("SELECT count(*) FROM events WHERE n > 0")

    refused(query, "COFFER_ENGINE_LOST", "see the engine's messages in the executor's log")


def test_killed_engine_never_gives_a_wrong_answer(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
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


def test_engine_of_another_version_is_refused(
    own: tuple[Owner, dict[str, Path]], tmp_path: Path
) -> None:
    owner, tables = own
    script = tmp_path / "engine"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "ready = {'listening': 'tcp:127.0.0.1:9', 'engine_id': '00', 'evidence': "
        "'simulated', 'version': '9.9.9'}\n"
        "print(json.dumps(ready), flush=True)\n"
        "sys.stdin.read()\n"
    )
    script.chmod(0o755)

    def query() -> None:
        with start(
            owner, tables, tmp_path, conf={"spark.coffer.engine.path": str(script)}
        ) as driver:
            driver.query("SELECT count(*) FROM events WHERE n > 0")

    refused(query, "COFFER_ENGINE_VERSION", "install one build on all nodes", "9.9.9")


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
