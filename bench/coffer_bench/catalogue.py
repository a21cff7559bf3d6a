"""All benchmarks by name: what each measures, how its result is shown, and its smallest form, which
proves that it still runs (`--quick`)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coffer_bench import (
    cipher,
    encrypt,
    experiment,
    files,
    functions,
    growth,
    hardware,
    keys,
    queries,
    report,
    safespark,
    schemes,
    sides,
    soak,
    storage,
    tax,
    terasort,
    wordcount,
)

Options = argparse.Namespace
Result = dict[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """`quick`: the options of its smallest form. `sound`: whether all answers were right."""

    run: Callable[[Options, Path], Result]
    quick: dict[str, Any]
    show: Callable[[Result], None] = experiment.show
    sound: Callable[[Result], bool] = experiment.sound
    defaults: dict[str, Any] = field(default_factory=dict)


def _resources(options: Options) -> sides.Resources:
    scale = float(options.sf)
    partitions = options.partitions or max(4, round(5 * scale) if scale > 1 else 4)
    return sides.Resources.of(options.cores, partitions, options.engine_memory, options.policy)


def _candidates(tune: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in tune.split(",")) if tune else ()
    except ValueError as error:
        raise SystemExit(f"error: {error}\nhint: --tune 4,8,16") from error


def _suite(name: str) -> Callable[[Options, Path], Result]:
    def run(options: Options, folder: Path) -> Result:
        chosen = options.sides or ("spark,coffer" if options.policy else "spark,coffer,unsealed")
        names = [*chosen.split(","), *(options.peer.split(",") if options.peer else [])]
        unknown = [side for side in names if side not in sides.EVERY]
        if unknown:
            raise SystemExit(
                f"error: no side {unknown[0]!r}\nhint: there are {', '.join(sides.EVERY)}"
            )
        if names[0] in sides.PEERS:
            raise SystemExit(
                f"error: what {names[0]} answers is no measure for the others\n"
                "hint: name spark first"
            )
        if options.policy and name != "tpch":
            raise SystemExit("error: --policy names protections of TPC-H's columns")
        suite = queries.SUITES[name]
        try:
            wanted = suite.choose(options.queries)
        except ValueError as error:
            raise SystemExit(f"error: {error}\nhint: --queries 1,6,12-15, or all") from error
        rounds = queries.Rounds(max(1, options.warm_ups), options.runs, _candidates(options.tune))

        def result(measured: report.Measured) -> Result:
            return report.assemble(name, options.sf, options.runs, measured)

        def keep(measured: report.Measured) -> None:
            # What a run that is cut short has measured is there.
            files.write(options.json, {**result(measured), "whole": False})

        return result(
            queries.measure(
                suite, options.sf, wanted, rounds, folder, names, _resources(options), keep
            )
        )

    return run


def _encrypt(options: Options, folder: Path) -> Result:
    measured = encrypt.measure(options.sf, options.runs, folder)
    return report.assemble("encrypt", options.sf, options.runs, measured)


def _storage(options: Options, folder: Path) -> Result:
    rounds = queries.Rounds(max(1, options.warm_ups), options.runs)
    return storage.measure(options.sf, options.queries, rounds, folder, _resources(options))


def _growth(options: Options, folder: Path) -> Result:
    small = {
        "scales": ("0.01", "0.02"),
        "files": (1, 3),
        "partitions": (2, 4),
        "at_once": (1, 2),
        "scale": "0.01",
    }
    return growth.measure(
        options.runs,
        options.warm_ups,
        folder,
        _resources(options),
        **(small if options.quick else {}),  # type: ignore[arg-type]
    )


def _wordcount(options: Options, folder: Path) -> Result:
    executors = [int(number) for number in options.executors.split(",")]
    return wordcount.measure(
        options.gb, options.runs, options.warm_ups, options.seed, executors, folder
    )


def _safespark(options: Options, folder: Path) -> Result:
    wanted = safespark.QUERIES if options.queries == "all" else options.queries
    loads = 1 if options.quick else 3
    return safespark.measure(options.sf, options.runs, options.warm_ups, folder, wanted, loads)


def _tax(options: Options, folder: Path) -> Result:
    levels = tax.SHIPPED if options.quick else tax.LEVELS
    return tax.measure(
        options.sf,
        options.queries,
        options.runs,
        options.warm_ups,
        folder,
        _resources(options),
        levels,
    )


_TINY: dict[str, Any] = {"sf": "0.01", "runs": 1, "warm_ups": 0}
_TINY_TPCH = {**_TINY, "queries": "1,6"}

BENCHMARKS: dict[str, Benchmark] = {
    "tpch": Benchmark(
        _suite("tpch"), {**_TINY_TPCH, "sides": "spark,spark-rewritten,coffer"}, show=report.show
    ),
    "tpcds": Benchmark(
        _suite("tpcds"),
        {**_TINY, "queries": "3,42", "sides": "spark,coffer"},
        show=report.show,
    ),
    "encrypt": Benchmark(_encrypt, _TINY, show=report.show),
    "schemes": Benchmark(
        lambda options, _: schemes.measure(options.runs, options.rows),
        {"runs": 1, "rows": 10_000},
        show=print,
        defaults={"rows": schemes.ROWS},
    ),
    "keys": Benchmark(
        lambda options, folder: keys.measure(
            folder, options.tables, 20 if options.quick else keys.FILES
        ),
        {"tables": 4},
        show=print,
    ),
    "storage": Benchmark(
        _storage,
        {**_TINY_TPCH, "queries": "6"},
        show=storage.show,
    ),
    "safespark": Benchmark(
        _safespark,
        {**_TINY, "queries": "31,82"},
        defaults={"runs": 10},
    ),
    "terasort": Benchmark(
        lambda options, folder: terasort.measure(
            options.gb, options.runs, options.warm_ups, options.seed, folder
        ),
        {"gb": 0.005, "runs": 1, "warm_ups": 0},
        defaults={"warm_ups": 1},
    ),
    "cipher": Benchmark(
        lambda options, _: cipher.measure(options.runs, quick=options.quick), {"runs": 1}
    ),
    "wordcount": Benchmark(
        _wordcount,
        {"gb": 0.005, "runs": 1, "warm_ups": 0},
        defaults={"warm_ups": 1},
    ),
    "growth": Benchmark(_growth, _TINY, defaults={"warm_ups": 1}),
    "tax": Benchmark(_tax, _TINY_TPCH),
    "hardware": Benchmark(
        lambda options, folder: hardware.measure(
            options.sf, options.queries, options.runs, options.warm_ups, folder
        ),
        _TINY_TPCH,
        show=hardware.show,
    ),
    "functions": Benchmark(
        lambda options, folder: functions.measure(
            options.rows, options.runs, folder, options.queries, 8 if options.quick else None
        ),
        {"rows": 20_000, "runs": 1},
        defaults={"rows": 500_000, "runs": 3},
    ),
    "soak": Benchmark(
        lambda options, folder: soak.measure(
            options.sf,
            options.queries,
            options.count,
            folder,
            _resources(options),
            every=20 if options.quick else soak.HUNDRED,
        ),
        {"sf": "0.01", "queries": "1,6,14", "count": 40},
        defaults={"sf": "0.01"},
    ),
}
