"""DBA: density-based microaggregation, the densest neighbourhood first.

Lin, Wen, Hsieh and Chang, "Density-based microaggregation for statistical disclosure control", Expert Systems
with Applications 37(4), 2010; described in Kabir et al., section IV. The original was not at hand: what the
description leaves open is read so that all published figures of DBA-1 and DBA-2 come out to the last digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled, inner
from duckanon.kernels.first.mdav import mdav1
from duckanon.kernels.first.one_by_one import Forming, begun, form, join_nearest, neighbourhood
from duckanon.kernels.points import distance_points
from duckanon.literature.dissolve import dissolved, partitioned

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def dba1(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by DBA-1.

    The k-neighbourhood of a record are the record and its k-1 nearest among those without a class; its
    k-density is the inverse of the sum of squared distances between the k-neighbourhood and its centroid.
    While k or more records have no class, the k-neighbourhood of the record of highest k-density becomes a
    class. Each of the fewer than k last records joins the class whose centroid is nearest.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Finite numbers on their final scale, at most 1e150.
    k : int
        Smallest class size, 1..n.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of formation, every size in [k, 2k-1].

    Raises
    ------
    ValueError
        If k < 1, k > n, or the points hold NaN, infinity or values above 1e150.

    Notes
    -----
    Exact and deterministic: equal distances and equal densities go to the lowest record number. Sums of
    squares run by column, then by record number. A density is computed anew only when its neighbourhood has
    lost a record: n^2 looks at records of neighbourhoods, and one search among the records left for each new
    density (2 n to 6 n in all on the reference data, k = 3 to 10), which is a scan in many columns, of a
    search tree in few; O(n (d + k)) memory.

    Readings, all confirmed by the twelve published figures: distances in the density are squared and to
    the centroid of the neighbourhood, not to the record; densities follow the records still without a class;
    centroids are not updated while the last records join.

    Examples
    --------
    >>> dba1([[0.0], [4.0], [5.0], [1.5]], 2).tolist()
    [1, 0, 0, 1]
    """
    return _dba1(distance_points(points), k)


def dba2(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by DBA-2: DBA-1, dissolving, and MDAV-1 in large classes.

    The classes of DBA-1 are tried in the reverse order of formation, so the least dense first; one that
    loses less when each of its records joins the nearest other class is dissolved (see
    `duckanon.literature.dissolve.dissolved`). Then classes of 2k and more records are partitioned by MDAV-1.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Finite numbers on their final scale, at most 1e150.
    k : int
        Smallest class size, 1..n.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1: what is left of DBA-1's classes in the order of formation, then the
        further parts of large classes; every size in [k, 2k-1].

    Raises
    ------
    ValueError
        If k < 1, k > n, or the points hold NaN, infinity or values above 1e150.

    Notes
    -----
    As `dba1`; dissolving adds O(n^2 / k) distances. Gives the twelve published figures to the last digit;
    on these data the order by descending sum of squared errors, as in MDAV-2, gives the same classes.
    """
    matrix = distance_points(points)
    labels = _dba1(matrix, k)
    labels = dissolved(matrix, labels, np.arange(labels.max(), -1, -1))
    return partitioned(matrix, labels, k, mdav1)


def _dba1(points: NDArray[np.float64], k: int, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes; leaf_size n or more gives the brute-force scan, with the same result."""
    state = begun(points, k, leaf_size)
    n = len(points)
    _run(state, np.empty((n, k), np.int64), np.empty(n))
    return state.labels


@compiled
def _run(state: Forming, hoods: NDArray[np.int64], spreads: NDArray[np.float64]) -> None:
    """Form all classes; `hoods` and `spreads` are room for neighbourhoods and inverse densities."""
    k = hoods.shape[1]
    for record in range(len(hoods)):
        _renew(state, record, hoods[record], spreads)
    while True:
        form(state, _densest(state.labels, spreads), k)
        if state.tree.left[0] < k:
            break
        for record in range(len(hoods)):
            if state.labels[record] < 0 and _lost(state.labels, hoods[record]):
                _renew(state, record, hoods[record], spreads)
    if state.tree.left[0] > 0:
        join_nearest(state)


@inner
def _renew(state: Forming, record: int, hood: NDArray[np.int64], spreads: NDArray[np.float64]) -> None:
    """Write the neighbourhood of a record, by number, and its sum of squared distances to the centroid."""
    neighbourhood(state, record, hood)
    total = 0.0
    # Column by column, so that no centroid needs memory of its own.
    for j in range(state.points.shape[1]):
        centre = 0.0
        for other in hood:
            centre += state.points[other, j]
        centre /= len(hood)
        for other in hood:
            difference = state.points[other, j] - centre
            total += difference * difference
    spreads[record] = total


@inner
def _densest(labels: NDArray[np.int64], spreads: NDArray[np.float64]) -> int:
    """Return the record without a class whose neighbourhood is densest, of several the lowest."""
    best, least = -1, np.inf
    for record in range(len(labels)):
        if labels[record] < 0 and (best < 0 or spreads[record] < least):
            best, least = record, spreads[record]
    return best


@inner
def _lost(labels: NDArray[np.int64], hood: NDArray[np.int64]) -> bool:
    """Tell whether a record of the neighbourhood has got a class."""
    lost = False
    for other in hood:
        if labels[other] >= 0:
            lost = True
    return lost
