"""Orders of records by a kd tree, built level by level: `kd_order` for search trees, `kd_blocks` for blocks.

`kd_order` halves each node at the median of its widest coordinate. `kd_blocks` halves a node with more than
`largest` records at a median of the coordinate with the greatest variance, of several the first. It counts
sizes in units of k records: a node of m units gets children of floor(m / 2) and ceil(m / 2) units. So the
sizes of a level are at most two consecutive multiples of k, except for one node that also carries the n mod k
surplus records. Nodes of equal size are stacked, and each step of a level is one array operation on a stack.

The records of a node always stand in ascending order: a split marks the records that go left and copies both
sides in their order. So a tie at a median goes to the lowest record numbers, independent of how numpy's
selection treats equal values.

Source: Friedman, Bentley and Finkel, "An algorithm for finding best matches in logarithmic expected time",
ACM TOMS 3(3), 1977, section 3, with the variance as the spread of a coordinate.

>>> order, offsets = kd_blocks(np.array([[5.0], [1.0], [4.0], [0.0], [3.0]]), 1, 2)
>>> order.tolist(), offsets.tolist()
([1, 3, 4, 0, 2], [0, 2, 3, 5])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

EQUAL_VARIANCE_SHARE = 1.0 - 1e-9
"""Variances count as equal from this share on: far above rounding, so that no sum order decides a split."""


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
    order, starts = np.empty(n, np.int64), []
    here, there = (_LevelMemory(np.empty(points.size), np.empty(n, np.int64)) for _ in range(2))
    (root,) = _stacks({n: 1}, points.shape[1], here).values()
    root.columns[:, 0], root.record[0], root.start[0] = points.T, np.arange(n), 0
    stacks = [root]
    while stacks:
        for stack in stacks:
            size = stack.record.shape[1]
            if size <= largest:
                order[stack.start[:, None] + np.arange(size)] = stack.record
                starts.append(stack.start)
        stacks = _halved([stack for stack in stacks if stack.record.shape[1] > largest], unit, there)
        here, there = there, here
    return order, np.append(np.sort(np.concatenate(starts)), n)


class _Stack(NamedTuple):
    """Nodes of equal size, a row each: where they begin in the final order, and what they hold."""

    columns: NDArray[np.float64]  # coordinates (d, nodes, size)
    record: NDArray[np.int64]  # record numbers (nodes, size), ascending in each row
    start: NDArray[np.int64]


class _LevelMemory(NamedTuple):
    """Memory for all records on one level; two are used in turn: fresh memory costs more than a copy."""

    columns: NDArray[np.float64]  # (n * d,), coordinates
    record: NDArray[np.int64]  # (n,), record numbers


def _stacks(nodes: Mapping[int, int], d: int, memory: _LevelMemory) -> dict[int, _Stack]:
    """Return an unfilled stack for each size of node, given the number of nodes of each size."""
    stacks, first = {}, 0
    for size, count in nodes.items():
        last = first + size * count
        stacks[size] = _Stack(
            memory.columns[first * d : last * d].reshape(d, count, size),
            memory.record[first:last].reshape(count, size),
            np.empty(count, np.int64),
        )
        first = last
    return stacks


def _halved(stacks: Sequence[_Stack], unit: int, memory: _LevelMemory) -> list[_Stack]:
    """Return the children of all nodes, stacked by size."""
    nodes: dict[int, int] = {}
    for stack in stacks:
        for size in _child_sizes(stack, unit):
            nodes[size] = nodes.get(size, 0) + len(stack.start)
    children = _stacks(nodes, len(stacks[0].columns) if stacks else 0, memory)
    filled = dict.fromkeys(nodes, 0)
    for stack in stacks:
        left, right = _child_sizes(stack, unit)
        goes_left = _goes_left(stack, left)
        for size, side, shift in ((left, goes_left, 0), (right, ~goes_left, left)):
            first, last = filled[size], filled[size] + len(stack.start)
            columns, record, start = children[size]
            child = _Stack(columns[:, first:last], record[first:last], start[first:last])
            _copy(stack, np.flatnonzero(side), shift, child)
            filled[size] = last
    return list(children.values())


def _child_sizes(stack: _Stack, unit: int) -> tuple[int, int]:
    """Return the sizes of the left and the right child of each node of a stack."""
    size = stack.record.shape[1]
    left = size // unit // 2 * unit
    return left, size - left


def _copy(stack: _Stack, places: NDArray[np.int64], shift: int, child: _Stack) -> None:
    """Copy the records at some places of a stack to the children on one side."""
    for column, target in zip(stack.columns, child.columns, strict=True):
        np.take(column, places, out=target.reshape(-1), mode="clip")
    np.take(stack.record, places, out=child.record.reshape(-1), mode="clip")
    np.add(stack.start, shift, out=child.start)


def _goes_left(stack: _Stack, left: int) -> NDArray[np.bool_]:
    """Mark the `left` records of each node that are least by (value in the widest column, record number)."""
    values = stack.columns[_widest_variance(stack), np.arange(len(stack.start))]
    pivot = np.partition(values, left - 1, axis=1)[:, left - 1 : left]
    marks = values <= pivot
    over = np.count_nonzero(marks, axis=1) - left
    tied = np.flatnonzero(over)
    if len(tied):
        at_pivot = values[tied] == pivot[tied]
        rank = np.cumsum(at_pivot, axis=1)
        marks[tied] &= ~at_pivot | (rank <= rank[:, -1:] - over[tied, None])
    return marks


def _widest_variance(stack: _Stack) -> NDArray[np.int64]:
    """Return the column of greatest variance of each node."""
    spread = np.empty((len(stack.columns), len(stack.start)))
    for column, squares in zip(stack.columns, spread, strict=True):
        deviation = column - column.mean(axis=1, keepdims=True)
        np.einsum("ij,ij->i", deviation, deviation, out=squares)
    widest: NDArray[np.int64] = np.argmax(spread >= spread.max(axis=0) * EQUAL_VARIANCE_SHARE, axis=0)
    return widest
