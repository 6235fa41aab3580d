"""A class of a stream keeps l values and t to the tuples that were read, or grows until it does.

The paper leaves t-closeness of streams open (section VII). Here a class leaves if its EMD from the
distribution of the values read so far is at most t. Otherwise it takes the held tuple that helps most, and
repeats this as long as each step helps. Values missing for l come first, then the EMD above t. Among tuples
that help as much, for example all those after which nothing is above t, the class takes the nearest.

Comparisons with t are comparisons of fractions, and exact. The excess of an EMD over t is rounded.

Values are codes, numbered in their order. A value that was never read, or has left the window, has a count of
0 and is not part of the domain. So codes may be given before their tuples are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import inner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

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


T_DENOMINATOR = 10**12
"""Largest denominator of t, as everywhere else."""


class AttributeLimit(NamedTuple):
    """What a class must keep of a sensitive attribute."""

    ordered: bool  # whether the ground distance is that of ranks; otherwise two values are equal or not
    # largest EMD of the class from the tuples read; its denominator is at most `T_DENOMINATOR`
    t: Fraction | None = None
    # least number of different values, at least 1
    l: int = 1  # noqa: E741 - l-diversity has this name everywhere


class Seen(NamedTuple):
    """Sensitive values of S attributes, with at most M different values each."""

    # (S, M), how often each value was read, in the last W tuples if there is a window
    counts: NDArray[np.int64]
    members: NDArray[np.int64]  # (S, M), how often the class that is being formed has the value
    excess: NDArray[np.float64]  # (S, M), for `closeness`: the EMD above t if one more member has the value
    changes: NDArray[np.int64]  # (M,), for `closeness`
    # (S, W), values of the last W tuples, by their position modulo W; W is 0 if all count
    recent: NDArray[np.int64]
    different: NDArray[np.int64]  # (S,), number of values in the class that is being formed
    ordered: NDArray[np.bool_]  # (S,), see `AttributeLimit`
    t: NDArray[np.int64]  # (S, 2), numerator and denominator; both 0 if t is not required
    # (S,), see `AttributeLimit`
    l: NDArray[np.int64]  # noqa: E741 - l-diversity has this name everywhere


def seen_of(asked: Sequence[AttributeLimit], window: int) -> Seen:
    """Return the state before any tuple and any value; ValueError if t or l is out of range."""
    for one in asked:
        if one.l < 1:
            raise ValueError(f"l must be at least 1, not {one.l}")
        if one.t is not None and not (0 < one.t <= 1 and one.t.denominator <= T_DENOMINATOR):
            raise ValueError(f"t must be above 0, at most 1 and of twelve decimals at most, not {one.t}")
    count = len(asked)
    t = [(0, 0) if one.t is None else (one.t.numerator, one.t.denominator) for one in asked]
    return Seen(
        counts=np.zeros((count, 0), np.int64),
        members=np.zeros((count, 0), np.int64),
        excess=np.zeros((count, 0)),
        changes=np.zeros(0, np.int64),
        recent=np.zeros((count, window), np.int64),
        different=np.zeros(count, np.int64),
        ordered=np.array([one.ordered for one in asked], np.bool_),
        t=np.array(t, np.int64).reshape(count, 2),
        l=np.array([one.l for one in asked], np.int64),
    )


def renumbered(seen: Seen, places: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> Seen:
    """Return the same with new codes of values: `places` has each attribute's new code by the old one."""
    # O(S (M + W)). A code of -1 drops the value, whose count must be 0.
    count, most = len(places), max(sizes, default=0)
    counts = np.zeros((count, most), np.int64)
    for s, new in enumerate(places):
        stay = np.flatnonzero(new >= 0)
        counts[s, new[stay]] = seen.counts[s, stay]
    return seen._replace(
        counts=counts, members=np.zeros((count, most), np.int64), excess=np.zeros((count, most)),
        changes=np.zeros(most, np.int64), recent=recoded(seen.recent, places),
    )  # fmt: skip


def recoded(codes: NDArray[np.int64], places: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the new codes, given by the old ones; an attribute a row."""
    found = codes.copy()
    for s, new in enumerate(places):
        if len(new):  # before the first tuple, no codes exist
            found[s] = new[codes[s]]
    return found


@inner
def read(seen: Seen, position: int, codes: NDArray[np.int64], i: int) -> None:
    """Count the tuple at a position in the stream; its values are column i of codes. O(S)."""
    window = seen.recent.shape[1]
    for s in range(len(seen.ordered)):
        code = codes[s, i]
        seen.counts[s, code] += 1
        if window > 0:
            place = position % window
            if position >= window:
                seen.counts[s, seen.recent[s, place]] -= 1
            seen.recent[s, place] = code


@inner
def number_of(seen: Seen, tuples: int) -> int:
    """Return how many of the tuples read count."""
    window = seen.recent.shape[1]
    return int(min(tuples, window) if window > 0 else tuples)


@inner
def enter(seen: Seen, codes: NDArray[np.int64], slot: int) -> None:
    """Count the tuple in a slot as a member of the class that is being formed. O(S)."""
    for s in range(len(seen.ordered)):
        code = codes[s, slot]
        seen.different[s] += seen.members[s, code] == 0
        seen.members[s, code] += 1


@inner
def forget(seen: Seen, codes: NDArray[np.int64], first: int, count: int) -> None:
    """Remove the members of the class, the tuples in some slots, from the counts. O(count S)."""
    for s in range(len(seen.ordered)):
        seen.different[s] = 0
        for slot in range(first, first + count):
            seen.members[s, codes[s, slot]] = 0
