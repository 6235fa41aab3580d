"""MD and M-d: classes around the two most distant records, of the table or of clusters of a spanning tree.

MD: Domingo-Ferrer and Mateo-Sanz, "Practical data-oriented microaggregation for statistical disclosure
control", IEEE TKDE 14(1), 2002; the last step as Kabir et al., section IV, quote it. M-d: Laszlo and
Mukherjee, "Minimum spanning tree partitioning algorithm for microaggregation", IEEE TKDE 17(7), 2005; named
in Kabir et al., who quote its information losses in Tables VI and VII. The original was not at hand. Steps:
docs/methods/fixed-size.md.

Ties and reading of MD: of equally distant pairs, r is the lowest record in any pair, and s its lowest
partner. The paper does not say which class has the first choice where r and s share near records; here the
class of r has it. Where that class takes s itself, which equal distances allow, s is the lowest record left
that is as far from r.

Cost: the farthest partner of a record is searched for only if the record is at least half of the greatest
distance away from the centroid. The search is repeated only if the partner has a class by now and the old
distance, an upper bound, is not below the greatest. As a rule that is a few searches a class, O(n^2 / k)
distances; O(n^3 / k) only for adverse points.

Ties and reading of M-d: of equally long edges, the edge with the lowest record is in the tree, and is tried
for a cut, first; then the edge whose other end is lower. The description at hand leaves open how the division
of a large cluster ends. Eight ends were compared: from 2k or 3k records on; four ways to seed the last class,
four to let the last records join. The end chosen comes nearest to the eight published figures: four of them
to two digits (Tarragona at k = 3 and 4, Census at 5 and 10), all within 0.32 %. MD alone does not.

O(n^2) distances for the tree, each pair once and without a matrix. O(n) steps a cut at worst, as a rule far
fewer. The division costs what maximum distance costs in the clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import (
    Formation,
    farthest_from_centroid,
    form,
    formation_of,
    join_nearest,
    outermost_first,
    partitioned,
)
from duckanon.kernels.first.spanning_tree import clusters, spanning_tree
from duckanon.kernels.neighbours.boxtree import BOUND_SAFETY_FACTOR, farthest
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

UNDERFLOW = 1e-300
"""Added to a squared bound: far above the rounding error of squares that underflow."""


class Reach(NamedTuple):
    """Search state: the distances from the centroid, and the farthest partner of each record."""

    order: NDArray[np.int64]  # (n,) the records, farthest from the centroid of all first
    radius: NDArray[np.float64]  # (n,) distances from the centroid, in that order
    # (n,) squared distance of each record to its partner; an upper bound once the partner has a class
    distance: NDArray[np.float64]
    # (n,) the farthest record without a class at the last search; -1 before the first
    partner: NDArray[np.int64]


def maximum_distance(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by the maximum distance method: Domingo-Ferrer, Mateo-Sanz 2002."""
    state = formation_of(distance_points(points), k)
    _run(state, reach_of(state), k)
    return state.labels


def reach_of(state: Formation) -> Reach:
    """Return the search state before any record has a class. O(n log n)."""
    n = len(state.points)
    order, squared = outermost_first(state.points, state.rest / n)
    return Reach(order, np.sqrt(squared), np.full(n, np.inf), np.full(n, -1))


@compiled
def _run(state: Formation, reach: Reach, k: int) -> None:
    """Form all classes."""
    left = state.tree.left
    while left[0] >= 2 * k:
        r = most_distant(state, reach)
        form(state, r, k)
        # As far from r as the partner of r: if the class of r takes that partner, all left are as far.
        form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= k:
        form(state, farthest_from_centroid(state), left[0])
    if left[0] > 0:
        join_nearest(state.points, state.labels, state.formed[0])


@compiled
def most_distant(state: Formation, reach: Reach) -> int:
    """Return the lowest record without a class in a most distant pair of such records; at least two."""
    best, best_distance = -1, -1.0
    for at in range(len(reach.order)):
        record = reach.order[at]
        if state.labels[record] >= 0:
            continue
        # By the triangle inequality this bounds every pair of this record and later records. Pairs with an
        # earlier record were seen from the earlier record.
        bound = 2.0 * reach.radius[at] * BOUND_SAFETY_FACTOR
        if bound * bound + UNDERFLOW < best_distance:
            break
        if reach.distance[record] >= best_distance:
            _renew(state, reach, record)
            distance, lower = reach.distance[record], min(record, reach.partner[record])
            if distance > best_distance or (distance == best_distance and lower < best):
                best, best_distance = lower, distance
    return best


@compiled
def _renew(state: Formation, reach: Reach, record: int) -> None:
    """Search for the partner of a record that has no partner, or whose partner has a class by now."""
    partner = reach.partner[record]
    if partner >= 0 and state.labels[partner] < 0:
        return
    partner = farthest(state.tree, state.points[record])
    reach.partner[record] = partner
    total = 0.0  # The operations of the search tree, in its order: both ends of a pair agree.
    for j in range(len(state.rest)):
        difference = state.points[record, j] - state.points[partner, j]
        total += difference * difference
    reach.distance[record] = total


def m_d(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by M-d: Laszlo and Mukherjee 2005."""
    # Labels: the clusters by lowest record (of a divided cluster its first class), then all further classes.
    matrix = distance_points(points)
    check_class_size(len(matrix), k)
    return partitioned(matrix, clusters(spanning_tree(matrix), k), k, _diameter)


def _diameter(points: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the classes of a cluster."""
    state = formation_of(points, k)
    _divide(state, reach_of(state), k)
    return state.labels


@compiled
def _divide(state: Formation, reach: Reach, k: int) -> None:
    """Form all classes of a cluster of 2k or more records."""
    left = state.tree.left
    while left[0] >= 3 * k:
        r = most_distant(state, reach)
        form(state, r, k)
        # As in maximum distance: as far from r as its partner, even if the class of r takes that partner.
        form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= 2 * k:
        form(state, most_distant(state, reach), k)
    form(state, farthest_from_centroid(state), left[0])
