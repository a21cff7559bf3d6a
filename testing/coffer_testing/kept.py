"""Plaintext Spark's answers, each asked for once.

What Spark answers to a query over tables that do not change is kept: as digests in
`testing/answers`, for what every run asks, and in Coffer's cache folder, for the rest. Equal to a
kept answer is equal to Spark's; where something differs, or its rows are wanted, Spark itself is
asked, so a wrong digest costs time and no more. `make test-full` asks Spark for everything
(COFFER_FRESH_ANSWERS=1) and fails where a kept answer is another. COFFER_REGENERATE=1 writes
`testing/answers`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyspark

from coffer._find import cache_dir
from coffer_testing import made
from coffer_testing.answers import Answer, Digested, digests
from coffer_testing.runner import Driver, QueryFailed

FOLDER = Path(__file__).parents[1] / "answers"
FRESH = "COFFER_FRESH_ANSWERS"
# Where all processes of a run leave what they have asked, to be made the folder's files of.
ASKED = "COFFER_ANSWERS_ASKED"
# Rows of so few characters are kept as they are.
_FEW = 300


def _ask(spark: Driver, sql: str, conf: Mapping[str, str]) -> Answer:
    return spark.query(sql, dict(conf))


class Answers:
    """Of plaintext Spark, over `tables` and under `conf`. `start` starts it, or gives it when it is
    running; it is asked when an answer is not there, by `ask`. `name`: of the file in
    `testing/answers`. In place of tables: what they are made by."""

    def __init__(
        self,
        name: str,
        tables: Mapping[str, Path] | str,
        conf: Mapping[str, str],
        start: Callable[[], Driver],
        ask: Callable[[Driver, str, Mapping[str, str]], Answer] = _ask,
    ) -> None:
        self._name = name
        self._start = start
        self._ask_spark = ask
        content = tables if isinstance(tables, str) else _content(tables)
        self._over = _digest([pyspark.__version__, dict(conf), content])
        self._folder = cache_dir() / "answers" / f"{name}-{self._over}"
        self._known = _committed(name, self._over)
        self._asked: dict[str, Answer | Digested | QueryFailed] = {}

    def query(self, sql: str, conf: Mapping[str, str]) -> Answer | Digested:
        """What Spark answers. Raises the error that it ends with."""
        key = _digest([sql, dict(conf)])[:24]
        found = self._asked.get(key)
        if found is None:
            entry = None if _fresh() else self._entry(key)
            found = self._ask(key, sql, conf) if entry is None else self._of(entry, sql, conf)
            self._asked[key] = found
        if isinstance(found, QueryFailed):
            raise QueryFailed(found.kind, found.message, found.condition)
        return found

    def result(self, code: str, got: Any, names: Mapping[str, Any]) -> Any:
        """What Spark gives for `Driver.run`, of which only a digest is kept; where it is that of
        `got`, that is it."""
        key = _digest(["run", code, dict(names)])[:24]
        if not _fresh() and self._entry(key) == {"result": _digest(got)}:
            return got
        found = self._start().run(code, **names)
        self._keep(key, {"result": _digest(found)}, code)
        return found

    def _live(self, sql: str, conf: Mapping[str, str]) -> Answer:
        return self._ask_spark(self._start(), sql, conf)

    def _entry(self, key: str) -> Any:
        if key in self._known:
            return self._known[key]
        file = self._folder / f"{key}.json"
        return json.loads(file.read_text()) if file.is_file() else None

    def _of(self, entry: Any, sql: str, conf: Mapping[str, str]) -> Answer | Digested | QueryFailed:
        if "error" in entry:
            return QueryFailed(*entry["error"])
        if "rows" in entry:
            return Answer(entry["schema"], entry["rows"], 0.0)
        whole = functools.cache(lambda: self._live(sql, conf))
        return Digested(entry["schema"], entry["digests"], whole)

    def _ask(self, key: str, sql: str, conf: Mapping[str, str]) -> Answer | QueryFailed:
        answer: Answer | QueryFailed
        try:
            answer = self._live(sql, conf)
        except QueryFailed as failed:
            # Without a condition it is not the query that is wrong.
            if failed.condition is None:
                raise
            answer = failed
        self._keep(key, _entry(answer), sql)
        return answer

    def _keep(self, key: str, entry: Any, asked: str) -> None:
        if self._known.get(key, entry) != entry:
            raise AssertionError(
                f"testing/answers/{self._name}.json has another answer: run the test with "
                f"COFFER_REGENERATE=1: {asked}"
            )
        made.keep(self._folder / f"{key}.json", json.dumps(entry))
        if folder := os.environ.get(ASKED):
            line = {"name": self._name, "over": self._over, "key": key, "entry": entry}
            made.keep(Path(folder) / f"{self._name}-{key}.json", json.dumps(line))


def _fresh() -> bool:
    """Whether Spark is to be asked for everything."""
    return bool(os.environ.get(FRESH) or os.environ.get(ASKED))


def write(folder: Path) -> None:
    """Makes the files of `testing/answers` of what a run has asked."""
    files: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*.json")):
        line = json.loads(file.read_text())
        path = FOLDER / f"{line['name']}.json"
        if line["name"] not in files:
            before = json.loads(path.read_text()) if path.is_file() else {}
            same = before.get("over") == line["over"]
            files[line["name"]] = {
                "over": line["over"],
                "answers": before["answers"] if same else {},
            }
        files[line["name"]]["answers"][line["key"]] = line["entry"]
    FOLDER.mkdir(exist_ok=True)
    for name, content in files.items():
        lines = [
            f" {json.dumps(key)}: {json.dumps(entry, separators=(',', ':'))}"
            for key, entry in sorted(content["answers"].items())
        ]
        text = ",\n".join(lines)
        over = json.dumps(content["over"])
        (FOLDER / f"{name}.json").write_text(f'{{"over": {over}, "answers": {{\n{text}\n}}}}\n')


def _committed(name: str, over: str) -> dict[str, Any]:
    """What `testing/answers` has, if it is of these tables."""
    file = FOLDER / f"{name}.json"
    if os.environ.get("COFFER_REGENERATE") or not file.is_file():
        return {}
    content = json.loads(file.read_text())
    answers: dict[str, Any] = content["answers"] if content["over"] == over else {}
    return answers


def _entry(answer: Answer | QueryFailed) -> Any:
    """What is kept of an answer."""
    if isinstance(answer, QueryFailed):
        return {"error": [answer.kind, answer.message, answer.condition]}
    entry = {"schema": answer.schema, "digests": digests(answer)}
    few = len(json.dumps(answer.rows)) <= _FEW
    return {**entry, "rows": answer.rows} if few else entry


def _content(tables: Mapping[str, Path]) -> dict[str, str]:
    """Digests of the tables' files."""
    found = {}
    for name, path in tables.items():
        digest = hashlib.sha256()
        files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
        for file in files:
            digest.update(file.read_bytes())
        found[name] = digest.hexdigest()
    return found


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
