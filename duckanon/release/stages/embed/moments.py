"""Moments: mean and standard deviation of a column, independent of the order of its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from duckanon.database import arrow, engine, templates

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb
    import numpy.typing as npt

FRACTION_BITS, HALF_BITS = 55, 27
"""Bits kept after the point of a number of at most 1/2. They distinguish neighbours of the largest number,
which is 1/4 or more. Numbers are split at the second place, so that products fit into 64 bits."""


@dataclass(frozen=True)
class Moments:
    """Constants that bring a column of numbers to mean 0 and standard deviation 1."""

    present: int  # numbers without NULL
    exponent: int  # numbers are first divided by this power of two, to at most 1/2
    center: float  # mean of the divided numbers
    spread: float  # standard deviation of the divided numbers; 0 if all are equal or there is none


def moments(con: duckdb.DuckDBPyConnection, coded: str, column: str) -> Moments:
    """Moments of a column of the coded records. O(n) in two passes; one batch of numbers in memory.

    Divided numbers are rounded to 55 bits after the point, and their sums are exact. So neither threads nor
    the order of the records change a digit.
    """
    asked = {"coded": coded, "column": column}
    ((low, high, present),) = engine.rows(con, templates.render("embed.sql.j2:extent", **asked), "embed")
    if not present or low == high:
        return Moments(present, 0, low if present else 0.0, 0.0)
    exponent = math.frexp(max(-low, high))[1] + 1
    batches = engine.batches(con, templates.render("embed.sql.j2:present", **asked), "embed")
    center, spread = mean_and_spread((arrow.numbers(batch.column(0)) for batch in batches), exponent, present)
    return Moments(present, exponent, center, spread)


def mean_and_spread(
    batches: Iterable[npt.NDArray[np.float64]], exponent: int, count: int
) -> tuple[float, float]:
    """Mean and standard deviation of `count` numbers after division by a power of two to at most 1/2."""
    total, squares = 0, 0
    for values in batches:
        whole = np.rint(np.ldexp(values, FRACTION_BITS - exponent)).astype(np.int64)
        high, low = whole >> HALF_BITS, whole & ((1 << HALF_BITS) - 1)
        total += _exact(whole)
        squares += (
            (_exact(high * high) << 2 * HALF_BITS) + (_exact(high * low) << HALF_BITS + 1) + _exact(low * low)
        )
    variance = Fraction(count * squares - total * total, (count * count) << 2 * FRACTION_BITS)
    return float(Fraction(total, count << FRACTION_BITS)), math.sqrt(variance)


def _exact(numbers: npt.NDArray[np.int64]) -> int:
    """Return the exact sum of fewer than 2^36 integers."""
    return (int((numbers >> HALF_BITS).sum()) << HALF_BITS) + int((numbers & ((1 << HALF_BITS) - 1)).sum())
