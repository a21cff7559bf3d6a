"""What the tests expect of each protection, by the papers that the schemes are from.

Written down here on its own: a harness that took it from the program would find no mistake in it.
`test_protection_table.py` compares the two.
"""

from __future__ import annotations

NUMBERS: dict[str, set[str]] = {
    "tee": {"sizes"},
    "std": {"nulls"},
    "ashe": {"nulls", "summed_rows"},
    "det": {"nulls", "equality"},
    "ore": {"nulls", "equality", "order", "first_difference"},
    "ope": {"nulls", "equality", "order", "upper_bits"},
    "plain": {"values"},
}
"""What shows of numbers to whoever has the files, from the protection under which least does."""

TEXTS: dict[str, set[str]] = {
    "tee": {"sizes"},
    "std": {"nulls", "lengths"},
    "det": {"nulls", "lengths", "equality"},
    "ore": {"nulls", "prefix_order", "first_difference"},
    "ope": {"nulls", "prefix_order", "upper_bits"},
    "plain": {"values"},
}
"""The same of texts."""

UNOPENED: dict[str, set[str]] = {
    "tee": set(),
    "std": {"carry"},
    "ashe": {"carry", "sum"},
    "det": {"carry", "equality"},
    "ore": {"carry", "comparison"},
    "ope": {"carry", "equality", "order"},
    "plain": {"everything"},
}
"""What engines without keys can do with numbers."""

ORDERED = ("ope",)
"""Row groups have the least and greatest value of such columns, beside those of plain ones."""

PLACED = ("std", "ashe")
"""A value opens only as that of its row."""

SAME_BYTES = ("det", "ope")
"""Under one key equal values have equal bytes."""
