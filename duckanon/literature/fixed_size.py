"""MDAV-generic, CBFS and V-MDAV: three siblings of MDAV. Steps: docs/methods/fixed-size.md.

MDAV-generic is MDAV with the threshold 3k, so that no record is left over. Domingo-Ferrer and Torra,
"Ordinal, continuous and heterogeneous k-anonymity through microaggregation", Data Mining and Knowledge
Discovery 11(2), 2005; the thresholds also in Solanas, "Privacy protection with genetic algorithms", 2008.
Left open there: the second seed is searched among the records that the class of the first leaves.
`duckanon.kernels.first.mdav.mdav` reads it so, and its published figures come out.

CBFS is centroid-based fixed-size microaggregation, one class a round. Laszlo and Mukherjee, "Minimum spanning
tree partitioning algorithm for microaggregation", IEEE TKDE 17(7), 2005. Left open there: the last records
compare with the centroids of the classes as formed, so the order of these records does not matter.

V-MDAV has variable class sizes. Solanas and Martínez-Ballesté, "V-MDAV: a multivariate microaggregation with
variable group size", COMPSTAT 2006. Readings where accounts of the method differ:

- Rounds go on while k records remain. Zhang and Zheng, who build on the method in "Research on V-MDAV
  algorithm based on grey relational analysis", 2018, stop at 2k and make k..2k-1 records the last class.
- A class is extended only while two records remain, since d_out is the distance to another record.
- The last records go to the nearest centroid as formed, as in MDAV. All of the fewer than k last records may
  join one class, which has up to 2k-1 records by extension: up to 3k-2 in all.

MDAV-generic and CBFS take O(n^2 / k) distances at worst, V-MDAV O(n^2). There a search tree replaces the
distance matrix of the paper, and the members of each class are found by a scan over the labels, O(n^2 / k) in
all.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import (
    Formation,
    farthest_from_centroid,
    form,
    formation_of,
    join_nearest,
    outermost_first,
)
from duckanon.kernels.neighbours.boxtree import discard, farthest, nearest, take
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def mdav_generic(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k records, the last of k..2k-1, by MDAV-generic: Domingo-Ferrer and Torra 2005."""
    state = formation_of(distance_points(points), k)
    _run_mdav_generic(state, k)
    return state.labels


def cbfs(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by CBFS: Laszlo and Mukherjee 2005."""
    state = formation_of(distance_points(points), k)
    _run_cbfs(state, k)
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


@compiled
def _run_cbfs(state: Formation, k: int) -> None:
    """Form all classes."""
    while state.tree.left[0] >= k:
        form(state, farthest_from_centroid(state), k)
    if state.tree.left[0] > 0:
        join_nearest(state.points, state.labels, state.formed[0])


def vmdav(points: ArrayLike, k: int, *, gamma: float = 0.2) -> NDArray[np.int64]:
    """Return classes of k..3k-2 records by V-MDAV: Solanas and Martínez-Ballesté 2006."""
    # The greater `gamma`, 0 or more, the more records join a class; with 0 none.
    if not (isfinite(gamma) and gamma >= 0.0):
        raise ValueError(f"gamma must be a finite number of at least 0, not {gamma}")
    matrix = distance_points(points)
    state = formation_of(matrix, k)
    order, _ = outermost_first(matrix, state.rest / len(matrix))
    _run_vmdav(state, order, k, gamma)
    return state.labels


@compiled
def _run_vmdav(state: Formation, order: NDArray[np.int64], k: int, gamma: float) -> None:
    """Form all classes, with seeds in the given order."""
    for seed in order:
        if state.tree.left[0] < k:
            break
        if state.labels[seed] < 0:
            form(state, seed, k)
            _extend(state, k, gamma)
    if state.tree.left[0] > 0:
        join_nearest(state.points, state.labels, state.formed[0])


@compiled
def _extend(state: Formation, k: int, gamma: float) -> None:
    """Let near records join the last class, to 2k-1 records at most."""
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
        # Two nearest to the candidate: the first is the candidate or an equal record, the second gives d_out.
        others = np.empty(2)
        nearest(state.tree, state.points[neighbours[closest]], others, np.empty(2, np.int64))
        if not np.sqrt(gaps[closest]) < gamma * np.sqrt(others[0]):
            return
        members[size] = neighbours[closest]
        _join_last(state, members[size : size + 1])


@compiled
def _members(state: Formation, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the k records of the last class, with room for 2k-1 records and for the nearest of each."""
    members, count = np.empty(2 * k - 1, np.int64), 0
    for record in range(len(state.labels)):
        if state.labels[record] == state.formed[0] - 1:
            members[count] = record
            count += 1
    return members, np.empty(2 * k - 1), np.full(2 * k - 1, -1)


@compiled
def _join_last(state: Formation, record: NDArray[np.int64]) -> None:
    """Move one record into the class formed last."""
    take(state.tree, record)
    discard(state.outermost, record)
    state.labels[record[0]] = state.formed[0] - 1
    for j in range(len(state.rest)):
        state.rest[j] -= state.points[record[0], j]
