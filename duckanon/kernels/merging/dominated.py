"""Classes are merged until no class total discloses a single contribution: the repair of the p % rule.

In each round every violating class, the worst first, is merged with one of its nearest classes: the one whose
union keeps the rule at the least SSE. If no union with one of `SEVERAL_PARTNERS_CANDIDATES` classes keeps the
rule, the class is merged with one class after the other, the nearest first, until the rule is kept. Then at
least every second violating class is gone after a round, while the candidates of each class double. So the
cost is O(m log m) in all, in few dimensions. Deterministic; ties to the nearest.

By hand, p = 10: in a class of 100, 3 and 2, the contribution 100 is known within 2 %. The nearest class, of
4, 4 and 4, widens that to 13 %.

>>> parts = np.array([[[100.0, 3, 2, 0, 0, 0]], [[4.0, 4, 4, 0, 0, 0]], [[90.0, 90, 90, 0, 0, 0]]])
>>> merge_dominated(np.array([[0.0], [3.0], [90.0]]), np.full(3, 3), parts, 10.0).tolist()
[0, 0, 1]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.dominance import NUMBERS_A_CLASS, ROUNDING, reached
from duckanon.kernels.neighbours.centroids import nearest, principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

FIRST_CANDIDATES = 16
"""Candidates of each class in the first round."""

SEVERAL_PARTNERS_CANDIDATES = 256
"""If none of this many candidates is enough alone, a class is merged with several of them."""

MAX_CANDIDATES_IN_MEMORY = 4_000_000
"""Candidates in memory at once; more only if one class alone has more."""


def merge_dominated(
    sums: NDArray[np.float64],
    sizes: NDArray[np.int64],
    parts: NDArray[np.float64],
    p: float,
    *,
    again: Callable[[NDArray[np.int64]], NDArray[np.float64]] | None = None,
) -> NDArray[np.int64]:
    """Return the new class (m,) of each old one, merged until all keep the p % rule or one class is left."""
    # `sums` (m, d) are the sums of coordinates of each class, `sizes` (m,) its records, and `parts` (m, q,
    # `NUMBERS_A_CLASS`) its `dominance.contributions` in q columns; p is in per cent. New classes are
    # numbered in the order of their lowest old class. `again` returns the parts of classes merged by labels
    # (m,); it is needed if several classes have contributions of one subject, because these add up.
    bound = p * (1.0 + ROUNDING) / 100.0
    sums, parts, parent = sums.copy(), parts.copy(), np.arange(len(sizes))
    records, count = sizes.astype(np.float64), FIRST_CANDIDATES
    while True:
        remaining = np.flatnonzero(parent == np.arange(len(parent)))
        found = reached(parts[remaining]).min(axis=1, initial=np.inf)
        violating = np.flatnonzero(found < 100.0 * bound)
        if not len(violating) or len(remaining) == 1:
            return np.asarray(np.unique(_ends(parent), return_inverse=True)[1], dtype=np.int64)
        ranks = np.arange(1, min(count + 1, len(remaining)) + 1)
        worst = violating[np.argsort(found[violating], kind="stable")]
        centroids = principal(sums[remaining] / records[remaining, None], np.arange(len(remaining)))
        centroids = centroids if centroids.shape[1] else np.zeros((len(remaining), 1))
        several, before = len(ranks) > min(SEVERAL_PARTNERS_CANDIDATES, len(remaining) - 1), records.copy()
        step = max(1, MAX_CANDIDATES_IN_MEMORY // len(ranks))
        for some in (worst[start : start + step] for start in range(0, len(worst), step)):
            near = remaining[nearest(centroids, centroids[some], ranks, parallel=True)]
            _merge_round(sums, records, parts, parent, remaining[some], near, bound, before, several)
        if again is not None:
            kept, labels = np.unique(_ends(parent), return_inverse=True)
            parts[kept] = again(labels.astype(np.int64))
        count *= 2 if several else 4


def _ends(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class that holds each class now."""
    while not np.array_equal(parent, parent[parent]):
        parent = parent[parent]
    return parent


@compiled
def _merge_round(
    sums: NDArray[np.float64],
    sizes: NDArray[np.float64],
    parts: NDArray[np.float64],
    parent: NDArray[np.int64],
    violating: NDArray[np.int64],
    near: NDArray[np.int64],
    bound: float,
    before: NDArray[np.float64],
    several: bool,
) -> None:
    """Merge each violating class (v,) with one class near it (v, c), or with `several`."""
    # A class that has grown in this round waits. `before` (m,) are the sizes at the beginning of the round.
    union = np.empty(parts.shape[1:])
    for row in range(len(violating)):
        x = violating[row]
        if parent[x] != x or sizes[x] != before[x]:
            continue
        best, least = -1, np.inf
        for i in range(near.shape[1]):
            y = _holder(parent, near[row, i])
            if y != x:
                _unite(parts[x], parts[y], union)
                if _keeps(union, bound):
                    loss = _loss(sums, sizes, x, y)
                    if best < 0 or loss < least:
                        best, least = y, loss
        if best >= 0:
            _join(sums, sizes, parts, parent, x, best)
            continue
        for i in range(near.shape[1] if several else 0):
            y = _holder(parent, near[row, i])
            if y != x:
                x = _join(sums, sizes, parts, parent, x, y)
                if _keeps(parts[x], bound):
                    break


@compiled
def _holder(parent: NDArray[np.int64], c: int) -> int:
    """Return the class that holds a class now, and shorten the path of parents to it."""
    while parent[c] != c:
        parent[c] = parent[parent[c]]
        c = parent[c]
    return c


@compiled
def _join(
    sums: NDArray[np.float64],
    sizes: NDArray[np.float64],
    parts: NDArray[np.float64],
    parent: NDArray[np.int64],
    x: int,
    y: int,
) -> int:
    """Merge two classes under the lower number; return that number."""
    low, high = min(x, y), max(x, y)
    _unite(parts[low], parts[high], parts[low])
    for axis in range(sums.shape[1]):
        sums[low, axis] += sums[high, axis]
    sizes[low] += sizes[high]
    parent[high] = low
    return low


@compiled
def _loss(sums: NDArray[np.float64], sizes: NDArray[np.float64], x: int, y: int) -> float:
    """Return what the union of two classes adds to SSE."""
    total = 0.0
    for axis in range(sums.shape[1]):
        difference = sums[x, axis] / sizes[x] - sums[y, axis] / sizes[y]
        total += difference * difference
    return float(total * sizes[x] * sizes[y] / (sizes[x] + sizes[y]))


@compiled
def _unite(one: NDArray[np.float64], other: NDArray[np.float64], union: NDArray[np.float64]) -> None:
    """Write the parts (q, 6) of a union; `union` may be `one` or `other`."""
    for column in range(len(one)):
        for sign in range(0, NUMBERS_A_CLASS, 3):
            a, b, rest = one[column, sign], one[column, sign + 1], one[column, sign + 2]
            c, d = other[column, sign], other[column, sign + 1]
            rest += other[column, sign + 2]
            if c > a:
                a, b, c, d = c, d, a, b
            # a is the largest contribution of the union; the second is b or c.
            if c > b:
                b, c = c, b
            union[column, sign], union[column, sign + 1] = a, b
            union[column, sign + 2] = rest + c + d


@compiled
def _keeps(parts: NDArray[np.float64], bound: float) -> bool:
    """Whether a class keeps the p % rule in all columns: `dominance.reached` without a division."""
    for column in range(len(parts)):
        first, second, rest = parts[column, 0], parts[column, 1], parts[column, 2]
        low_first, low_second, low_rest = parts[column, 3], parts[column, 4], parts[column, 5]
        above, below = second + rest, low_second + low_rest
        if first > 0.0 and max(rest, low_first + below) < bound * first:
            return False
        if low_first > 0.0 and max(first + above, low_rest) < bound * low_first:
            return False
        if max(above, below) < bound * max(first, low_first):
            return False
    return True
