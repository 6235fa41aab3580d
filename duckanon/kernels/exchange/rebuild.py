"""Neighbourhoods of classes are dissolved and formed anew; the new classes are kept if they are better."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner, spliced
from duckanon.kernels.exchange.exchange import ANY_EXCHANGES, exchange
from duckanon.kernels.exchange.ledger_state import NO_NUMBER
from duckanon.kernels.exchange.state import ExchangeState, add, forget, sse_of, touch, update_violations
from duckanon.kernels.splitmix import draw

if TYPE_CHECKING:
    from numpy.typing import NDArray

SETTLING_MAX_PASSES = 20
"""Most passes over the pairs of a neighbourhood that was formed anew."""

ACCEPTANCE_STEPS = 1024
"""Steps between no loss and the largest accepted loss; each step is equally likely to be the limit."""


class Neighbourhood(NamedTuple):
    """Memory for neighbouring classes that are dissolved: their records, and their former labels."""

    classes: NDArray[np.int64]  # (c,), the classes, and one free class
    records: NDArray[np.int64]  # (r,), records of these classes
    labels: NDArray[np.int64]  # (r,), class of each record before
    open: NDArray[np.int64]  # (r,), the records, -1 where a record has a new class
    distance: NDArray[np.float64]  # (r,), squared distance of each record from the seed


def empty_neighbourhood(classes: int, records: int) -> Neighbourhood:
    """Return memory for a neighbourhood of `classes` classes, one of them free, and `records` records."""
    numbers = np.zeros((3, records), dtype=np.int64)
    return Neighbourhood(
        np.zeros(classes, dtype=np.int64), numbers[0], numbers[1], numbers[2], np.zeros(records)
    )


@compiled
def rebuild(
    state: ExchangeState,
    neighbours: NDArray[np.int64],
    near: NDArray[np.int64],
    free: NDArray[np.int64],
    trials: int,
    neighbourhood: Neighbourhood,
    random_state: NDArray[np.uint64],
    worse: float,
) -> float:
    """Dissolve `trials` neighbourhoods, each around a random record, and form them anew; return the gain."""
    # `neighbours` (classes, c) are the nearest classes of each class, -1 for none; `near` (n, c) are the
    # nearest classes of each record. `free` (classes,) lists the classes without records, then -1, and is
    # kept up to date. A result that is worse by less than `worse` is also kept at random, the more often the
    # less worse it is.
    total, spare = 0.0, 0
    while spare < len(free) and free[spare] >= 0:
        spare += 1
    for _ in range(trials):
        record = state.record[draw(random_state, len(state.points))]
        a = state.label[record]
        most = 2 + draw(random_state, len(neighbourhood.classes) - 2)
        options = neighbours[a] if draw(random_state, 2) == 0 else near[record]
        old = _gather(state, options, a, neighbourhood, most)
        if old < 2:
            continue
        count = old
        if spare > 0:
            neighbourhood.classes[count] = free[spare - 1]
            count += 1
        least = (
            -worse * draw(random_state, ACCEPTANCE_STEPS) / ACCEPTANCE_STEPS
            if worse > 0.0
            else state.bounds.gain
        )
        gain = _try(state, neighbourhood, count, random_state, least)
        if gain > least:
            total += gain
            spare = _accept(state, neighbours, free, spare, neighbourhood, old, count)
    return total


@inner
def _gather(
    state: ExchangeState, options: NDArray[np.int64], a: int, neighbourhood: Neighbourhood, most: int
) -> int:
    """Write class a and those options whose records fit to the neighbourhood; return how many classes."""
    records, count = state.size[a], 1
    if records > len(neighbourhood.records):
        return 0
    neighbourhood.classes[0] = a
    for b in options:
        if count == most:
            break
        if b >= 0 and b != a and state.size[b] > 0 and records + state.size[b] <= len(neighbourhood.records):
            neighbourhood.classes[count] = b
            count += 1
            records += state.size[b]
    return count


@spliced
def _try(
    state: ExchangeState,
    neighbourhood: Neighbourhood,
    count: int,
    random_state: NDArray[np.uint64],
    least: float,
) -> float:
    """Form the first `count` classes anew and return the gain; undo everything if it is not above `least`."""
    classes = neighbourhood.classes[:count]
    before = _value(state, classes)
    used = _save(state, neighbourhood, count)
    form_anew(state, neighbourhood, count, used, random_state)
    update_violations(state, classes)
    _settle(state, classes)
    gain = before - _value(state, classes)
    if gain <= least:
        clear(state, classes)
        for i in range(used):
            add(state, neighbourhood.labels[i], neighbourhood.records[i])
        update_violations(state, classes)
    return gain


@spliced
def _accept(
    state: ExchangeState, neighbours: NDArray[np.int64], free: NDArray[np.int64], spare: int,
    neighbourhood: Neighbourhood, old: int, count: int,
) -> int:  # fmt: skip
    """Enter the classes that are free now into the list of free classes; return how many."""
    if spare > 0 and state.size[free[spare - 1]] > 0:
        spare -= 1
        for i in range(neighbours.shape[1]):
            neighbours[free[spare], i] = neighbours[neighbourhood.classes[0], i]
        free[spare] = -1
    for c in neighbourhood.classes[:old]:
        if state.size[c] == 0:
            free[spare] = c
            spare += 1
    for c in neighbourhood.classes[:count]:
        touch(state, c)
    return spare


@inner
def _value(state: ExchangeState, classes: NDArray[np.int64]) -> float:
    """Return the SSE of some classes plus the price of their violations."""
    total = 0.0
    for c in classes:
        total += sse_of(state, c)
        if state.violation[c] > 0.0:
            total += state.bounds.weight * state.violation[c]
    return total


@spliced
def _save(state: ExchangeState, neighbourhood: Neighbourhood, count: int) -> int:
    """Write the records of the first `count` classes, and the class of each; return how many records."""
    used = 0
    for c in neighbourhood.classes[:count]:
        for i in range(state.size[c]):
            neighbourhood.records[used], neighbourhood.labels[used] = state.members[c, i], c
            used += 1
    return used


@spliced
def _settle(state: ExchangeState, classes: NDArray[np.int64]) -> None:
    """Exchange between all pairs of classes until no exchange gains, in `SETTLING_MAX_PASSES` at most."""
    clock, mark = len(state.touched) - 1, NO_NUMBER
    for _ in range(SETTLING_MAX_PASSES):
        start, gained = state.touched[clock], 0.0
        for x in range(len(classes)):
            if state.size[classes[x]] > 0:
                gained = exchange(
                    state, classes[x], classes[x + 1 :], mark, ANY_EXCHANGES, ANY_EXCHANGES, gained
                )
        if gained <= state.bounds.gain:
            return
        mark = start


@spliced
def form_anew(
    state: ExchangeState,
    neighbourhood: Neighbourhood,
    count: int,
    used: int,
    random_state: NDArray[np.uint64],
) -> None:
    """Form classes around random or far seeds, of the nearest records, or of the nearest in every stratum."""
    bounds, open_records, distance = state.bounds, neighbourhood.open, neighbourhood.distance
    clear(state, neighbourhood.classes[:count])
    fewest = -(-used // bounds.most)
    make = max(1, fewest, min(count - draw(random_state, 3), used // bounds.least))
    size = used // make
    strata = size if state.codes.shape[0] > 0 else 1
    for i in range(used):
        open_records[i] = neighbourhood.records[i]
    if strata > 1:
        _ascend(state.codes, state.number, open_records[:used])
    at = draw(random_state, used)
    for c in neighbourhood.classes[:make]:
        seed = open_records[at]
        for i in range(used):
            distance[i] = _squared(state.points, seed, open_records[i]) if open_records[i] >= 0 else np.inf
        for stratum in range(strata):
            first, last = stratum * used // strata, (stratum + 1) * used // strata
            for _ in range(size // strata):
                best = _least(distance, first, last)
                add(state, c, open_records[best])
                open_records[best], distance[best] = -1, np.inf
        at = _next_seed(neighbourhood, used, random_state)
    for record in open_records[:used]:
        if record >= 0:
            _join(state, neighbourhood.classes[:make], record)


@spliced
def _next_seed(neighbourhood: Neighbourhood, used: int, random_state: NDArray[np.uint64]) -> int:
    """Return the place of a record without a class: a random one, or the farthest from the last seed."""
    random = draw(random_state, 2) == 0
    left, place, most = 0, 0, -1.0
    for i in range(used):
        if neighbourhood.open[i] < 0:
            continue
        left += 1
        if random and draw(random_state, left) == 0:
            place = i
        elif not random and neighbourhood.distance[i] > most:
            place, most = i, neighbourhood.distance[i]
    return place


@inner
def _least(distance: NDArray[np.float64], first: int, last: int) -> int:
    """Return the place of the least distance among first..last-1."""
    best, least = first, distance[first]
    for i in range(first + 1, last):
        if distance[i] < least:
            best, least = i, distance[i]
    return best


@inner
def _join(state: ExchangeState, classes: NDArray[np.int64], record: int) -> None:
    """Add a record to the class that may grow and whose SSE rises least."""
    best, least = NO_NUMBER, np.inf
    for c in classes:
        size = state.size[c]
        if 0 < size < state.bounds.most:
            total = 0.0
            for j in range(state.points.shape[1]):
                difference = state.points[record, j] - state.sums[c, j] / size
                total += difference * difference
            total *= size / (size + 1.0)
            if total < least:
                best, least = c, total
    add(state, best, record)


@inner
def _ascend(codes: NDArray[np.int64], number: NDArray[np.int64], records: NDArray[np.int64]) -> None:
    """Sort records by their codes, the first attribute first, then by number."""
    for i in range(1, len(records)):
        record, at = records[i], i
        while at > 0 and _after(codes, number, records[at - 1], record):
            records[at] = records[at - 1]
            at -= 1
        records[at] = record


@inner
def _after(codes: NDArray[np.int64], number: NDArray[np.int64], one: int, other: int) -> bool:
    """Tell whether one record comes after another."""
    for a in range(codes.shape[0]):
        if codes[a, one] != codes[a, other]:
            return bool(codes[a, one] > codes[a, other])
    return bool(number[one] > number[other])


@inner
def _squared(points: NDArray[np.float64], one: int, other: int) -> float:
    """Return the squared distance of two records."""
    here, there, total = points[one], points[other], 0.0
    for j in range(len(here)):
        difference = here[j] - there[j]
        total += difference * difference
    return total


@inner
def clear(state: ExchangeState, classes: NDArray[np.int64]) -> None:
    """Take all records out of some classes."""
    for c in classes:
        state.size[c] = 0
        forget(state, c)
        for j in range(state.points.shape[1]):
            state.sums[c, j] = 0.0
