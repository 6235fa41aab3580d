"""MDAV in the blocks of a kd order: nearly the loss of MDAV, in time that grows like sorting.

Own method. The order cuts the records into blocks of neighbours (see `kd_blocks`); in every block the classes
are those of `mdav` on its records alone. Blocks hold whole multiples of k records, so that only one has an
end game. They are independent, so each thread takes a share of them.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.neighbours.heap import NO_RECORD, ascend, offer
from duckanon.kernels.neighbours.kd import kd_blocks
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BLOCK_MAX_RECORDS = 1024
"""Records that every block may hold."""
BLOCK_MAX_CLASSES = 256
"""Classes that every block may hold: a record costs about as many distances, whatever k is."""
SHARES_A_THREAD = 8
"""Shares of blocks a thread: enough that no thread waits long for the last one."""


class _Block(NamedTuple):
    """Memory for one block after another.

    A block numbers its records 0, 1, ... in ascending order. The first `left` slots hold those that have no
    class yet; all distances are sums of (x_j - q_j)^2 for j = 0, 1, ..., as in `slots`.

    Attributes
    ----------
    columns : ndarray of shape (d, largest), float64
        Coordinates by slot.
    distance : ndarray of shape (largest,), float64
        Squared distance of each slot to the last query.
    record : ndarray of shape (largest,), int64
        The record in each slot.
    slot : ndarray of shape (largest,), int64
        The slot of each record.
    points : ndarray of shape (largest, d), float64
        Coordinates by record.
    labels : ndarray of shape (largest,), int64
        Class of each record, -1 for none yet.
    rest : ndarray of shape (d,), float64
        Sum of the records that have no class yet.
    query : ndarray of shape (d,), float64
        The point from which distances are measured.
    nearness, members : ndarray of shape (2k - 1,), float64 and int64
        The class being formed.
    """

    columns: NDArray[np.float64]
    distance: NDArray[np.float64]
    record: NDArray[np.int64]
    slot: NDArray[np.int64]
    points: NDArray[np.float64]
    labels: NDArray[np.int64]
    rest: NDArray[np.float64]
    query: NDArray[np.float64]
    nearness: NDArray[np.float64]
    members: NDArray[np.int64]


def blocks(
    points: ArrayLike, k: int, largest: int | None = None, threads: int | None = None
) -> NDArray[np.int64]:
    """Return classes of at least k records by MDAV in blocks of neighbouring records.

    Parameters
    ----------
    points, k
        See `duckanon.kernels`.
    largest : int, optional
        Most records in a block, by default 256 k and at least 1024; less than 2k counts as 2k.
    threads : int, optional
        Number of threads, by default one a core. The result is the same for any number.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1, block after block and within a block in the order of formation; every
        size in [k, 2k-1].

    Notes
    -----
    Deterministic: within a block as `mdav`, ties to the lowest record number. O(n log n) time for the order
    and O(n largest / k) distances; O(n d) memory. Own method; MDAV as cited in `mdav`.

    Examples
    --------
    >>> blocks([[0.0], [9.0], [1.0], [8.0]], 2).tolist()
    [0, 1, 0, 1]
    """
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
        _join_nearest(block.points[:size], block.labels[:size], block.record[:left], label)


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
    """Return the record of the greatest distance, of several the lowest."""
    best = 0
    for i in range(1, left):
        if distance[i] >= distance[best] and (distance[i] > distance[best] or record[i] < record[best]):
            best = i
    return int(record[best])


@compiled
def _choose(
    block: _Block, left: int, seed: int, members: NDArray[np.int64], nearness: NDArray[np.float64]
) -> None:
    """Take out the seed and the records nearest to it, by the distances measured from it; ascending."""
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
    """Take a record out; what is in slot `last`, the last one filled, moves into its slot."""
    record, slot, distance, columns = block.record, block.slot, block.distance, block.columns
    hole, moved = slot[number], record[last]
    distance[hole] = distance[last]
    for j in range(len(columns)):
        columns[j, hole] = columns[j, last]
    record[hole] = moved
    slot[moved] = hole


@compiled
def _join_nearest(
    points: NDArray[np.float64], labels: NDArray[np.int64], late: NDArray[np.int64], classes: int
) -> None:
    """Give each late record the class whose centroid, as formed, is nearest; ties to the first."""
    d = points.shape[1]
    sums, sizes = np.zeros((classes, d)), np.zeros(classes)
    for record in range(len(labels)):
        label = labels[record]
        if label >= 0:
            sizes[label] += 1.0
            for j in range(d):
                sums[label, j] += points[record, j]
    for record in late:
        best = np.inf
        for label in range(classes):
            distance = 0.0
            for j in range(d):
                difference = points[record, j] - sums[label, j] / sizes[label]
                distance += difference * difference
            if distance < best:
                best = distance
                labels[record] = label
