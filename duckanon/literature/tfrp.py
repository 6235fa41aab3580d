"""TFRP: microaggregation from two fixed reference points.

Chang, Li and Huang, "TFRP: An efficient microaggregation algorithm for statistical disclosure control",
Journal of Systems and Software 80(11), 2007; described in Kabir et al., section IV. The original was not at
hand: what the description leaves open is read so that all published figures come out to the last digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.divide import partitioned
from duckanon.kernels.first.one_by_one import Formation, form, formation_of, join_nearest
from duckanon.kernels.neighbours.boxtree import farthest
from duckanon.kernels.points import distance_points
from duckanon.literature.dissolve import dissolved, least_homogeneous_first

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def tfrp1(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by the first phase of TFRP.

    The reference points have the smallest (first point) and the largest (second point) value of the whole
    matrix in every coordinate. By turns, the record without a class that is farthest from the first point,
    then from the second, forms a class with its k-1 nearest, until fewer than k records have no class; each
    of these joins the class whose centroid is nearest.

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
    O(n^2 / k) distances at worst, far fewer in few columns, where a search tree is used; O(n d) memory. The
    paper sorts the distances to the reference points beforehand; searching for the farthest record each time
    gives the same classes.

    Readings, confirmed by the twelve published figures: one minimum and one maximum of all columns together,
    not one a column; centroids are not updated while the last records join. (For EIA the figures are those
    of the ten revenue and sales columns, without UTILITYID.)

    Examples
    --------
    >>> tfrp1([[0.0], [9.0], [1.0], [8.0]], 2).tolist()
    [1, 0, 1, 0]
    """
    return _tfrp1(distance_points(points), k)


def tfrp2(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by both phases of TFRP.

    The classes of the first phase are tried by descending sum of squared errors; one that loses less when
    each of its records joins the nearest other class is dissolved, where a class of more than 4k-1 records
    takes no further one (see `duckanon.literature.dissolve.dissolved`). Then classes of 2k and more records
    are partitioned by the first phase, with reference points of their own.

    Parameters
    ----------
    points, k
        See `duckanon.literature`.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1: what is left of the first phase's classes in the order of formation,
        then the further parts of large classes; every size in [k, 2k-1].

    Notes
    -----
    As `tfrp1`; dissolving adds O(n^2 / k) distances. The order and the partition of large classes are not
    in the description; this reading gives all twelve published figures. On these data no class
    grows to 4k records, so the figures do not show how the limit of 4k-1 is meant.
    """
    matrix = distance_points(points)
    labels = _tfrp1(matrix, k)
    labels = dissolved(matrix, labels, least_homogeneous_first(matrix, labels), limit=4 * k - 1)
    return partitioned(matrix, labels, k, tfrp1)


def _tfrp1(points: NDArray[np.float64], k: int, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    d = points.shape[1]
    _run(state, k, np.full(d, points.min()), np.full(d, points.max()))
    return state.labels


@compiled
def _run(state: Formation, k: int, lowest: NDArray[np.float64], highest: NDArray[np.float64]) -> None:
    """Form all classes, by turns from the two reference points."""
    left = state.tree.left
    while left[0] >= k:
        form(state, farthest(state.tree, lowest), k)
        if left[0] >= k:
            form(state, farthest(state.tree, highest), k)
    if left[0] > 0:
        join_nearest(state)
