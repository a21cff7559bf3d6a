"""A Spark driver in a process of its own that answers queries over a pipe.

Plugins are loaded when a Spark context starts, and one process holds one JVM: so plaintext Spark
and Coffer each get a process. The child (`python -m coffer_testing.runner`) reads one JSON object a
line and answers each with one line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from coffer_testing import processes
from coffer_testing.answers import Answer, encode

DEADLINE = (
    3600.0  # seconds for one request, a benchmark's longest too; tests have a time-out of their own
)


class QueryFailed(RuntimeError):
    """The child's query or code ended with an error: its class name, its message, Spark's error
    class if any."""

    def __init__(self, kind: str, message: str, condition: str | None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.condition = condition


class Driver:
    """A Spark session in a child process, with `tables` (name → path) as temporary views.

    `sealed`: the tables are sealed ones and the session is Coffer's; else the files are plain
    Parquet and Spark is as it comes. `log`: the file that takes the child's standard error.
    `python`: another interpreter, with another PySpark.
    """

    def __init__(
        self,
        tables: dict[str, Path],
        *,
        sealed: bool,
        log: Path,
        master: str = "local[2]",
        home: Path | None = None,
        passphrase_file: Path | None = None,
        conf: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        python: Path | None = None,
    ) -> None:
        start = {
            "tables": {name: str(path) for name, path in tables.items()},
            "sealed": sealed,
            "master": master,
            "home": str(home) if home else None,
            "passphrase_file": str(passphrase_file) if passphrase_file else None,
            "conf": conf or {},
        }
        self._log = log.open("ab")
        self._process = processes.start(
            [str(python or sys.executable), "-m", "coffer_testing.runner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1", **(env or {})},
        )
        try:
            self._ask(start)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The child's process id; the driver's JVM and, in local mode, the engines are below it."""
        return self._process.pid

    def query(self, sql: str, conf: dict[str, str] | None = None) -> Answer:
        """Runs a query and fetches all rows; `seconds` covers planning, run and fetch."""
        return Answer.from_json(self._ask({"op": "query", "sql": sql, "conf": conf or {}}))

    def timed(self, sql: str, conf: dict[str, str] | None = None) -> dict[str, Any]:
        """As `query`, with `counters` and `milliseconds` beside the answer: see `QueryProfile` of
        the plugin."""
        return self._ask({"op": "query", "sql": sql, "conf": conf or {}})

    def run(self, code: str, **names: Any) -> Any:
        """Executes Python with `spark`, and `names`, at hand; returns the value it left in
        `result`, as JSON has it."""
        return self._ask({"op": "run", "code": code, "names": names})["result"]

    def stop(self) -> None:
        """Ends the child by closing its pipe; kills it if it does not go."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=60)
        if self._process.stdout:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended; the missing answer below says so
        try:
            line = processes.line_of(self._process, DEADLINE)
        except TimeoutError as error:
            raise QueryFailed("Driver", f"{error}; see {self._log.name}", None) from error
        if not line:
            raise QueryFailed("Driver", f"the driver process ended; see {self._log.name}", None)
        reply = json.loads(line)
        if "error" in reply:
            raise QueryFailed(reply["kind"], reply["error"], reply.get("condition"))
        return reply


def main() -> None:
    # Spark and whatever it starts write to standard output as they like; answers go out on a
    # descriptor of our own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if spark is None:
                spark = _start(request)
                reply: dict[str, Any] = {}
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
    if spark is not None:
        spark.stop()


def _send(answers: IO[str], reply: dict[str, Any]) -> None:
    answers.write(json.dumps(reply) + "\n")
    answers.flush()


def _start(request: dict[str, Any]) -> Any:
    conf = {
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

        spark = coffer.session(
            request["home"], request["master"], passphrase_file=request["passphrase_file"], **conf
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
