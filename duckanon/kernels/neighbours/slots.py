"""Records in bins: scans for the nearest and the farthest record, and removal.

A bin is a stretch of neighbouring slots whose first `left` slots hold records. A search tree uses its leaves
as bins, t-closeness-first its strata; one single bin is a plain brute-force scan.

Coordinates are stored by column, so that an instruction handles several records. Every distance is the sum of
(x_j - q_j)^2 for j = 0, 1, ... in this order, for any bins. So equal points have bitwise equal distances, and
all ties are decided by the lowest record number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled

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
