"""The examples of Spark's own documentation of its built-in functions (ExpressionInfo), with their
literals put into columns of tables, so that nothing of them is folded away while they are planned.

`prepare` runs in a driver of plaintext Spark, which has the registry; `run` in a sealed one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Between the columns of two examples that one query answers.
MARK = "|#|"
TAIL = "spark.coffer.client.tail"
AT_ONCE = 24
ZONE = {"spark.sql.session.timeZone": "America/Los_Angeles"}

_EXAMPLE = re.compile(r"(?s)(.+?);\n(.*)$")
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# What is a literal, and before it what looks like one and is none: intervals, types' sizes.
_LITERAL = re.compile(
    rf"""(?ix)
    (?P<none> \binterval\s+{_TEXT}(?:\s+\w+(?:\s+to\s+\w+)?)? | \binterval(?:\s+-?\d+\s+[a-z]+)+
      | \bas\s+\w+\s*\([^)]*\) | \btime\s*{_TEXT} )
    | (?P<value> (?:\b(?:date|timestamp|timestamp_ntz|timestamp_ltz|x)\s*|\br)?{_TEXT}
      | (?:(?<=[(,])-|(?<=[(,]\s)-|(?<![\w.]))(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?(?:bd|[lsydf])?\b
      | \b(?:true|false)\b )"""
)
_VALUES = re.compile(
    r"(?is)\bvalues\s+(?:\(|').*?\s+(?:as\s+)?(?P<name>tab|people)\s*\((?P<columns>[\w, ]+)\)"
)
_STORED = re.compile(
    r"(tinyint|smallint|int|bigint|float|double|boolean|string|binary|date|timestamp|timestamp_ntz"
    r"|decimal\(\d+,\d+\))$"
)


def prepare(spark: Any, folder: str, part: tuple[int, int]) -> dict[str, Any]:
    """Writes the tables `literals` and `rows` as Parquet under `folder`; returns their files, the
    texts of the literals by their columns, and the examples: the function, the query, its form over
    the tables and the documented answer.
    `part`: which of how many equal parts of them."""
    with _settings(spark, ZONE):
        return _prepare(spark, folder, _documented(spark)[part[0] :: part[1]])


def _prepare(spark: Any, folder: str, found: list[tuple[str, str, str]]) -> dict[str, Any]:
    texts = sorted(
        {m["value"] for _, sql, _ in found for m in _LITERAL.finditer(sql) if m["value"]}
    )
    columns = _literals(spark, texts, folder)
    tables = _rows(spark, [sql for _, sql, _ in found], folder)
    out = []
    for name, sql, answer in found:
        form, over = _over_columns(spark, sql, columns, tables)
        out.append({"name": name, "sql": sql, "form": form, "over": over, "answer": answer})
    return {
        "examples": out,
        "literals": {name: text for text, name in columns.items()},
        "files": {n: str(next(Path(folder, n).glob("*.parquet"))) for n in ("literals", "rows")},
    }


@contextlib.contextmanager
def _settings(spark: Any, conf: dict[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _documented(spark: Any) -> list[tuple[str, str, str]]:
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    names = registry.listFunction()
    found: dict[str, tuple[str, str, str]] = {}
    for i in range(names.size()):
        info = registry.lookupFunction(names.apply(i)).get()
        escaped = False
        for part in info.getExamples().split("  > ")[1:]:
            sql, answer = _EXAMPLE.match(part).groups()
            if sql.startswith("SET spark.sql.parser.escapedStringLiterals="):
                escaped = sql.endswith("true")
            elif not escaped:
                found.setdefault(sql, (names.apply(i).funcName(), sql, _trimmed(answer)))
    return sorted(found.values())


def _trimmed(text: str) -> str:
    return re.sub(r"\n\s+", "\n", text).strip()


def _literals(spark: Any, texts: list[str], folder: str) -> dict[str, str]:
    """A table of one row with a column for each literal that a table can hold."""
    types = {}
    for text in texts:
        try:
            types[text] = spark.sql(f"SELECT {text} AS c").schema[0].dataType.simpleString()
        except Exception:
            continue
    columns = {
        t: f"c{i}" for i, t in enumerate(t for t in texts if _STORED.match(types.get(t, "")))
    }
    chosen = ", ".join(f"{text} AS {name}" for text, name in columns.items())
    _write(spark, f"SELECT {chosen}", folder, "literals")
    return columns


def _rows(spark: Any, queries: list[str], folder: str) -> dict[str, str]:
    """One table with the rows of all VALUES, each of its own number; by the text of VALUES, the
    query that has them."""
    found: dict[str, list[str]] = {}
    for sql in queries:
        for values in _VALUES.finditer(sql):
            found.setdefault(values[0], [c.strip() for c in values["columns"].split(",")])
    parts, tables = [], {}
    for number, (text, names) in enumerate(found.items()):
        shown = spark.sql(f"SELECT * FROM {text}").schema
        types = [field.dataType.simpleString() for field in shown]
        types = [("string" if "agg" in text else "int") if t == "void" else t for t in types]
        if not all(_STORED.match(t) for t in types):
            continue
        mine = [f"v{number}_{i}" for i in range(len(names))]
        parts.append((text, number, list(zip(names, mine, types, strict=True))))
        chosen = ", ".join(f"{m} AS {n}" for m, n in zip(mine, names, strict=True))
        tables[text] = f"(SELECT {chosen} FROM rows WHERE t = {number})"
    every = {mine: kind for _, _, columns in parts for _, mine, kind in columns}
    union = []
    for text, number, columns in parts:
        have = {mine: name for name, mine, _ in columns}
        chosen = ", ".join(
            f"CAST({have.get(mine, 'NULL')} AS {kind}) AS {mine}" for mine, kind in every.items()
        )
        union.append(f"SELECT {number} AS t, {chosen} FROM {text}")
    _write(spark, " UNION ALL ".join(union), folder, "rows")
    return tables


def _write(spark: Any, sql: str, folder: str, name: str) -> None:
    path = str(Path(folder, name))
    spark.sql(sql).coalesce(1).write.mode("overwrite").parquet(path)
    spark.read.parquet(path).createOrReplaceTempView(name)


def _over_columns(
    spark: Any, sql: str, columns: dict[str, str], tables: dict[str, str]
) -> tuple[str, bool]:
    """The query with as many of its literals as Spark lets be columns, and whether any are."""
    values = list(_VALUES.finditer(sql))
    if values:
        if not all(v[0] in tables for v in values):
            return sql, False
        form = _VALUES.sub(lambda v: f"{tables[v[0]]} AS {v['name']}", sql)
        return form, True
    places = [m for m in _LITERAL.finditer(sql) if m["value"] in columns]
    if not sql.upper().startswith("SELECT") or not places:
        return sql, False

    def form(chosen: list[re.Match[str]]) -> str:
        out, end = [], 0
        for place in chosen:
            out += [sql[end : place.start("value")], columns[place["value"]]]
            end = place.end("value")
        text = "".join([*out, sql[end:]])
        if table := re.match(r"(?is)select\s+\*\s+from\s+(\w+\(.*\))$", text):
            return f"SELECT f.* FROM literals, LATERAL {table[1]} AS f"
        return f"{text} FROM literals"

    # Columns of a row without a table: analysis is faster so, and says the same.
    def resolved(chosen: list[re.Match[str]]) -> bool:
        made = sorted({(columns[c["value"]], c["value"]) for c in chosen})
        row = ", ".join(f"{text} AS {name}" for name, text in made)
        try:
            spark._jsparkSession.sql(form(chosen).replace("FROM literals", f"FROM (SELECT {row})"))
        except Exception:
            return False
        return True

    kept = places
    if not resolved(kept):
        kept = []
        for place in places:
            if resolved([*kept, place]):
                kept.append(place)
    if not kept:
        return sql, False
    plan = spark._jsparkSession.sql(form(kept)).queryExecution().optimizedPlan().toString()
    used = re.search(r"\bc\d+#", re.sub(r"(?m)^.*Relation \[.*$", "", plan))
    return form(kept), used is not None


# ---- the sealed side ----------------------------------------------------------------------------


def run(spark: Any, examples: list[dict[str, Any]], tables: dict[str, str]) -> list[dict[str, Any]]:
    """What each example gives: `where` it ran (`engine`, `client`) and its answer's lines, or what
    it was refused with. Those of one row are answered together, as far as they can be."""
    for name, path in tables.items():
        spark.read.format("coffer").load(path).createOrReplaceTempView(name)
    # `HiveResult` sets the style of binary where there is none.
    with _settings(spark, {**ZONE, TAIL: "on", "spark.sql.binaryOutputStyle": "UTF-8"}):
        return _run(spark, examples)


def _run(spark: Any, examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # First what engines have by themselves, then the rest.
    found: dict[str, dict[str, Any]] = {}
    for site in ("off", "on"):
        spark.conf.set(TAIL, site)
        for source, some in _together([e for e in examples if e["sql"] not in found]).items():
            for start in range(0, len(some), AT_ONCE):
                _answer(spark, source, some[start : start + AT_ONCE], site, found)
    return [found[e["sql"]] for e in examples]


_ONE_ROW = re.compile(
    r"(?is)select\s+(?P<what>.*)\s+from\s+(?P<source>literals|\(select v[^()]*\) as \w+)$"
)


def _together(examples: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """By what they read: examples that give a row, with others of the same rows."""
    out: dict[str, list[dict[str, Any]]] = {}
    for example in examples:
        one = _ONE_ROW.match(example["form"])
        single = one is None or re.search(
            r"(?i)\bover\s*\(|explode|inline|stack|json_tuple|lateral|\bdistinct\b|error",
            example["form"],
        )
        out.setdefault(example["sql"] if single else one["source"], []).append(example)
    return out


def _answer(
    spark: Any,
    source: str,
    examples: list[dict[str, Any]],
    site: str,
    found: dict[str, dict[str, Any]],
) -> None:
    """Answers a few in one query; in two halves where that fails."""
    if len(examples) == 1:
        sql = examples[0]["form"]
    else:
        parts = [_ONE_ROW.match(e["form"])["what"] for e in examples]
        sql = f"SELECT {f', {MARK!r}, '.join(parts)} FROM {source}"
    try:
        plan = spark._jsparkSession.sql(sql).queryExecution().executedPlan()
        lines = spark._jvm.org.apache.spark.sql.execution.HiveResult.hiveResultString(plan)
        said = "\n".join(lines.apply(i) for i in range(lines.size()))
    except Exception as error:
        if len(examples) > 1:
            half = len(examples) // 2
            _answer(spark, source, examples[:half], site, found)
            _answer(spark, source, examples[half:], site, found)
            return
        message = _message(error)
        if site == "on" or "COFFER_UNSUPPORTED" not in message:
            where = "engine" if site == "off" else "client"
            found[examples[0]["sql"]] = {"where": where, "answer": None, "error": message}
        return
    answers = said.split(f"\t{MARK}\t") if len(examples) > 1 else [said]
    for example, answer in zip(examples, answers, strict=True):
        where = "engine" if site == "off" else "client"
        found[example["sql"]] = {"where": where, "answer": _trimmed(answer), "error": None}


def _message(error: Exception) -> str:
    thrown = getattr(error, "java_exception", None)
    return thrown.toString() if thrown is not None else str(error)
