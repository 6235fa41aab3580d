"""Dealing: records go to parts of a table by bounds that a sample of them tells, each by itself.

Cutting a table into equal parts takes a sort for every cut. With bounds from a sample a record is looked at
once, and parts are equal but for what a sample does not tell. Records that are equal in what is cut are told
apart by another number, so that ties are cut, too, and a table always alike.
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
"""Random numbers that `chances` has of each number."""

UNUSED_BITS, LAST_BIT_WEIGHT = np.uint64(11), 2.0**-53
"""Bits of a random number that a DOUBLE from 0 to 1 does not hold, and the weight of the last one held."""


class BoundsLevel(NamedTuple):
    """Bounds inside each part that the cuts before have made, ascending; infinite in one without a sample."""

    numbers: NDArray[np.float64]  # (p, b)
    ties: NDArray[np.float64]  # (p, b), what tells records apart that have the number of a bound


def bounds_of(
    columns: Sequence[NDArray[np.float64]], ties: Sequence[NDArray[np.float64]], parts: Sequence[int]
) -> tuple[BoundsLevel, ...]:
    """Return bounds that cut a sample into equal parts along one column after the other.

    Parameters
    ----------
    columns : sequence of ndarray of shape (n,)
        What is cut, in this order; NaN comes last.
    ties : sequence of ndarray of shape (n,)
        For each column a number of every record, below infinity: of records that are equal in the column
        those with a lower one come first.
    parts : sequence of int
        Into how many parts each part so far is cut along each column.

    Returns
    -------
    tuple of BoundsLevel
        One a column. O(n log n) time, deterministic.
    """
    part, levels = np.zeros(len(columns[0]), np.int64), []
    for depth, (column, tie, count) in enumerate(zip(columns, ties, parts, strict=True)):
        numbers = _last(column)
        order = np.lexsort((tie, numbers, part))
        sizes = np.bincount(part, minlength=int(np.prod(parts[:depth], dtype=np.int64)))
        ends = np.cumsum(sizes)
        at = (ends - sizes)[:, None] + np.arange(1, count) * sizes[:, None] // count
        # Without a sample of its records a part stays whole: all go to the first of its parts.
        known, level = sizes > 0, BoundsLevel(np.full(at.shape, np.inf), np.full(at.shape, np.inf))
        chosen = order[at[known]]
        level.numbers[known], level.ties[known] = numbers[chosen], tie[chosen]
        levels.append(level)
        part = part * count + _passed(part, numbers, tie, level)
    return tuple(levels)


def dealt(
    columns: Sequence[NDArray[np.float64]], ties: Sequence[NDArray[np.float64]], levels: Sequence[BoundsLevel]
) -> NDArray[np.int64]:
    """Return the part (n,) that each record is in after the last cut.

    Parameters
    ----------
    columns, ties
        See `bounds_of`; any records of the table.
    levels : sequence of BoundsLevel
        The bounds along each column.

    Returns
    -------
    ndarray of shape (n,), int64
        Parts are numbered in the order of the bounds, those of the first cut first. O(log b) a record and
        cut, and what a record gets does not depend on the others.
    """
    part = np.zeros(len(columns[0]), np.int64)
    for column, tie, level in zip(columns, ties, levels, strict=True):
        part = part * (level.numbers.shape[1] + 1) + _passed(part, _last(column), tie, level)
    return part


def chances(number: NDArray[np.int64], which: int) -> NDArray[np.float64]:
    """Return numbers that look random, and follow from others.

    Parameters
    ----------
    number : ndarray of shape (n,)
        Numbers below 2^60.
    which : int
        0 to 15; another one gives other numbers.

    Returns
    -------
    ndarray of shape (n,), float64
        From 0 to less than 1, multiples of 2^-53: of the output of splitmix64 for each counter.
    """
    counter = (number.astype(np.uint64) * CHANCES_A_NUMBER + np.uint64(which)) * STEP
    return np.asarray(mixed(counter) >> UNUSED_BITS, np.float64) * LAST_BIT_WEIGHT


def _last(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers with those that are missing behind all others."""
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
