"""How fast bytes are encrypted, frame by frame: by the JDK, by Commons Crypto as Spark has it
(through OpenSSL where that loads, and through JCE), by OpenSSL itself, by AWS-LC, and by Coffer's
sealing, which is AWS-LC's AES-GCM with headers, counters and derived keys around it.

Keys have 256 bits. A rate is the median of the runs, each of a third of a second after as long to
warm up; its share is of AWS-LC's AES-GCM over frames of the same size and as many threads.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from coffer_bench import experiment

PROGRAM = "coffer-cipher-bench"
SOURCE = Path(__file__).parents[1] / "cipher" / "CipherBench.java"
SIZES = tuple(1 << power for power in range(10, 24))  # 1 KB to 8 MB
QUICK_SIZES = (1 << 10, 1 << 16, 1 << 20)
THREADS = (1, 2)
OF_RAW = 0.95
_MODES = ("ctr", "cbc", "gcm")


def measure(runs: int, *, quick: bool = False) -> dict[str, Any]:
    """The JSON object."""
    sizes = QUICK_SIZES if quick else SIZES
    seconds = 0.05 if quick else 0.3
    rates: dict[tuple[str, str, int, int], list[float]] = {}
    refused: dict[str, str] = {}
    for run in range(runs):
        print(f"run {run + 1} of {runs}", file=sys.stderr)
        for line in [*_ours(seconds, sizes), *_java(seconds, sizes), *_openssl(seconds, sizes)]:
            library, mode = line["library"], line["mode"]
            if "error" in line:
                refused[f"{library} {mode}"] = line["error"]
                continue
            at = (library, mode, line["size"], line["threads"])
            rates.setdefault(at, []).append(line["bytes_per_s"])
    medians = {at: statistics.median(found) for at, found in rates.items()}
    ours = {at: rate for at, rate in medians.items() if at[0] == "coffer"}
    raw = {(size, threads): medians["aws-lc", "gcm", size, threads] for _, _, size, threads in ours}
    settings = {"runs": runs, "seconds": seconds, "sizes": list(sizes), "threads": list(THREADS)}
    by_name: dict[str, dict[str, list[float]]] = {}
    for (library, mode, size, threads), found in rates.items():
        by_name.setdefault(f"{library} {mode}", {})[f"{size}x{threads}"] = found
    return {
        **experiment.head("cipher", [], settings),
        "bytes_per_s": by_name,
        "not_loaded": refused,
        "targets": [
            experiment.at_least(
                f"frames of 1 MB on {threads} core{'s' * (threads > 1)}, of raw AES-GCM",
                medians["coffer", "gcm", 1 << 20, threads] / raw[1 << 20, threads],
                OF_RAW,
            )
            for threads in THREADS
        ],
        "tables": {
            **{
                f"GB/s by frame size, {threads} core{'s' * (threads > 1)}": _table(
                    medians, threads, lambda rate, _: round(rate / 1e9, 3)
                )
                for threads in THREADS
            },
            "Share of raw AES-GCM, one core": _table(
                medians, 1, lambda rate, size: round(rate / raw[size, 1], 3)
            ),
        },
        "left_out": [f"{name} does not load here: {why}" for name, why in refused.items()],
    }


def _table(medians: dict[tuple[str, str, int, int], float], threads: int, shown: Any) -> Any:
    table: dict[str, dict[str, Any]] = {}
    for (library, mode, size, count), rate in sorted(medians.items()):
        if count == threads:
            row = table.setdefault(f"{library} {mode}", {})
            row[f"{size >> 10} KB"] = shown(rate, size)
    return table


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _lines(command: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=3600)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _ours(seconds: float, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    program = Path(os.environ["CARGO_TARGET_DIR"]) / "release" / PROGRAM
    if not program.exists():
        raise SystemExit(f"error: no program at {program}\nhint: run make build")
    return _lines([str(program), str(seconds), _list(sizes), _list(THREADS)])


def _java(seconds: float, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    import pyspark

    [jar] = (Path(pyspark.__file__).parent / "jars").glob("commons-crypto-*.jar")
    java = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    # A server's compiler, whatever tests give their JVMs.
    command = [java, "-XX:TieredStopAtLevel=4", "-cp", str(jar), str(SOURCE)]
    return _lines([*command, str(seconds), _list(sizes), _list(THREADS)])


def _openssl(seconds: float, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """By OpenSSL's own speed test, where it is installed: whole seconds, one core."""
    program = shutil.which("openssl")
    if program is None:
        return [
            {"library": "openssl", "mode": mode, "error": "no program openssl"} for mode in _MODES
        ]
    lines = []
    for mode in _MODES:
        for size in sizes:
            command = [program, "speed", "-mr", "-elapsed", "-evp", f"aes-256-{mode}"]
            command += ["-bytes", str(size), "-seconds", str(max(1, round(seconds)))]
            done = subprocess.run(
                command, capture_output=True, check=True, text=True, timeout=600
            ).stdout
            [rate] = [line.rpartition(":")[2] for line in done.splitlines() if line[:3] == "+F:"]
            lines.append(
                {
                    "library": "openssl",
                    "mode": mode,
                    "size": size,
                    "threads": 1,
                    "bytes_per_s": float(rate),
                }
            )
    return lines
