"""What both runs come to: the counts, the problems, and the table for the documentation."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from coffer_security.leaks import planted
from coffer_security.leaks.harness import OPEN, Both, Run
from coffer_security.leaks.host import PLACES

# Where the control must find something, or the search there proves nothing. Elsewhere plaintext Spark need not show a value.
MUST_SHOW = ("heap", "core", "shuffle", "spill", "logs", "events", "pages", "traffic", "stored", "names")
# Where the sealed run must have left something to search.
MUST_BE_THERE = ("heap", "core", "shuffle", "spill", "logs", "pages", "traffic", "stored", "names")
NOT_SEARCHED = (
    "the trusted site: the driver, its web UI and event log, the client engine, traffic between them",
    "engines' memory: in this release the TEE is simulated",
)
_SHOWN = 50


def skipped(run: Run) -> dict[str, str]:
    """Places that could not be searched on this machine, and why."""
    reasons = {"core": run.seen.no_core, "traffic": run.seen.captured.missing}
    return {place: reason for place, reason in reasons.items() if reason}


def problems(both: Both) -> list[str]:
    """One line for each reason why this is no clean result."""
    control, sealed = both.control.seen, both.sealed.seen
    found: list[str] = []
    for finding in sealed.findings[:_SHOWN]:
        hit = finding.hit
        found.append(f"{hit.value} as {hit.form} in {finding.place}, {finding.moment}: {hit.path} at {list(hit.offsets)}")
    for place in MUST_SHOW:
        if place not in skipped(both.control) and not control.count(place=place):
            found.append(f"the control found nothing in {place}: the search there proves nothing")
    for place in MUST_BE_THERE:
        if place not in skipped(both.sealed) and not sealed.searched[place]:
            found.append(f"there was nothing to search in {place}")
    shown = {finding.hit.value for finding in control.findings}
    found += [f"the control did not find {value.name}" for value in planted.wanted() if value.name not in shown]
    captured = sealed.captured
    if captured.lost or captured.gaps:
        found.append(f"the capture lost {captured.lost} packets and has {captured.gaps} gaps: run it on a quieter machine")
    return found


def result(both: Both, found: list[str], **more: Any) -> dict[str, Any]:
    """The JSON object."""
    control, sealed = both.control.seen, both.sealed.seen
    forms: dict[str, dict[str, int]] = defaultdict(lambda: {"hits": 0, "control_hits": 0})
    for seen, key in ((sealed, "hits"), (control, "control_hits")):
        for finding in seen.findings:
            forms[finding.hit.form][key] += finding.hit.count
    moments = dict.fromkeys(finding.moment for seen in (control, sealed) for finding in seen.findings)
    return {
        "searched_bytes": sum(sealed.searched.values()),
        "planted": both.planted,
        "hits": sealed.count(),
        "control_hits": control.count(),
        "control_searched_bytes": sum(control.searched.values()),
        "places": {
            place: {
                "searched_bytes": sealed.searched[place],
                "hits": sealed.count(place=place),
                "control_searched_bytes": control.searched[place],
                "control_hits": control.count(place=place),
            }
            for place in PLACES
        },
        "forms": {form: forms[form] for form in sorted({form for value in planted.wanted() for form in value.forms})},
        "moments": {
            moment: {"hits": sealed.count(moment=moment), "control_hits": control.count(moment=moment)} for moment in moments
        },
        "workloads": {
            name: {"queries": asked.queries, "failed": asked.failed, "rows": asked.rows}
            for name, asked in both.sealed.asked.items()
        },
        "patterns": len({data for value in planted.wanted() for data in value.forms.values()}),
        "capture": vars(sealed.captured),
        "looks": sealed.looks,
        "pages": sealed.pages,
        "event_log_on_untrusted_storage": "refused" if not sealed.searched["events"] else "written",
        "uncompressed": sorted(OPEN),
        "not_searched": [*NOT_SEARCHED, *(f"{place}: {reason}" for place, reason in skipped(both.sealed).items())],
        "problems": found,
        "seconds": {"control": round(both.control.seconds), "sealed": round(both.sealed.seconds)},
        **more,
    }


def table(result: dict[str, Any]) -> str:
    """The places as Markdown."""
    lines = ["| place | MB searched | hits | MB of the control | its hits |", "|---|---:|---:|---:|---:|"]
    for place, meaning in PLACES.items():
        row = result["places"][place]
        sizes = row["searched_bytes"] / 1e6, row["control_searched_bytes"] / 1e6
        lines.append(f"| {meaning} | {sizes[0]:,.1f} | {row['hits']:,} | {sizes[1]:,.1f} | {row['control_hits']:,} |")
    total, control = result["searched_bytes"] / 1e6, result["control_searched_bytes"] / 1e6
    lines.append(f"| **all** | {total:,.1f} | {result['hits']:,} | {control:,.1f} | {result['control_hits']:,} |")
    return "\n".join(lines)
