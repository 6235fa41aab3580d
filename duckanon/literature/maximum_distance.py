"""MD: microaggregation by maximum distance, which takes the two most distant records as seeds."""

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
"""Added to a squared bound: far above what squares lose that are too small for all their digits."""


class Reach(NamedTuple):
    """How far the records without a class reach.

    Attributes
    ----------
    order : ndarray of shape (n,), int64
        The records, farthest from the centroid of all first.
    radius : ndarray of shape (n,), float64
        Their distances from it, in that order.
    distance : ndarray of shape (n,), float64
        Squared distance of each record to its partner: an upper bound once the partner has a class.
    partner : ndarray of shape (n,), int64
        The record without a class that was farthest when it was last searched for; -1 for never.
    """

    order: NDArray[np.int64]
    radius: NDArray[np.float64]
    distance: NDArray[np.float64]
    partner: NDArray[np.int64]


def maximum_distance(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by the maximum distance method (MD).

    While 2k or more records remain: r and s are the two most distant of them, and each forms a class with
    its k-1 nearest. If k..2k-1 records are left, they form the last class; if fewer, each joins the class
    whose centroid is nearest.

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
    Exact and deterministic: of equally distant pairs, r is the lowest record in any of them, s its lowest
    partner. The farthest partner of a record is searched for only if the record is at least half of the
    greatest distance away from the centroid, and anew only if the partner has a class by now and the old
    distance, an upper bound, is not below the greatest. As a rule a few searches a class, O(n^2 / k)
    distances; O(n^3 / k) only for adverse points. O(n d) memory.

    Source: Domingo-Ferrer and Mateo-Sanz, "Practical data-oriented microaggregation for statistical
    disclosure control", IEEE TKDE 14(1), 2002; the last step as Kabir et al., section IV, quote it. Left
    open there: which class has the first choice where r and s share near records; here it is r, and where
    the class of r takes s itself (which equal distances allow), s is the lowest of the records left that are
    as far from r.

    The row "M-d" of Kabir et al., Tables VI and VII, is another method, by its figures the minimum spanning
    tree partition of Laszlo and Mukherjee, IEEE TKDE 17(7), 2005, whose large classes are divided as here:
    that comes within 0.4 % of all eight, MD alone does not.

    Examples
    --------
    >>> maximum_distance([[4.0], [9.0], [1.0], [8.0], [0.0]], 2).tolist()
    [1, 0, 1, 0, 1]
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
    """Return what the search for most distant pairs begins with: no record has a class. O(n log n)."""
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
        # As far as the partner of r, even if its class takes that: then no record left is nearer to r.
        form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= k:
        form(state, farthest_from_centroid(state), left[0])
    if left[0] > 0:
        join_nearest(state)


@compiled
def most_distant(state: Formation, reach: Reach) -> int:
    """Return the lowest record without a class that is in a most distant pair of such records.

    Two or more have none; the other one of the pair is farthest from it.
    """
    best, best_distance = -1, -1.0
    for at in range(len(reach.order)):
        record = reach.order[at]
        if state.labels[record] >= 0:
            continue
        # By the triangle inequality, no pair of this record and later ones, nor of two later ones, is farther
        # apart; the pairs with an earlier record have been seen from there.
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
    """Search for the partner of a record if it has none, or one that has a class by now."""
    partner = reach.partner[record]
    if partner >= 0 and state.labels[partner] < 0:
        return
    partner = farthest(state.tree, state.points[record])
    reach.partner[record] = partner
    total = 0.0  # By the operations of the search tree, in their order, so that both ends agree.
    for j in range(len(state.rest)):
        difference = state.points[record, j] - state.points[partner, j]
        total += difference * difference
    reach.distance[record] = total
