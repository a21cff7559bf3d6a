"""MkDocs hook: pages that are files of the repository's root, and links that leave docs/.

A page may hold one line `--8<-- "FILE"`: the file's text stands there, so that there is one copy of
it. Links that lead to a file with a page lead to that page. Links to other files of the repository
become the file's path as code, since the site has no copy of them; a file that does not exist is a
warning, which `--strict` turns into an error.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOG = logging.getLogger("mkdocs.hooks.coffer")

# Files of the root that are pages, and where.
PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security/overview.md",
    "ARCHITECTURE.md": "internals/architecture.md",
    "CONTRIBUTING.md": "internals/contributing.md",
    "CHANGELOG.md": "internals/changes.md",
    "docs/reference": "reference/configuration.md",
    "docs/guides": "guides/keys.md",
    "docs/decisions": "decisions/README.md",
    "docs/security": "security/overview.md",
    "docs/attestation": "attestation/README.md",
}

_INCLUDE = re.compile(r'^--8<-- "([\w./-]+)"$', re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\[]*)\]\((?P<target>[^()\s]+)\)")
# A list right below a paragraph: GitHub shows a list, Python's Markdown wants an empty line first.
_LIST = re.compile(r"^(?![*+\-|#>\s]|\d+\. )(.+)\n(?=[*+-] \S)", re.MULTILINE)
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page, **_) -> str:
    """The page's text as the site has it."""
    source = "docs/" + page.file.src_uri
    out = []
    end = 0
    for found in _INCLUDE.finditer(markdown):
        name = found.group(1)
        out.append(_rewritten(markdown[end : found.start()], source, page))
        out.append(_rewritten((ROOT / name).read_text(encoding="utf-8"), name, page))
        end = found.end()
    out.append(_rewritten(markdown[end:], source, page))
    return "".join(out)


def _rewritten(text: str, source: str, page) -> str:
    """`text`, which is in the repository's file `source`, with links as seen from `page`."""

    def prose(part: str) -> str:
        return _LINK.sub(lambda link: _link(link, source, page), _LIST.sub(r"\1\n\n", part))

    out, end = [], 0
    for fence in _FENCE.finditer(text):
        out += [prose(text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*out, prose(text[end:])])


def _link(link: re.Match[str], source: str, page) -> str:
    target, _, anchor = link["target"].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return link.group()
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path in PAGES:
        path = "docs/" + PAGES[path]
    elif not (ROOT / path).exists():
        LOG.warning("%s links to %s, which does not exist", source, path)
    elif not path.startswith("docs/"):
        text = link["text"]
        return f"`{path}`" if text.strip("`") in (target, path) else f"{text} (`{path}`)"
    here = posixpath.dirname("docs/" + page.file.src_uri)
    to = os.path.relpath(path, here)
    return f"[{link['text']}]({to}{'#' + anchor if anchor else ''})"
