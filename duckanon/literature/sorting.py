"""Pairwise-systematic microaggregation on sorted records: MultiDSort-P-S and Meansort-P-S.

Kabir et al., the sorting framework for microaggregation: records are put in one order, and classes are formed
around the first and the last record until fewer than 3k records remain. Steps: docs/methods/sorting.md.

Reading: the addition of least sum of squared errors (SSE) is the record nearest to the mean of the class so
far; equal additions go to the lowest record number. Steps 2.3 and 2.8 are read to the letter: the first and
the last record are both found before a class is formed. So the class of the first cannot take the last, not
even at the end. With this reading all twelve values printed for MultiDSort come out, from records that are
sorted once, on data that are not normalised, with MONTH and the ten revenue and sales columns of EIA. Step
2.2 sorts in each round, which is the option `resort`. All twelve values printed for Meansort come out as
well, on data that are not normalised. Meansort has nothing to sort anew: when records leave, all sums change
alike.

Order: equal values, and equal sums, are ordered by record number, each value with its own rank.

O(n^2) distances at worst; with `resort` also O(n^2 d / k) ranks. MultiDSort takes O(d n log n), Meansort O(n
d + n log n).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import Formation, formation_of
from duckanon.kernels.neighbours.boxtree import nearest, take
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def multidsort_ps(points: ArrayLike, k: int, *, resort: bool = False) -> NDArray[np.int64]:
    """Return classes of k records, the last of k..2k-1, by MultiDSort-P-S."""
    # `resort` ranks the remaining records anew before each pair of classes. Kabir et al., Algorithms 1 and 2.
    matrix = distance_points(points)
    ascending = _ascending(matrix)
    columns = len(ascending) if resort else 0
    return _pairwise_systematic(matrix, k, _rank_sums(ascending), ascending[:columns])


def meansort_ps(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k records, the last of k..2k-1, by Meansort-P-S: Kabir et al., Eq. 5."""
    matrix = distance_points(points)
    return _pairwise_systematic(matrix, k, _deviations(matrix), np.zeros((0, len(matrix)), np.int64))


def multidsort_order(points: ArrayLike) -> NDArray[np.int64]:
    """Return the records (n,) by the sum of their ranks in the columns: Kabir et al., Tables I to III."""
    return np.argsort(_rank_sums(_ascending(distance_points(points))), kind="stable")


def meansort_order(points: ArrayLike) -> NDArray[np.int64]:
    """Return the records (n,) by the sum of their differences from the column means: Tables IV and V."""
    return np.argsort(_deviations(distance_points(points)), kind="stable")


def _ascending(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each column the records by ascending value, equal values by record number."""
    return np.ascontiguousarray(np.argsort(points, axis=0, kind="stable").T)


def _rank_sums(ascending: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of the ranks of each record."""
    sums = np.zeros(ascending.shape[1])
    for records in ascending:
        sums[records] += np.arange(len(records))
    return sums


def _deviations(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the differences from the means, column by column."""
    sums = np.zeros(len(points))
    for column in points.T:
        sums += column - column.mean()
    return sums


def _pairwise_systematic(
    points: NDArray[np.float64], k: int, key: NDArray[np.float64], ascending: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k)
    _run(state, k, key, ascending)
    return state.labels


@compiled
def _run(state: Formation, k: int, key: NDArray[np.float64], ascending: NDArray[np.int64]) -> None:
    """Form all classes; if `ascending` has no rows, the keys stay as they are."""
    left = state.tree.left
    while left[0] >= 3 * k:
        seeds = _seeds(state, key, ascending)
        _grow(state, seeds[0], k)
        _grow(state, seeds[1], k)
    if left[0] >= 2 * k:
        _grow(state, _seeds(state, key, ascending)[0], k)
    for record in range(len(state.labels)):
        if state.labels[record] < 0:
            state.labels[record] = state.formed[0]


@compiled
def _seeds(state: Formation, key: NDArray[np.float64], ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first and the last of the records without a class, and take both out of the tree."""
    _rank(state, key, ascending)
    first = last = -1
    for record in range(len(key)):
        if state.labels[record] >= 0:
            continue
        if first < 0 or key[record] < key[first]:
            first = record
        if last < 0 or key[record] >= key[last]:
            last = record
    seeds = np.array([first, last])
    take(state.tree, seeds)
    return seeds


@compiled
def _rank(state: Formation, key: NDArray[np.float64], ascending: NDArray[np.int64]) -> None:
    """Write the sums of the ranks among the records without a class, if `ascending` has rows."""
    if len(ascending) == 0:
        return
    key[:] = 0.0
    for j in range(len(ascending)):
        rank = 0
        for record in ascending[j]:
            if state.labels[record] < 0:
                key[record] += rank
                rank += 1


@compiled
def _grow(state: Formation, seed: int, size: int) -> None:
    """Make a class of a seed and `size` - 1 records, added one by one with the least increase of the SSE."""
    record, distance = np.full(1, seed), np.empty(1)
    total = np.zeros(len(state.rest))
    for members in range(1, size + 1):
        state.labels[record[0]] = state.formed[0]
        total += state.points[record[0]]
        if members < size:
            nearest(state.tree, total / members, distance, record)
            take(state.tree, record)
    state.formed[0] += 1
