"""What stored columns show is what is claimed of them: all of it, and nothing more
(docs/security/protections.md)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

import pytest

from coffer.advise import protections
from coffer_testing.patterns import claims, fixture, judge, measures
from coffer_testing.patterns.fixture import LINKED, UNLINKED, Fixture, Stored
from coffer_testing.patterns.sight import Cell, Column


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    return Fixture(tmp_path_factory.mktemp("patterns"))


def test_each_column_shows_what_is_claimed_and_no_more(tables: Fixture) -> None:
    seen, findings = judge.columns(tables)
    assert [str(finding) for finding in findings] == []
    # What the whole test rests on: patterns are found where they are, and not found where they are
    # not.
    assert seen["people.wealth"]["upper-bits"] == seen["people.rank"]["first-bits"] == "all"
    assert set(seen["people.secret"].values()) == {"none"}
    assert {pattern for pattern, degree in seen["people.bonus"].items() if degree != "none"} == {
        "nulls"
    }


def test_nulls_show_but_for_tee(tables: Fixture) -> None:
    """Nothing pads them: a column that engines have in any other form shows which of its values are
    NULL."""
    seen, _ = judge.columns(tables)
    met = set()
    for name, degrees in seen.items():
        encodings = set(tables.claim(*name.split(".", 1))["protections"])
        met |= encodings
        # Of a plain column the values show, NULL among them.
        shown = degrees["values"] if "plain" in encodings else degrees["nulls"]
        assert shown == ("none" if encodings == {"tee"} else "all"), name
    assert met >= {"tee", "std", "det", "ope", "ore", "ashe", "plain"}


def test_only_linked_columns_can_be_joined(tables: Fixture) -> None:
    seen, findings = judge.pairs(tables)
    assert [str(finding) for finding in findings] == []
    assert len(seen) == len(LINKED) + len(UNLINKED)


def test_a_link_lends_what_the_other_column_shows(tables: Fixture) -> None:
    seen, findings = judge.by_links(tables)
    assert [str(finding) for finding in findings] == []
    assert tables.claim("people", "person")["hosts_by_link"]
    assert seen["people.person by way of visits.visitor"]["order"] == "all"


def test_nothing_of_a_tee_column_opens(tables: Fixture) -> None:
    for name in ("secret", "twin"):
        assert [stored.column.cells for stored in tables.stored("people", name)] == [None]
    # Two columns of the same values, row by row, have no bytes in common. The control: two that are
    # linked.
    assert measures.common(tables.lying("people", "secret"), tables.lying("people", "twin")) == 0
    assert (
        measures.common(tables.lying("people", "person"), tables.lying("visits", "visitor"))
        > fixture.ROWS
    )


# ---- controls: what must be noticed ------------------------------------------------------------


def found(
    tables: Fixture,
    cells: Sequence[Cell] | Callable[[int], Cell],
    of: tuple[str, str],
    claimed: tuple[str, str],
) -> set[str]:
    """Patterns in which `cells`, which stand for the column `of`, differ from what is claimed of
    the column `claimed`. A function makes a cell of an ordinal."""
    values = tables.values(*of)
    if not isinstance(cells, Sequence):
        make = cells
        cells = [None if at is None else make(at) for at in fixture.ordinals(values)]
    stored = [Stored("?", Column("c1", list(cells)))]
    _, findings = judge.column("control", stored, values, tables.claim(*claimed)["hosts"])
    return {finding.pattern for finding in findings}


def cells(tables: Fixture, table: str, name: str, encoding: str) -> list[Cell]:
    return next(
        stored.column.cells or []
        for stored in tables.stored(table, name)
        if stored.encoding == encoding
    )


def test_a_weaker_scheme_than_claimed_is_noticed(tables: Fixture) -> None:
    debt, code, rent = ("people", "debt"), ("people", "code"), ("people", "rent")
    assert found(tables, cells(tables, *code, "det"), code, ("people", "note")) == {"equality"}
    assert found(tables, cells(tables, *rent, "ope"), rent, debt) == {"order", "upper-bits"}
    assert found(tables, cells(tables, *debt, "det"), debt, ("people", "secret")) == {
        "equality",
        "nulls",
    }
    assert found(tables, cells(tables, "people", "tax", "ore"), ("people", "tax"), debt) >= {
        "order",
        "first-bits",
    }


def test_a_stronger_scheme_than_claimed_is_noticed(tables: Fixture) -> None:
    """So that no claim is there for show: what is claimed must be recoverable."""
    note, rent = ("people", "note"), ("people", "rent")
    assert found(tables, cells(tables, *note, "std"), note, ("people", "code")) == {"equality"}
    assert found(tables, cells(tables, *rent, "ope"), rent, ("people", "tax")) >= {
        "first-bits",
        "upper-bits",
    }


def test_a_scheme_without_its_secret_is_noticed(tables: Fixture) -> None:
    rent, tax, debt, bonus = (("people", name) for name in ("rent", "tax", "debt", "bonus"))
    # Order-preserving, and on a straight line.
    assert found(tables, lambda at: at * 2**30 + 12345, rent, rent) == {"lower-bits"}
    # Order-revealing, with digits that do not depend on the bits before them.
    pads = [random.Random(7).randrange(3) for _ in range(32)]

    def digits(at: int) -> bytes:
        number = 0
        for place, pad in enumerate(pads):
            number = number << 2 | (pad + (at >> (31 - place) & 1)) % 3
        return number.to_bytes(8, "big")

    assert found(tables, digits, tax, tax) == {"later-bits"}
    # One pad for all rows.
    assert {"equality", "order"} <= found(tables, lambda at: at + 0x1234567890, bonus, bonus)
    # A codebook of which the first bytes are the value's.
    assert "order" in found(
        tables, lambda at: at.to_bytes(4, "big") + random.Random(at).randbytes(20), debt, debt
    )
    # The values.
    values = tables.values("people", "secret")
    assert "values" in found(tables, values, ("people", "secret"), ("people", "secret"))


def test_one_key_for_two_columns_is_noticed(tables: Fixture) -> None:
    assert judge.pair(tables, *LINKED[0], linked=False)[1]
    assert judge.pair(tables, *UNLINKED[0], linked=True)[1]


def test_the_words_of_every_leakage_have_a_measure_or_none_in_files() -> None:
    for words in json.loads(protections.read().printed)["leakages"].values():
        claims.allowed([words.replace("first bytes", "first 4 bytes")])


def test_words_that_no_measure_stands_for_are_refused() -> None:
    with pytest.raises(ValueError, match="no measure"):
        claims.allowed(["their colour"])
