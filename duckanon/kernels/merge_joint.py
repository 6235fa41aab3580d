"""Merging of classes until all keep t of several attributes together, by the exact EMD.

The class with the greatest violation is merged with one of the `CANDIDATES_A_CLASS` classes whose union costs
least SSE: with the cheapest whose union keeps t, or else with the one that removes most violation for the
SSE. The violation of a class of s records is s (EMD - t), 0 where it keeps t. EMD is convex, so the violation
of a union is at most the sum of those of its parts, and the class of all records has EMD 0. Each merge leaves
one class fewer, so merging ends. Deterministic; ties to the lowest index. A merge takes O(m d) and the
transports of the candidates.

Three classes of one joint value each; no union of two keeps t:

>>> distance = joint_distance([[0, 1, 2]], ordered=[True], largest=True)
>>> limit = JointLimit(distance, Fraction(1, 10), np.eye(3, dtype=np.int64))
>>> merge_together(np.array([[0.0], [1.0], [5.0]]), np.ones(3, dtype=np.int64), [limit]).tolist()
[0, 0, 0]
"""

from __future__ import annotations

import heapq
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.joint import JointDistance, joint_distance, transport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["JointLimit", "joint_distance", "merge_together", "violation"]

CANDIDATES_A_CLASS = 8
"""Classes with which a violating class may be merged."""


class JointLimit(NamedTuple):
    """A t of several attributes together, and the joint values of the classes."""

    distance: JointDistance
    t: Fraction
    members: NDArray[np.int64]  # (m, v), records of each class by joint value; merging changes it


def merge_together(
    sums: NDArray[np.float64], sizes: NDArray[np.int64], limits: Sequence[JointLimit]
) -> NDArray[np.int64]:
    """Return the new class (m,) of each class; `sums` (m, d) are those of the coordinates of its records."""
    sums, records = sums.copy(), sizes.astype(np.float64)
    limits = [limit._replace(members=limit.members.copy()) for limit in limits]
    counts = [limit.members.sum(axis=0) for limit in limits]
    parent, alive = np.arange(len(sizes)), np.ones(len(sizes), dtype=bool)
    own = [_together(limits, counts, [c]) for c in range(len(sizes))]
    heap = [(-float(one), c) for c, one in enumerate(own) if one > 0]
    heapq.heapify(heap)
    while heap:
        worst, c = heapq.heappop(heap)
        if not alive[c] or worst != -float(own[c]) or own[c] == 0:
            continue
        others = np.flatnonzero(alive)
        others = others[others != c]
        if not len(others):
            break
        b, left = _partner(c, others, sums, records, own, limits, counts)
        keep, gone = min(b, c), max(b, c)
        parent[gone], alive[gone] = keep, False
        sums[keep] += sums[gone]
        records[keep] += records[gone]
        for limit in limits:
            limit.members[keep] += limit.members[gone]
        own[keep] = left
        if left > 0:
            heapq.heappush(heap, (-float(left), keep))
    while not np.array_equal(parent, parent[parent]):
        parent = parent[parent]
    return np.asarray(np.unique(parent, return_inverse=True)[1], dtype=np.int64)


def violation(limit: JointLimit, counts: NDArray[np.int64], members: NDArray[np.int64]) -> Fraction:
    """Return s (EMD - t) of a class with `members` (v,) of `counts` (v,) records, 0 where it keeps t."""
    over = transport(limit.distance, counts, members).fraction(limit.distance) - limit.t
    return max(over, Fraction(0)) * int(members.sum())


def _together(
    limits: Sequence[JointLimit], counts: Sequence[NDArray[np.int64]], classes: Sequence[int]
) -> Fraction:
    """Return the violation of all limits by the union of some classes."""
    parts = zip(limits, counts, strict=True)
    return sum(
        (violation(limit, all_of, limit.members[classes].sum(axis=0)) for limit, all_of in parts), Fraction(0)
    )


def _partner(
    c: int,
    others: NDArray[np.int64],
    sums: NDArray[np.float64],
    sizes: NDArray[np.float64],
    own: Sequence[Fraction],
    limits: Sequence[JointLimit],
    counts: Sequence[NDArray[np.int64]],
) -> tuple[int, Fraction]:
    """Return the class with which a class is merged, and the violation of the union."""
    apart = sums[others] / sizes[others, None] - sums[c] / sizes[c]
    cost = (apart**2).sum(axis=1) * sizes[others] * sizes[c] / (sizes[others] + sizes[c])
    nearest = np.argsort(cost, kind="stable")[:CANDIDATES_A_CLASS]
    best, best_rate, left = -1, -1.0, Fraction(0)
    for place in nearest:
        b = int(others[place])
        union = _together(limits, counts, [b, c])
        if union == 0:
            return b, union
        removed = float(own[b] + own[c] - union)
        rate = removed / max(float(cost[place]), 1e-300)
        if rate > best_rate:
            best, best_rate, left = b, rate, union
    return best, left
