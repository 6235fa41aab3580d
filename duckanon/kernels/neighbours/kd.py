"""Orders of records by a kd tree, built level by level: `kd_order` for search trees, `kd_blocks` for blocks.

`kd_order` halves each node at the median of its widest coordinate. `kd_blocks` halves a node with more than
`largest` records at a median of the coordinate with the greatest variance, of several the first. It counts
sizes in units of k records: a node of m units gets children of floor(m / 2) and ceil(m / 2) units. So the
sizes of a level are at most two consecutive multiples of k, except for one node that also carries the n mod k
surplus records. A tie at a median goes to the lowest record numbers. The records of a node always stand in
ascending order.

Source: Friedman, Bentley and Finkel, "An algorithm for finding best matches in logarithmic expected time",
ACM TOMS 3(3), 1977, section 3, with the variance as the spread of a coordinate.

>>> order, offsets = kd_blocks(np.array([[5.0], [1.0], [4.0], [0.0], [3.0]]), 1, 2)
>>> order.tolist(), offsets.tolist()
([1, 3, 4, 0, 2], [0, 2, 3, 5])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

EQUAL_VARIANCE_SHARE = 1.0 - 1e-9
"""Variances count as equal from this share on: far above rounding, so that no sum order decides a split."""

STACK_NODES = 64
"""Nodes that wait while their left neighbours are cut: one for each level."""


@compiled
def kd_order(points: NDArray[np.float64], depth: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the records (n,) in the order of 2**depth leaves, and the sizes of the leaves."""
    # Points (n, d) are C-contiguous and finite, d >= 1, n >= 2**depth. Sizes differ by at most one; equal
    # values go by record number. O(n (d + 1) depth) on average, deterministic.
    n, leaves = len(points), 1 << depth
    order = np.arange(n)
    edges = np.zeros(leaves + 1, np.int64)
    edges[leaves] = n
    step = leaves
    while step > 1:
        for i in range(0, leaves, step):
            first, last = edges[i], edges[i + step]
            middle = (first + last) // 2
            _select(points[:, _widest_range(points, order[first:last])], order, first, last, middle)
            edges[i + step // 2] = middle
        step //= 2
    sizes = np.empty(leaves, np.int64)
    for i in range(leaves):
        sizes[i] = edges[i + 1] - edges[i]
    return order, sizes


@compiled
def _widest_range(points: NDArray[np.float64], records: NDArray[np.int64]) -> int:
    """Return the column with the greatest range among the records, the first among equals."""
    widest, width = 0, -1.0
    for j in range(points.shape[1]):
        low = high = points[records[0], j]
        for record in records:
            low = min(low, points[record, j])
            high = max(high, points[record, j])
        if high - low > width:
            widest, width = j, high - low
    return widest


@compiled
def _select(
    values: NDArray[np.float64], order: NDArray[np.int64], first: int, last: int, middle: int
) -> None:
    """Rearrange order[first:last] so that the entries before `middle` are the least by (value, record)."""
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


def kd_blocks(
    points: NDArray[np.float64], unit: int, largest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the records (n,) block by block, ascending in each, and the blocks' offsets (blocks + 1,)."""
    # Every block holds a multiple of `unit` records, at most `largest`; the last one also holds the n mod
    # unit surplus records. Points (n, d) are finite, at most 1e150. ValueError if unit < 1, n < unit or
    # largest < 2 * unit. O(n d log(n / largest)) time, O(n d) memory, deterministic.
    n = len(points)
    if unit < 1 or n < unit:
        raise ValueError(f"blocks in units of {unit} need at least as many records, and there are {n}")
    if largest < 2 * unit:
        raise ValueError(
            f"largest = {largest} leaves no room for two units of {unit}: use {2 * unit} or more"
        )
    order = np.arange(n)
    return order, _halve(np.ascontiguousarray(points), order, unit, largest)


@compiled
def _halve(
    points: NDArray[np.float64], order: NDArray[np.int64], unit: int, largest: int
) -> NDArray[np.int64]:
    """Bring the records, which are ascending, into the order of the blocks; return the blocks' offsets."""
    n = len(order)
    offsets, ends = np.empty(n // unit + 1, np.int64), np.empty(STACK_NODES, np.int64)
    goes_left, spare = np.empty(n, np.bool_), np.empty(n, np.int64)
    first, count, height, ends[0] = 0, 0, 1, n
    while height > 0:
        last = ends[height - 1]
        left = (last - first) // unit // 2 * unit
        if last - first > largest:
            _split(points, order[first:last], left, goes_left, spare[first:last])
            ends[height] = first + left
            height += 1
            continue
        offsets[count] = first
        first, count, height = last, count + 1, height - 1
    offsets[count] = n
    return offsets[: count + 1].copy()


@compiled
def _split(
    points: NDArray[np.float64], records: NDArray[np.int64], left: int, goes_left: NDArray[np.bool_],
    spare: NDArray[np.int64],
) -> None:  # fmt: skip
    """Bring the `left` records that are least by (value in the widest column, number) before the others."""
    spare[:] = records
    _select(points[:, widest_variance(points, records)], spare, 0, len(spare), left)
    for i in range(len(spare)):
        goes_left[spare[i]] = i < left
    before, after = 0, 0
    for record in records:
        # Places that were read already are written, so the records keep their order on both sides.
        if goes_left[record]:
            records[before] = record
            before += 1
        else:
            spare[after] = record
            after += 1
    records[before:] = spare[:after]


@compiled
def widest_variance(points: NDArray[np.float64], records: NDArray[np.int64]) -> int:
    """Return the column of greatest variance among the records, the first of nearly equal ones."""
    mean, spread = np.zeros(points.shape[1]), np.zeros(points.shape[1])
    for record in records:
        for j in range(len(mean)):
            mean[j] += points[record, j]
    mean /= len(records)
    for record in records:
        for j in range(len(mean)):
            difference = points[record, j] - mean[j]
            spread[j] += difference * difference
    widest = 0
    while spread[widest] < spread.max() * EQUAL_VARIANCE_SHARE:
        widest += 1
    return widest
