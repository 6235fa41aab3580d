"""Dealing: records go to parts of a table by bounds computed from a sample, each record by itself.

Cutting a table into equal parts needs a sort for every cut. With bounds from a sample, each record is looked
at once, and the parts are equal up to sampling error. Records with equal values in a cut are ordered by
another number, a tie. So ties are cut as well, and a table is always cut in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.splitmix import STEP, mixed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CHANCES_A_NUMBER = np.uint64(16)
"""Random numbers that `chances` derives from each number."""

UNUSED_BITS, LAST_BIT_WEIGHT = np.uint64(11), 2.0**-53
"""Bits of a random number that do not fit a DOUBLE in 0..1, and the weight of the last bit that does."""


class BoundsLevel(NamedTuple):
    """Bounds inside each part of the earlier cuts, ascending; infinite in a part without a sample."""

    numbers: NDArray[np.float64]  # (p, b)
    ties: NDArray[np.float64]  # (p, b), orders the records that have the number of a bound


def bounds_of(
    columns: Sequence[NDArray[np.float64]], ties: Sequence[NDArray[np.float64]], parts: Sequence[int]
) -> tuple[BoundsLevel, ...]:
    """Return bounds, a level a column, that cut a sample into equal parts along one column after another."""
    # `columns` (n,) are cut in this order, NaN last. `ties` (n,), for each column, are below infinity: among
    # records that are equal in the column, lower ties come first. `parts` says into how many parts each part
    # is cut along each column. O(n log n) time, deterministic.
    part, levels = np.zeros(len(columns[0]), np.int64), []
    for depth, (column, tie, count) in enumerate(zip(columns, ties, parts, strict=True)):
        numbers = _last(column)
        order = np.lexsort((tie, numbers, part))
        sizes = np.bincount(part, minlength=int(np.prod(parts[:depth], dtype=np.int64)))
        ends = np.cumsum(sizes)
        at = (ends - sizes)[:, None] + np.arange(1, count) * sizes[:, None] // count
        # A part without sampled records stays whole: all its records go to the first of its parts.
        known, level = sizes > 0, BoundsLevel(np.full(at.shape, np.inf), np.full(at.shape, np.inf))
        chosen = order[at[known]]
        level.numbers[known], level.ties[known] = numbers[chosen], tie[chosen]
        levels.append(level)
        part = part * count + _passed(part, numbers, tie, level)
    return tuple(levels)


def dealt(
    columns: Sequence[NDArray[np.float64]], ties: Sequence[NDArray[np.float64]], levels: Sequence[BoundsLevel]
) -> NDArray[np.int64]:
    """Return the part (n,) of each record after the last cut."""
    # Parts are numbered in the order of the bounds, those of the first cut first. Any records of the table;
    # `columns` and `ties` as in `bounds_of`. O(log b) a record and cut for b bounds. The part of a record
    # does not depend on the other records.
    part = np.zeros(len(columns[0]), np.int64)
    for column, tie, level in zip(columns, ties, levels, strict=True):
        part = part * (level.numbers.shape[1] + 1) + _passed(part, _last(column), tie, level)
    return part


def chances(number: NDArray[np.int64], which: int) -> NDArray[np.float64]:
    """Return pseudo-random numbers (n,) in 0 <= x < 1, derived from numbers below 2^60."""
    # `which`, 0 to 15, selects one of the numbers. They are multiples of 2^-53: the output of splitmix64 for
    # each counter.
    counter = (number.astype(np.uint64) * CHANCES_A_NUMBER + np.uint64(which)) * STEP
    return np.asarray(mixed(counter) >> UNUSED_BITS, np.float64) * LAST_BIT_WEIGHT


def _last(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the column with missing numbers behind all others."""
    return np.where(np.isnan(column), np.inf, column)


@compiled
def _passed(
    part: NDArray[np.int64], numbers: NDArray[np.float64], ties: NDArray[np.float64], level: BoundsLevel
) -> NDArray[np.int64]:
    """Return how many bounds of its part each record has reached."""
    passed = np.empty(len(part), np.int64)
    for record in range(len(part)):
        row, number = part[record], numbers[record]
        low, high = 0, level.numbers.shape[1]
        while low < high:
            middle = (low + high) // 2
            bound = level.numbers[row, middle]
            if bound < number or (bound == number and level.ties[row, middle] <= ties[record]):
                low = middle + 1
            else:
                high = middle
        passed[record] = low
    return passed
