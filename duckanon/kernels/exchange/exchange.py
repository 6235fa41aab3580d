"""Swaps and moves of records between two classes, by exact differences of SSE and of violations."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from duckanon.kernels.compiled import compiled, inner, spliced
from duckanon.kernels.exchange.ledger import fill_ledger, violation_after_swap
from duckanon.kernels.exchange.state import ExchangeState, add, take, touch, update_violation

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE, OTHER = cast("int", np.int64(0)), cast("int", np.int64(1))
"""Sides of a ledger; typed, so that functions are not compiled once for each literal."""

PAIRS = 4096
"""Two classes with more pairs of records than this are left alone: merging made them, swaps would be dear."""


@compiled
def sweep(state: ExchangeState, neighbours: NDArray[np.int64], seen: NDArray[np.int64]) -> float:
    """Exchange records between every class and its neighbours (classes, c), -1 for none; return the gain.

    `seen` (classes,) tells when each class was visited last: pairs unchanged since then are passed over.
    """
    total = 0.0
    for a in range(len(neighbours)):
        if state.size[a] == 0:
            continue
        last = seen[a]
        seen[a] = state.touched[-1]
        for b in neighbours[a]:
            if b < 0 or b == a or state.size[b] == 0 or state.size[a] * state.size[b] > PAIRS:
                continue
            if state.touched[a] > last or state.touched[b] > last:
                total += exchange(state, a, b)
    return total


@inner
def exchange(state: ExchangeState, a: int, b: int) -> float:
    """Carry out the best swap or move between two classes until none is left; return the gain."""
    total = 0.0
    while True:
        gain, i, j = _best(state, a, b)
        if gain <= state.bounds.gain:
            return total
        total += gain
        if i >= 0:
            take(state, i)
        if j >= 0:
            take(state, j)
            add(state, a, j)
        if i >= 0:
            add(state, b, i)
        update_violation(state, a)
        update_violation(state, b)
        touch(state, a)
        touch(state, b)


@spliced
def _best(state: ExchangeState, a: int, b: int) -> tuple[float, int, int]:
    """Return the best gain and the records that go from a to b and from b to a; -1 for none."""
    bounds = state.bounds
    size_a, size_b = state.size[a], state.size[b]
    before = state.violation[a] + state.violation[b]
    give = size_a > bounds.least and size_b < bounds.most
    get = size_b > bounds.least and size_a < bounds.most
    if state.codes.shape[0] > 0:
        one, two = state.members[a, :size_a], state.members[b, :size_b]
        fill_ledger(state.scratch.ledger, state.rules, state.codes, one, two, give or get)
    between = _measure(state, a, b)
    best, i, j = _best_swap(state, a, b, before, between)
    if give:
        gain, moved = _best_move(state, a, b, ONE, before, between)
        if gain > best:
            best, i, j = gain, moved, -1
    if get:
        gain, moved = _best_move(state, b, a, OTHER, before, between)
        if gain > best:
            best, i, j = gain, -1, moved
    return best, i, j


@spliced
def _measure(state: ExchangeState, a: int, b: int) -> float:
    """Write products and distances of the members of two classes; return their squared distance."""
    points, sums, scratch, between = state.points, state.sums, state.scratch, 0.0
    for j in range(points.shape[1]):
        w = sums[a, j] / state.size[a] - sums[b, j] / state.size[b]
        scratch.between[j] = w
        between += w * w
    for side in range(2):
        c = b if side else a
        size = state.size[c]
        for i in range(size):
            record = state.members[c, i]
            along, away = 0.0, 0.0
            for j in range(points.shape[1]):
                difference = points[record, j] - sums[c, j] / size
                along += difference * scratch.between[j]
                away += difference * difference
            scratch.along[side, i], scratch.away[side, i] = along, np.sqrt(away)
    return between


@spliced
def _best_swap(state: ExchangeState, a: int, b: int, before: float, between: float) -> tuple[float, int, int]:
    """Return the best gain above the least one, and the two records that change places."""
    points, bounds, scratch = state.points, state.bounds, state.scratch
    rules, codes, ledger = state.rules, state.codes, state.scratch.ledger
    size_a, size_b = state.size[a], state.size[b]
    hope = bounds.weight * before if before > 0.0 else 0.0
    best, best_i, best_j = bounds.gain, -1, -1
    both, apart = 1.0 / size_a + 1.0 / size_b, np.sqrt(between)
    for i in range(size_a):
        record = state.members[a, i]
        for j in range(size_b):
            base = 2.0 * (scratch.along[1, j] - scratch.along[0, i] - between)
            # The triangle inequality bounds the distance of the two records.
            reach = scratch.away[0, i] + scratch.away[1, j] + apart
            if base + both * reach * reach + hope <= best:
                continue
            other = state.members[b, j]
            gain = base
            for x in range(points.shape[1]):
                difference = points[record, x] - points[other, x]
                gain += both * difference * difference
            if gain + hope <= best:
                continue
            if codes.shape[0] > 0:
                after = violation_after_swap(ledger, rules, codes, ONE, size_a, i, j, record, other)
                if gain + bounds.weight * (before - after) <= best:
                    continue
                after += violation_after_swap(ledger, rules, codes, OTHER, size_b, j, i, other, record)
                gain += bounds.weight * (before - after)
            if gain > best:
                best, best_i, best_j = gain, record, other
    return best, best_i, best_j


@inner
def _best_move(
    state: ExchangeState, source: int, target: int, side: int, before: float, between: float
) -> tuple[float, int]:
    """Return the best gain above the least one, and the record that goes from source to target."""
    scratch, weight = state.scratch, state.bounds.weight
    size, goal = state.size[source], state.size[target]
    sign = -2.0 if side else 2.0
    best, record = state.bounds.gain, -1
    for i in range(size):
        near = scratch.away[side, i] * scratch.away[side, i]
        far = near + sign * scratch.along[side, i] + between
        gain = near * size / (size - 1.0) - far * goal / (goal + 1.0)
        if state.codes.shape[0] > 0:
            after = scratch.ledger.leave[side, i] + scratch.ledger.join[1 - side, i]
            gain += weight * (before - after)
        if gain > best:
            best, record = gain, state.members[source, i]
    return best, record
