"""Of which classes executors sent objects to drivers of clusters while tests ran. The driver's
filter knows which of them are listed; which of those listed nobody sends, `ListedClassesSuite`
says."""

from __future__ import annotations

from pathlib import Path

# Sent by the driver to itself, to see that the filter is there.
_PROBE = "java.net.URL"


def refused(folder: Path) -> list[str]:
    """What was sent and is on no list: each class, with what carried it."""
    lines = [line for file in folder.glob("*.tsv") for line in file.read_text().splitlines()]
    found = set()
    for line in lines:
        name, status, carrier = line.split("\t")
        if status == "REJECTED" and name != _PROBE:
            found.add(f"{name} (in {carrier})" if carrier else name)
    return sorted(found)
