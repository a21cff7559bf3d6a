"""A policy as a file, with what each choice is for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from coffer.advise import domains
from coffer.advise.command import AdviseError
from coffer.advise.planner import Choice, ColumnRef, Policy
from coffer.advise.search import Facts
from coffer.advise.tables import Table

_TITLE = (
    "# Proposed by `coffer policy advise` from a workload: read it, and change what you know "
    "better."
)


def policy_file(
    tables: Iterable[Table],
    policy: Policy,
    known: Facts,
    hosts: bool,
    why: Callable[[ColumnRef], str],
) -> str:
    """The whole text. `why`: what is said of a column, or nothing."""
    head = [
        _TITLE,
        "# Copy what you want of it into policy.toml before `coffer encrypt`.",
        "",
        "# Answers of engines that proved nothing are taken: they read no value that is not "
        "shown, but may be wrong."
        if hosts
        else "# Only enclaves compute: an answer of anything else is refused.",
        f'host_results = "{"accept" if hosts else "refuse"}"',
        "",
        "[defaults]",
        'protection = "tee"',
    ]
    for table in tables:
        head += ["", f"[tables.{_key(table.name)}.columns]"]
        for column in table.columns:
            ref = (table.name, column.name)
            reason = why(ref)
            head += [f"# {line}" for line in reason.splitlines()]
            head.append(
                f"{_key(column.name)} = {entry(ref, policy.get(ref, Choice(('tee',))), known)}"
            )
    return "\n".join(head) + "\n"


def writable(file: Path) -> None:
    """Refuses a file that somebody else may have written: a policy in use is not replaced by a
    proposal."""
    if not file.parent.is_dir():
        raise AdviseError(f"there is no folder {file.parent} to write in")
    if file.is_dir() or (file.exists() and not file.read_bytes().startswith(_TITLE.encode())):
        raise AdviseError(
            f"{file} is there already, and is no proposal\nhint: --write to another file, and "
            f"copy what you want"
        )


def entry(ref: ColumnRef, choice: Choice, known: Facts) -> str:
    """A column's value in the policy."""
    named = [f'"{protection}"' for protection in choice.protections]
    protection = named[0] if len(named) == 1 else f"[{', '.join(named)}]"
    column, domain = known.column(ref), known.domains.get(ref)
    more = []
    if (
        domain is not None
        and domain.written
        and known.protections.using("domain") & set(choice.protections)
    ):
        more.append(f"domain = {domains.written(domain, column)}")
    if choice.link:
        more.append(f'link = "{choice.link}"')
    if domain is not None and known.protections.using("rows") & set(choice.protections):
        more.append(f"rows = {domains.summed_rows(domain, known.tables[ref[0]].rows)}")
    return f"{{ protection = {protection}, {', '.join(more)} }}" if more else protection


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "").isalnum() and name.isascii()
    return name if bare else json.dumps(name, ensure_ascii=False)
