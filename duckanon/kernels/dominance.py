"""How well the total of a class hides the largest contribution to it: the p % rule of magnitude tables.

A contribution is the amount that one record, or all records of one subject, adds to the total. For each class
six numbers are enough, and the numbers of a union follow from those of its parts.

An intruder knows the total and a contribution x_j, and knows that the remaining contributions lie in a range
that holds 0. Let P be the sum of the positive remaining contributions, N that of the negative ones, in
absolute value. The intruder finds x_i in an interval that extends to each side of x_i by the sum of the
remaining contributions' distances to that end of the range. This is at least P on one side and at least N on
the other. So the interval is never wholly within max(P, N) of x_i. The worst case is the largest contribution
of one sign, estimated by the second of that sign or by the largest of the other sign. The p of a union is at
least the least p of its parts.

Hundepool et al., "Statistical Disclosure Control", Wiley 2012, section 4.2: the p % rule, for contributions
that are not negative.

By hand: 100, estimated by 50, is hidden by 3 + 2; 100 beside -50 alone is not hidden.

>>> reached(np.array([[100.0, 50.0, 5.0, 0.0, 0.0, 0.0], [100.0, 0.0, 0.0, 50.0, 0.0, 0.0]])).tolist()
[5.0, 0.0]

>>> contributions(np.array([5.0, 9.0, 1.0, -2.0]), np.zeros(4, dtype=np.int64), None, 1).tolist()
[[9.0, 5.0, 1.0, 2.0, 0.0, 0.0]]

`merge_dominated` merges classes until no class total discloses a single contribution. In each round every
violating class, the worst first, is merged with one of its nearest classes: the one whose union keeps the
rule at the least SSE. If no union with one of `SEVERAL_PARTNERS_CANDIDATES` classes keeps the rule, the class
is merged with one class after the other, the nearest first, until the rule is kept. Then at least every
second violating class is gone after a round, while the candidates of each class double. So the cost is O(m
log m) in all, in few dimensions. Deterministic; ties to the nearest.

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
from duckanon.kernels.neighbours.centroids import nearest, principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

NUMBERS_A_CLASS = 6
"""Numbers of a class: largest positive contribution, the second, the sum of the others; the same negative."""

ROUNDING = 1e-9
"""Share of p by which a class has to exceed p, so that sums in another order give the same verdict."""


def contributions(
    values: NDArray[np.float64], labels: NDArray[np.int64], subjects: NDArray[np.int64] | None, classes: int
) -> NDArray[np.float64]:
    """Return the contributions (classes, `NUMBERS_A_CLASS`): absolute values, 0 if there is none."""
    # For the positive contributions the largest, the second and the sum of the others, then the same for the
    # negative ones. `values` (n,), NaN contributes nothing; `labels` (n,), negative for no class; `subjects`
    # (n,) or None: the contribution of a subject to a class is the sum of its values there. O(n), with
    # subjects O(n log n). Sums run in the order of the records; nothing is subtracted.
    use = (labels >= 0) & ~np.isnan(values)
    class_of, numbers = labels[use], values[use]
    if subjects is not None:
        class_of, numbers = _of_subjects(class_of, numbers, subjects[use])
    above, below = numbers > 0, numbers < 0
    return np.hstack(
        [
            _largest(numbers[above], class_of[above], classes),
            _largest(-numbers[below], class_of[below], classes),
        ]
    )


def reached(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least p (...), in per cent, within which a contribution to each class can be estimated."""
    # `parts` (..., `NUMBERS_A_CLASS`) as by `contributions`. Infinity for a class without contributions.
    first, second, rest, low_first, low_second, low_rest = np.moveaxis(parts, -1, 0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        above, below = second + rest, low_second + low_rest
        by_next = np.maximum(rest, low_first + below) / first
        by_next_below = np.maximum(first + above, low_rest) / low_first
        by_other = np.maximum(above, below) / np.maximum(first, low_first)
        # 0 / 0 and x / 0 arise if there is no contribution.
        found = [
            np.where(largest > 0, one, np.inf)
            for one, largest in (
                (by_next, first),
                (by_next_below, low_first),
                (by_other, np.maximum(first, low_first)),
            )
        ]
        return np.asarray(100.0 * np.minimum(np.minimum(found[0], found[1]), found[2]))


def _of_subjects(
    class_of: NDArray[np.int64], numbers: NDArray[np.float64], subjects: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the class and the sum of each subject in each class."""
    order = np.lexsort((subjects, class_of))
    class_of, subjects = class_of[order], subjects[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (np.diff(class_of) != 0) | (np.diff(subjects) != 0)
    number = np.cumsum(begins) - 1
    sums = np.zeros(int(begins.sum()))
    with np.errstate(over="ignore"):
        np.add.at(sums, number, numbers[order])
    return class_of[begins], sums


def _largest(numbers: NDArray[np.float64], class_of: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """Return for each class the largest number, the second, and the sum of the others (classes, 3)."""
    parts = np.zeros((classes, 3))
    for place in range(2):
        np.maximum.at(parts[:, place], class_of, numbers)
        # Of several equal records one is removed: the last.
        at = np.flatnonzero(numbers == parts[class_of, place])
        gone = np.full(classes, -1, dtype=np.int64)
        gone[class_of[at]] = at
        left = np.ones(len(numbers), dtype=bool)
        left[gone[gone >= 0]] = False
        numbers, class_of = numbers[left], class_of[left]
    with np.errstate(over="ignore"):
        parts[:, 2] = np.bincount(class_of, weights=numbers, minlength=classes)
    return parts


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
