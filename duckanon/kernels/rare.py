"""Merging of classes until every combination of released values of some columns has k records, or subjects.

A class is rare in a subset of columns if fewer than k records have its values there, the records of all
classes with equal values together. Which values a union of classes releases is known only after recoding. So
rounds of merging and of recoding take turns:

- In the first `PAIR_ROUNDS` rounds each rare class is merged with one near class that has other values in the
  subset. The union often takes values that many records have.
- In later rounds a rare class is merged with its nearest classes until the union alone has k records, or
  until all classes are one.

Each round leaves fewer classes, so merging ends. A class of k records is never rare, and classes only grow:
one class of all records keeps every k up to the number of records. Deterministic; ties to the lowest class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.neighbours.centroids import nearest, principal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Subsets = Sequence[tuple[tuple[int, ...], int]]  # numbers of columns, and k
    Held = tuple[NDArray[np.int64], NDArray[np.int64]]  # every pair of a class and a subject once

PAIR_ROUNDS = 24
"""Rounds in which a rare class is merged with one class only."""

CANDIDATES = 48
"""Nearest classes among which a partner is chosen."""

MAX_CANDIDATES_IN_MEMORY = 4_000_000
"""Pairs of a rare class and a candidate that are compared at once."""


class CodedValues(NamedTuple):
    """Released values of classes, coded, and the subjects of each class where subjects are counted."""

    codes: NDArray[np.int64]  # (q, m), value of each class in each column
    held: Held | None = None


def cells_of(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the combination of values of each class (m,), from codes (q, m)."""
    found = np.unique(codes[0], return_inverse=True)[1].astype(np.int64)
    for more in codes[1:]:
        found = np.unique(found * (int(more.max(initial=0)) + 1) + more, return_inverse=True)[1]
    return np.asarray(found, dtype=np.int64)


def rare_classes(
    values: CodedValues, sizes: NDArray[np.int64], subsets: Subsets
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the combination of each class in each subset, and whether it is rare there, each (s, m)."""
    cells = np.empty((len(subsets), len(sizes)), dtype=np.int64)
    rare = np.zeros(cells.shape, dtype=bool)
    for place, (columns, k) in enumerate(subsets):
        cells[place] = cells_of(values.codes[list(columns)])
        if values.held is None:
            counts = np.bincount(cells[place], weights=sizes)
        else:
            pairs = np.unique(np.stack([cells[place][values.held[0]], values.held[1]]), axis=1)
            counts = np.bincount(pairs[0])
        rare[place] = counts[cells[place]] < k
    return cells, rare


def merge_rare(
    sums: NDArray[np.float64],
    sizes: NDArray[np.int64],
    values: CodedValues,
    subsets: Subsets,
    again: Callable[[NDArray[np.int64]], CodedValues],
) -> NDArray[np.int64]:
    """Return the new class (m,) of each old one, merged until no class is rare or one class is left."""
    # `sums` (m, d) are the sums of coordinates of each class, `sizes` (m,) its records. `again` returns the
    # values of classes merged by labels (m,). New classes are numbered in the order of their lowest old
    # class.
    merged, rounds = np.arange(len(sizes)), 0
    while True:
        cells, rare = rare_classes(values, sizes, subsets)
        if len(sizes) == 1 or not rare.any():
            return merged
        k = np.array([k for _, k in subsets])
        least = np.where(rare, k[:, None], 0).max(axis=0) if rounds >= PAIR_ROUNDS else None
        joined = _joined(sums, sizes, cells, rare, least)
        merged = joined[merged]
        count = int(joined.max()) + 1
        more = np.zeros((count, sums.shape[1])), np.zeros(count, dtype=np.int64)
        np.add.at(more[0], joined, sums)
        np.add.at(more[1], joined, sizes)
        sums, sizes = more
        values, rounds = again(merged), rounds + 1


def _joined(
    sums: NDArray[np.float64],
    sizes: NDArray[np.int64],
    cells: NDArray[np.int64],
    rare: NDArray[np.bool_],
    least: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Return the new class (m,) of each class after a round; with `least` unions have so many records."""
    at = np.flatnonzero(rare.any(axis=0))
    partners, costs = _partners(sums, sizes, cells, rare, at)
    parent, records, touched = np.arange(len(sizes)), sizes.copy(), np.zeros(len(sizes), dtype=bool)

    def holder(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = int(parent[one])
        return one

    for row in np.argsort(costs[:, 0], kind="stable").tolist():
        x = int(at[row])
        # A class that another rare class has taken already gets new values first.
        if touched[x]:
            continue
        for place in partners[row].tolist():
            y = holder(place)
            if y == holder(x):
                continue
            # Common values may take in several rare classes; two rare classes are one pair.
            if least is None and touched[place] and rare[:, place].any():
                continue
            low, high = min(holder(x), y), max(holder(x), y)
            parent[high], records[low] = low, records[low] + records[high]
            touched[x] = touched[place] = True
            if least is None or records[low] >= least[x]:
                break
    ends = np.array([holder(one) for one in range(len(parent))], dtype=np.int64)
    return np.asarray(np.unique(ends, return_inverse=True)[1], dtype=np.int64)


def _partners(
    sums: NDArray[np.float64],
    sizes: NDArray[np.int64],
    cells: NDArray[np.int64],
    rare: NDArray[np.bool_],
    at: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return classes near each class `at` (v,), the best first, and what their union adds to SSE: (v, c)."""
    # First come classes that differ in every subset in which the class is rare, then classes that differ in
    # some, then others.
    centroids = sums / sizes[:, None] if sums.shape[1] else np.zeros((len(sizes), 1))
    places = principal(centroids, np.arange(len(sizes)))
    places = places if places.shape[1] else np.zeros((len(sizes), 1))
    ranks = np.arange(1, min(CANDIDATES + 1, len(sizes)) + 1)
    found, costs = [], []
    for some in np.array_split(at, -(-len(at) * len(ranks) // MAX_CANDIDATES_IN_MEMORY)):
        near = nearest(places, places[some], ranks, parallel=True)
        weight = sizes[some][:, None] * sizes[near] / (sizes[some][:, None] + sizes[near])
        cost = weight * sum((axis[some][:, None] - axis[near]) ** 2 for axis in centroids.T)
        differ = np.zeros(near.shape, dtype=np.int64)
        for one, few in zip(cells, rare, strict=True):
            differ += few[some][:, None] & (one[near] != one[some][:, None])
        missed = rare[:, some].sum(axis=0)[:, None] - differ
        kind = np.where(near == some[:, None], 3, np.where(missed == 0, 0, np.where(differ > 0, 1, 2)))
        order = np.lexsort((near, cost, kind), axis=1)
        found.append(np.take_along_axis(near, order, axis=1)[:, : len(ranks) - 1])
        costs.append(np.take_along_axis(cost, order, axis=1))
    return np.vstack(found), np.vstack(costs)
