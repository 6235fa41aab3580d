"""Moments: mean and standard deviation of a column, the same in whatever order its numbers come."""

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
"""Bits behind the point that are kept of a number of at most 1/2: the largest is 1/4 or more, and these bits
tell it from its neighbour. Numbers are cut at the second place, so that products fit into 64 bits."""


@dataclass(frozen=True)
class Moments:
    """What a column of numbers is brought to mean 0 and standard deviation 1 by."""

    present: int  # numbers that are not NULL
    exponent: int  # power of two by which they are divided first: then none is above 1/2
    center: float  # mean after that
    spread: float  # standard deviation, likewise; 0 where all are equal, or there is none


def moments(con: duckdb.DuckDBPyConnection, coded: str, column: str) -> Moments:
    """Moments of a column of the coded records. O(n) in two passes; a batch of numbers in memory.

    Numbers are rounded to 55 bits behind the point after the division, and their sums are exact: neither
    threads nor the order of the records change a digit.
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
    """Mean and standard deviation of so many numbers, divided by a power of two, none then above 1/2."""
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
    """Return the sum of fewer than 2^36 whole numbers."""
    return (int((numbers >> HALF_BITS).sum()) << HALF_BITS) + int((numbers & ((1 << HALF_BITS) - 1)).sum())
