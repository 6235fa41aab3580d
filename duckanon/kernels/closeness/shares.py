"""Bounds on the share of each value in a class: alpha, delta-disclosure and beta-likeness.

For the share p of a value in a class and its share q in the table, a class keeps

- alpha, if p <= alpha (for all values, or for named values);
- delta, if q / E <= p <= q E for every value of the table, with E = exp(delta);
- beta, if p <= (1 + beta) q;
- enhanced beta, if p <= q (1 + min(beta, -ln q)).

So each is a pair of bounds on the share of each value. The share in a class of s records has at most the
denominator s, so a bound is replaced by the nearest fraction within it whose denominator is at most the
number of records of the table. That changes no verdict, and integers of 64 bits decide. exp(delta) and -ln q
enter as rational lower bounds, `BOUND_GAP` below the true number, so rounding never passes a class.

The violation is the number of records beyond the bounds: n - most s for a value with too many records, least
s - n for a value with too few. It is counted in `UNITS` of a record, rounded up, and 0 exactly if every bound
is kept. The records of both parts of a union add up on both sides of each bound, so the violation of a union
is at most the sum of the violations of its parts (docs/exact.md).

Sources: Wong, Li, Fu and Wang, "(alpha, k)-Anonymity", KDD 2006; Brickell and Shmatikov, "The Cost of
Privacy", KDD 2008, definition 2; Cao and Karras, "Publishing Microdata with a Robust Privacy Guarantee",
PVLDB 5(11), 2012, definitions 2 and 3.

>>> bounds = share_bounds(np.array([6, 3, 1]), beta=Decimal(1))
>>> bounds.most.tolist()
[[1, 3, 1], [1, 5, 5]]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from duckanon.kernels.compiled import compiled, inner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Alpha = Decimal | Mapping[int, Decimal]  # for every value, or by value code

UNITS = cast("int", np.int64(2**30))
"""Parts of a record in which a violation is counted: a product with a count of records fits in 62 bits."""

BOUND_GAP = Fraction(2, 10**12)
"""Relative gap of the bounds of exp(delta) and -ln q. The audits leave half of it, so a class that a kernel
accepts passes the audit.
"""

LARGEST_DELTA = Decimal(64)
"""exp of a greater delta allows no more: 2^31 records have no share below exp(-22)."""

DECIMAL_DIGITS = 50
"""Digits of exponentials and logarithms before they are cut off."""

MOST_COUNT, MOST_SIZE, MOST_UNITS, LEAST_COUNT, LEAST_SIZE, LEAST_UNITS = range(6)
"""Rows of `ShareBounds.table`: both bounds as fractions, and in `UNITS` for a class of one record."""


@dataclass(frozen=True, eq=False)
class ShareBounds:
    """Least and greatest share of each value in a class; made by `share_bounds`."""

    most: NDArray[np.int64]  # (2, m), numerator and denominator by value code
    least: NDArray[np.int64]  # (2, m), likewise; the numerator is 0 where no share is too small
    alpha: Alpha | None  # as asked for; it does not depend on the table
    relative: bool  # whether other bounds are asked for, which depend on the table

    @property
    def table(self) -> NDArray[np.int64]:
        """The bounds as the compiled functions take them, (6, m)."""
        # Rounded so that a share beyond a bound is at least one unit beyond.
        most = UNITS * self.most[0] // self.most[1]
        least = -(-UNITS * self.least[0] // self.least[1])
        return np.vstack([self.most, most, self.least, least])

    @property
    def floors(self) -> int:
        """Number of values that every class must have."""
        return int(np.count_nonzero(self.least[0]))

    @property
    def least_records(self) -> int:
        """Records below which no class keeps the bounds."""
        # A class has a value, or all values with a floor, and one record has at least the share 1 / s.
        needed = -(-self.most[1] // np.maximum(self.most[0], 1))
        own = self.least[0] > 0
        return int(max(needed[own].max(), self.floors) if own.any() else needed.min())


def share_bounds(
    counts: NDArray[np.int64],
    *,
    alpha: Alpha | None = None,
    delta: Decimal | None = None,
    beta: Decimal | None = None,
    enhanced_beta: Decimal | None = None,
) -> ShareBounds | None:
    """Return the bounds against a table with these records of each value (m,); None if nothing is asked."""
    # O(m log m), and two fractions for each different count.
    asked = delta, beta, enhanced_beta
    if alpha is None and not any(asked):
        return None
    total = int(counts.sum())
    different, which = np.unique(counts, return_inverse=True)
    every = None if isinstance(alpha, Mapping) else alpha
    bounds = [_bounds(Fraction(int(count), total), every, *asked) for count in different]
    most = _pairs([at_most(high, total) for high, _ in bounds])[:, which]
    least = _pairs([1 - at_most(1 - low, total) for _, low in bounds])[:, which]
    for code, share in alpha.items() if isinstance(alpha, Mapping) else ():
        named = min(Fraction(int(most[0, code]), int(most[1, code])), at_most(Fraction(share), total))
        most[:, code] = named.numerator, named.denominator
    return ShareBounds(most, least, alpha, any(asked))


def _bounds(
    q: Fraction,
    alpha: Decimal | None,
    delta: Decimal | None,
    beta: Decimal | None,
    enhanced_beta: Decimal | None,
) -> tuple[Fraction, Fraction]:
    """Return the greatest and the least share in a class of a value with the share q in the table."""
    most, least = Fraction(1), Fraction(0)
    if alpha is not None:
        most = Fraction(alpha)
    if delta is not None:
        factor = exponential(delta)
        most, least = min(most, q * factor), q / factor
    if beta is not None:
        most = min(most, (1 + Fraction(beta)) * q)
    if enhanced_beta is not None:
        most = min(most, q * (1 + min(Fraction(enhanced_beta), surprise(q))))
    return most, least


def exponential(delta: Decimal) -> Fraction:
    """Return a lower bound of exp(delta), at least 1, relatively `BOUND_GAP` below it."""
    with localcontext(Context(prec=DECIMAL_DIGITS)):
        return max(Fraction(1), Fraction(min(delta, LARGEST_DELTA).exp()) * (1 - BOUND_GAP))


def surprise(q: Fraction) -> Fraction:
    """Return a lower bound of -ln q, at least 0, relatively `BOUND_GAP` below it."""
    with localcontext(Context(prec=DECIMAL_DIGITS)):
        exact = -(Decimal(q.numerator) / Decimal(q.denominator)).ln()
        return max(Fraction(0), Fraction(exact) * (1 - BOUND_GAP))


def at_most(x: Fraction, most: int) -> Fraction:
    """Return the greatest fraction of at most x, 0 <= x, with a denominator of at most `most`.

    >>> at_most(Fraction(31, 100), 10)
    Fraction(3, 10)
    """
    if x.denominator <= most:
        return x
    # The two last fractions of the expansion of x are neighbours, one on either side of x: their denominators
    # together exceed `most`.
    p0, q0, p1, q1 = 0, 1, 1, 0
    n, d = x.numerator, x.denominator
    while q0 + (n // d) * q1 <= most:
        a = n // d
        p0, q0, p1, q1 = p1, q1, p0 + a * p1, q0 + a * q1
        n, d = d, n - a * d
    k = (most - q0) // q1
    one, other = Fraction(p0 + k * p1, q0 + k * q1), Fraction(p1, q1)
    return min(one, other)


def _pairs(shares: list[Fraction]) -> NDArray[np.int64]:
    """Return numerators and denominators, (2, m)."""
    return np.array([[x.numerator for x in shares], [x.denominator for x in shares]], dtype=np.int64)


@compiled
def share_units(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, rule: np.void, arrays: NDArray[np.int64]
) -> int:
    """Return the violation of all share bounds of a rule by a class, in `UNITS` of a record."""
    total, m, start = 0, rule["values"], rule["shares"]
    absent, units = rule["floors"], rule["floor_units"]
    for i in range(len(values)):
        total += value_units(values[i], weights[i], size, rule, arrays)
        if absent > 0:
            absent -= arrays[start + LEAST_COUNT * m + values[i]] > 0
            units -= arrays[start + LEAST_UNITS * m + values[i]]
    return int(total + size * units) if absent > 0 else int(total)


@inner
def value_units(value: int, count: int, size: int, rule: np.void, arrays: NDArray[np.int64]) -> int:
    """Return by how much `count` records of a value are beyond the bounds of a class of `size` records."""
    m, place = rule["values"], rule["shares"] + value
    units = 0
    if count * arrays[place + MOST_SIZE * m] > size * arrays[place + MOST_COUNT * m]:
        units += count * UNITS - size * arrays[place + MOST_UNITS * m]
    if count * arrays[place + LEAST_SIZE * m] < size * arrays[place + LEAST_COUNT * m]:
        units += size * arrays[place + LEAST_UNITS * m] - count * UNITS
    return int(units)
