"""What each of Spark's functions costs a row: by Coffer's engine, by plaintext Spark in `local[1]`
over the same rows, and by DataFusion's own kernel where it has a function of the name that takes
the same arguments; and, of functions that run at the client, what the client tail costs.

The calls are those of Spark's documentation (`coffer_testing.examples`), their literals put into
columns of a table, every tenth row NULL; where that is refused, as patterns must be literals and
maps have no NULL for a key, one of them is a column and the others stay. Aggregates have their
documented rows many times over. A query takes the greatest of what a function gives, of arrays and
maps the greatest length, and counts what else has no order. From its time that of counting the same
columns is subtracted, each the least of its runs, which take turns: nanoseconds for each row are of
the difference. What costs little is computed over the table several times over. How far the second
least of the runs is from the least is the noise: what is not slower by more counts as no slower. Of
the client tail the times are compared as they are.
"""

from __future__ import annotations

import re
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coffer_bench import experiment
from coffer_testing.examples import TAIL, ZONE
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

SIDES = ("spark", "coffer")
TABLE = Path(__file__).parents[2] / "scripts" / "docs" / "functions.toml"
OF_DATAFUSION, OF_TAIL = 1.5, 1.3
# Below this, a difference is noise: nanoseconds for each row, and a part of the other's.
NOISE_NS, NOISE = 2.0, 0.05
# What takes so long is run once; what takes less than that is computed over so many times the rows:
# seconds.
SLOW_S, FAST_S, TIMES = 5.0, 0.5, 4
_CALL = re.compile(
    r"(?is)select\s+(?P<what>.*?)\s+from\s+(?:literals"
    r"|\(select (?P<named>v.*) from rows where t = (?P<number>\d+)\) as \w+)$"
)
# What gives other rows than it takes, or more than one value of a row.
_NOT_ONE = re.compile(
    r"(?i)\bover\s*\(|explode|inline|stack|json_tuple|lateral|distinct|error|assert"
)
# Of these the engine takes no greatest one. How many of them are not NULL says Spark's planner by
# itself where none can be, so where they have a length, that is taken.
_NO_ORDER = ("map<", "array<", "struct<", "variant", "interval", "void")
_LENGTH = ("map<", "array<")
_PREPARE = "from coffer_testing import examples; result = examples.prepare(spark, folder, part)"
_TYPES = """
result = {}
for name, sql in queries.items():
    try:
        fields = spark.sql(sql).schema.fields
        result[name] = [field.dataType.simpleString() for field in fields]
    except Exception as error:
        result[name] = []
"""
_GROW = """
for name, columns in tables.items():
    few = spark.read.parquet(source)
    if name == "literals":
        chosen = [f"IF(id % 10 = 9, NULL, {c}) AS {c}" for c in columns]
    else:
        few = few.where("t = " + name.removeprefix("rows"))
        chosen = columns
    many = spark.range(0, max(1, rows // few.count()), 1, 1).crossJoin(few)
    many.selectExpr(*chosen).write.parquet(folder + "/" + name)
"""


def measure(
    rows: int, runs: int, folder: Path, wanted: str = "all", most: int | None = None
) -> dict[str, Any]:
    """The JSON object. `wanted`: names of functions; `most`: so many of them, spread evenly."""
    listed = tomllib.loads(TABLE.read_text())
    with Driver({}, sealed=False, log=folder / "made.log", conf=_conf(4)) as spark:
        calls = _calls(spark, folder, listed, wanted, most)
        _grow(spark, folder, calls, rows)
    tables = {name: folder / name for name in sorted({call.table for call in calls.values()})}
    owner = Owner.create(folder / "trusted")
    sealed = owner.encrypt(tables, folder / "sealed")
    timed: dict[str, _Timed] = {}
    refused: dict[str, str] = {}
    with (
        Driver(tables, sealed=False, log=folder / "spark.log", conf=_conf(4), **_ONE) as spark,
        Driver(
            sealed,
            sealed=True,
            log=folder / "coffer.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={**_conf(2), "spark.coffer.engine.memory": "2GiB"},
            **_ONE,
        ) as coffer,
    ):
        drivers = {"spark": spark, "coffer": coffer}
        for name, call in list(calls.items())[:1]:
            # What a driver does once would be counted for the first function.
            with suppress(QueryFailed):
                _time(call, drivers, runs, tail=listed[name]["runs"] != "engine")
        for at, name in enumerate(list(calls)):
            tail = listed[name]["runs"] != "engine"
            for call in (calls[name], *calls[name].narrower()):
                try:
                    timed[name] = _time(call, drivers, runs, tail=tail)
                except QueryFailed as failure:
                    said = refused.setdefault(name, str(failure).splitlines()[0][:200])
                    continue
                refused.pop(name, None)
                calls[name] = call
                said = ", ".join(f"{side} {timed[name].ns(side, rows):g}" for side in SIDES)
                break
            print(f"{at + 1} of {len(calls)}: {name}: {said}", file=sys.stderr)
    engine = {name: call for name, call in calls.items() if listed[name]["runs"] == "engine"}
    _datafusion({n: (engine[n], timed[n]) for n in timed if n in engine}, tables, runs)
    return _result(rows, runs, calls, listed, timed, refused)


_ONE = {"master": "local[1]"}


def _conf(gigabytes: int) -> dict[str, str]:
    return {**ZONE, "spark.driver.memory": f"{gigabytes}g", "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True)
class _Call:
    """A function's call over columns of a table. `columns`: by the names that `what` has for them.
    `taken`: the aggregate of `e`, which is a row's `what`, or of an aggregate itself. `literals`:
    the texts of columns that hold a literal."""

    what: str
    table: str
    columns: dict[str, str]
    taken: str
    literals: dict[str, str] = field(default_factory=dict)

    def narrower(self) -> Iterator[_Call]:
        """The same with one column each, and literals for the others."""
        if len(self.columns) < 2 or self.table != "literals":
            return
        for kept in self.columns:
            what = re.sub(
                r"\bc\d+\b",
                lambda c, kept=kept: c[0] if c[0] == kept else self.literals.get(c[0], c[0]),
                self.what,
            )
            yield replace(self, what=what, columns={kept: kept})

    def sql(self, times: int = 1) -> str:
        """`times`: over so many times the rows."""
        if self.table != "literals":
            return f"SELECT {self.taken.replace('(e)', f'({self.what})')} FROM {self._rows(times)}"
        return f"SELECT {self.taken} FROM (SELECT {self.what} AS e FROM {self._rows(times)})"

    def base(self, times: int = 1) -> str:
        """Reads the same columns, and does nothing with them."""
        counted = ", ".join(f"count({c})" for c in self.columns)
        return f"SELECT {counted or 'count(*)'} FROM {self._rows(times)}"

    def _rows(self, times: int) -> str:
        one = (
            f"SELECT {', '.join(f'{c} AS {n}' for n, c in self.columns.items())} FROM {self.table}"
        )
        return f"({' UNION ALL '.join([one] * times)}) AS tab"


class _Timed:
    """Seconds of the runs of a call and of its base, by side."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.call: dict[str, list[float]] = {}
        self.base: dict[str, list[float]] = {}

    def ns(self, side: str, rows: int) -> float:
        """Nanoseconds for each row."""
        over = max(0.0, min(self.call[side]) - min(self.base[side]))
        return round(1e9 * over / (rows * self.times), 2)

    def noise(self, side: str, rows: int) -> float:
        """How far that may be from another measurement, in nanoseconds for each row."""
        least = [sorted(taken)[:2] for taken in (self.call[side], self.base[side])]
        apart = sum(two[-1] - two[0] for two in least)
        return round(1e9 * apart / (rows * self.times), 2)


def _calls(
    spark: Driver, folder: Path, listed: dict[str, Any], wanted: str, most: int | None
) -> dict[str, _Call]:
    """By function the first of its examples that can be timed."""
    made = spark.run(_PREPARE, folder=str(folder / "few"), part=[0, 1])
    names = set(listed) if wanted == "all" else set(wanted.split(","))
    forms: dict[str, re.Match[str]] = {}
    for example in made["examples"]:
        name, form = example["name"], example["form"]
        found = _CALL.match(form)
        if name in forms or name not in names or not example["over"] or found is None:
            continue
        if listed.get(name, {}).get("runs") not in ("engine", "client") or _NOT_ONE.search(form):
            continue
        forms[name] = found
    if most is not None and len(forms) > most:
        step = len(forms) / most
        kept = [list(forms)[int(at * step)] for at in range(most)]
        forms = {name: forms[name] for name in kept}
    types = spark.run(_TYPES, queries={name: found[0] for name, found in forms.items()})
    calls = {}
    for name, found in forms.items():
        match types[name]:
            case [kind]:
                what = re.sub(r"(?i)\s+as\s+\w+$", "", found["what"])
                calls[name] = _call(what, found, kind, made["literals"])
    return calls


def _call(what: str, found: re.Match[str], kind: str, literals: dict[str, str]) -> _Call:
    length = kind.startswith(_LENGTH)
    if found["number"]:
        columns = dict(reversed(column.split(" AS ")) for column in found["named"].split(", "))
        taken = "cardinality(e)" if length else "(e)"
        return _Call(what, f"rows{found['number']}", columns, taken)
    # The aggregate over values of a type, for which all of them are computed.
    if not any(word in kind for word in _NO_ORDER):
        taken = "max(e)"
    else:
        taken = "max(cardinality(e))" if length else "count(e)"
    used = sorted(set(re.findall(r"\bc\d+\b", what)))
    return _Call(what, "literals", {c: c for c in used}, taken, literals)


def _grow(spark: Driver, folder: Path, calls: dict[str, _Call], rows: int) -> None:
    """Makes the tables as large as they shall be, with the columns that calls have."""
    tables: dict[str, set[str]] = defaultdict(set)
    for call in calls.values():
        tables[call.table].update(call.columns.values())
    for source, names in (
        ("literals", [name for name in tables if name == "literals"]),
        ("rows", [name for name in tables if name != "literals"]),
    ):
        spark.run(
            _GROW,
            source=str(next((folder / "few" / source).glob("*.parquet"))),
            folder=str(folder),
            tables={name: sorted(tables[name]) or ["c0"] for name in names},
            rows=rows,
        )


def _time(call: _Call, drivers: dict[str, Driver], runs: int, *, tail: bool) -> _Timed:
    conf = {TAIL: "on" if tail else "off"}

    def run(sql: str, side: str) -> float:
        return drivers[side].query(sql, conf if side == "coffer" else {}).seconds

    slowest = max(run(call.sql(), side) for side in SIDES)
    timed = _Timed(TIMES if slowest < FAST_S and call.columns and not tail else 1)
    call_of, base_of = call.sql(timed.times), call.base(timed.times)
    slow = slowest > SLOW_S
    timed.base = {side: [] for side in SIDES}

    def both(side: str, counts: bool) -> float:
        base = run(base_of, side)
        if counts:
            timed.base[side].append(base)
        return run(call_of, side)

    # Two of what is slow too: noise is what they differ by.
    timed.call = experiment.in_turns(SIDES, 2 if slow else runs, 0 if slow else 1, both)
    return timed


def _datafusion(calls: dict[str, tuple[_Call, _Timed]], tables: dict[str, Path], runs: int) -> None:
    """Adds the same of DataFusion by itself on one core, where it takes the call."""
    try:
        import datafusion
    except ImportError:
        print("note: no DataFusion for Python: its kernels are left out", file=sys.stderr)
        return
    config = datafusion.SessionConfig().with_target_partitions(1)
    context = datafusion.SessionContext(config)
    for name, path in tables.items():
        context.register_parquet(name, str(path))

    def run(sql: str) -> float:
        start = time.perf_counter()
        context.sql(sql).collect()
        return time.perf_counter() - start

    for call, timed in calls.values():
        try:
            sql, base = call.sql(timed.times), call.base(timed.times)
            found = [(run(base), run(sql)) for _ in range(runs + 1)][1:]
        except BaseException as error:  # a panic of Rust is none of Exception
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            timed.base["datafusion"] = [base for base, _ in found]
            timed.call["datafusion"] = [call for _, call in found]


def _result(
    rows: int,
    runs: int,
    calls: dict[str, _Call],
    listed: dict[str, Any],
    timed: dict[str, _Timed],
    refused: dict[str, str],
) -> dict[str, Any]:
    engine: dict[str, dict[str, float]] = {}
    noise: dict[str, dict[str, float]] = {}
    tail: dict[str, dict[str, float]] = {}
    for name, times in timed.items():
        if listed[name]["runs"] == "engine":
            engine[name] = {side: times.ns(side, rows) for side in times.call}
            noise[name] = {side: times.noise(side, rows) for side in times.call}
        else:
            tail[name] = {side: round(min(times.call[side]), 4) for side in SIDES}
            tail[name]["ratio"] = round(tail[name]["coffer"] / tail[name]["spark"], 3)

    def slower_than(side: str, factor: float) -> list[str]:
        return [
            name
            for name, found in engine.items()
            if side in found
            and found["coffer"] - factor * found[side] * (1 + NOISE)
            > max(NOISE_NS, sum(timed[name].noise(one, rows) for one in ("coffer", side)))
        ]

    slower, than_kernel = slower_than("spark", 1.0), slower_than("datafusion", OF_DATAFUSION)
    worst = max((found["ratio"] for found in tail.values()), default=None)
    settings = {"rows": rows, "runs": runs, "functions": len(timed), "cores": 1}
    return {
        **experiment.head("functions", SIDES, settings),
        "calls": {name: calls[name].sql() for name in timed},
        "seconds": {},
        "ns_per_row": engine,
        "noise_ns_per_row": noise,
        "tail": tail,
        "datafusion": _version() if any("datafusion" in e for e in engine.values()) else None,
        "slower_than_spark": slower,
        "slower_than_datafusion": than_kernel,
        "refused": refused,
        "targets": [
            experiment.at_most("functions slower than plaintext Spark's", len(slower), 0),
            experiment.at_most(
                f"functions slower than {OF_DATAFUSION} times DataFusion's", len(than_kernel), 0
            ),
            experiment.at_most("client tail, worst of plaintext Spark", worst, OF_TAIL),
        ],
        "tables": {
            "Nanoseconds for each row, in the engine": engine,
            "Seconds, in the client tail": tail,
        },
        "left_out": [
            f"{len(refused)} functions whose call is refused in each form: {', '.join(refused)}."
            if refused
            else "Nothing was refused.",
            f"Differences below {NOISE_NS:g} ns, {NOISE:.0%} and what the two least of the runs "
            "differ by are noise. Functions without an "
            "example of a single value over columns are not in it.",
            f"What takes more than {SLOW_S:g} s is run twice, without warm-up; what takes less "
            f"than {FAST_S:g} s is computed over {TIMES} times the rows.",
        ],
    }


def _version() -> str:
    import datafusion

    return str(datafusion.__version__)
