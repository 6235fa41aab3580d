"""V-MDAV: microaggregation by maximum distance to the average vector with variable class sizes.

Solanas and Martínez-Ballesté, "V-MDAV: a multivariate microaggregation with variable group size", COMPSTAT
2006. Steps: docs/methods/fixed-size.md.

Readings where accounts of the method differ:

- Rounds go on while k records remain. Zhang and Zheng, who build on the method in "Research on V-MDAV
  algorithm based on grey relational analysis", 2018, stop at 2k and make k..2k-1 records the last class.
- A class is extended only while two records remain, since d_out is the distance to another record.
- The last records go to the nearest centroid as formed, as in MDAV. All of the fewer than k last records may
  join one class, which has up to 2k-1 records by extension: up to 3k-2 in all.

O(n^2) distances at worst; a search tree replaces the distance matrix of the paper. The members of each class
are found by a scan over the labels, O(n^2 / k) in all.
"""

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
    """Return classes of k..3k-2 records by V-MDAV.

    `gamma` is finite and at least 0, else ValueError: the greater, the more records join a class; with 0
    none.
    Source: Solanas and Martínez-Ballesté, COMPSTAT 2006. Readings and cost: top of the module.
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
    """Form all classes, with seeds in the given order."""
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
    label = state.formed[0] - 1
    take(state.tree, record)
    discard(state.outermost, record)
    state.labels[record[0]] = label
    for j in range(len(state.rest)):
        state.rest[j] -= state.points[record[0], j]
        state.sums[label, j] += state.points[record[0], j]
