"""The nearest of many centroids, and few directions that tell them apart: a search tree cannot prune in many.

The routines of LAPACK are chosen by the make of the processor and differ in last digits, which decide where
neighbours are searched, and so a release. These loops are the same sums in the same order everywhere.
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
"""Directions in which neighbours are searched where there are more; distances count in all of them."""

DIRECTION_STEPS = 8
"""Steps towards the widest directions; the search needs wide ones, not exactly the widest."""

BRUTE_FORCE_PAIRS = 40_000
"""Pairs of a point and a query up to which all distances are computed, without a tree."""

LEAF_POINTS = 32
"""Points in a leaf of the tree, at most."""

THREAD_QUERIES = 4_096
"""Queries that a thread answers at a time."""

FLAT_DIRECTION_SHARE = 1e-9
"""A direction with less than this share of a spread is rounding, and left out."""


def nearest(
    points: NDArray[np.float64],
    queries: NDArray[np.float64],
    ranks: NDArray[np.int64],
    *,
    parallel: bool = False,
) -> NDArray[np.int64]:
    """Return the points nearest to each query.

    Parameters
    ----------
    points : ndarray of shape (m, d)
        Where to look.
    queries : ndarray of shape (n, d)
        From where.
    ranks : ndarray of shape (r,)
        Which of the nearest: 1 is the nearest one, and none exceeds m.
    parallel : bool, default False
        Whether there is a thread for each core; the result is the same.

    Returns
    -------
    ndarray of shape (n, r), int64
        Indices into the points.

    Notes
    -----
    Equally near points in the order of their indices. O((m + n) log m) on average, in few dimensions.
    """
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
    """Return what the tree finds, by the same sums: no code is loaded for a few points."""
    squares = np.zeros((len(queries), len(points)))
    with np.errstate(over="ignore"):
        for j in range(points.shape[1]):
            squares += np.square(points[None, :, j] - queries[:, j, None])
    return np.argsort(squares, axis=1, kind="stable")[:, :most]


def principal(features: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the features along the widest directions of the chosen rows.

    Parameters
    ----------
    features : ndarray of shape (m, d), float64
        Points, finite.
    chosen : ndarray of shape (c,), int64
        Rows whose spread counts, at least one.

    Returns
    -------
    ndarray of shape (m, min(d, DIRECTIONS)), float64
        The features themselves where there are few. Columns are 0 where the rows span fewer directions.

    Notes
    -----
    O(c d^2 + m d) time. Equal on every number of threads and on every processor of an architecture: no
    library of linear algebra takes part.

    References
    ----------
    Orthogonal iteration, Golub and Van Loan, "Matrix Computations", section 8.2.4, from the columns that a
    Cholesky decomposition with pivoting picks (section 4.2.8).
    """
    if features.shape[1] <= DIRECTIONS:
        return features
    centred = enlarged(features[chosen] - features[chosen].mean(axis=0))
    return _projected(np.ascontiguousarray(features), _widest(_covariance(centred)))


@compiled
def _covariance(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of products of the columns, rows in order."""
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
    """Return orthonormal directions (d, DIRECTIONS), nearly the widest; 0 where there are no more."""
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
    """Return the columns that leave least spread beside them, the widest remaining one first."""
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
    """Make the columns orthogonal, of length 1 each, or 0 where one lies in those before it."""
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
