"""Which of many repetitions `make test` runs: each case in one way, by turns. `make test-full` runs
all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def in_turns(
    cases: Iterable[Any], ways: Sequence[Any], every: int = 1, always: Sequence[str] = ()
) -> list[Any]:
    """Parameters of a test that takes a case and a way: each pair once, all but one of a case
    marked `full`; of cases that another test has too, all but one in `every`. Those whose ids are
    in `always` are never marked. ValueError where there is no such id.

    A case is a value, or a `pytest.param` of several, whose id is kept. What goes one way is
    together, so that a fixture of it is made once.
    """
    cases = list(cases)
    pairs = [
        pytest.param(
            *values,
            way,
            id=(pair := f"{name}-{way}"),
            marks=[]
            if number % (every * len(ways)) == every * turn or pair in always
            else [pytest.mark.full],
        )
        for turn, way in enumerate(ways)
        for number, (values, name) in enumerate(map(_taken_apart, cases))
    ]
    if unknown := {*always}.difference(pair.id for pair in pairs):
        raise ValueError(f"no pairs of these ids: {unknown}")
    return pairs


def one_of(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters of a test that repeats another: one in so many, the others marked `full`."""
    return [
        pytest.param(*values, id=name, marks=[] if number % every == 0 else [pytest.mark.full])
        for number, (values, name) in enumerate(map(_taken_apart, cases))
    ]


def mark(items: Iterable[pytest.Item]) -> None:
    """What `@pytest.mark.turns(way, always=[…])` says: of the parameters of a test, `way` is the
    one (a fixture's, it may be) whose values take turns over the other parameters' cases. Each case
    runs in those that are `always` and in one of the rest; what is left is `full`."""
    tests = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("turns")
        if marker is not None and isinstance(item, pytest.Function):
            tests[item.path, item.originalname].append((item, marker))
    for found in tests.values():
        cases: dict[tuple[Any, ...], int] = {}
        for item, marker in found:
            [way] = marker.args
            always = marker.kwargs.get("always", [])
            values = dict.fromkeys(other.callspec.params[way] for other, _ in found)
            turning = [value for value in values if value not in always]
            indices = item.callspec.indices
            case = tuple(indices[name] for name in sorted(indices) if name != way)
            number = cases.setdefault(case, len(cases))
            value = item.callspec.params[way]
            if value in turning and turning[number % len(turning)] != value:
                item.add_marker(pytest.mark.full)


def _taken_apart(case: Any) -> tuple[tuple[Any, ...], str]:
    # What `pytest.param` returns is no public class; its fields are documented.
    if hasattr(case, "values") and hasattr(case, "id"):
        return tuple(case.values), case.id
    return (case,), str(case)
