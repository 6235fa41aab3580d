"""The order of a kd tree: medians of the widest coordinate, level by level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled, inner

if TYPE_CHECKING:
    from numpy.typing import NDArray


@compiled
def kd_order(points: NDArray[np.float64], depth: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the records in the order of 2**depth leaves, and the sizes of the leaves.

    Each node is halved at the median of its widest coordinate, equal values by record number.

    Parameters
    ----------
    points : ndarray of shape (n, d), float64
        C-contiguous, finite, d >= 1, n >= 2**depth.
    depth : int
        Number of halvings, at least 0.

    Returns
    -------
    order : ndarray of shape (n,), int64
        Records, leaf by leaf.
    sizes : ndarray of shape (2**depth,), int64
        Records in each leaf; they differ by at most one.

    Notes
    -----
    O(n (d + 1) depth) time on average, deterministic.
    """
    n, leaves = len(points), 1 << depth
    order = np.arange(n)
    edges = np.zeros(leaves + 1, np.int64)
    edges[leaves] = n
    step = leaves
    while step > 1:
        for i in range(0, leaves, step):
            first, last = edges[i], edges[i + step]
            middle = (first + last) // 2
            _select(points[:, _widest(points, order[first:last])], order, first, last, middle)
            edges[i + step // 2] = middle
        step //= 2
    sizes = np.empty(leaves, np.int64)
    for i in range(leaves):
        sizes[i] = edges[i + 1] - edges[i]
    return order, sizes


@inner
def _widest(points: NDArray[np.float64], records: NDArray[np.int64]) -> int:
    """Return the column with the greatest range among the records, of several the first."""
    widest, width = 0, -1.0
    for j in range(points.shape[1]):
        low = high = points[records[0], j]
        for record in records:
            low = min(low, points[record, j])
            high = max(high, points[record, j])
        if high - low > width:
            widest, width = j, high - low
    return widest


@inner
def _select(
    values: NDArray[np.float64], order: NDArray[np.int64], first: int, last: int, middle: int
) -> None:
    """Rearrange order[first:last] so that what comes before `middle` is less, by (value, record)."""
    last -= 1
    while first < last:
        pivot = order[(first + last) // 2]
        value = values[pivot]
        i, j = first, last
        while i <= j:
            while values[order[i]] < value or (values[order[i]] == value and order[i] < pivot):
                i += 1
            while values[order[j]] > value or (values[order[j]] == value and order[j] > pivot):
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            last = j
        elif middle >= i:
            first = i
        else:
            return
