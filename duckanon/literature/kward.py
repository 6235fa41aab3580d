"""Multivariate k-Ward: Ward's hierarchical clustering, in which two large groups are never joined.

Domingo-Ferrer and Mateo-Sanz, "Practical data-oriented microaggregation for statistical disclosure control",
IEEE TKDE 14(1), 2002, sections on k-Ward. Steps: docs/methods/fixed-size.md.

Reading of what the paper leaves open: the group of the first of the two most distant records takes its k-1
nearest first. The second record is the record then farthest from the first; its nearest are taken from the
records left, as in MD. Fewer than 2k records are one class.

Ties: of equally distant pairs the pair with the lowest records starts. Of joins that cost the same to the
last bit, the join of the small group with the lowest record comes first, with the partner whose lowest record
is lowest.

The cost of a join is computed from sums and sizes. The formula of Lance and Williams gives the same costs
from an n x n table. The linkage of scipy cannot forbid joins. A join never brings a third group nearer to the
joined two than the nearer of the two was. So the partner of a group is looked up again only when the group is
about to be joined and the partner has changed. This holds within rounding, where three costs are equal.

O(n^2 d) time as a rule. At worst, where all records are equal, n / k times that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import Formation, form, formation_of
from duckanon.kernels.neighbours.boxtree import farthest
from duckanon.kernels.points import check_class_size, distance_points
from duckanon.literature.maximum_distance import most_distant, reach_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Groups(NamedTuple):
    """Groups that are being joined, each at the place of its lowest record."""

    total: NDArray[np.float64]  # (n, d) sum of the records of a group
    size: NDArray[np.int64]  # (n,) records of a group; 0 where there is no group
    # (n,) how often the group was joined: a changed number makes older costs bounds only
    joined: NDArray[np.int64]
    partner: NDArray[np.int64]  # (n,) for a group below k: the group that costs least to join
    known: NDArray[np.int64]  # (n,) `joined` of the partner when the cost was computed
    # (n,) cost of joining the partner; a lower bound once the partner has been joined
    cost: NDArray[np.float64]


def k_ward(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by multivariate k-Ward, numbered by their lowest record."""
    matrix = distance_points(points)
    n = len(matrix)
    check_class_size(n, k)
    lowest = np.zeros(n, np.int64)
    pending = [np.arange(n)]
    while pending:
        records = pending.pop()
        if len(records) < 2 * k:
            lowest[records] = records[0]
            continue
        names = _clustered(np.ascontiguousarray(matrix[records]), k)
        order = np.argsort(names, kind="stable")
        starts = np.flatnonzero(np.diff(names[order])) + 1
        pending.extend(np.split(records[order], starts))
    return np.unique(lowest, return_inverse=True)[1].astype(np.int64)


def _clustered(points: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return for each of at least 2k records the first record of its group, every group of k or more."""
    n, d = points.shape
    counts = np.zeros((4, n), np.int64)
    groups = Groups(np.zeros((n, d)), counts[0], counts[1], counts[2], counts[3], np.zeros(n))
    names = np.arange(n)
    state = formation_of(points, k)
    _start(state, groups, names, most_distant(state, reach_of(state)), k)
    _join_all(groups, names, k)
    return names


@compiled
def _start(state: Formation, groups: Groups, names: NDArray[np.int64], first: int, k: int) -> None:
    """Form the groups of the first of the most distant records and of the other, and one of each record."""
    form(state, first, k)
    form(state, farthest(state.tree, state.points[first]), k)
    head = np.full(2, -1)
    for record in range(len(names)):
        label = state.labels[record]
        if label >= 0:
            if head[label] < 0:
                head[label] = record
            names[record] = head[label]
        groups.size[names[record]] += 1
        for j in range(state.points.shape[1]):
            groups.total[names[record], j] += state.points[record, j]


@compiled
def _join_all(groups: Groups, names: NDArray[np.int64], k: int) -> None:
    """Join the cheapest pairs until no group has fewer than k records."""
    n = len(names)
    for a in range(n):
        if 0 < groups.size[a] < k:
            _look_up(groups, a)
    while True:
        a = -1
        for group in range(n):
            if 0 < groups.size[group] < k and (a < 0 or groups.cost[group] < groups.cost[a]):
                a = group
        if a < 0:
            break
        b = groups.partner[a]
        if groups.joined[b] != groups.known[a]:
            _look_up(groups, a)
            continue
        lower, higher = min(a, b), max(a, b)
        groups.size[lower] += groups.size[higher]
        groups.size[higher] = 0
        for j in range(groups.total.shape[1]):
            groups.total[lower, j] += groups.total[higher, j]
        groups.joined[lower] += 1
        groups.joined[higher] += 1
        names[higher] = lower
        if groups.size[lower] < k:
            _look_up(groups, lower)
    for record in range(n):
        names[record] = names[names[record]]


@compiled
def _look_up(groups: Groups, a: int) -> None:
    """Find the group that costs least to join to a, the lowest of several."""
    best, partner = np.inf, -1
    size = groups.size[a]
    for b in range(len(groups.size)):
        other = groups.size[b]
        if other == 0 or b == a:
            continue
        distance = 0.0
        for j in range(groups.total.shape[1]):
            difference = groups.total[a, j] / size - groups.total[b, j] / other
            distance += difference * difference
        cost = distance * (size * other / (size + other))
        if cost < best or partner < 0:
            best, partner = cost, b
    groups.cost[a], groups.partner[a], groups.known[a] = best, partner, groups.joined[partner]
