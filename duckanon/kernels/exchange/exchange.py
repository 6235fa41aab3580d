"""Swaps and moves of records between two classes, by exact differences of SSE and of violations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from duckanon.kernels.compiled import compiled, inner, spliced
from duckanon.kernels.exchange.ledger import missed_by_swap, open_ledger
from duckanon.kernels.exchange.state import Groups, Room, add, judge, take, touch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules


ONE, OTHER = cast("int", np.int64(0)), cast("int", np.int64(1))
"""Sides of a ledger; typed, so that functions are not compiled once for each literal."""


PAIRS = 4096
"""Two classes with more pairs of records than this are left alone: merging made them, swaps would be dear."""


class Bounds(NamedTuple):
    """What a search must keep, and what it aims at.

    Attributes
    ----------
    least, most : int
        Records of a class.
    weight : float
        SSE that one unit of violation counts as.
    gain : float
        Least gain for which something is done: above the rounding of a sum of squares.
    """

    least: int
    most: int
    weight: float
    gain: float


@compiled
def sweep(
    groups: Groups,
    rules: Rules,
    neighbours: NDArray[np.int64],
    seen: NDArray[np.int64],
    bounds: Bounds,
    room: Room,
) -> float:
    """Exchange records between every class and its neighbours.

    Parameters
    ----------
    groups, rules, bounds, room
        The classes, changed in place, the thresholds, what the search keeps, room.
    neighbours : ndarray of shape (classes, c), int64
        Nearest classes of each class, -1 for none.
    seen : ndarray of shape (classes,), int64
        When each class was visited last; changed in place. Pairs that did not change since are passed over.

    Returns
    -------
    float
        Sum of the gains.
    """
    total = 0.0
    for a in range(len(neighbours)):
        if groups.size[a] == 0:
            continue
        last = seen[a]
        seen[a] = groups.touched[-1]
        for b in neighbours[a]:
            if b < 0 or b == a or groups.size[b] == 0 or groups.size[a] * groups.size[b] > PAIRS:
                continue
            if groups.touched[a] > last or groups.touched[b] > last:
                total += exchange(groups, rules, a, b, bounds, room)
    return total


@inner
def exchange(groups: Groups, rules: Rules, a: int, b: int, bounds: Bounds, room: Room) -> float:
    """Carry out the best swap or move between two classes until none is left; return the gain."""
    total = 0.0
    while True:
        gain, i, j = _best(groups, rules, a, b, bounds, room)
        if gain <= bounds.gain:
            return total
        total += gain
        if i >= 0:
            take(groups, i)
        if j >= 0:
            take(groups, j)
            add(groups, a, j)
        if i >= 0:
            add(groups, b, i)
        judge(groups, rules, a, room)
        judge(groups, rules, b, room)
        touch(groups, a)
        touch(groups, b)


@spliced
def _measure(groups: Groups, a: int, b: int, room: Room) -> float:
    """Write products and distances of the members of two classes; return their squared distance."""
    points, sums, between = groups.points, groups.sums, 0.0
    for j in range(points.shape[1]):
        w = sums[a, j] / groups.size[a] - sums[b, j] / groups.size[b]
        room.between[j] = w
        between += w * w
    for side in range(2):
        c = b if side else a
        size = groups.size[c]
        for i in range(size):
            record = groups.members[c, i]
            along, away = 0.0, 0.0
            for j in range(points.shape[1]):
                difference = points[record, j] - sums[c, j] / size
                along += difference * room.between[j]
                away += difference * difference
            room.along[side, i], room.away[side, i] = along, np.sqrt(away)
    return between


@spliced
def _best(groups: Groups, rules: Rules, a: int, b: int, bounds: Bounds, room: Room) -> tuple[float, int, int]:
    """Return the best gain and the records that go from a to b and from b to a; -1 for none."""
    size_a, size_b = groups.size[a], groups.size[b]
    before = groups.missed[a] + groups.missed[b]
    give = size_a > bounds.least and size_b < bounds.most
    get = size_b > bounds.least and size_a < bounds.most
    if groups.codes.shape[0] > 0:
        one, two = groups.members[a, :size_a], groups.members[b, :size_b]
        open_ledger(room.ledger, rules, groups.codes, one, two, give or get)
    between = _measure(groups, a, b, room)
    best, i, j = _best_swap(groups, rules, a, b, before, between, bounds, room)
    if give:
        gain, moved = _best_move(groups, a, b, ONE, before, between, bounds, room)
        if gain > best:
            best, i, j = gain, moved, -1
    if get:
        gain, moved = _best_move(groups, b, a, OTHER, before, between, bounds, room)
        if gain > best:
            best, i, j = gain, -1, moved
    return best, i, j


@spliced
def _best_swap(
    groups: Groups, rules: Rules, a: int, b: int, before: float, between: float, bounds: Bounds, room: Room
) -> tuple[float, int, int]:
    """Return the best gain above the least one, and the two records that change places."""
    points, ledger = groups.points, room.ledger
    size_a, size_b = groups.size[a], groups.size[b]
    hope = bounds.weight * before if before > 0.0 else 0.0
    best, best_i, best_j = bounds.gain, -1, -1
    both, apart = 1.0 / size_a + 1.0 / size_b, np.sqrt(between)
    for i in range(size_a):
        record = groups.members[a, i]
        for j in range(size_b):
            base = 2.0 * (room.along[1, j] - room.along[0, i] - between)
            # The triangle inequality bounds the distance of the two records.
            reach = room.away[0, i] + room.away[1, j] + apart
            if base + both * reach * reach + hope <= best:
                continue
            other = groups.members[b, j]
            gain = base
            for x in range(points.shape[1]):
                difference = points[record, x] - points[other, x]
                gain += both * difference * difference
            if gain + hope <= best:
                continue
            if groups.codes.shape[0] > 0:
                after = missed_by_swap(ledger, rules, groups.codes, ONE, size_a, i, j, record, other)
                if gain + bounds.weight * (before - after) <= best:
                    continue
                after += missed_by_swap(ledger, rules, groups.codes, OTHER, size_b, j, i, other, record)
                gain += bounds.weight * (before - after)
            if gain > best:
                best, best_i, best_j = gain, record, other
    return best, best_i, best_j


@inner
def _best_move(
    groups: Groups, source: int, target: int, side: int, before: float, between: float, bounds: Bounds,
    room: Room,
) -> tuple[float, int]:  # fmt: skip
    """Return the best gain above the least one, and the record that goes from source to target."""
    size, goal = groups.size[source], groups.size[target]
    sign = -2.0 if side else 2.0
    best, found = bounds.gain, -1
    for i in range(size):
        near = room.away[side, i] * room.away[side, i]
        far = near + sign * room.along[side, i] + between
        gain = near * size / (size - 1.0) - far * goal / (goal + 1.0)
        if groups.codes.shape[0] > 0:
            after = room.ledger.leave[side, i] + room.ledger.join[1 - side, i]
            gain += bounds.weight * (before - after)
        if gain > best:
            best, found = gain, groups.members[source, i]
    return best, found
