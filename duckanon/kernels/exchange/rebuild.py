"""Neighbourhoods of classes are taken apart and formed anew; what comes out is kept if it is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner, spliced
from duckanon.kernels.exchange.exchange import Bounds, exchange
from duckanon.kernels.exchange.state import Groups, Room, add, judge, sse_of, touch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules


SETTLES = 20
"""Most passes over the pairs of a neighbourhood that was formed anew."""


class Pool(NamedTuple):
    """Some classes, taken apart: room for their records and for what they were; made by `pool_of`.

    Attributes
    ----------
    classes : ndarray of shape (c,), int64
        The classes, and one free class.
    records, labels : ndarray of shape (r,), int64
        Their records, and the class of each before.
    open : ndarray of shape (r,), int64
        The records, -1 where one has its new class.
    distance : ndarray of shape (r,), float64
        Squared distance of each from the seed.
    """

    classes: NDArray[np.int64]
    records: NDArray[np.int64]
    labels: NDArray[np.int64]
    open: NDArray[np.int64]
    distance: NDArray[np.float64]


def pool_of(classes: int, records: int) -> Pool:
    """Return room for a neighbourhood.

    Parameters
    ----------
    classes, records : int
        Most classes, a free one among them, and most records.

    Returns
    -------
    Pool
        To be written.
    """

    def numbers() -> NDArray[np.int64]:
        return np.zeros(records, dtype=np.int64)

    return Pool(np.zeros(classes, dtype=np.int64), numbers(), numbers(), numbers(), np.zeros(records))


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


@inner
def _judge_all(groups: Groups, rules: Rules, pool: Pool, count: int, room: Room) -> None:
    """Bring what the classes of the pool miss up to date; a free class misses nothing."""
    for c in pool.classes[:count]:
        if groups.size[c] > 0:
            judge(groups, rules, c, room)
        else:
            groups.missed[c] = 0.0


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


@spliced
def form_anew(
    groups: Groups, pool: Pool, count: int, used: int, bounds: Bounds, state: NDArray[np.uint64]
) -> None:
    """Form classes around seeds, random or far, of nearest records or of the nearest in every stratum."""
    clear(groups, pool.classes[:count])
    fewest = -(-used // bounds.most)
    make = max(1, fewest, min(count - draw(state, 3), used // bounds.least))
    size = used // make
    strata = size if groups.codes.shape[0] > 0 else 1
    for i in range(used):
        pool.open[i] = pool.records[i]
    if strata > 1:
        _ascend(groups.codes, pool.open[:used])
    at = draw(state, used)
    for c in pool.classes[:make]:
        seed = pool.open[at]
        for i in range(used):
            pool.distance[i] = _squared(groups.points, seed, pool.open[i]) if pool.open[i] >= 0 else np.inf
        for stratum in range(strata):
            first, last = stratum * used // strata, (stratum + 1) * used // strata
            for _ in range(size // strata):
                best = _least(pool.distance, first, last)
                add(groups, c, pool.open[best])
                pool.open[best], pool.distance[best] = -1, np.inf
        at = _next_seed(pool, used, state)
    for record in pool.open[:used]:
        if record >= 0:
            _join(groups, pool, make, record, bounds)


@spliced
def _next_seed(pool: Pool, used: int, state: NDArray[np.uint64]) -> int:
    """Return the place of a record without a class: a random one, or the farthest from the last seed."""
    random = draw(state, 2) == 0
    left, found, most = 0, 0, -1.0
    for i in range(used):
        if pool.open[i] < 0:
            continue
        left += 1
        if random and draw(state, left) == 0:
            found = i
        elif not random and pool.distance[i] > most:
            found, most = i, pool.distance[i]
    return found


@inner
def _least(distance: NDArray[np.float64], first: int, last: int) -> int:
    """Return the place of the least distance from first on and before last."""
    best = first
    for i in range(first + 1, last):
        if distance[i] < distance[best]:
            best = i
    return best


@inner
def _join(groups: Groups, pool: Pool, make: int, record: int, bounds: Bounds) -> None:
    """Add a record to the class that has room and whose SSE rises least."""
    best, least = -1, np.inf
    for c in pool.classes[:make]:
        size = groups.size[c]
        if 0 < size < bounds.most:
            total = 0.0
            for j in range(groups.points.shape[1]):
                difference = groups.points[record, j] - groups.sums[c, j] / size
                total += difference * difference
            total *= size / (size + 1.0)
            if total < least:
                best, least = c, total
    add(groups, best, record)


@inner
def _ascend(codes: NDArray[np.int64], records: NDArray[np.int64]) -> None:
    """Sort records by their codes, the first attribute first, then by number."""
    for i in range(1, len(records)):
        record, at = records[i], i
        while at > 0 and _after(codes, records[at - 1], record):
            records[at] = records[at - 1]
            at -= 1
        records[at] = record


@inner
def _after(codes: NDArray[np.int64], one: int, other: int) -> bool:
    """Tell whether one record comes after another."""
    for a in range(codes.shape[0]):
        if codes[a, one] != codes[a, other]:
            return bool(codes[a, one] > codes[a, other])
    return one > other


@inner
def _squared(points: NDArray[np.float64], one: int, other: int) -> float:
    """Return the squared distance of two records."""
    total = 0.0
    for j in range(points.shape[1]):
        difference = points[one, j] - points[other, j]
        total += difference * difference
    return total


@inner
def clear(groups: Groups, classes: NDArray[np.int64]) -> None:
    """Take all records out of some classes."""
    for c in classes:
        groups.size[c] = 0
        for j in range(groups.points.shape[1]):
            groups.sums[c, j] = 0.0


@inner
def draw(state: NDArray[np.uint64], below: int) -> int:
    """Return the next random number 0..below-1 (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return int(z >> np.uint64(33)) % below
