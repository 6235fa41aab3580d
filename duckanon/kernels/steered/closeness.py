"""A class of a stream keeps l, t and the largest shares of values, or grows until it does.

The paper leaves t-closeness of streams open (section VII). Here a class leaves if its EMD from the
distribution of the values read so far is at most t, and it keeps l and the largest shares. Otherwise it takes
the held tuple that helps most, and repeats this as long as each step helps. Values missing for l come first,
then the excess: the EMD above t, and how far entropy or recursive l and shares are violated (`diversity`).
Among tuples that help as much, for example all those after which nothing is violated, the class takes the
nearest.

Comparisons with t, c and shares are comparisons of fractions, and exact. An excess is rounded, never to 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.closeness.threshold import L_DISTINCT
from duckanon.kernels.compiled import inner
from duckanon.kernels.steered.diversity import above_shares, add_shares, counted, lack, lack_with, over
from duckanon.kernels.steered.seen import number_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from duckanon.kernels.steered.seen import Seen


@inner
def missing(seen: Seen) -> int:
    """Return how many values the class lacks for l, summed over the attributes."""
    lacking = 0
    for s in range(len(seen.ordered)):
        lacking += max(0, seen.l[s] - seen.different[s])
    return lacking


@inner
def excess(seen: Seen, size: int, tuples: int) -> float:
    """Return by how much the class of `size` violates what is measured, summed over the attributes."""
    # 0 if nothing is violated. `tuples` were read. O(S (H M + size log size)).
    number, above = number_of(seen, tuples), 0.0
    for s in range(len(seen.ordered)):
        if seen.t[s, 1] > 0:
            total = _total(seen, s, size, number)
            above += over(total, _steps(seen, s) * size * number, seen.t[s, 0], seen.t[s, 1])
        if seen.l_kinds[s] != L_DISTINCT:
            above += lack(seen, s, counted(seen, s, size))
        if seen.shared[s]:
            above += above_shares(seen, s, size)
    return above


@inner
def look_ahead(seen: Seen, size: int, tuples: int) -> None:
    """Write for each value the `excess` of each attribute if the class had one more member of it."""
    number = number_of(seen, tuples)
    for s in range(len(seen.ordered)):
        if not seen.measured[s]:
            continue
        for v in range(seen.counts.shape[1]):
            seen.excess[s, v] = 0.0
        if seen.t[s, 1] > 0:
            total = _total_ahead(seen, s, size + 1, number)
            whole = _steps(seen, s) * (size + 1) * number
            for v in range(seen.counts.shape[1]):
                seen.excess[s, v] = over(total + seen.changes[v], whole, seen.t[s, 0], seen.t[s, 1])
        if seen.l_kinds[s] != L_DISTINCT:
            class_of = counted(seen, s, size)
            for v in range(seen.counts.shape[1]):
                seen.excess[s, v] += lack_with(seen, s, class_of, seen.members[s, v])
        if seen.shared[s]:
            add_shares(seen, s, size + 1)


@inner
def _total(seen: Seen, s: int, size: int, number: int) -> int:
    """Return the EMD times `_steps`, size and number."""
    if seen.heights[s] > 0:
        return _tree(seen, s, size, number)
    return _ordered(seen, s, size, number) if seen.ordered[s] else _equal(seen, s, size, number)


@inner
def _total_ahead(seen: Seen, s: int, size: int, number: int) -> int:
    """Return `_total` for one more member; write what each value adds to it."""
    if seen.heights[s] > 0:
        return _ahead_tree(seen, s, size, number)
    if seen.ordered[s]:
        return _ahead_ordered(seen, s, size, number)
    return _ahead_equal(seen, s, size, number)


@inner
def _steps(seen: Seen, s: int) -> int:
    """Return the divisor of the EMD: the steps of an ordered domain, 2 for equal distance, 2 H in a tree."""
    if seen.heights[s] > 0:
        return 2 * int(seen.heights[s])
    if not seen.ordered[s]:
        return 2
    values = 0
    for v in range(seen.counts.shape[1]):
        values += seen.counts[s, v] > 0
    return max(1, values - 1)


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
def _tree(seen: Seen, s: int, size: int, number: int) -> int:
    """Return the sum over all nodes below the root of |number c - size r|: c members, r tuples read below."""
    total = 0
    for level in range(seen.heights[s]):
        _below(seen, s, level)
        for node in range(seen.counts.shape[1]):
            total += abs(number * seen.numbers[0, node] - size * seen.numbers[1, node])
    return total


@inner
def _ahead_tree(seen: Seen, s: int, size: int, number: int) -> int:
    """Return `_tree` of the members for the given size; write the change by one more of each value."""
    total = 0
    for v in range(seen.counts.shape[1]):
        seen.changes[v] = 0
    for level in range(seen.heights[s]):
        _below(seen, s, level)
        for node in range(seen.counts.shape[1]):
            total += abs(number * seen.numbers[0, node] - size * seen.numbers[1, node])
        for v in range(seen.counts.shape[1]):
            node = seen.nodes[s, level, v]
            apart = number * seen.numbers[0, node] - size * seen.numbers[1, node]
            seen.changes[v] += abs(apart + number) - abs(apart)
    return total


@inner
def _below(seen: Seen, s: int, level: int) -> None:
    """Write how many members, and how many tuples read, are below each node of a level. O(M)."""
    for node in range(seen.counts.shape[1]):
        seen.numbers[0, node], seen.numbers[1, node] = 0, 0
    for v in range(seen.counts.shape[1]):
        node = seen.nodes[s, level, v]
        seen.numbers[0, node] += seen.members[s, v]
        seen.numbers[1, node] += seen.counts[s, v]


@inner
def ahead(seen: Seen, codes: NDArray[np.int64], slot: int) -> tuple[int, float]:
    """Return `missing` and `excess` of the class plus the tuple in a slot, after `look_ahead`. O(S)."""
    lacking, above = 0, 0.0
    for s in range(len(seen.ordered)):
        code = codes[s, slot]
        lacking += max(0, seen.l[s] - seen.different[s] - (seen.members[s, code] == 0))
        if seen.measured[s]:
            above += seen.excess[s, code]
    return lacking, above
