"""Merging of classes until all keep t of several attributes together, by the exact EMD.

The class with the greatest violation is merged with one of the `CANDIDATES_A_CLASS` classes whose union costs
least SSE: with the cheapest whose union keeps t, or else with the one that removes most violation for the
SSE. The violation of a class of s records is s (EMD - t), 0 where it keeps t. EMD is convex, so the violation
of a union is at most the sum of those of its parts, and the class of all records has EMD 0. Each merge leaves
one class fewer, so merging ends. Deterministic; ties to the lowest index. A merge takes O(m d) and the
transports of the candidates.

Three classes of one joint value each; no union of two keeps t:

>>> distance = joint_distance([[0, 1, 2]], ordered=[True], largest=True)
>>> values = Histograms(np.arange(4), np.arange(3), np.ones(3, dtype=np.int64))
>>> limit = JointLimit(distance, Fraction(1, 10), np.ones(3, dtype=np.int64), values)
>>> merge_together(np.array([[0.0], [1.0], [5.0]]), np.ones(3, dtype=np.int64), [limit]).tolist()
[0, 0, 0]
"""

from __future__ import annotations

import heapq
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.joint import JointDistance, joint_distance, transport
from duckanon.kernels.closeness.reference import Histograms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Histograms", "JointLimit", "joint_distance", "merge_together", "violation"]

Part = tuple["NDArray[np.int64]", "NDArray[np.int64]"]
"""Joint values, each once, and the records of each."""

CANDIDATES_A_CLASS = 8
"""Classes with which a violating class may be merged."""


class JointLimit(NamedTuple):
    """A t of several attributes together, and the joint values of the classes."""

    distance: JointDistance
    t: Fraction
    counts: NDArray[np.int64]  # (v,), records of the table by joint value
    values: Histograms  # joint values of each class


def merge_together(
    sums: NDArray[np.float64], sizes: NDArray[np.int64], limits: Sequence[JointLimit]
) -> NDArray[np.int64]:
    """Return the new class (m,) of each class; `sums` (m, d) are those of the coordinates of its records."""
    sums, records = sums.copy(), sizes.astype(np.float64)
    held = [_parts(limit.values) for limit in limits]
    parent, alive = np.arange(len(sizes)), np.ones(len(sizes), dtype=bool)
    own = [_together(limits, held, [c]) for c in range(len(sizes))]
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
        b, left = _partner(c, others, sums, records, own, limits, held)
        keep, gone = min(b, c), max(b, c)
        parent[gone], alive[gone] = keep, False
        sums[keep] += sums[gone]
        records[keep] += records[gone]
        for parts in held:
            parts[keep], parts[gone] = [*parts[keep], *parts[gone]], []
        own[keep] = left
        if left > 0:
            heapq.heappush(heap, (-float(left), keep))
    while not np.array_equal(parent, parent[parent]):
        parent = parent[parent]
    return np.asarray(np.unique(parent, return_inverse=True)[1], dtype=np.int64)


def violation(limit: JointLimit, members: NDArray[np.int64]) -> Fraction:
    """Return s (EMD - t) of a class with `members` (v,), 0 where it keeps t."""
    over = transport(limit.distance, limit.counts, members).fraction(limit.distance) - limit.t
    return max(over, Fraction(0)) * int(members.sum())


def _parts(values: Histograms) -> list[list[Part]]:
    """Return the joint values of each class with their records, as a list of one part."""
    bounds = pairwise(values.starts.tolist())
    return [[(values.values[start:end], values.weights[start:end])] for start, end in bounds]


def _together(
    limits: Sequence[JointLimit], held: Sequence[Sequence[Sequence[Part]]], classes: Sequence[int]
) -> Fraction:
    """Return the violation of all limits by the union of some classes."""
    found = Fraction(0)
    for limit, parts in zip(limits, held, strict=True):
        members = np.zeros(len(limit.counts), dtype=np.int64)
        for c in classes:
            for values, weights in parts[c]:
                members[values] += weights
        found += violation(limit, members)
    return found


def _partner(
    c: int,
    others: NDArray[np.int64],
    sums: NDArray[np.float64],
    sizes: NDArray[np.float64],
    own: Sequence[Fraction],
    limits: Sequence[JointLimit],
    held: Sequence[Sequence[Sequence[Part]]],
) -> tuple[int, Fraction]:
    """Return the class with which a class is merged, and the violation of the union."""
    apart = sums[others] / sizes[others, None] - sums[c] / sizes[c]
    cost = (apart**2).sum(axis=1) * sizes[others] * sizes[c] / (sizes[others] + sizes[c])
    nearest = np.argsort(cost, kind="stable")[:CANDIDATES_A_CLASS]
    best, best_rate, left = -1, -1.0, Fraction(0)
    for place in nearest:
        b = int(others[place])
        union = _together(limits, held, [b, c])
        if union == 0:
            return b, union
        removed = float(own[b] + own[c] - union)
        rate = removed / max(float(cost[place]), 1e-300)
        if rate > best_rate:
            best, best_rate, left = b, rate, union
    return best, left
