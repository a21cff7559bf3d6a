"""What the runs come to: the counts, the problems, and the table for the documentation."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from coffer_testing.leaks import planted
from coffer_testing.leaks.harness import OPEN, Run, Runs
from coffer_testing.leaks.host import PLACES

# Where the control must find something, or the search there proves nothing. Elsewhere plaintext
# Spark need not show a value.
MUST_SHOW = (
    "heap",
    "core",
    "shuffle",
    "spill",
    "logs",
    "events",
    "pages",
    "traffic",
    "stored",
    "store",
    "names",
)
# Where the sealed run must have left something to search.
MUST_BE_THERE = (
    *("heap", "core", "shuffle", "spill", "logs", "pages", "traffic", "stored", "store", "names"),
)
# Not of the run over protected columns, which has neither the memory to spill nor tables there.
_NOT_PROTECTED = {"spill", "store"}
# Where Coffer's own bytes must show the values when its programs seal nothing, or that search of
# them proves nothing.
MUST_BE_OPEN = ("shuffle", "spill", "traffic", "stored")
NOT_SEARCHED = (
    "the client site: the driver, its web UI and event log, the client engine, traffic between "
    "them",
    "engines' memory: in this release the engines run outside of any TEE",
)
_SHOWN = 50
# Where a search may be incomplete, which is a problem unless it was allowed by name.
MAY_BE_MISSING = ("core", "traffic", "pages")


def skipped(run: Run) -> dict[str, str]:
    """Places that could not be searched on this machine, and why."""
    reasons = {"core": run.seen.no_core, "traffic": run.seen.captured.missing}
    return {place: reason for place, reason in reasons.items() if reason}


def missing(runs: Runs) -> list[tuple[str, str]]:
    """Each place that some run did not search, or not wholly, and why."""
    found: list[tuple[str, str]] = []
    for side, run in (
        ("control", runs.control),
        ("tee columns", runs.sealed),
        ("protected columns", runs.protected),
    ):
        reasons = skipped(run)
        pages = run.seen.pages
        if pages.left or pages.cut:
            reasons["pages"] = (
                f"{pages.left} links were not followed, and of {pages.cut} pages the end was not "
                f"taken"
            )
        found += [(place, f"{reason} ({side})") for place, reason in reasons.items()]
    return found


def problems(runs: Runs, allowed: frozenset[str] = frozenset()) -> list[str]:
    """One line for each reason why this is no clean result. `allowed`: places that need not have
    been searched (wholly)."""
    control = runs.control.seen
    found = [
        f"{place} was not searched: {why}" for place, why in missing(runs) if place not in allowed
    ]
    for run in (runs.sealed, runs.protected):
        for finding in run.seen.findings[:_SHOWN]:
            hit = finding.hit
            found.append(
                f"{hit.value} as {hit.form} in {finding.place}, {finding.moment}: {hit.path} at "
                f"{list(hit.offsets)}"
            )
    for place in MUST_SHOW:
        if place not in skipped(runs.control) and not control.count(place=place):
            found.append(f"the control found nothing in {place}: the search there proves nothing")
    for run, places in (
        (runs.sealed, MUST_BE_THERE),
        (runs.protected, set(MUST_BE_THERE) - _NOT_PROTECTED),
    ):
        for place in sorted(places):
            if place not in skipped(run) and not run.seen.searched[place]:
                found.append(f"there was nothing to search in {place}")
    found += _controls(runs)
    shown = {finding.hit.value for finding in control.findings}
    found += [
        f"the control did not find {value.name}"
        for value in planted.wanted()
        if value.name not in shown
    ]
    for captured in (runs.sealed.seen.captured, runs.protected.seen.captured):
        if captured.lost or captured.gaps:
            found.append(
                f"the capture lost {captured.lost} packets and has {captured.gaps} gaps: run it "
                f"on a quieter machine"
            )
    return found


def _controls(runs: Runs) -> list[str]:
    """What the controls with Coffer running lack: keys that are where keys must be, values that
    nobody sealed."""
    found = []
    for side, run in (("tee columns", runs.sealed), ("protected columns", runs.protected)):
        if not run.seen.keys:
            found.append(f"no key was searched for ({side})")
        # Of protected columns the engines may have none.
        had = run.seen.keys_in_engines or (
            side != "tee columns" and run.seen.keys_in_engines is not None
        )
        if not had and not run.seen.no_core:
            found.append(
                f"no engine has a key in its memory: the search for keys proves nothing ({side})"
            )
    if runs.unsealed:
        open_run = runs.unsealed
        for place in MUST_BE_OPEN:
            if place not in skipped(open_run) and not open_run.seen.count(place=place):
                found.append(
                    f"the unsealed build showed nothing in {place}: what is searched there is not "
                    f"Coffer's"
                )
    return found


def result(runs: Runs, found: list[str], **more: Any) -> dict[str, Any]:
    """The JSON object. `hits` and `searched_bytes` are of both runs that must show nothing."""
    control, sealed, protected = runs.control.seen, runs.sealed.seen, runs.protected.seen
    forms: dict[str, dict[str, int]] = defaultdict(lambda: {"hits": 0, "control_hits": 0})
    for seen, key in ((sealed, "hits"), (protected, "hits"), (control, "control_hits")):
        for finding in seen.findings:
            forms[finding.hit.form][key] += finding.hit.count
    moments = dict.fromkeys(
        finding.moment for seen in (control, sealed, protected) for finding in seen.findings
    )
    return {
        "searched_bytes": sum(sealed.searched.values()) + sum(protected.searched.values()),
        "planted": runs.planted,
        "hits": sealed.count() + protected.count(),
        "control_hits": control.count(),
        "control_searched_bytes": sum(control.searched.values()),
        "places": {
            place: {
                "searched_bytes": sealed.searched[place],
                "hits": sealed.count(place=place),
                "protected_searched_bytes": protected.searched[place],
                "protected_hits": protected.count(place=place),
                "control_searched_bytes": control.searched[place],
                "control_hits": control.count(place=place),
            }
            for place in PLACES
        },
        "forms": {
            form: forms[form]
            for form in sorted({form for value in planted.wanted() for form in value.forms})
        },
        "moments": {
            moment: {
                "hits": sealed.count(moment=moment) + protected.count(moment=moment),
                "control_hits": control.count(moment=moment),
            }
            for moment in moments
        },
        "workloads": {
            name: {"queries": asked.queries, "failed": asked.failed, "rows": asked.rows}
            for name, asked in [*runs.sealed.asked.items(), *runs.protected.asked.items()]
        },
        "keys": {
            "searched_for": sealed.keys + protected.keys,
            "in_engines": (sealed.keys_in_engines or 0) + (protected.keys_in_engines or 0),
        },
        "unsealed_hits": {place: runs.unsealed.seen.count(place=place) for place in PLACES}
        if runs.unsealed
        else None,
        "patterns": len({data for value in planted.wanted() for data in value.forms.values()}),
        "capture": vars(sealed.captured),
        "protected_capture": vars(protected.captured),
        "looks": sealed.looks + protected.looks,
        "pages": sealed.pages.saved + protected.pages.saved,
        "event_log_on_untrusted_storage": "refused" if not sealed.searched["events"] else "written",
        "uncompressed": sorted(OPEN),
        "not_searched": [*NOT_SEARCHED, *(f"{place}: {why}" for place, why in missing(runs))],
        "problems": found,
        "seconds": {
            side: round(run.seconds)
            for side in ("control", "sealed", "protected", "unsealed")
            if (run := getattr(runs, side))
        },
        **more,
    }


def table(result: dict[str, Any]) -> str:
    """The places as Markdown."""
    sides = ("", "protected_", "control_")
    lines = [
        "| place | MB searched | hits | MB of protected columns | hits | MB of the control | its "
        "hits |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]

    def line(title: str, row: dict[str, int]) -> str:
        cells = [
            cell
            for side in sides
            for cell in (f"{row[f'{side}searched_bytes'] / 1e6:,.1f}", f"{row[f'{side}hits']:,}")
        ]
        return f"| {' | '.join([title, *cells])} |"

    rows: dict[str, dict[str, int]] = result["places"]
    lines += [line(meaning, rows[place]) for place, meaning in PLACES.items()]
    keys = [f"{side}{key}" for side in sides for key in ("searched_bytes", "hits")]
    lines.append(line("**all**", {key: sum(row[key] for row in rows.values()) for key in keys}))
    return "\n".join(lines)
