"""DBA: density-based microaggregation, the densest neighbourhood first.

Lin, Wen, Hsieh and Chang, "Density-based microaggregation for statistical disclosure control", Expert Systems
with Applications 37(4), 2010; described in Kabir et al., section IV. The original was not at hand: what the
description leaves open is read so that all published figures of DBA-1 and DBA-2 come out to the last digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.divide import partitioned
from duckanon.kernels.first.mdav import mdav1
from duckanon.kernels.first.one_by_one import Formation, form, formation_of, join_nearest, k_neighbourhood
from duckanon.kernels.points import distance_points
from duckanon.literature.dissolve import dissolved

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
    points, k
        See `duckanon.literature`.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of formation, every size in [k, 2k-1].

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
    points, k
        See `duckanon.literature`.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1: what is left of DBA-1's classes in the order of formation, then the
        further parts of large classes; every size in [k, 2k-1].

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
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    n = len(points)
    _run(state, np.empty((n, k), np.int64), np.empty(n))
    return state.labels


@compiled
def _run(state: Formation, neighbourhoods: NDArray[np.int64], spreads: NDArray[np.float64]) -> None:
    """Form all classes; `neighbourhoods` and `spreads` are memory for those and for inverse densities."""
    k = neighbourhoods.shape[1]
    for record in range(len(neighbourhoods)):
        _renew(state, record, neighbourhoods[record], spreads)
    while True:
        form(state, _densest(state.labels, spreads), k)
        if state.tree.left[0] < k:
            break
        for record in range(len(neighbourhoods)):
            if state.labels[record] < 0 and _lost(state.labels, neighbourhoods[record]):
                _renew(state, record, neighbourhoods[record], spreads)
    if state.tree.left[0] > 0:
        join_nearest(state)


@compiled
def _renew(
    state: Formation, record: int, neighbourhood: NDArray[np.int64], spreads: NDArray[np.float64]
) -> None:
    """Write the neighbourhood of a record, by number, and its sum of squared distances to the centroid."""
    k_neighbourhood(state, record, neighbourhood)
    total = 0.0
    # Column by column, so that no centroid needs memory of its own.
    for j in range(state.points.shape[1]):
        centre = 0.0
        for other in neighbourhood:
            centre += state.points[other, j]
        centre /= len(neighbourhood)
        for other in neighbourhood:
            difference = state.points[other, j] - centre
            total += difference * difference
    spreads[record] = total


@compiled
def _densest(labels: NDArray[np.int64], spreads: NDArray[np.float64]) -> int:
    """Return the record without a class whose neighbourhood is densest, of several the lowest."""
    best, least = -1, np.inf
    for record in range(len(labels)):
        if labels[record] < 0 and (best < 0 or spreads[record] < least):
            best, least = record, spreads[record]
    return best


@compiled
def _lost(labels: NDArray[np.int64], neighbourhood: NDArray[np.int64]) -> bool:
    """Tell whether a record of the neighbourhood has got a class."""
    lost = False
    for other in neighbourhood:
        if labels[other] >= 0:
            lost = True
    return lost
