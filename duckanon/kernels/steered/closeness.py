"""A class of a stream keeps l values and t to the tuples that were read, or grows until it does.

The paper leaves t-closeness of streams open (section VII). Here a class leaves if its EMD from the
distribution of the values read so far is at most t. Otherwise it takes the held tuple that helps most, and
repeats this as long as each step helps. Values missing for l come first, then the EMD above t. Among tuples
that help as much, for example all those after which nothing is above t, the class takes the nearest.

Comparisons with t are comparisons of fractions, and exact. The excess of an EMD over t is rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.compiled import inner
from duckanon.kernels.steered.seen import Seen, number_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_EXCESS = 1e-300
"""Least excess of an EMD above t, so that it is never rounded to 0."""


@inner
def at_most(numerator: int, denominator: int, top: int, bottom: int) -> bool:
    """Tell whether numerator / denominator <= top / bottom; all are >= 0, both denominators > 0."""
    # Quotients are compared first, then the inverted fractions of the remainders. So no product can overflow.
    while True:
        whole, other = numerator // denominator, top // bottom
        if whole != other:
            return whole < other
        numerator, top = numerator - whole * denominator, top - other * bottom
        if numerator == 0 or top == 0:
            return numerator == 0
        numerator, denominator, top, bottom = bottom, top, denominator, numerator


@inner
def missing(seen: Seen) -> int:
    """Return how many values the class lacks for l, summed over the attributes."""
    lacking = 0
    for s in range(len(seen.ordered)):
        lacking += max(0, seen.l[s] - seen.different[s])
    return lacking


@inner
def excess(seen: Seen, size: int, tuples: int) -> float:
    """Return by how much the EMD of the class of `size` exceeds t, summed over the attributes. O(S M)."""
    # 0 if no EMD exceeds t. `tuples` were read.
    number, above = number_of(seen, tuples), 0.0
    for s in range(len(seen.ordered)):
        if seen.t[s, 1] > 0:
            steps = _steps(seen, s)
            total = _ordered(seen, s, size, number) if seen.ordered[s] else _equal(seen, s, size, number)
            above += _above(total, steps * size * number, seen.t[s, 0], seen.t[s, 1])
    return above


@inner
def look_ahead(seen: Seen, size: int, tuples: int) -> None:
    """Write for each value the `excess` of each attribute if the class had one more member of it. O(S M)."""
    number = number_of(seen, tuples)
    for s in range(len(seen.ordered)):
        if seen.t[s, 1] > 0:
            if seen.ordered[s]:
                total = _ahead_ordered(seen, s, size + 1, number)
            else:
                total = _ahead_equal(seen, s, size + 1, number)
            whole = _steps(seen, s) * (size + 1) * number
            for v in range(seen.counts.shape[1]):
                seen.excess[s, v] = _above(total + seen.changes[v], whole, seen.t[s, 0], seen.t[s, 1])


@inner
def _steps(seen: Seen, s: int) -> int:
    """Return the divisor of the EMD: the steps of an ordered domain, 2 for equal distance."""
    if not seen.ordered[s]:
        return 2
    values = 0
    for v in range(seen.counts.shape[1]):
        values += seen.counts[s, v] > 0
    return max(1, values - 1)


@inner
def _above(total: int, whole: int, top: int, bottom: int) -> float:
    """Return total / whole - top / bottom if it is above 0, else 0."""
    if at_most(total, whole, top, bottom):
        return 0.0
    return max(float(total) / float(whole) - float(top) / float(bottom), LEAST_EXCESS)


@inner
def _ordered(seen: Seen, s: int, size: int, number: int) -> int:
    """Return the sum over the domain of |number C - size R|: C members, R tuples read up to each value."""
    counts, members = seen.counts[s], seen.members[s]
    inside, below, total = 0, 0, 0
    for v in range(len(counts)):
        if counts[v] > 0:
            inside, below = inside + members[v], below + counts[v]
            total += abs(number * inside - size * below)
    return total


@inner
def _equal(seen: Seen, s: int, size: int, number: int) -> int:
    """Return the sum over the domain of |number c - size r|: c members, r tuples read with each value."""
    counts, members = seen.counts[s], seen.members[s]
    total = 0
    for v in range(len(counts)):
        total += abs(number * members[v] - size * counts[v])
    return total


@inner
def _ahead_ordered(seen: Seen, s: int, size: int, number: int) -> int:
    """Return `_ordered` with one more member of the first value; write the change for each other value."""
    # One more member of value v counts from v on: the terms below v stay without it, the others include it.
    counts, members, changes = seen.counts[s], seen.members[s], seen.changes
    inside, below, total, change = 0, 0, 0, 0
    for v in range(len(counts)):
        changes[v] = change
        if counts[v] > 0:
            inside, below = inside + members[v], below + counts[v]
            plain, more = abs(number * inside - size * below), abs(number * (inside + 1) - size * below)
            total += more
            change += plain - more
    return total


@inner
def _ahead_equal(seen: Seen, s: int, size: int, number: int) -> int:
    """Return `_equal` of the members for the given size; write the change by one more of each value."""
    counts, members = seen.counts[s], seen.members[s]
    total = 0
    for v in range(len(counts)):
        plain = abs(number * members[v] - size * counts[v])
        total += plain
        seen.changes[v] = abs(number * (members[v] + 1) - size * counts[v]) - plain
    return total


@inner
def ahead(seen: Seen, codes: NDArray[np.int64], slot: int) -> tuple[int, float]:
    """Return `missing` and `excess` of the class plus the tuple in a slot, after `look_ahead`. O(S)."""
    lacking, above = 0, 0.0
    for s in range(len(seen.ordered)):
        code = codes[s, slot]
        lacking += max(0, seen.l[s] - seen.different[s] - (seen.members[s, code] == 0))
        if seen.t[s, 1] > 0:
            above += seen.excess[s, code]
    return lacking, above
