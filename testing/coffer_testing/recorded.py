"""Of which classes executors sent objects to drivers of clusters while tests ran. The driver's
filter knows which of them are listed; which of those listed nobody sends, `ListedClassesSuite`
says."""

from __future__ import annotations

from pathlib import Path

_MESSAGES = "org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages$"
_ON_PURPOSE = {
    # Sent by the driver to itself, to see that the filter is there.
    "java.net.URL",
    # Of YARN's application master; docs/guides/install.md says why.
    f"{_MESSAGES}AddWebUIFilter",
    f"{_MESSAGES}MiscellaneousProcessAdded",
}


def refused(folder: Path) -> list[str]:
    """What was sent and is on no list: each class, with what carried it."""
    lines = [line for file in folder.glob("*.tsv") for line in file.read_text().splitlines()]
    found = set()
    for line in lines:
        name, status, carrier = line.split("\t")
        if status == "REJECTED" and name not in _ON_PURPOSE:
            found.add(f"{name} (in {carrier})" if carrier else name)
    return sorted(found)
