"""A Spark driver in a process of its own that answers queries over a pipe.

Plugins are loaded when a Spark context starts, and one process holds one JVM: so plaintext Spark
and Coffer each get a process. The child (`python -m coffer_testing.runner`) reads one JSON object a
line and answers each with one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, Self

from coffer_testing import archives, processes
from coffer_testing.answers import Answer, encode

DEADLINE = (
    3600.0  # seconds for one request, a benchmark's longest too; tests have a time-out of their own
)
# Each has a JVM's memory.
MOST_KEPT = 3


class QueryFailed(RuntimeError):
    """The child's query or code ended with an error: its class name, its message, Spark's error
    class if any."""

    def __init__(self, kind: str, message: str, condition: str | None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.condition = condition


def same_error(one: QueryFailed, other: QueryFailed) -> bool:
    """Whether two drivers' errors are one to a user: class, condition and message with SQLSTATE.
    Which of several bad rows is met first is not said. `other` may leave out its place in the
    query, but not name another."""

    def parts(message: str) -> tuple[str, str]:
        said, _, place = message.partition("\n")
        said = re.sub(r"The value .* of the type", "The value … of the type", said)
        # Spark quotes the functions that it advises in two ways.
        return re.sub(r"Use '(\w+)'", r"Use `\1`", said), place.strip()

    (said, place), (other_said, other_place) = parts(one.message), parts(other.message)
    return (one.kind, one.condition, said) == (
        other.kind,
        other.condition,
        other_said,
    ) and other_place in ("", place)


class Driver:
    """A Spark session in a child process, with `tables` (name → path or URL) as temporary views.

    `sealed`: the tables are sealed ones and the session is Coffer's; else the files are plain
    Parquet and Spark is as it comes. `log`: the file that takes the child's standard error.
    `python`: another interpreter, with another PySpark.
    """

    # Whether children are kept for the next driver of their kind when a driver stops: a JVM that
    # runs already starts a Spark context in a second. What a test set outside of Spark would stay.
    kept = False
    # Settings of sealed sessions on clusters, where a driver says nothing else.
    clusters: ClassVar[Mapping[str, str]] = {}
    # Where drivers of clusters record of which classes objects are sent to them, each in a file of
    # its own (`coffer_testing.recorded`); none: nowhere.
    record: ClassVar[Path | None] = None

    def __init__(
        self,
        tables: Mapping[str, Path | str],
        *,
        sealed: bool,
        log: Path,
        master: str = "local[2]",
        config_dir: Path | None = None,
        passphrase_file: Path | None = None,
        conf: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        python: Path | None = None,
    ) -> None:
        if sealed and not master.startswith("local"):
            conf = {**Driver.clusters, **(conf or {})}
        start = {
            "op": "start",
            "tables": {name: str(path) for name, path in tables.items()},
            "sealed": sealed,
            "master": master,
            "config_dir": str(config_dir) if config_dir else None,
            "passphrase_file": str(passphrase_file) if passphrase_file else None,
            "conf": conf or {},
        }
        if sealed and Driver.record and not master.startswith("local"):
            record = Driver.record / f"{uuid.uuid4().hex}.tsv"
            name = "spark.driver.extraJavaOptions"
            options = [(conf or {}).get(name, ""), f"-Dcoffer.deserialization.record={record}"]
            start["conf"] = {**(conf or {}), name: " ".join(filter(None, options))}
        # What a JVM takes when it starts, and what classes of Spark and Hadoop keep for all of its
        # life.
        kind = (
            sealed,
            master.startswith("local"),
            str(python or sys.executable),
            tuple(sorted((env or {}).items())),
            # What the child inherits, but for what names the test.
            tuple(sorted(item for item in os.environ.items() if item[0] != _OF_A_TEST)),
            tuple(sorted(item for item in (conf or {}).items() if item[0].startswith(_OF_A_JVM))),
        )
        self._child = _Child.of(kind, log, env or {})
        try:
            self._child.ask(start)
        except QueryFailed:
            self.stop()
            raise
        except BaseException:
            self._child.end()
            raise

    @property
    def pid(self) -> int:
        """The child's process id; the driver's JVM and, in local mode, the engines are below it."""
        return self._child.process.pid

    def query(self, sql: str, conf: dict[str, str] | None = None) -> Answer:
        """Runs a query and fetches all rows; `seconds` covers planning, run and fetch."""
        return Answer.from_json(self._child.ask({"op": "query", "sql": sql, "conf": conf or {}}))

    def timed(self, sql: str, conf: dict[str, str] | None = None) -> dict[str, Any]:
        """As `query`, with `counters` and `milliseconds` beside the answer: see `QueryProfile` of
        the plugin."""
        return self._child.ask({"op": "query", "sql": sql, "conf": conf or {}})

    def run(self, code: str, **names: Any) -> Any:
        """Executes Python with `spark`, and `names`, at hand; returns the value it left in
        `result`, as JSON has it."""
        return self._child.ask({"op": "run", "code": code, "names": names})["result"]

    def stop(self) -> None:
        """Stops the session; ends the child too, unless it is kept."""
        if Driver.kept:
            self._child.keep()
        else:
            self._child.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


_OF_A_TEST = "PYTEST_CURRENT_TEST"
_OF_A_JVM = (
    "spark.driver.",
    "spark.jars",
    "spark.submit.",
    "spark.local.dir",
    "spark.hadoop.",
    "spark.sql.catalogImplementation",
    "spark.sql.hive.",
)


class _Child:
    """A process that runs `main`, with at most one Spark session at a time. What it and its JVM
    write to standard error goes to the log of the driver that has it."""

    _idle: ClassVar[list[_Child]] = []

    def __init__(self, kind: tuple[Any, ...], log: Path, env: dict[str, str]) -> None:
        self._kind = kind
        self._log = log
        reading, writing = os.pipe()
        self.process = processes.start(
            [kind[2], "-m", "coffer_testing.runner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=writing,
            text=True,
            env={
                **os.environ,
                "TZ": "UTC",
                "SPARK_LOCAL_IP": "127.0.0.1",
                # Spark's own choice may have other packages than this process.
                "PYSPARK_PYTHON": kind[2],
                **archives.environment(sealed=kind[0]),
                **env,
            },
        )
        os.close(writing)
        self._pump = threading.Thread(target=self._copy, args=(reading,), daemon=True)
        self._pump.start()

    @staticmethod
    def of(kind: tuple[Any, ...], log: Path, env: dict[str, str]) -> _Child:
        """An idle one of this kind, or a new one."""
        for ended in [child for child in _Child._idle if child.process.poll() is not None]:
            _Child._idle.remove(ended)
            ended.end()
        idle = _Child._idle if Driver.kept else []
        found = next((child for child in idle if child._kind == kind), None)
        if found is None:
            return _Child(kind, log, env)
        _Child._idle.remove(found)
        found._log = log
        return found

    def keep(self) -> None:
        """Stops its session and keeps it for another driver; ends it where that does not work."""
        try:
            self.ask({"op": "stop"})
        except QueryFailed:
            self.end()
            return
        _Child._idle.append(self)
        while len(_Child._idle) > MOST_KEPT:
            _Child._idle.pop(0).end()

    def end(self) -> None:
        """Ends it by closing its pipe; kills it if it does not go."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=60)
        if self.process.stdout:
            self.process.stdout.close()
        # Its last words are in the log when this returns, unless a process of its own lives on.
        self._pump.join(10)
        if self._pump.is_alive():
            print(f"a process that the driver started lives on; see {self._log}", file=sys.stderr)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sends a request and waits for its answer. QueryFailed where that is an error."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended; the missing answer below says so
        try:
            line = processes.line_of(self.process, DEADLINE)
        except TimeoutError as error:
            raise QueryFailed("Driver", f"{error}; see {self._log}", None) from error
        if not line:
            raise QueryFailed("Driver", f"the driver process ended; see {self._log}", None)
        reply = json.loads(line)
        if "error" in reply:
            raise QueryFailed(reply["kind"], reply["error"], reply.get("condition"))
        return reply

    def _copy(self, reading: int) -> None:
        with os.fdopen(reading, "rb", buffering=0) as words:
            while some := words.read(1 << 16):
                # A test may have removed its folder.
                with contextlib.suppress(OSError), self._log.open("ab") as log:
                    log.write(some)


def main() -> None:
    # Spark and whatever it starts write to standard output as they like; answers go out on a
    # descriptor of our own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply: dict[str, Any] = {}
            if request["op"] == "start":
                spark = session(request)
            elif request["op"] == "stop":
                spark = None
                _stop()
            elif request["op"] == "query":
                reply = _query(spark, request["sql"], request["conf"])
            else:
                names = {"spark": spark, "result": None, **request["names"]}
                exec(request["code"], names)
                reply = {"result": names["result"]}
        except Exception as error:
            traceback.print_exc()
            reply = _failure(error)
        _send(answers, reply)
    _stop()


def _stop() -> None:
    """Stops what runs, also a session that was refused a table when it had started."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkContext._active_spark_context
    if running is None:
        return
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()
    else:
        running.stop()
    # What the first session's launcher was given stands in the JVM as defaults of all later ones.
    jvm = SparkContext._jvm
    assert jvm is not None
    for name in list(jvm.java.lang.System.getProperties().stringPropertyNames()):
        if name.startswith("spark."):
            jvm.java.lang.System.clearProperty(name)


def _send(answers: IO[str], reply: dict[str, Any]) -> None:
    answers.write(json.dumps(reply) + "\n")
    answers.flush()


def session(request: dict[str, Any]) -> Any:
    """The Spark session that a driver's request to start asks for."""
    conf = {
        "spark.app.name": "coffer-tests",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "2g",
        **request["conf"],
    }
    if request["sealed"]:
        import coffer

        # Executors fetch Coffer's jar: it is not on the class path that they start with.
        if said := archives.options(sealed=False):
            conf.setdefault("spark.executor.defaultJavaOptions", said)
        spark = coffer.session(
            request["config_dir"],
            request["master"],
            passphrase_file=request["passphrase_file"],
            **conf,
        )
        source = "coffer"
    else:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(request["master"])
        for key, value in conf.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        source = "parquet"
    for name, path in request["tables"].items():
        spark.read.format(source).load(path).createOrReplaceTempView(name)
    return spark


def _query(spark: Any, sql: str, conf: dict[str, str]) -> dict[str, Any]:
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        start = time.perf_counter()
        df = spark.sql(sql)
        rows = df.collect()
        seconds = time.perf_counter() - start
        schema = [[field.name, field.dataType.simpleString()] for field in df.schema.fields]
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)
    profile = _profile(spark, df)
    return {
        "seconds": seconds,
        "schema": schema,
        "rows": [[encode(value) for value in row] for row in rows],
        "counters": {key: value for key, value in profile.items() if not key.endswith("_ms")},
        "milliseconds": {
            key.removesuffix("_ms"): value for key, value in profile.items() if key.endswith("_ms")
        },
    }


def _profile(spark: Any, df: Any) -> dict[str, int]:
    """What Coffer counted in this query and where its time went; of plaintext Spark only the time
    that planning took."""
    if "CofferPlugin" in (spark.sparkContext.getConf().get("spark.plugins") or ""):
        return json.loads(spark._jvm.org.apache.spark.sql.coffer.PythonBridge.profile(df._jdf))
    phases = df._jdf.queryExecution().tracker().phases().values().toSeq()
    return {"planning_ms": sum(phases.apply(i).durationMs() for i in range(phases.size()))}


def _failure(error: Exception) -> dict[str, Any]:
    condition = None
    getter = getattr(error, "getCondition", None)
    if getter is not None:
        condition = getter()
    return {"kind": type(error).__name__, "error": str(error), "condition": condition}


if __name__ == "__main__":
    main()
