"""MDAV-generic and CBFS: the siblings of MDAV, with another end game and with one class a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.one_by_one import (
    Formation,
    farthest_from_centroid,
    form,
    formation_of,
    join_nearest,
)
from duckanon.kernels.neighbours.boxtree import farthest
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def mdav_generic(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by MDAV-generic, MDAV with the threshold 3k.

    While 3k or more records remain: r is the record farthest from the centroid of the remaining ones, its
    class are r and its k-1 nearest; s is the record then farthest from r, its class are s and its k-1
    nearest. If 2k..3k-1 records are left, the one farthest from their centroid and its k-1 nearest form one
    class. The k..2k-1 records then left form the last class.

    Parameters
    ----------
    points, k
        See `duckanon.literature`.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of formation; every class has k records, but for the last
        with k..2k-1.

    Notes
    -----
    O(n^2 / k) distances at worst, far fewer in few columns, where a search tree is used; O(n d) memory.

    Source: Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through
    microaggregation", Data Mining and Knowledge Discovery 11(2), 2005; the thresholds also in Solanas,
    "Privacy protection with genetic algorithms", 2008. Left open there: s is searched among the records that
    the class of r leaves; so `duckanon.kernels.first.mdav.mdav` reads it, whose published figures come out.

    Examples
    --------
    >>> mdav_generic([[0.0], [9.0], [1.0], [8.0], [2.0]], 2).tolist()
    [1, 0, 1, 0, 1]
    """
    return _mdav_generic(distance_points(points), k)


def cbfs(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by centroid-based fixed-size microaggregation.

    While k or more records remain, the one farthest from the centroid of the remaining ones and its k-1
    nearest form a class. Each of the fewer than k records then left joins the class whose centroid is
    nearest.

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
    O(n^2 / k) distances at worst, far fewer in few columns, where a search tree is used; O(n d) memory.

    Source: Laszlo and Mukherjee, "Minimum spanning tree partitioning algorithm for microaggregation", IEEE
    TKDE 17(7), 2005. Left open there: the records left over compare with the centroids of the classes as
    they were formed, so that their order does not matter.

    Examples
    --------
    >>> cbfs([[0.0], [9.0], [1.0], [8.0], [2.0]], 2).tolist()
    [1, 0, 1, 0, 1]
    """
    return _cbfs(distance_points(points), k)


def _mdav_generic(points: NDArray[np.float64], k: int, *, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    _run_mdav_generic(state, k)
    return state.labels


@compiled
def _run_mdav_generic(state: Formation, k: int) -> None:
    """Form all classes."""
    left = state.tree.left
    while left[0] >= 3 * k:
        r = farthest_from_centroid(state)
        form(state, r, k)
        form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= 2 * k:
        form(state, farthest_from_centroid(state), k)
    form(state, farthest_from_centroid(state), left[0])


def _cbfs(points: NDArray[np.float64], k: int, *, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    _run_cbfs(state, k)
    return state.labels


@compiled
def _run_cbfs(state: Formation, k: int) -> None:
    """Form all classes."""
    while state.tree.left[0] >= k:
        form(state, farthest_from_centroid(state), k)
    if state.tree.left[0] > 0:
        join_nearest(state)
