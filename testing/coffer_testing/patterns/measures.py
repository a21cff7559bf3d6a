"""What can be recovered from a column's ciphertexts, pattern by pattern, held against its values.

A measure plays the host: it looks at cells alone, and makes a guess (these two are equal, this one
is greater, they differ first in bit 7). Only then are the values looked at, to see how much of the
guess is right: all of it, none beyond what chance gives, or some. Chance is judged against
permutations of the values over the same cells, and a finding takes six standard deviations, so that
a run fails by accident less than once in a hundred thousand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from coffer_testing.patterns.sight import Cell

Degree = Literal["all", "some", "none"]
Values = Sequence[int | None]

_SIGMAS = 6.0
_PERMUTATIONS = 100
_PAIRS = 4000
# The least rows on which chance can be told from a pattern.
_ENOUGH = 200


def nulls(cells: Sequence[Cell], truth: Sequence[object]) -> Degree:
    """Which rows are NULL. Nothing is told where a NULL has a ciphertext like any value."""
    guessed = [cell is None for cell in cells]
    wanted = [value is None for value in truth]
    if guessed == wanted:
        return "all"
    return "some" if any(guessed) else "none"


def equality(cells: Sequence[Cell], truth: Sequence[object]) -> Degree:
    """Which rows have equal values. "some": two rows of equal values have equal cells, but not all
    such rows do."""
    by_value: dict[object, set[Cell]] = defaultdict(set)
    by_cell: dict[Cell, set[object]] = defaultdict(set)
    repeated = rows = 0
    for cell, value in zip(cells, truth, strict=True):
        if cell is None or value is None:
            continue
        rows += 1
        repeated += cell in by_value[value]
        by_value[value].add(cell)
        by_cell[cell].add(value)
    if rows == len(by_value):
        raise ValueError("no value occurs twice: equality cannot be judged")
    if all(len(found) == 1 for found in by_value.values()) and all(
        len(found) == 1 for found in by_cell.values()
    ):
        return "all"
    return "some" if repeated else "none"


def order(cells: Sequence[Cell], truth: Values) -> Degree:
    """Which of two values is greater, by any way to compare cells that a host may try."""
    known, values = _distinct(cells, truth)
    best: Degree = "none"
    rng = np.random.default_rng(1)
    left, right = _pairs(len(values), rng)
    for guess in _orders(known):
        signs = np.array([guess(known[i], known[j]) for i, j in zip(left, right, strict=True)])

        def right_guesses(of: np.ndarray, signs: np.ndarray = signs) -> float:
            return float(np.mean(signs * np.sign(of[left] - of[right])))

        ranks = _ranks(values)
        if right_guesses(ranks) == 1.0:
            return "all"
        if abs(_sigmas(right_guesses, ranks, rng)) > _SIGMAS:
            best = "some"
    return best


def first_bits(cells: Sequence[Cell], truth: Values, bits: int) -> Degree:
    """The first bit, of so many, in which two values differ: cells read as digits of two bits each
    (Chenette et al.)."""
    known, values = _distinct(cells, truth)
    if not isinstance(known[0], bytes):
        return "none"
    rng = np.random.default_rng(2)
    left, right = _pairs(len(values), rng)
    guessed = np.array([_first_digit(known[i], known[j]) for i, j in zip(left, right, strict=True)])
    order = np.arange(len(values))

    def agreement(of: np.ndarray) -> float:
        wanted = [
            _first_bit(values[of[i]], values[of[j]], bits) for i, j in zip(left, right, strict=True)
        ]
        return float(np.mean(guessed == np.array(wanted)))

    if agreement(order) == 1.0:
        return "all"
    return "some" if abs(_sigmas(agreement, order, rng, 60)) > _SIGMAS else "none"


def later_bits(cells: Sequence[Cell], truth: Values, bits: int) -> Degree:
    """How two values differ *behind* the first bit in which they do, in the lower half of the bits:
    what an order-revealing ciphertext must not show. Under the scheme two digits there differ by
    any of three numbers, whatever the bits are."""
    known, values = _distinct(cells, truth)
    if not isinstance(known[0], bytes):
        return "none"
    rng = np.random.default_rng(3)
    left, right = _pairs(len(values), rng)
    right_guesses = trials = 0
    for i, j in zip(left, right, strict=True):
        for at in range(max(bits // 2, _first_bit(values[i], values[j], bits) + 1), bits):
            wanted = (_bit(values[i], at, bits) - _bit(values[j], at, bits)) % 3
            right_guesses += (_digit(known[i], at) - _digit(known[j], at)) % 3 == wanted
            trials += 1
    share = right_guesses / trials
    if share == 1.0:
        return "all"
    # Pairs share values: far fewer of the trials are independent than there are.
    sigma = np.sqrt(2 / 9 / min(trials, len(values) * bits // 4))
    return "some" if abs(share - 1 / 3) > _SIGMAS * sigma else "none"


def upper_bits(cells: Sequence[Cell], truth: Values, bits: int) -> Degree:
    """About the upper half of the bits: a straight line through known pairs puts half of the values
    to within four times the root of the domain. No "some": less than that is the order, which has a
    measure of its own."""
    left = _residuals(cells, truth)
    return "all" if np.median(np.abs(left)) <= 4 * 2.0 ** (bits / 2) else "none"


def lower_bits(cells: Sequence[Cell], truth: Values, bits: int) -> Degree:
    """The lower quarter of the bits, by the same line: where it tells nothing of them, what is left
    is spread evenly over their whole circle (Rayleigh's test)."""
    left = _residuals(cells, truth)
    turns = np.exp(2j * np.pi * left / 2.0 ** (bits // 4))
    length = float(np.abs(np.mean(turns)))
    if length > 0.99:
        return "all"
    # P(length · √n > r) is about exp(−r²).
    return "some" if length * np.sqrt(len(left)) > _SIGMAS else "none"


def lengths(cells: Sequence[Cell], texts: Sequence[str | None]) -> Degree:
    """How many bytes each text has."""
    pairs = [
        (_length(cell), len(text.encode()))
        for cell, text in zip(cells, texts, strict=True)
        if cell is not None and text is not None
    ]
    guessed, wanted = np.array(pairs).T
    if len({*pairs}) == len({*guessed.tolist()}) == len({*wanted.tolist()}) > 1:
        return "all"
    if len({*guessed.tolist()}) == 1:
        return "none"

    def together(of: np.ndarray) -> float:
        return float(np.corrcoef(guessed, of)[0, 1])

    return "some" if abs(_sigmas(together, wanted, np.random.default_rng(4))) > _SIGMAS else "none"


def values(cells: Sequence[Cell], truth: Sequence[object]) -> Degree:
    """The values themselves."""
    same = sum(cell == value for cell, value in zip(cells, truth, strict=True) if value is not None)
    if same == sum(value is not None for value in truth):
        return "all"
    return "some" if same > len(truth) // 100 else "none"


def shared(
    one: Sequence[Cell],
    truth_one: Sequence[object],
    other: Sequence[Cell],
    truth_other: Sequence[object],
) -> Degree:
    """Whether two columns' cells show which of their values are equal, as a join does."""
    cells = {
        value: cell for cell, value in zip(other, truth_other, strict=True) if value is not None
    }
    common = [
        (cell, cells[value]) for cell, value in zip(one, truth_one, strict=True) if value in cells
    ]
    if len(common) < _ENOUGH:
        raise ValueError("the columns have too few values in common")
    same = sum(a == b for a, b in common)
    if same == len(common):
        return "all"
    return "some" if {*one} & {*other} - {None} else "none"


def common(one: bytes, other: bytes, width: int = 12) -> int:
    """How many windows of so many bytes two columns' stored bytes have in common; by chance
    none."""
    windows = [
        {data[at : at + width] for at in range(len(data) - width + 1)} for data in (one, other)
    ]
    return len(windows[0] & windows[1])


# ---- what they are made of ---------------------------------------------------------------------


def _distinct(cells: Sequence[Cell], truth: Values) -> tuple[list[Cell], list[int]]:
    """Different cells with their values, in an order that tells nothing of either."""
    pairs = {
        cell: value
        for cell, value in zip(cells, truth, strict=True)
        if cell is not None and value is not None
    }
    if len(pairs) < _ENOUGH:
        raise ValueError(f"{len(pairs)} different values are too few to tell a pattern from chance")
    known = list(pairs)
    np.random.default_rng(5).shuffle(known)
    known = known[:2000]
    return known, [pairs[cell] for cell in known]


def _pairs(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    left = rng.integers(0, count, _PAIRS)
    return left, (left + rng.integers(1, count, _PAIRS)) % count


def _ranks(values: Sequence[int]) -> np.ndarray:
    return np.unique(np.array(values, dtype=object), return_inverse=True)[1].astype(float)


def _sigmas(
    statistic: Callable[[np.ndarray], float],
    of: np.ndarray,
    rng: np.random.Generator,
    permutations: int = _PERMUTATIONS,
) -> float:
    """How many standard deviations the statistic lies from where chance puts it."""
    chance = [statistic(rng.permutation(of)) for _ in range(permutations)]
    spread = float(np.std(chance))
    return (statistic(of) - float(np.mean(chance))) / spread if spread else 0.0


def _orders(cells: Sequence[Cell]) -> list[Callable[[Cell, Cell], int]]:
    """Ways to compare: as numbers; as bytes from either end; by the first differing digit."""
    if not isinstance(cells[0], bytes):
        return [lambda a, b: (a > b) - (a < b)]
    return [
        lambda a, b: (a > b) - (a < b),
        lambda a, b: (a[::-1] > b[::-1]) - (a[::-1] < b[::-1]),
        _by_digit,
    ]


def _by_digit(a: bytes, b: bytes) -> int:
    at = _first_digit(a, b)
    if at < 0:
        return 0
    return {1: 1, 2: -1}.get((_digit(a, at) - _digit(b, at)) % 3, 0)


def _first_digit(a: bytes, b: bytes) -> int:
    """−1 when there is none."""
    for place, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return 4 * place + (8 - (x ^ y).bit_length()) // 2
    return -1


def _digit(cell: bytes, at: int) -> int:
    """Beyond the end: 0."""
    return cell[at // 4] >> (6 - 2 * (at % 4)) & 3 if at // 4 < len(cell) else 0


def _first_bit(a: int, b: int, bits: int) -> int:
    return bits - (a ^ b).bit_length() if a != b else -1


def _bit(value: int, at: int, bits: int) -> int:
    return value >> (bits - 1 - at) & 1


def _residuals(cells: Sequence[Cell], truth: Values) -> np.ndarray:
    """Of values against a straight line through cells that are read as numbers."""
    known, values = _distinct(cells, truth)
    numbers = np.array([_fraction(cell) for cell in known])
    wanted = np.array([float(value) for value in values])
    slope, start = np.polyfit(numbers - numbers.mean(), wanted, 1)
    return wanted - (slope * (numbers - numbers.mean()) + start)


def _fraction(cell: Cell) -> float:
    if isinstance(cell, int):
        return cell / 2.0**63
    data = cell.encode() if isinstance(cell, str) else cell
    assert data is not None
    return int.from_bytes(data[:8].ljust(8, b"\0"), "big") / 2.0**64


def _length(cell: Cell) -> int:
    return len(cell) if isinstance(cell, bytes | str) else 8
