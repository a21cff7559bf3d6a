"""How large tables become under a policy, and how long encrypting them takes on one core: guesses
from what is known."""

from __future__ import annotations

from math import ceil, log2

from coffer.advise import domains
from coffer.advise.planner import Choice, Policy
from coffer.advise.protections import Protection, Protections
from coffer.advise.tables import Column, Table

_FIXED = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "FLOAT": 4, "DATE": 4}
_TEXT = 20.0
# Parquet keeps a dictionary of a column chunk's values up to about so many bytes of them.
_DICTIONARY = 1 << 20
# Plain Parquet of unknown data, beside its values' own bytes.
_PACKED = 0.5
# Before each value of no fixed length.
_LENGTH = 4.0
_TEE = Choice(("tee",))


def value_bytes(column: Column) -> float:
    """Bytes of a value by itself."""
    if column.width is not None:
        return column.width
    kind = domains.kind(column)
    return float(_FIXED.get(kind, 8)) if not domains.is_text(column) else _TEXT


def plain(table: Table) -> float:
    """Bytes of the table as plain Parquet."""
    return sum(_plain(table, column) for column in table.columns)


def stored(table: Table, policy: Policy, protections: Protections) -> float:
    """Bytes of the table sealed under a policy."""
    choices = [(column, policy.get((table.name, column.name), _TEE)) for column in table.columns]
    # The file's id and the row's number, which some values need, pack to nothing.
    return sum(
        _encoded(table, column, choice.narrow, protections[name])
        for column, choice in choices
        for name in choice.protections
    )


def seconds(table: Table, policy: Policy, protections: Protections) -> float:
    """Time that the schemes take, on one core; reading and packing come on top."""
    total = 0.0
    for column in table.columns:
        for name in policy.get((table.name, column.name), _TEE).protections:
            cost = protections[name].cost
            fresh = min(table.rows, column.distinct or table.rows)
            total += fresh * cost.encrypt + (table.rows - fresh) * cost.repeated
    return total / 1e9


def _plain(table: Table, column: Column) -> float:
    return (
        column.packed if column.packed is not None else table.rows * value_bytes(column) * _PACKED
    )


def _encoded(table: Table, column: Column, narrow: bool, protection: Protection) -> float:
    if protection.whole:
        return _plain(table, column)
    cost = protection.cost
    each = cost.width(value_bytes(column), narrow) + (0.0 if cost.is_number(narrow) else _LENGTH)
    distinct = column.distinct
    # Where no two values are alike, there is nothing to pack.
    if protection.placed or distinct is None or distinct * each > _DICTIONARY:
        return table.rows * each
    return distinct * each + table.rows * ceil(log2(max(2.0, distinct))) / 8
