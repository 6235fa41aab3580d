"""Exact EMD of several sensitive columns together: a transport problem, with the proof of its answer.

The distance of two joint values is the greatest of the distances of their columns, or the sum of these
distances divided by the number of columns, so it is 0 to 1. Both are metrics. Hence mass at a value that the
class and the table share stays there, and only surpluses are moved to deficits. Everything is counted in
integers: masses as n * members - s * records (a class of s records in a table of n), distances as multiples
of 1 / `JointDistance.denominator`.

`transport` returns flows, and `potentials_of` potentials. The flows show that the EMD is at most their cost.
Potentials u with u_i - u_j <= d_ij for all values show that the EMD is at least the sum of u_i * mass_i. Both
are equal, so they prove the EMD, to whoever adds them up.

Successive shortest paths with potentials: J. Edmonds and R. M. Karp, Journal of the ACM 19(2), 1972. O(a p q)
for p surpluses, q deficits and a paths, usually p + q.

Source of the joint distribution: Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007, section 8. A table
of two columns of two values each, and the class of one of its four joint values:

>>> distance = joint_distance([[0, 0, 1, 1], [0, 1, 0, 1]], ordered=[True, False], largest=False)
>>> found = transport(distance, counts=[1, 1, 1, 1], members=[1, 0, 0, 0])
>>> found.fraction(distance)
Fraction(1, 2)
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

DENOMINATOR_MAX = 2**40
"""Largest common denominator of the distances, as in sql/audit/joint_distances.sql."""

TARGETS_AT_ONCE = 256
"""Targets whose distances from all values are in memory at once."""

UNREACHED_DISTANCE = np.iinfo(np.int64).max
"""Distance of what is not reached."""


class JointDistance(NamedTuple):
    """Ground distance of m joint values of A columns, in integers."""

    places: NDArray[np.int64]  # (A, m), place of each joint value's part among the values of the column
    units: NDArray[np.int64]  # (A,), distance of neighbouring places, or of different places
    ordered: NDArray[np.bool_]  # (A,), whether farther places are farther apart
    largest: bool  # the greatest distance of the columns counts, not the sum
    denominator: int


class Network(NamedTuple):
    """Flows from p surpluses to q deficits, with the arcs that carry flow as a list."""

    flows: NDArray[np.int64]  # (p, q)
    arcs: NDArray[np.int64]  # (p q, 2), surplus and deficit of each arc with flow; the first ones are used
    slot: NDArray[np.int64]  # (p, q), place of an arc in the list, -1 without flow


class Transport(NamedTuple):
    """The cheapest transport between a class of s records and a table of n."""

    numerator: int  # cost of the flows, in units of mass and distance
    mass: int  # s n, the mass of the class
    source: NDArray[np.int64]  # (f,), joint value from which mass flows
    target: NDArray[np.int64]  # (f,), joint value to which it flows
    moved: NDArray[np.int64]  # (f,), mass that flows, above 0
    deficits: NDArray[np.int64]  # (q,), joint values of which the class has too little
    ends: NDArray[np.int64]  # (q,), potentials of the deficits

    def fraction(self, distance: JointDistance) -> Fraction:
        """EMD, 0 to 1."""
        return Fraction(self.numerator, self.mass * distance.denominator)


def joint_distance(places: ArrayLike, ordered: Sequence[bool], *, largest: bool) -> JointDistance:
    """Return the distance of joint values with parts at `places` (A, m), each column's counted from 0.

    ValueError if the shapes do not fit, or the common denominator exceeds `DENOMINATOR_MAX`.
    """
    at = np.ascontiguousarray(places, dtype=np.int64)
    kinds = np.asarray(ordered, dtype=np.bool_)
    if at.ndim != 2 or at.shape[0] != len(kinds) or at.size == 0 or at.min() < 0:
        raise ValueError("places must be integers from 0, one row a column and one column a joint value")
    steps = [max(int(row.max()), 1) if kind else 1 for row, kind in zip(at, kinds, strict=True)]
    parts = 1 if largest else len(steps)
    denominator = math.lcm(*steps) * parts
    if denominator > DENOMINATOR_MAX:
        raise ValueError(f"the distances have no common denominator up to {DENOMINATOR_MAX}")
    units = np.array([denominator // (step * parts) for step in steps], dtype=np.int64)
    return JointDistance(at, units, kinds, largest, denominator)


def transport(distance: JointDistance, counts: ArrayLike, members: ArrayLike) -> Transport:
    """Return the cheapest transport from a class to its table, with its flows and potentials.

    `counts` (m,) are the records of the table by joint value, `members` (m,) those of the class. ValueError
    if the class is empty or no part of the table.
    """
    table, own = _checked(distance, counts, members)
    n, s = int(table.sum()), int(own.sum())
    surplus = n * own - s * table
    source, target = np.flatnonzero(surplus > 0), np.flatnonzero(surplus < 0)
    supply, demand = surplus[source], -surplus[target]
    costs = distances(distance, source, target)
    # The smaller side is the one whose members are searched one by one.
    if len(source) > len(target):
        turned, rising, _ = _cheapest(np.ascontiguousarray(costs.T), demand, supply)
        flows, ends = turned.T, -rising
    else:
        flows, _, ends = _cheapest(costs, supply, demand)
    at, to = np.nonzero(flows)
    moved = flows[at, to]
    cost = sum(int(mass) * int(each) for mass, each in zip(moved, costs[at, to], strict=True))
    return Transport(cost, n * s, source[at], target[to], moved, target, ends)


def potentials_of(distance: JointDistance, found: Transport) -> NDArray[np.int64]:
    """Return potentials u (m,) of all joint values, which prove that no transport is cheaper. O(m q)."""
    # The greatest that nowhere rises faster than the distance: u_i = min over deficits j of u_j + d_ij
    # (McShane 1934).
    every = np.arange(distance.places.shape[1])
    potentials = np.full(len(every), UNREACHED_DISTANCE if len(found.ends) else 0, dtype=np.int64)
    for start in range(0, len(found.ends), TARGETS_AT_ONCE):
        some = slice(start, start + TARGETS_AT_ONCE)
        here = distances(distance, every, found.deficits[some]) + found.ends[some]
        potentials = np.minimum(potentials, here.min(axis=1))
    return potentials


def distances(
    distance: JointDistance, source: NDArray[np.int64], target: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the distances (p, q) of p joint values from q others, as multiples of 1 / denominator."""
    costs = np.zeros((len(source), len(target)), dtype=np.int64)
    for place, unit, ordered in zip(distance.places, distance.units, distance.ordered, strict=True):
        apart = np.abs(place[source][:, None] - place[target][None, :])
        each = (apart if ordered else (apart > 0).astype(np.int64)) * unit
        costs = np.maximum(costs, each) if distance.largest else costs + each
    return costs


def _checked(
    distance: JointDistance, counts: ArrayLike, members: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    table, own = np.asarray(counts, dtype=np.int64), np.asarray(members, dtype=np.int64)
    if table.shape != distance.places.shape[1:] or own.shape != table.shape:
        raise ValueError("counts and members must be one integer a joint value")
    if own.min() < 0 or (own > table).any() or own.sum() == 0:
        raise ValueError("a class has at least one record, and no more of a value than the table")
    return table, own


@compiled
def _cheapest(
    costs: NDArray[np.int64], supply: NDArray[np.int64], demand: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the flows (p, q) of least cost, and potentials u (p,) and v (q,) with u_i - v_j <= costs_ij."""
    # The flow runs where u_i - v_j = costs_ij only. Supplies and demands have one sum.
    p, q = costs.shape
    left, open_to = supply.copy(), demand.copy()
    u, v = np.empty(p, np.int64), np.zeros(q, np.int64)
    # The memory of arcs that are never used is never touched.
    net = Network(np.zeros((p, q), np.int64), np.empty((p * q, 2), np.int64), np.full((p, q), -1, np.int64))
    used = 0
    reached, scanned = np.empty(p, np.int64), np.empty(p, np.bool_)
    lengths, before, back = np.empty(q, np.int64), np.empty(q, np.int64), np.empty(p, np.int64)
    for i in range(p):
        u[i] = costs[i].min()
    for first in range(p):
        while left[first] > 0:
            arcs = net.arcs[:used]
            least = _shortest_paths(
                costs, u, v, open_to, arcs, lengths, before, back, reached, scanned, first
            )
            # The paths to all targets at this distance stay shortest while flow can be taken back on them.
            for end in range(q):
                if open_to[end] == 0 or lengths[end] != least or left[first] == 0:
                    continue
                moved = min(left[first], open_to[end])
                i = before[end]
                while i != first:
                    moved = min(moved, net.flows[i, back[i]])
                    i = before[back[i]]
                if moved > 0:
                    left[first] -= moved
                    open_to[end] -= moved
                    used = _augment(net, used, before, back, first, end, moved)
    return net.flows, u, v


@inner
def _augment(
    net: Network,
    used: int,
    before: NDArray[np.int64],
    back: NDArray[np.int64],
    first: int,
    end: int,
    moved: int,
) -> int:
    """Move mass along the path to a target; return the number of arcs with flow."""
    j = end
    while True:
        i = before[j]
        if net.slot[i, j] < 0:
            net.slot[i, j], net.arcs[used, 0], net.arcs[used, 1] = used, i, j
            used += 1
        net.flows[i, j] += moved
        if i == first:
            return used
        j = back[i]
        net.flows[i, j] -= moved
        if net.flows[i, j] == 0:
            used -= 1
            at = net.slot[i, j]
            net.arcs[at, 0], net.arcs[at, 1] = net.arcs[used, 0], net.arcs[used, 1]
            net.slot[net.arcs[at, 0], net.arcs[at, 1]] = at
            net.slot[i, j] = -1


@inner
def _shortest_paths(
    costs: NDArray[np.int64],
    u: NDArray[np.int64],
    v: NDArray[np.int64],
    open_to: NDArray[np.int64],
    arcs: NDArray[np.int64],
    lengths: NDArray[np.int64],
    before: NDArray[np.int64],
    back: NDArray[np.int64],
    reached: NDArray[np.int64],
    scanned: NDArray[np.bool_],
    first: int,
) -> int:
    """Return the distance of the nearest targets with open demand; write paths and new potentials."""
    q = len(v)
    scanned[:], lengths[:] = False, UNREACHED_DISTANCE
    i, so_far = first, 0
    while True:
        scanned[i], reached[i] = True, so_far
        least = UNREACHED_DISTANCE
        for j in range(q):
            length = so_far + costs[i, j] - u[i] + v[j]
            if length < lengths[j]:
                lengths[j], before[j] = length, i
            if open_to[j] > 0 and lengths[j] < least:
                least = lengths[j]
        # Flow can be taken back from a target: its distance is that of the source of the flow, too.
        onward, nearest = -1, least
        for a in range(len(arcs)):
            if not scanned[arcs[a, 0]] and lengths[arcs[a, 1]] < nearest:
                onward, nearest = a, lengths[arcs[a, 1]]
        if onward < 0:
            break
        i, so_far = arcs[onward, 0], nearest
        back[i] = arcs[onward, 1]
    for one in range(len(u)):
        if scanned[one]:
            u[one] += least - reached[one]
    for j in range(q):
        if lengths[j] < least:
            v[j] += least - lengths[j]
    return int(least)
