"""MDAV: microaggregation by maximum distance to the average vector.

Domingo-Ferrer and Mateo-Sanz, "Practical data-oriented microaggregation for statistical disclosure control",
IEEE TKDE 14(1), 2002.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.boxtree import BoxTree, farthest, nearest, plant, take
from duckanon.kernels.compiled import compiled, inner
from duckanon.kernels.heap import ascend
from duckanon.kernels.points import check_class_size, distance_points
from duckanon.kernels.rim import Rim, farthest_from_centre, leave, unmade_rim

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

LEAF_SIZE = 32
TREE_RECORDS = 8
"""In d columns a tree pays from this many times 2**d records on; below, a plain scan is faster."""


class _State(NamedTuple):
    """What changes while classes are formed.

    Attributes
    ----------
    tree, rim : BoxTree, Rim
        The records that have no class yet, for searching.
    points : ndarray of shape (n, d)
        All records.
    rest : ndarray of shape (d,)
        Sum of the records that have no class yet.
    labels : ndarray of shape (n,)
        Class of each record, -1 for none yet.
    sums : ndarray of shape (classes, d)
        Sum of the records of each class.
    formed : ndarray of shape (1,)
        Number of classes so far.
    """

    tree: BoxTree
    rim: Rim
    points: NDArray[np.float64]
    rest: NDArray[np.float64]
    labels: NDArray[np.int64]
    sums: NDArray[np.float64]
    formed: NDArray[np.int64]


def mdav(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by MDAV with the classic end game.

    While 2k or more records remain: r is the record farthest from the centroid of the remaining ones, its
    class are r and its k-1 nearest; s is the record then farthest from r, its class are s and its k-1
    nearest. If k..2k-1 records are left, they form the last class; if fewer, each joins the class whose
    centroid is nearest.

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
    Exact and deterministic: equal distances go to the lowest record number. The centroid of the remaining
    records is a running sum (all records by number; then the records of each
    class are subtracted by number) divided by their count. O(n^2 / k) distances at worst, far fewer in few
    columns, where a search tree is used; O(n d) memory.

    Examples
    --------
    >>> mdav([[0.0], [9.0], [1.0], [8.0]], 2).tolist()
    [0, 1, 0, 1]
    """
    return _mdav(distance_points(points), k, remainder_is_class=True)


def mdav1(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by MDAV-1.

    As `mdav`, but if k..2k-1 records are left, the one farthest from their centroid and its k-1 nearest form
    one more class, and every record then left joins the class whose centroid is nearest.

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
    As `mdav`. This variant gives the published MDAV-1 figures for Census, Tarragona and EIA.
    """
    return _mdav(distance_points(points), k, remainder_is_class=False)


def _mdav(
    points: NDArray[np.float64], k: int, *, remainder_is_class: bool, leaf_size: int | None = None
) -> NDArray[np.int64]:
    """Return the classes; leaf_size n or more gives the brute-force scan, with the same result."""
    n, d = points.shape
    check_class_size(n, k)
    if leaf_size is None:
        leaf_size = LEAF_SIZE if n >= TREE_RECORDS * 2**d else n
    tree, rim = plant(points, leaf_size), unmade_rim(n, d)
    sums, formed = np.zeros((n // k, d)), np.zeros(1, np.int64)
    state = _State(tree, rim, points, np.zeros(d), np.full(n, -1), sums, formed)
    _run(state, k, remainder_is_class)
    return state.labels


@compiled
def _run(state: _State, k: int, remainder_is_class: bool) -> None:
    """Form all classes."""
    left = state.tree.left
    for i in range(len(state.points)):
        for j in range(len(state.rest)):
            state.rest[j] += state.points[i, j]
    while left[0] >= 2 * k:
        r = farthest_from_centre(state.rim, state.tree, state.rest / left[0])
        _form(state, r, k)
        _form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= k:
        r = farthest_from_centre(state.rim, state.tree, state.rest / left[0])
        _form(state, r, left[0] if remainder_is_class else k)
    if left[0] > 0:
        _join_nearest(state)


@inner
def _form(state: _State, seed: int, size: int) -> None:
    """Make a class of the seed and the size-1 records nearest to it."""
    members = np.empty(size, np.int64)
    members[0] = seed
    take(state.tree, members[:1])
    nearest(state.tree, state.points[seed], np.empty(size - 1), members[1:])
    take(state.tree, members[1:])
    leave(state.rim, members)
    ascend(members)
    label = state.formed[0]
    state.formed[0] += 1
    for record in members:
        state.labels[record] = label
        for j in range(len(state.rest)):
            state.rest[j] -= state.points[record, j]
            state.sums[label, j] += state.points[record, j]


@inner
def _join_nearest(state: _State) -> None:
    """Give each record without a class the class whose centroid, as formed, is nearest; ties to the first."""
    classes = state.formed[0]
    sizes = np.zeros(classes)
    for label in state.labels:
        if label >= 0:
            sizes[label] += 1
    for record in range(len(state.labels)):
        if state.labels[record] >= 0:
            continue
        best = np.inf
        for label in range(classes):
            distance = 0.0
            for j in range(len(state.rest)):
                difference = state.points[record, j] - state.sums[label, j] / sizes[label]
                distance += difference * difference
            if distance < best:
                best = distance
                state.labels[record] = label
