"""Optimal univariate microaggregation, and the optimal cut of any order of records into classes.

Hansen and Mukherjee, "A polynomial algorithm for optimal univariate microaggregation", IEEE TKDE 15(4), 2003:
in one dimension some optimal classes are stretches of the sorted values, of k..2k-1 records each. So they are
the shortest path from 0 to n in a graph with an edge from i to j for j-i in k..2k-1. The length of the edge
is the sum of squared errors (SSE) of the records i..j-1.

Stamm and Schaub, "Faster optimal univariate microaggregation", TMLR 2024, use the Monge property: the best
start of the last class does not decrease from one end to the next. Their linear-time search is not taken, as
the sort costs n log n anyway. Here the ends are taken k at a time. Their starts lie before all of them, so
the path to every start is known, and the best starts are found by halving, in O(k log k).

Equal values are taken by record number. Of several best paths, the one whose last class is smallest is taken,
then by the last but one, and so on. The least SSE is reached within rounding, for any offset of the values:
the SSE of a class is put together from two halves by additions of numbers >= 0 alone, which cannot cancel.

>>> univariate([[9.0], [0.0], [10.0], [1.0], [2.0]], 2).tolist()
[1, 0, 1, 0, 0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Halves(NamedTuple):
    """The stretches of t sorted values before and after a cut, in column t."""

    # (2, at least 2k), mean of the t values before the cut, as difference from the last of them, and SSE
    below: NDArray[np.float64]
    # (2, at least k), the same, from the same value, of the t values after the cut
    above: NDArray[np.float64]


def univariate(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes (n,) of k..2k-1 records of one column, by ascending values, with the least SSE."""
    # O(n log n) time, O(n) memory. Deterministic. ValueError if there are more columns than one.
    matrix = distance_points(points)
    n, columns = matrix.shape
    check_class_size(n, k)
    if columns != 1:
        raise ValueError(f"univariate takes one column, not {columns}: use 'mhm' or 'mdav' for several")
    order = np.argsort(matrix[:, 0], kind="stable")
    return labels_along(order, _sorted_cuts(matrix[order, 0], k))


def split(points: NDArray[np.float64], order: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the classes of k..2k-1 records, consecutive in a given order, with the least SSE."""
    # O(n k d) time, O(n d) memory: in an arbitrary order the edges have no Monge property to use. Ties as in
    # `univariate`.
    return labels_along(order, _cuts(points[order], k))


def labels_along(order: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the classes along the order; start[j], j = 0..n: where the last class of the first j begins."""
    steps = np.zeros(len(order), np.int64)
    place = int(start[len(order)])
    while place > 0:
        steps[place] = 1
        place = int(start[place])
    labels = np.empty(len(order), np.int64)
    labels[order] = np.cumsum(steps)
    return labels


@compiled
def _cuts(points: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return where the last class starts on the best path to every place, by trying all k sizes."""
    n, d = points.shape
    least, start = np.full(n + 1, np.inf), np.zeros(n + 1, np.int64)
    least[0] = 0.0
    mean = np.zeros(d)
    for i in range(n - k + 1):
        if least[i] == np.inf:
            continue
        sse = 0.0
        mean[:] = 0.0
        for size in range(1, min(2 * k, n - i + 1)):
            for j in range(d):
                value = points[i + size - 1, j] - points[i, j]
                difference = value - mean[j]
                mean[j] += difference / size
                sse += difference * (difference * (size - 1) / size)
            if size >= k and least[i] + sse <= least[i + size]:
                least[i + size], start[i + size] = least[i] + sse, i
    return start


@compiled
def _sorted_cuts(values: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return where the last class starts on the best path to every place of ascending values."""
    n = len(values)
    least, start = np.full(n + 1, np.inf), np.zeros(n + 1, np.int64)
    least[0] = 0.0
    halves = Halves(np.zeros((2, min(2 * k, n + 1))), np.zeros((2, min(k, n + 1))))
    for cut in range(k, n + 1, k):
        ends = min(k, n + 1 - cut)
        _measure(values, cut, ends, halves)
        step = 1
        while 2 * step <= ends:
            step *= 2
        # Each halving finds the rows between two known rows, and looks at every start about once.
        while step > 0:
            for row in range(step - 1, ends, 2 * step):
                end = cut + row
                first, last = max(0, end - 2 * k + 1), end - k
                if row >= step:
                    first = max(first, start[end - step])
                if row + step < ends:
                    last = min(last, start[end + step])
                _best_start(halves, cut, end, first, last, least, start)
            step //= 2
    return start


@compiled
def _best_start(
    halves: Halves,
    cut: int,
    end: int,
    first: int,
    last: int,
    least: NDArray[np.float64],
    start: NDArray[np.int64],
) -> None:
    """Find the start first..last of the best path to `end`, the last of equals; its class spans the cut."""
    more = end - cut
    for i in range(last, first - 1, -1):
        fewer = cut - i
        difference = halves.below[0, fewer] - halves.above[0, more]
        between = difference * (difference * fewer * more / (fewer + more))
        total = least[i] + (halves.below[1, fewer] + halves.above[1, more] + between)
        if total < least[end]:
            least[end], start[end] = total, i


@compiled
def _measure(values: NDArray[np.float64], cut: int, ends: int, halves: Halves) -> None:
    """Write means, less the value before the cut, and SSE of the stretches on both sides of the cut."""
    origin = values[cut - 1]
    for side, stretches in enumerate((halves.below, halves.above)):
        mean = sse = 0.0
        for size in range(1, min(stretches.shape[1], cut + 1 if side == 0 else ends)):
            value = values[cut - size if side == 0 else cut + size - 1] - origin
            difference = value - mean
            mean += difference / size
            sse += difference * (difference * (size - 1) / size)
            stretches[0, size], stretches[1, size] = mean, sse
