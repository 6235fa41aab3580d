"""Classes are merged until the total of none tells one contribution to it: the repair of the p % rule."""

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
"""Candidates from which a class is merged with several where none alone is enough."""

MAX_CANDIDATES_IN_MEMORY = 4_000_000
"""Candidates that are in memory at once, if not those of one class."""


def merge_dominated(
    sums: NDArray[np.float64],
    sizes: NDArray[np.int64],
    parts: NDArray[np.float64],
    p: float,
    *,
    again: Callable[[NDArray[np.int64]], NDArray[np.float64]] | None = None,
) -> NDArray[np.int64]:
    """Return classes merged until every one keeps the p % rule, or one is left.

    Parameters
    ----------
    sums : ndarray of shape (m, d), float64
        Sums of the coordinates of each class.
    sizes : ndarray of shape (m,), int64
        Records of each class.
    parts : ndarray of shape (m, q, `NUMBERS_A_CLASS`), float64
        Contributions to each class in q columns, as `dominance.contributions` gives them.
    p : float
        Per cent within which no contribution may be estimated.
    again : callable, optional
        Gives the parts (m', q, `NUMBERS_A_CLASS`) of classes merged by labels (m,) anew, after each round.
        Needed where several classes have contributions of one subject, for these add up.

    Returns
    -------
    ndarray of shape (m,), int64
        New class of each old class, 0..m'-1 in the order of the lowest old class.

    Notes
    -----
    In each round every violating class, the worst first, is merged with that of its nearest classes whose
    union with it keeps the rule at the least SSE. Where not even one of `SEVERAL_PARTNERS_CANDIDATES` does,
    it is merged with one after the other, the nearest first, until the rule is kept: then at least every
    second violating class is gone after a round, while the candidates of each double. O(m log m) in all, in
    few dimensions. Deterministic; ties to the nearest.

    Examples
    --------
    By hand, p = 10: 100 beside 3 and 2 is told within 2 %; the nearest class, of 4, 4 and 4, makes it 13 %.

    >>> parts = np.array([[[100.0, 3, 2, 0, 0, 0]], [[4.0, 4, 4, 0, 0, 0]], [[90.0, 90, 90, 0, 0, 0]]])
    >>> merge_dominated(np.array([[0.0], [3.0], [90.0]]), np.full(3, 3), parts, 10.0).tolist()
    [0, 0, 1]
    """
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
    """Merge each violating class (v,) with one, or `several`, near it (v, c); one that has grown waits.

    `before` (m,) are the sizes at the begin of the round.
    """
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
    """Return the class that holds a class now, and shorten the way there."""
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
    """Merge two classes under the lower number, which is returned."""
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
    """Write the parts (q, 6) of a union, which may be those of one of the two."""
    for column in range(len(one)):
        for sign in range(0, NUMBERS_A_CLASS, 3):
            a, b, rest = one[column, sign], one[column, sign + 1], one[column, sign + 2]
            c, d = other[column, sign], other[column, sign + 1]
            rest += other[column, sign + 2]
            if c > a:
                a, b, c, d = c, d, a, b
            # a is the largest; the next is b or c.
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
