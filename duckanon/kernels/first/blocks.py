"""MDAV in the blocks of a kd order: nearly the loss of MDAV, in time that grows like sorting.

Own method; MDAV as cited in `mdav`. The order cuts the records into blocks of neighbours (see `kd_blocks`).
In every block the classes are those of `mdav` on its records alone. Blocks hold whole multiples of k records,
so only one block has an end game. Blocks are independent, so each thread takes a share of them, and the
result is the same for any number of threads. A block numbers its records 0, 1, ... in ascending order. All
distances are sums of (x_j - q_j)^2 for j = 0, 1, ..., as in `slots`.

>>> blocks([[0.0], [9.0], [1.0], [8.0]], 2).tolist()
[0, 1, 0, 1]
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import join_nearest
from duckanon.kernels.neighbours.kd import kd_blocks
from duckanon.kernels.neighbours.slots import NO_RECORD, ascend, offer
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BLOCK_MAX_RECORDS = 1024
"""Records that every block may hold."""
BLOCK_MAX_CLASSES = 256
"""Classes that every block may hold, so that a record costs about as many distances for any k."""
SHARES_A_THREAD = 8
"""Shares of blocks for each thread: enough that no thread waits long for the last one."""


class _Block(NamedTuple):
    """Memory for one block after another."""

    # (d, largest), coordinates by slot; the first `left` slots hold the records without a class
    columns: NDArray[np.float64]
    distance: NDArray[np.float64]  # (largest,), squared distance of each slot from the last query
    record: NDArray[np.int64]  # (largest,), the record in each slot
    slot: NDArray[np.int64]  # (largest,), the slot of each record
    points: NDArray[np.float64]  # (largest, d), coordinates by record
    labels: NDArray[np.int64]  # (largest,), class of each record, -1 for none yet
    rest: NDArray[np.float64]  # (d,), sum of the records without a class
    query: NDArray[np.float64]  # (d,), the point from which distances are measured
    nearness: NDArray[np.float64]  # (2k - 1,), squared distances of the members of the class being formed
    members: NDArray[np.int64]  # (2k - 1,), these members


def blocks(
    points: ArrayLike, k: int, largest: int | None = None, threads: int | None = None
) -> NDArray[np.int64]:
    """Return classes (n,) of k..2k-1 records, block after block, within a block in the order of `mdav`."""
    # A block has at most `largest` records, by default 256 k and at least 1024; less than 2k counts as 2k.
    # There is one thread a core by default. O(n log n) time for the order and O(n largest / k) distances; O(n
    # d) memory.
    matrix = distance_points(points)
    check_class_size(len(matrix), k)
    if largest is None:
        largest = max(BLOCK_MAX_RECORDS, BLOCK_MAX_CLASSES * k)
    order, offsets = kd_blocks(matrix, k, max(largest, 2 * k))
    classes = np.diff(offsets) // k
    first_label = np.cumsum(classes) - classes
    labels = np.empty(len(matrix), np.int64)
    workers = threads or os.cpu_count() or 1
    shares = min(len(classes), SHARES_A_THREAD * workers)

    def run(share: int) -> None:
        first, last = (i * len(classes) // shares for i in (share, share + 1))
        bounds = offsets[first : last + 1]
        block = _empty_block(int(np.diff(bounds).max()), matrix.shape[1], k)
        _label(block, matrix, order, bounds, first_label[first:last], k, labels)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(run, range(shares)))
    return labels


def _empty_block(size: int, d: int, k: int) -> _Block:
    """Return memory for blocks of at most `size` records."""
    return _Block(
        columns=np.empty((d, size)),
        distance=np.empty(size),
        record=np.empty(size, np.int64),
        slot=np.empty(size, np.int64),
        points=np.empty((size, d)),
        labels=np.empty(size, np.int64),
        rest=np.empty(d),
        query=np.empty(d),
        nearness=np.empty(2 * k - 1),
        members=np.empty(2 * k - 1, np.int64),
    )


@compiled
def _label(
    block: _Block,
    points: NDArray[np.float64],
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
    first_label: NDArray[np.int64],
    k: int,
    labels: NDArray[np.int64],
) -> None:
    """Write the labels of the records of some blocks."""
    for number in range(len(first_label)):
        start = offsets[number]
        size = offsets[number + 1] - start
        _gather(block, points, order[start : start + size])
        _form_classes(block, size, k)
        for i in range(size):
            labels[order[start + i]] = first_label[number] + block.labels[i]


@compiled
def _gather(block: _Block, points: NDArray[np.float64], records: NDArray[np.int64]) -> None:
    """Fill the block with the given records, numbered in the order given."""
    for j in range(len(block.rest)):
        block.rest[j] = 0.0
    for i in range(len(records)):
        block.record[i] = i
        block.slot[i] = i
        block.labels[i] = -1
        for j in range(len(block.rest)):
            value = points[records[i], j]
            block.points[i, j] = value
            block.columns[j, i] = value
            block.rest[j] += value


@compiled
def _form_classes(block: _Block, size: int, k: int) -> None:
    """Form the classes of `mdav` on the records of a block, in pairs."""
    # The first class of a pair is around the record farthest from the mean, the second around the record
    # farthest from that one. Distances from the first record serve both.
    rest, query = block.rest, block.query
    left, label = size, 0
    while left >= k:
        if label % 2 == 0:
            for j in range(len(rest)):
                query[j] = rest[j] / left
            _measure(block.columns, block.distance, left, query)
        seed = _farthest(block.record, block.distance, left)
        for j in range(len(rest)):
            query[j] = block.points[seed, j]
        _measure(block.columns, block.distance, left, query)
        count = left if label % 2 == 0 and left < 2 * k else k
        _choose(block, left, seed, block.members[:count], block.nearness)
        for record in block.members[:count]:
            block.labels[record] = label
            for j in range(len(rest)):
                rest[j] -= block.points[record, j]
        left -= count
        label += 1
    if left > 0:
        join_nearest(block.points[:size], block.labels[:size], label)


@compiled
def _measure(
    columns: NDArray[np.float64], distance: NDArray[np.float64], left: int, query: NDArray[np.float64]
) -> None:
    """Write the distances of the slots from the query."""
    for i in range(left):
        difference = columns[0, i] - query[0]
        distance[i] = difference * difference
    for j in range(1, len(query)):
        for i in range(left):
            difference = columns[j, i] - query[j]
            distance[i] += difference * difference


@compiled
def _farthest(record: NDArray[np.int64], distance: NDArray[np.float64], left: int) -> int:
    """Return the record with the greatest distance, the lowest among equals."""
    best = 0
    for i in range(1, left):
        if distance[i] >= distance[best] and (distance[i] > distance[best] or record[i] < record[best]):
            best = i
    return int(record[best])


@compiled
def _choose(
    block: _Block, left: int, seed: int, members: NDArray[np.int64], nearness: NDArray[np.float64]
) -> None:
    """Take out the seed and the records nearest to it, by the measured distances; ascending."""
    record, distance, others = block.record, block.distance, len(members) - 1
    members[others] = seed
    for i in range(others):
        nearness[i], members[i] = np.inf, NO_RECORD
    _take(block, left - 1, seed)
    if others > 0:
        for i in range(left - 1):
            if distance[i] < nearness[0] or (distance[i] == nearness[0] and record[i] < members[0]):
                offer(nearness[:others], members[:others], distance[i], record[i])
    for i in range(others):
        _take(block, left - 2 - i, members[i])
    ascend(members)


@compiled
def _take(block: _Block, last: int, number: int) -> None:
    """Take a record out; the record in slot `last`, the last filled one, moves into its slot."""
    record, slot, distance, columns = block.record, block.slot, block.distance, block.columns
    hole, moved = slot[number], record[last]
    distance[hole] = distance[last]
    for j in range(len(columns)):
        columns[j, hole] = columns[j, last]
    record[hole] = moved
    slot[moved] = hole
