"""What the web servers of the host show: pages, logs and JSON of master and workers, got over
HTTP."""

from __future__ import annotations

import html
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Beside what the pages link to.
_MORE = (
    "/json/",
    "/metrics/json/",
    "/metrics/master/json/",
    "/metrics/applications/json/",
    "/environment/",
    "/conf/",
)
_MOST = 300
_LARGEST = 16 << 20


@dataclass(frozen=True)
class Fetched:
    """How many pages were saved, how many links were left when there were too many; of how many
    pages the end is missing."""

    saved: int = 0
    left: int = 0
    cut: int = 0


def fetch(uis: Iterable[str], folder: Path, most: int = _MOST) -> Fetched:
    """Saves all pages that can be reached from `uis` without leaving them, as files under `folder`,
    up to `most`."""
    folder.mkdir(parents=True)
    roots = [ui.rstrip("/") for ui in uis]
    pending = [root + path for root in roots for path in ("/", *_MORE)]
    seen = set(pending)
    saved = cut = 0
    while pending and saved < most:
        url = pending.pop(0)
        body = _get(url)
        if body is None:
            continue
        (folder / f"{saved:03}").write_bytes(url.encode() + b"\n" + body)
        saved += 1
        cut += len(body) == _LARGEST
        for link in re.findall(rb"""(?:href|src)\s*=\s*["']([^"'#]+)""", body):
            target = urllib.parse.urljoin(url, html.unescape(link.decode("latin-1")))
            if (
                target not in seen
                and "/static/" not in target
                and not _repeats(target)
                and any(target.startswith(root + "/") for root in roots)
            ):
                seen.add(target)
                pending.append(target)
    return Fetched(saved, len(pending), cut)


def _repeats(url: str) -> bool:
    """Whether a part of the path comes twice. Master and worker answer any path that they do not
    know with their first page, whose links are relative: from /conf/app/ to /conf/app/app/, and so
    on without end. None of their own paths is such."""
    parts = [part for part in urllib.parse.urlsplit(url).path.split("/") if part]
    return len(parts) != len(set(parts))


def _get(url: str) -> bytes | None:
    """The body, of an error too; None when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read(_LARGEST)
    except urllib.error.HTTPError as error:
        return error.read(_LARGEST)
    except (OSError, ValueError):
        return None
