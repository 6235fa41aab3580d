"""Neighbouring classes are taken apart and formed anew; what comes out is kept if it is better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.compiled import compiled, inner, spliced
from duckanon.kernels.exchange.exchange import Bounds, exchange
from duckanon.kernels.exchange.form import Pool, clear, draw, form_anew
from duckanon.kernels.exchange.state import Groups, Room, add, judge, sse_of, touch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules


SETTLES = 20
"""Most passes over the pairs of a neighbourhood that was formed anew."""


@compiled
def rebuild(
    groups: Groups,
    rules: Rules,
    neighbours: NDArray[np.int64],
    near: NDArray[np.int64],
    free: NDArray[np.int64],
    trials: int,
    bounds: Bounds,
    room: Room,
    pool: Pool,
    state: NDArray[np.uint64],
) -> float:
    """Take neighbourhoods apart and form them anew, a number of times.

    Parameters
    ----------
    groups, rules, bounds, room
        The classes, changed in place, the thresholds, what the search keeps, room.
    neighbours : ndarray of shape (classes, c), int64
        Nearest classes of each class, -1 for none.
    near : ndarray of shape (n, c), int64
        Nearest classes of each record.
    free : ndarray of shape (classes,), int64
        Classes without records, then -1; changed in place.
    trials : int
        Neighbourhoods that are tried, each around a random record.
    pool : Pool
        Room for one.
    state : ndarray of shape (1,), uint64
        Of the random numbers; changed in place.

    Returns
    -------
    float
        Sum of the gains.
    """
    total, spare = 0.0, 0
    while spare < len(free) and free[spare] >= 0:
        spare += 1
    for _ in range(trials):
        record = draw(state, len(groups.points))
        a = groups.label[record]
        wanted = 2 + draw(state, len(pool.classes) - 2)
        options = neighbours[a] if draw(state, 2) == 0 else near[record]
        old = _gather(groups, options, a, pool, wanted)
        if old < 2:
            continue
        count = old
        if spare > 0:
            pool.classes[count] = free[spare - 1]
            count += 1
        gain = _try(groups, rules, count, bounds, room, pool, state)
        if gain > bounds.gain:
            total += gain
            spare = _accept(groups, neighbours, free, spare, pool, old, count)
    return total


@spliced
def _try(
    groups: Groups, rules: Rules, count: int, bounds: Bounds, room: Room, pool: Pool,
    state: NDArray[np.uint64],
) -> float:  # fmt: skip
    """Form the classes of the pool anew; return the gain, or take everything back if there is none."""
    before = _value(groups, bounds, pool.classes[:count])
    used = _save(groups, pool, count)
    form_anew(groups, pool, count, used, bounds, state)
    _judge_all(groups, rules, pool, count, room)
    _settle(groups, rules, pool, count, bounds, room)
    gain = before - _value(groups, bounds, pool.classes[:count])
    if gain <= bounds.gain:
        clear(groups, pool.classes[:count])
        for i in range(used):
            add(groups, pool.labels[i], pool.records[i])
        _judge_all(groups, rules, pool, count, room)
    return gain


@spliced
def _accept(
    groups: Groups, neighbours: NDArray[np.int64], free: NDArray[np.int64], spare: int, pool: Pool, old: int,
    count: int,
) -> int:  # fmt: skip
    """Enter the classes that are free now; return how many."""
    if spare > 0 and groups.size[free[spare - 1]] > 0:
        spare -= 1
        for i in range(neighbours.shape[1]):
            neighbours[free[spare], i] = neighbours[pool.classes[0], i]
        free[spare] = -1
    for c in pool.classes[:old]:
        if groups.size[c] == 0:
            free[spare] = c
            spare += 1
    for c in pool.classes[:count]:
        touch(groups, c)
    return spare


@inner
def _judge_all(groups: Groups, rules: Rules, pool: Pool, count: int, room: Room) -> None:
    """Bring what the classes of the pool miss up to date; a free class misses nothing."""
    for c in pool.classes[:count]:
        if groups.size[c] > 0:
            judge(groups, rules, c, room)
        else:
            groups.missed[c] = 0.0


@inner
def _gather(groups: Groups, options: NDArray[np.int64], a: int, pool: Pool, wanted: int) -> int:
    """Write class a and some of the options to the pool, as far as their records fit; return how many."""
    records, count = groups.size[a], 1
    if records > len(pool.records):
        return 0
    pool.classes[0] = a
    for b in options:
        if count == wanted:
            break
        if b >= 0 and b != a and groups.size[b] > 0 and records + groups.size[b] <= len(pool.records):
            pool.classes[count] = b
            count += 1
            records += groups.size[b]
    return count


@inner
def _value(groups: Groups, bounds: Bounds, classes: NDArray[np.int64]) -> float:
    """Return the SSE of some classes, and the price of what they miss."""
    total = 0.0
    for c in classes:
        total += sse_of(groups, c)
        if groups.missed[c] > 0.0:
            total += bounds.weight * groups.missed[c]
    return total


@spliced
def _save(groups: Groups, pool: Pool, count: int) -> int:
    """Note the records of the pool and their classes; return how many."""
    used = 0
    for c in pool.classes[:count]:
        for i in range(groups.size[c]):
            pool.records[used], pool.labels[used] = groups.members[c, i], c
            used += 1
    return used


@spliced
def _settle(groups: Groups, rules: Rules, pool: Pool, count: int, bounds: Bounds, room: Room) -> None:
    """Exchange between all pairs of the pool until nothing is gained."""
    clock, mark = len(groups.touched) - 1, -1
    for _ in range(SETTLES):
        start, gained = groups.touched[clock], 0.0
        for x in range(count):
            for y in range(x + 1, count):
                a, b = pool.classes[x], pool.classes[y]
                changed = groups.touched[a] > mark or groups.touched[b] > mark
                if changed and groups.size[a] > 0 and groups.size[b] > 0:
                    gained += exchange(groups, rules, a, b, bounds, room)
        if gained <= bounds.gain:
            return
        mark = start
