"""The nearest of many centroids, and the few directions in which they spread most.

A search tree cannot prune in many dimensions, so neighbours are searched along a few wide directions. LAPACK
chooses its routines by the make of the processor, and they differ in the last digits. These digits decide
where neighbours are searched, and so the release. The loops here add the same sums in the same order on every
processor of an architecture and for every number of threads.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.neighbours.boxtree import box_tree_of, nearest_in_order
from duckanon.kernels.points import enlarged

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIRECTIONS = 12
"""Directions in which neighbours are searched if there are more coordinates; all count in distances."""

DIRECTION_STEPS = 8
"""Steps towards the widest directions; the search needs wide directions, not exactly the widest."""

BRUTE_FORCE_PAIRS = 40_000
"""Pairs of a point and a query up to which all distances are computed, without a tree."""

LEAF_POINTS = 32
"""Points in a leaf of the tree, at most."""

THREAD_QUERIES = 4_096
"""Queries that a thread answers at a time."""

FLAT_DIRECTION_SHARE = 1e-9
"""A direction with less than this share of the spread is rounding, and is left out."""


def nearest(
    points: NDArray[np.float64],
    queries: NDArray[np.float64],
    ranks: NDArray[np.int64],
    *,
    parallel: bool = False,
) -> NDArray[np.int64]:
    """Return the nearest points (n, r) of each query, by `ranks` (r,): 1 is the nearest; ties by index."""
    # Ranks are at most the number m of points. `parallel` uses a thread for each core, with the same result.
    # O((m + n) log m) on average, in few dimensions.
    most = int(ranks.max())
    if len(points) * len(queries) <= BRUTE_FORCE_PAIRS:
        found = _of_all_distances(points, queries, most)
    else:
        tree = box_tree_of(np.ascontiguousarray(points), LEAF_POINTS)
        parts = np.array_split(np.ascontiguousarray(queries), -(-len(queries) // THREAD_QUERIES))
        with ThreadPoolExecutor(os.cpu_count() if parallel else 1) as threads:
            found = np.vstack(list(threads.map(lambda part: nearest_in_order(tree, part, most), parts)))
    return np.asarray(found[:, ranks - 1])


def _of_all_distances(
    points: NDArray[np.float64], queries: NDArray[np.float64], most: int
) -> NDArray[np.int64]:
    """Return the same as the tree, by the same sums; for few points, no compiled code has to be loaded."""
    squares = np.zeros((len(queries), len(points)))
    with np.errstate(over="ignore"):
        for j in range(points.shape[1]):
            squares += np.square(points[None, :, j] - queries[:, j, None])
    return np.argsort(squares, axis=1, kind="stable")[:, :most]


def principal(features: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the features (m, d) along the widest directions of the chosen rows: (m, min(d, DIRECTIONS))."""
    # The features themselves if they have few columns; a column is 0 if the rows span fewer directions. O(c
    # d^2 + m d) for c rows. Orthogonal iteration, Golub and Van Loan, "Matrix Computations", section 8.2.4,
    # from the columns that a Cholesky decomposition with pivoting picks (section 4.2.8).
    if features.shape[1] <= DIRECTIONS:
        return features
    centred = enlarged(features[chosen] - features[chosen].mean(axis=0))
    return _projected(np.ascontiguousarray(features), _widest(_covariance(centred)))


@compiled
def _covariance(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of products of the columns, added in the order of the rows."""
    n, d = centred.shape
    products = np.zeros((d, d))
    for row in range(n):
        for i in range(d):
            value = centred[row, i]
            if value != 0.0:
                for j in range(i + 1):
                    products[i, j] += value * centred[row, j]
    for i in range(d):
        for j in range(i):
            products[j, i] = products[i, j]
    return products


@compiled
def _widest(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return nearly the widest orthonormal directions (d, DIRECTIONS); 0 if there are fewer."""
    d = len(covariance)
    directions = _pivot_columns(covariance)
    turned = np.empty_like(directions)
    for _ in range(DIRECTION_STEPS):
        turned[:] = 0.0
        for i in range(d):
            for x in range(d):
                for j in range(DIRECTIONS):
                    turned[i, j] += covariance[i, x] * directions[x, j]
        _orthonormal(turned)
        directions, turned = turned, directions
    return directions


@compiled
def _pivot_columns(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns that leave the least spread unexplained, each time the widest remaining one."""
    d = len(covariance)
    columns, left = np.zeros((d, DIRECTIONS)), np.diag(covariance).copy()
    for j in range(DIRECTIONS):
        pivot = np.argmax(left)
        if not left[pivot] > FLAT_DIRECTION_SHARE * covariance[pivot, pivot]:
            break
        root = np.sqrt(left[pivot])
        for i in range(d):
            rest = covariance[i, pivot]
            for x in range(j):
                rest -= columns[i, x] * columns[pivot, x]
            columns[i, j] = rest / root
        for i in range(d):
            left[i] -= columns[i, j] * columns[i, j]
        left[pivot] = 0.0
    _orthonormal(columns)
    return columns


@compiled
def _orthonormal(columns: NDArray[np.float64]) -> None:
    """Make the columns orthogonal and of length 1, or 0 if a column lies in the span of those before."""
    d, count = columns.shape
    for j in range(count):
        before = _length(columns, j)
        for x in range(j):
            along = 0.0
            for i in range(d):
                along += columns[i, x] * columns[i, j]
            for i in range(d):
                columns[i, j] -= along * columns[i, x]
        after = _length(columns, j)
        for i in range(d):
            columns[i, j] = columns[i, j] / after if after > FLAT_DIRECTION_SHARE * before else 0.0


@compiled
def _length(columns: NDArray[np.float64], j: int) -> float:
    """Return the length of a column."""
    total = 0.0
    for i in range(len(columns)):
        total += columns[i, j] * columns[i, j]
    return float(np.sqrt(total))


@compiled
def _projected(features: NDArray[np.float64], directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the features along the directions."""
    n, d = features.shape
    projected = np.zeros((n, DIRECTIONS))
    for row in range(n):
        for i in range(d):
            value = features[row, i]
            for j in range(DIRECTIONS):
                projected[row, j] += value * directions[i, j]
    return projected
