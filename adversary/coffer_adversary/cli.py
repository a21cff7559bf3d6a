"""`adversary/run`: how many runs, from which seed, where the counts go."""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
import tempfile
import time
from fnmatch import fnmatchcase
from pathlib import Path

from coffer_adversary import below, expected, registry
from coffer_adversary.attack_cluster import AttackCluster, Kind
from coffer_adversary.orchestrator import Campaign
from coffer_adversary.report import Report

_LIVE_PERCENT = 30  # of the runs go through Spark, the rest below it


def main(argv: list[str]) -> int:
    """0 when nothing went wrong, every mutation was applied at least once, each that is not
    declared harmless was detected, and none gave right rows oftener than is declared of it; 1 when
    not, or when the run was interrupted; 2 when it could not be begun."""
    arguments = _parser().parse_args(argv)
    mutations = registry.mutations()
    scenarios: frozenset[str] = frozenset()
    if arguments.only:
        names = {*(mutation.name for mutation in mutations), *below.SCENARIOS}
        patterns = set(arguments.only.split(","))
        wanted = {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}
        unknown = {
            pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)
        }
        if unknown:
            print(
                f"error: no mutation {sorted(unknown)[0]!r}\nhint: adversary/run --list",
                file=sys.stderr,
            )
            return 2
        mutations = [mutation for mutation in mutations if mutation.name in wanted]
        scenarios = frozenset(wanted & set(below.SCENARIOS))
    if arguments.list:
        listed = [(mutation.name, " ".join(sorted(mutation.needs))) for mutation in mutations]
        for name, needs in [
            *listed,
            *(
                (name, "below")
                for name in scenarios or below.SCENARIOS
                if scenarios or not arguments.only
            ),
        ]:
            declared = expected.declaration(name)
            what = f"harmless: {declared.reason}" if not declared.codes else "must be detected"
            if declared.benign:
                what += f", but for {declared.benign.share:.0%} at most: {declared.benign.reason}"
            print(f"{name:40} {needs:14} {what}")
        return 0

    share = arguments.runs if arguments.only else arguments.runs * _LIVE_PERCENT // 100
    live = share if arguments.live is None else arguments.live
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="coffer-attack-", dir=arguments.folder))

    made: list[AttackCluster] = []

    def cluster(kind: Kind) -> AttackCluster:
        made.append(
            AttackCluster(
                folder / kind, kind=kind, scale=arguments.scale, like=made[0] if made else None
            )
        )
        return made[-1]

    campaign = Campaign(mutations, cluster, seed=arguments.seed)
    report = campaign.report
    interrupted = False
    try:
        campaign.until(live, arguments.seconds)
    except KeyboardInterrupt:
        # What was counted until now counts.
        interrupted = True
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if report.applied < arguments.runs and not arguments.only and not interrupted:
        below.add(report, arguments.runs - report.applied, arguments.seed)
    elif scenarios and not interrupted:
        below.add(report, arguments.runs, arguments.seed, scenarios)
    _write(report, arguments, time.monotonic() - started)
    for name in report.idle:
        print(f"{name}: never applied", file=sys.stderr)
    for name in report.unseen:
        print(f"{name}: never detected in {report.row(name).applied} runs", file=sys.stderr)
    for line in report.lenient:
        print(line, file=sys.stderr)
    return 0 if report.sound and not interrupted else 1


def _write(report: Report, arguments: argparse.Namespace, seconds: float) -> None:
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        result = report.as_json(
            runs=report.applied,
            wrong=report.wrong,
            seed=arguments.seed,
            scale=arguments.scale,
            seconds=round(seconds, 1),
        )
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print(report.table())
    print(
        f"\n{report.applied} runs applied, {report.wrong} wrong, {seconds:.0f} s, seed "
        f"{arguments.seed}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="adversary/run", description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=1000, help="applied runs in all (default: %(default)s)"
    )
    parser.add_argument(
        "--live",
        type=int,
        help="so many of them through Spark, the rest below it (default: 30 of 100)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the counts go")
    parser.add_argument(
        "--seed",
        type=int,
        default=secrets.randbits(32),
        help="of all that is drawn (default: a new one)",
    )
    parser.add_argument("--only", help="these mutations, comma-separated; * stands for anything")
    parser.add_argument("--seconds", type=float, help="end at that time, with fewer runs")
    parser.add_argument("--scale", default="0.01", help="TPC-H's (default: %(default)s)")
    parser.add_argument(
        "--folder", type=Path, help="where tables and logs go (default: a temporary one)"
    )
    parser.add_argument("--keep", action="store_true", help="keep that folder")
    parser.add_argument("--list", action="store_true", help="name the mutations and end")
    return parser
