"""Records in bins: scans for the nearest and the farthest record, and removal; heaps of the nearest records.

A bin is a stretch of neighbouring slots whose first `left` slots hold records. A search tree uses its leaves
as bins, t-closeness-first its strata; one single bin is a plain brute-force scan.

Coordinates are stored by column, so that an instruction handles several records. Every distance is the sum of
(x_j - q_j)^2 for j = 0, 1, ... in this order, for any bins. So equal points have bitwise equal distances, and
all ties are decided by the lowest record number.

A heap holds (distance, record) pairs in two arrays, the worst pair on top. A pair is worse than another if
its distance is greater, or equal with a higher record number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK_SLOTS = 64


class Slots(NamedTuple):
    """Records sorted into bins."""

    columns: NDArray[np.float64]  # (d, n), coordinates by slot
    record: NDArray[np.int64]  # (n,), the record in each slot
    slot: NDArray[np.int64]  # (n,), the slot of each record
    bin: NDArray[np.int64]  # (n,), the bin of each slot
    start: NDArray[np.int64]  # (bins,), first slot of each bin
    left: NDArray[np.int64]  # (bins,), records left in each bin


def fill(points: NDArray[np.float64], order: NDArray[np.int64], sizes: NDArray[np.int64]) -> Slots:
    """Return slots that hold the records in the given order, cut into bins of the given sizes. O(n d)."""
    slot = np.empty_like(order)
    slot[order] = np.arange(len(order))
    return Slots(
        columns=np.ascontiguousarray(points[order].T),
        record=order.copy(),
        slot=slot,
        bin=np.repeat(np.arange(len(sizes)), sizes),
        start=np.cumsum(sizes) - sizes,
        left=sizes.copy(),
    )


@compiled
def measure(
    slots: Slots, first: int, last: int, query: NDArray[np.float64], distances: NDArray[np.float64]
) -> None:
    """Write the squared distances from the query to the slots first..last-1, CHUNK_SLOTS at most."""
    columns = slots.columns
    size = last - first
    for i in range(size):
        difference = columns[0, first + i] - query[0]
        distances[i] = difference * difference
    for j in range(1, len(query)):
        for i in range(size):
            difference = columns[j, first + i] - query[j]
            distances[i] += difference * difference


@compiled
def farthest_in(slots: Slots, start: int, stop: int, query: NDArray[np.float64]) -> tuple[float, int]:
    """Return squared distance and number of the farthest record of the slots start..stop-1."""
    # The lowest of equally far records; -1.0 and -1 if there are no slots.
    distances = np.empty(CHUNK_SLOTS)
    best_distance, best_record = -1.0, -1
    for first in range(start, stop, CHUNK_SLOTS):
        last = min(first + CHUNK_SLOTS, stop)
        measure(slots, first, last, query, distances)
        for i in range(last - first):
            if distances[i] >= best_distance:
                record = slots.record[first + i]
                if distances[i] > best_distance or record < best_record:
                    best_distance = distances[i]
                    best_record = record
    return best_distance, best_record


@compiled
def farthest_of(slots: Slots, bins: NDArray[np.bool_], query: NDArray[np.float64]) -> int:
    """Return the record left in the marked bins that is farthest from the query, the lowest among equals."""
    best_distance, best_record = -1.0, -1
    for number in range(len(bins)):
        if bins[number]:
            start = slots.start[number]
            distance, record = farthest_in(slots, start, start + slots.left[number], query)
            if distance > best_distance or (distance == best_distance and record < best_record):
                best_distance, best_record = distance, record
    return best_record


@compiled
def nearest_in(slots: Slots, start: int, stop: int, query: NDArray[np.float64]) -> tuple[float, int]:
    """Return squared distance and number of the nearest record of the slots start..stop-1."""
    # The lowest of equally near records; inf and -1 if there are no slots.
    distances = np.empty(CHUNK_SLOTS)
    best_distance, best_record = np.inf, -1
    for first in range(start, stop, CHUNK_SLOTS):
        last = min(first + CHUNK_SLOTS, stop)
        measure(slots, first, last, query, distances)
        for i in range(last - first):
            if distances[i] <= best_distance:
                record = slots.record[first + i]
                if distances[i] < best_distance or record < best_record:
                    best_distance = distances[i]
                    best_record = record
    return best_distance, best_record


@compiled
def remove(slots: Slots, record: int) -> None:
    """Remove a record from its bin; the last record of the bin moves into its slot. O(d)."""
    hole = slots.slot[record]
    home = slots.bin[hole]
    slots.left[home] -= 1
    last = slots.start[home] + slots.left[home]
    for j in range(len(slots.columns)):
        slots.columns[j, hole] = slots.columns[j, last]
    moved = slots.record[last]
    slots.record[hole] = moved
    slots.slot[moved] = hole


NO_RECORD = 2**63 - 1
"""Marks, with an infinite distance, a place of the heap that is still free."""


@inner
def offer(distances: NDArray[np.float64], records: NDArray[np.int64], distance: float, record: int) -> None:
    """Replace the worst pair if the given pair is better; (inf, NO_RECORD) is a free place. O(log k)."""
    if distance > distances[0] or (distance == distances[0] and record > records[0]):
        return
    _sink(distances, records, len(distances), distance, record)


@inner
def in_order(distances: NDArray[np.float64], records: NDArray[np.int64]) -> None:
    """Sort the pairs of a heap in place, the best first. O(k log k)."""
    for last in range(len(distances) - 1, 0, -1):
        distance, record = distances[last], records[last]
        distances[last], records[last] = distances[0], records[0]
        _sink(distances, records, last, distance, record)


@inner
def _sink(
    distances: NDArray[np.float64], records: NDArray[np.int64], size: int, distance: float, record: int
) -> None:
    """Replace the worst of the first `size` pairs by a pair, and restore the heap."""
    hole, child = 0, 1
    while child < size:
        other = child + 1
        if other < size and (
            distances[other] > distances[child]
            or (distances[other] == distances[child] and records[other] > records[child])
        ):
            child = other
        if distances[child] < distance or (distances[child] == distance and records[child] < record):
            break
        distances[hole], records[hole] = distances[child], records[child]
        hole, child = child, 2 * child + 1
    distances[hole], records[hole] = distance, record


@inner
def ascend(numbers: NDArray[np.int64]) -> None:
    """Sort numbers in place, ascending, O(k log k), by a heap sort: numba's own takes seconds to compile."""
    size = len(numbers)
    for root in range(size // 2 - 1, -1, -1):
        _sift(numbers, root, size)
    for last in range(size - 1, 0, -1):
        greatest = numbers[0]
        numbers[0] = numbers[last]
        numbers[last] = greatest
        _sift(numbers, 0, last)


@inner
def _sift(numbers: NDArray[np.int64], hole: int, size: int) -> None:
    """Let the number at `hole` sink to its place in a heap of `size` numbers with the greatest on top."""
    number, child = numbers[hole], 2 * hole + 1
    while child < size:
        if child + 1 < size and numbers[child + 1] > numbers[child]:
            child += 1
        if numbers[child] <= number:
            break
        numbers[hole] = numbers[child]
        hole, child = child, 2 * child + 1
    numbers[hole] = number
