"""A binary heap of (distance, record) pairs in two arrays, the worst pair on top.

A pair is worse than another if its distance is greater, or equal with a higher record number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.compiled import inner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
