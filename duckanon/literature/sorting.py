"""Pairwise-systematic microaggregation on sorted records: MultiDSort-P-S and Meansort-P-S.

Kabir et al., the sorting framework for microaggregation: records are put in one order, and classes are formed
around the first and the last of it until fewer than 3k records remain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.one_by_one import Formation, formation_of
from duckanon.kernels.neighbours.boxtree import nearest, take
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def multidsort_ps(points: ArrayLike, k: int, *, resort: bool = False) -> NDArray[np.int64]:
    """Return classes of at least k records by pairwise-systematic microaggregation on MultiDSort.

    While 3k or more records remain, the first and the last of them in the order of `multidsort_order` are the
    seeds of two classes. If 2k..3k-1 records are left, the first of them is the seed of one more, which the
    last may not join. The k..2k-1 records then left form the last class. A class grows from its seed by one
    record at a time, the one that adds the least sum of squared errors (SSE); the first seed's before the
    last's.

    Parameters
    ----------
    points, k
        See `duckanon.literature`.
    resort : bool
        Whether the remaining records are ranked anew before each pair of classes.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of formation; every class has k records, but for the last
        with k..2k-1.

    Notes
    -----
    Exact and deterministic: equal additions to the SSE go to the lowest record number. O(n^2) distances at
    worst, far fewer in few columns, where a search tree is used; with `resort` also O(n^2 d / k) ranks.

    Source: Kabir et al., Algorithms 1 and 2 and section V-D. The addition of least SSE is the record nearest
    to the mean of the class so far. Steps 2.3 and 2.8 are read to the letter: the first and the last record
    are both found before a class is formed, so that the class of the first cannot take the last, not even at
    the end. So all twelve values printed for MultiDSort come out, from records that are sorted once, on data
    that are not normalised, with MONTH and the ten revenue and sales columns of EIA. Step 2.2 sorts in each
    round, which is `resort`.

    Examples
    --------
    >>> multidsort_ps([[0.0], [9.0], [1.0], [8.0], [2.0], [7.0]], 2).tolist()
    [0, 1, 0, 1, 2, 2]
    """
    matrix = distance_points(points)
    ascending = _ascending(matrix)
    columns = len(ascending) if resort else 0
    return _pairwise_systematic(matrix, k, _rank_sums(ascending), ascending[:columns])


def meansort_ps(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by pairwise-systematic microaggregation on Meansort.

    As `multidsort_ps`, in the order of `meansort_order`.

    Parameters
    ----------
    points, k
        See `duckanon.literature`.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of formation; every class has k records, but for the last
        with k..2k-1.

    Notes
    -----
    As `multidsort_ps`. There is nothing to sort anew: when records leave, all sums change alike.

    Source: Kabir et al., Eq. 5, Algorithm 2 and section V-D. All twelve values printed for Meansort come out,
    on data that are not normalised.

    Examples
    --------
    >>> meansort_ps([[0.0], [9.0], [1.0], [8.0], [2.0], [7.0]], 2).tolist()
    [0, 1, 0, 1, 2, 2]
    """
    matrix = distance_points(points)
    return _pairwise_systematic(matrix, k, _deviations(matrix), np.zeros((0, len(matrix)), np.int64))


def multidsort_order(points: ArrayLike) -> NDArray[np.int64]:
    """Return the records by the sum of their ranks in the columns.

    Parameters
    ----------
    points
        See `duckanon.literature`.

    Returns
    -------
    ndarray of shape (n,), int64
        The records, lowest sum first.

    Notes
    -----
    O(d n log n). Equal values, and equal sums, are ordered by record number: a stable sort, each value with
    its own rank.

    Source: Kabir et al., Algorithm 1 and Tables I to III.

    Examples
    --------
    >>> multidsort_order([[5, 6], [3, 10], [1, 3], [2, 1], [4, 2]]).tolist()
    [3, 2, 4, 1, 0]
    """
    return np.argsort(_rank_sums(_ascending(distance_points(points))), kind="stable")


def meansort_order(points: ArrayLike) -> NDArray[np.int64]:
    """Return the records by the sum of their differences from the means of the columns.

    Parameters
    ----------
    points
        See `duckanon.literature`.

    Returns
    -------
    ndarray of shape (n,), int64
        The records, lowest sum first, equal sums by record number.

    Notes
    -----
    O(n d + n log n). Source: Kabir et al., Eq. 5 and Tables IV and V.

    Examples
    --------
    >>> meansort_order([[5, 6], [3, 10], [1, 3], [2, 1], [4, 2]]).tolist()
    [3, 2, 4, 0, 1]
    """
    return np.argsort(_deviations(distance_points(points)), kind="stable")


def _ascending(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return, for each column, the records by ascending value, equal values by record number."""
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
    points: NDArray[np.float64],
    k: int,
    key: NDArray[np.float64],
    ascending: NDArray[np.int64],
    *,
    leaf_size: int | None = None,
) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    _run(state, k, key, ascending)
    return state.labels


@compiled
def _run(state: Formation, k: int, key: NDArray[np.float64], ascending: NDArray[np.int64]) -> None:
    """Form all classes; without rows in `ascending` the keys stay as they are."""
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
    """Write the sums of the ranks among the records without a class, if there is a column to rank by."""
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
    """Make a class of a seed and, one after the other, the size-1 records that add the least SSE."""
    record, distance = np.full(1, seed), np.empty(1)
    total = np.zeros(len(state.rest))
    for members in range(1, size + 1):
        state.labels[record[0]] = state.formed[0]
        total += state.points[record[0]]
        if members < size:
            nearest(state.tree, total / members, distance, record)
            take(state.tree, record)
    state.formed[0] += 1
