"""MDAV: microaggregation by maximum distance to the average vector.

While 2k or more records remain: let r be the record farthest from the centroid of the remaining records. A
class is r and its k-1 nearest. Let s be the remaining record farthest from r. Another class is s and its k-1
nearest. Classic end game (MDAV): if k..2k-1 records are left, they form the last class; if fewer are left,
each joins the class whose centroid is nearest. MDAV-1: if k..2k-1 records are left, the one farthest from
their centroid and its k-1 nearest form one more class, and every other record joins the class whose centroid
is nearest. MDAV-1 gives the published figures for Census, Tarragona and EIA.

Exact and deterministic: equal distances go to the lowest record number. The centroid of the remaining records
is a running sum divided by their count: all records are added by number, then the records of each class are
subtracted by number. O(n^2 / k) distances at worst, far fewer in few columns, where a search tree is used;
O(n d) memory.

Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through microaggregation", Data
Mining and Knowledge Discovery 11(2), 2005; MDAV-1: Lin, Wen, Hsieh and Chang, Expert Systems with
Applications 37(4), 2010.

>>> mdav([[0.0], [9.0], [1.0], [8.0]], 2).tolist()
[0, 1, 0, 1]
"""

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


def mdav(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes (n,) of k..2k-1 records by MDAV, 0..m-1 in the order of formation."""
    return _mdav(distance_points(points), k, remainder_is_class=True)


def mdav1(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes (n,) of k..2k-1 records by MDAV-1, 0..m-1 in the order of formation."""
    return _mdav(distance_points(points), k, remainder_is_class=False)


def _mdav(
    points: NDArray[np.float64], k: int, *, remainder_is_class: bool, leaf_size: int | None = None
) -> NDArray[np.int64]:
    """Return the classes; leaf_size n or more gives the brute-force scan, with the same result."""
    state = formation_of(points, k, leaf_size)
    _run(state, k, remainder_is_class)
    return state.labels


@compiled
def _run(state: Formation, k: int, remainder_is_class: bool) -> None:
    """Form all classes."""
    left = state.tree.left
    while left[0] >= 2 * k:
        r = farthest_from_centroid(state)
        form(state, r, k)
        form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= k:
        form(state, farthest_from_centroid(state), left[0] if remainder_is_class else k)
    if left[0] > 0:
        join_nearest(state)
