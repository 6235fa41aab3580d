"""V-MDAV: microaggregation by maximum distance to the average vector with variable class sizes."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.one_by_one import Formation, form, formation_of, join_nearest, outermost_first
from duckanon.kernels.neighbours.boxtree import nearest, take
from duckanon.kernels.neighbours.outermost import discard
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def vmdav(points: ArrayLike, k: int, *, gamma: float = 0.2) -> NDArray[np.int64]:
    """Return classes of at least k records by V-MDAV.

    The centroid of all records is computed once. While k or more records remain: the one farthest from that
    centroid and its k-1 nearest form a class, which is then extended, record by record, to 2k-1 at most: of
    the remaining records, e is the one nearest to any record of the class, at the distance d_in; d_out is
    the distance from e to the nearest other remaining record. If d_in < gamma d_out, e joins the class,
    otherwise the class is complete. Each of the fewer than k records left at the end joins the class whose
    centroid is nearest.

    Parameters
    ----------
    points, k
        See `duckanon.literature`.
    gamma : float, default 0.2
        Gain factor, finite and at least 0: the greater, the more records join. With 0 all classes are formed
        with k records.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of formation, every size in [k, 3k-2]: up to 2k-1 by
        extension, and the fewer than k last records may all join one class.

    Raises
    ------
    ValueError
        If gamma is negative or not finite.

    Notes
    -----
    O(n^2) distances at worst, far fewer in few columns, where a search tree is used in place of the distance
    matrix of the paper; O(n d) memory. The members of each class are found by a scan over the labels,
    O(n^2 / k) in all.

    Source: Solanas and Martínez-Ballesté, "V-MDAV: a multivariate microaggregation with variable group
    size", COMPSTAT 2006. Readings where accounts of it differ: rounds go on while k records remain (Zhang
    and Zheng, who build on it in "Research on V-MDAV algorithm based on grey relational analysis", 2018,
    stop at 2k and let k..2k-1 records be the last class); a class is extended only while two records remain,
    since d_out is the distance to another one; and the last records go to the nearest centroid as formed,
    as in MDAV.

    Examples
    --------
    >>> vmdav([[0.0], [1.0], [1.1], [20.0], [21.0]], 2).tolist()
    [1, 1, 1, 0, 0]
    """
    if not (isfinite(gamma) and gamma >= 0.0):
        raise ValueError(f"gamma must be a finite number of at least 0, not {gamma}")
    return _vmdav(distance_points(points), k, gamma)


def _vmdav(
    points: NDArray[np.float64], k: int, gamma: float, *, leaf_size: int | None = None
) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    order, _ = outermost_first(points, state.rest / len(points))
    _run(state, order, k, gamma)
    return state.labels


@compiled
def _run(state: Formation, order: NDArray[np.int64], k: int, gamma: float) -> None:
    """Form all classes, their seeds in the given order."""
    for seed in order:
        if state.tree.left[0] < k:
            break
        if state.labels[seed] < 0:
            form(state, seed, k)
            _extend(state, k, gamma)
    if state.tree.left[0] > 0:
        join_nearest(state)


@compiled
def _extend(state: Formation, k: int, gamma: float) -> None:
    """Let records join the last class as long as they are near enough, to 2k-1 records at most."""
    members, gaps, neighbours = _members(state, k)
    for size in range(k, 2 * k - 1):
        if state.tree.left[0] < 2:
            return
        closest = 0
        for i in range(size):
            if neighbours[i] < 0 or state.labels[neighbours[i]] >= 0:
                nearest(state.tree, state.points[members[i]], gaps[i : i + 1], neighbours[i : i + 1])
            if gaps[i] < gaps[closest] or (gaps[i] == gaps[closest] and neighbours[i] < neighbours[closest]):
                closest = i
        # The second nearest to the candidate: the nearest is itself, or an equal record.
        others = np.empty(2)
        nearest(state.tree, state.points[neighbours[closest]], others, np.empty(2, np.int64))
        if not np.sqrt(gaps[closest]) < gamma * np.sqrt(others[0]):
            return
        members[size] = neighbours[closest]
        _join_last(state, members[size : size + 1])


@compiled
def _members(state: Formation, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the records of the last class, of size k, with places for 2k-1, and for the nearest of each."""
    members, count = np.empty(2 * k - 1, np.int64), 0
    for record in range(len(state.labels)):
        if state.labels[record] == state.formed[0] - 1:
            members[count] = record
            count += 1
    return members, np.empty(2 * k - 1), np.full(2 * k - 1, -1)


@compiled
def _join_last(state: Formation, record: NDArray[np.int64]) -> None:
    """Move one record into the class formed last."""
    label = state.formed[0] - 1
    take(state.tree, record)
    discard(state.outermost, record)
    state.labels[record[0]] = label
    for j in range(len(state.rest)):
        state.rest[j] -= state.points[record[0], j]
        state.sums[label, j] += state.points[record[0], j]
