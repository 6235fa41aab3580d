"""MD: microaggregation by maximum distance, with the two most distant records as seeds.

Domingo-Ferrer and Mateo-Sanz, "Practical data-oriented microaggregation for statistical disclosure control",
IEEE TKDE 14(1), 2002; the last step as Kabir et al., section IV, quote it. Steps: docs/methods/fixed-size.md.

Ties and reading: of equally distant pairs, r is the lowest record in any pair, and s its lowest partner. The
paper does not say which class has the first choice where r and s share near records; here the class of r has
it. Where that class takes s itself, which equal distances allow, s is the lowest record left that is as far
from r.

Cost: the farthest partner of a record is searched for only if the record is at least half of the greatest
distance away from the centroid. The search is repeated only if the partner has a class by now and the old
distance, an upper bound, is not below the greatest. As a rule that is a few searches a class, O(n^2 / k)
distances; O(n^3 / k) only for adverse points.

The row "M-d" of Kabir et al., Tables VI and VII, is another method. By its figures it is the minimum spanning
tree partition of Laszlo and Mukherjee, IEEE TKDE 17(7), 2005 (`duckanon.literature.mst`), whose large classes
are divided as here. That comes within 0.4 % of all eight figures; MD alone does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.one_by_one import (
    Formation,
    farthest_from_centroid,
    form,
    formation_of,
    join_nearest,
    outermost_first,
)
from duckanon.kernels.neighbours.boxtree import farthest
from duckanon.kernels.neighbours.outermost import BOUND_SAFETY_FACTOR
from duckanon.kernels.points import distance_points

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
    """Return classes of k..2k-1 records by the maximum distance method (MD).

    Source: Domingo-Ferrer and Mateo-Sanz 2002. Ties, reading and cost: top of the module.
    """
    return _maximum_distance(distance_points(points), k)


def _maximum_distance(
    points: NDArray[np.float64], k: int, *, leaf_size: int | None = None
) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
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
        join_nearest(state)


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
