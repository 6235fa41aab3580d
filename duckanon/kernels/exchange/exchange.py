"""Swaps and moves of records between two classes, by exact differences of SSE and of violations.

Most pairs of classes offer no gain, so cheap tests that rule out many pairs come first:

1. A bound on the gain in SSE, for all swaps of a record and then for one swap. It uses the mean of each class
and the distances of its members from it, less what the swap costs in violations on a path. 2. The exact gain
in SSE. 3. The other violations.

If both classes are within t, most swaps would break t, and where the price of a violation is high no gain in
SSE outweighs that. Then `windows` come first.

The bound on the gain in SSE. Let two records be s apart along the line through the means of classes a and b,
and at most p beside it. Swapping them gains at most ``(1 / size_a + 1 / size_b) (s^2 + p^2) - 2 s |mean_a -
mean_b|``. Let reach_a and reach_b be the distances of the farthest members from the means. A swapped record
then moves by ``mean_a - mean_b + e`` with ``|e| <= reach_a + reach_b``, and the gain is greatest with e along
the line. The gain of a move is greatest for the member farthest towards the other class.

Rounding. Bounds on SSE add the least gain that counts, which exceeds all rounding of squares. Bounds on
prices have a margin of `PRICE_MARGIN_SHARE`, which exceeds the rounding of prices. So no bound rules out an
exchange that the exact gain would accept. There is no bound on how much violations may fall.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from duckanon.kernels.compiled import compiled, inner, spliced
from duckanon.kernels.exchange.ledger import prepare_swaps, violation_after_swap, violation_with
from duckanon.kernels.exchange.ledger_path import fill_windows, keeps_t, kept_swaps, path_prices
from duckanon.kernels.exchange.ledger_state import (
    ANSWERS_MOVES,
    ANSWERS_NOTHING,
    ANSWERS_SWAPS,
    CODE,
    NO_NUMBER,
    WINDOWS_MAX_RECORDS,
    list_of,
)
from duckanon.kernels.exchange.state import (
    PRICE_MARGIN_SHARE,
    ExchangeState,
    add,
    measure,
    open_ledger,
    take,
    touch,
    update_violation,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_RECORD_PAIRS = cast("int", np.int64(4096))
"""Two classes with more pairs of records are skipped: merging made them, and swaps would be expensive."""

ANY_EXCHANGES = cast("int", np.int64(2**62))
"""No limit. Both numbers are typed, so that functions are not compiled once for each literal."""

PAIR_ALONG, PAIR_AWAY, PAIR_PLACE, PAIR_ASIDE = range(4)
"""Rows of `ExchangeState.pair`, for the members of two classes. Let v lead from the mean of its class to a
member: the product of v with the difference of the means, the length of v, and the parts of v along the line
through the means and beside it.
"""


@compiled
def sweep(state: ExchangeState, neighbours: NDArray[np.int64], seen: NDArray[np.int64], most: int) -> float:
    """Exchange records between every class and its neighbours (classes, c), -1 for none; return the gain."""
    # `seen` (classes,) holds the time of the last visit to each class. Pairs unchanged since then are
    # skipped. At most `most` exchanges are carried out for a pair.
    total = 0.0
    for a in range(len(neighbours)):
        if state.size[a] > 0:
            last = seen[a]
            seen[a] = state.touched[-1]
            total = exchange(state, a, neighbours[a], last, MAX_RECORD_PAIRS, most, total)
    return total


@inner
def exchange(
    state: ExchangeState, a: int, others: NDArray[np.int64], since: int, pairs: int, most: int, total: float
) -> float:
    """Exchange records between class a and others, one after the other; return `total` plus the gain."""
    # The best swap or move is carried out until none gains, or `most` were carried out. Skipped are class
    # numbers below 0, classes without records, pairs of classes with more than `pairs` pairs of records, and
    # pairs in which neither class changed after the time `since`.
    for b in others:
        if b < 0 or b == a or state.size[b] == 0 or state.size[a] * state.size[b] > pairs:
            continue
        if state.touched[a] <= since and state.touched[b] <= since:
            continue
        own, made = 0.0, 0
        while made < most:
            between = _apart(state, a, b)
            swaps, strict, out, back = _hopes(state, a, b, between)
            if not (swaps or out or back):
                break
            if out or back or not strict:
                _measure(state, a, b, between)
            best, i, j = state.bounds.gain, NO_NUMBER, NO_NUMBER
            if strict:
                best, i, j = _best_kept_swap(state, a, b, between)
            elif swaps:
                best, i, j = _best_swap(state, a, b, between)
            if out or back:
                best, i, j = _better_move(state, a, b, between, out, back, best, i, j)
            if best <= state.bounds.gain:
                break
            own += best
            made += 1
            _carry_out(state, a, b, i, j)
        total += own
    return total


@spliced
def _carry_out(state: ExchangeState, a: int, b: int, i: int, j: int) -> None:
    """Move record i from class a to b, and j from b to a; -1 for none."""
    if i >= 0:
        take(state, i)
    if j >= 0:
        take(state, j)
        add(state, a, j)
    if i >= 0:
        add(state, b, i)
    for c in (a, b):
        update_violation(state, c)
        touch(state, c)


@spliced
def _apart(state: ExchangeState, a: int, b: int) -> float:
    """Write the difference of the means of two classes; return its square."""
    w, between = state.between, 0.0
    for c in (a, b):
        if not state.measured[c]:
            measure(state, c)
    one, other = state.mean[a], state.mean[b]
    for x in range(len(w)):
        w[x] = one[x] - other[x]
        between += w[x] * w[x]
    return between


@spliced
def _hopes(state: ExchangeState, a: int, b: int, between: float) -> tuple[bool, bool, bool, bool]:
    """Tell what may gain: a swap; only swaps that keep t; a move from class a to b; a move from b to a."""
    bounds = state.bounds
    size_a, size_b, reach_a, reach_b = state.size[a], state.size[b], state.reach[a], state.reach[b]
    out = size_a > bounds.least and size_b < bounds.most
    back = size_b > bounds.least and size_a < bounds.most
    if state.violation[a] + state.violation[b] > 0.0:
        return True, False, out, back
    both, apart, reach = 1.0 / size_a + 1.0 / size_b, math.sqrt(between), reach_a + reach_b
    most = abs(2.0 * both - 2.0) * apart * reach + both * reach * reach - (2.0 - both) * between
    return (
        most > 0.0,
        0.0 < most < bounds.sure and size_a <= WINDOWS_MAX_RECORDS and size_b <= WINDOWS_MAX_RECORDS,
        out and _move_gains(reach_a, apart, size_a, size_b),
        back and _move_gains(reach_b, apart, size_b, size_a),
    )


@spliced
def _move_gains(reach: float, apart: float, size: int, goal: int) -> bool:
    """Tell whether a record `reach` from its class's mean may gain by a move to a class of `goal` records."""
    far = apart - reach
    return bool(far <= 0.0 or reach * reach * size / (size - 1.0) > far * far * goal / (goal + 1.0))


@spliced
def _measure(state: ExchangeState, a: int, b: int, between: float) -> None:
    """Write products and distances of the members of two classes whose means are `between` apart, squared."""
    points, pair, w, away_of = state.points, state.pair, state.between, state.away
    apart = math.sqrt(between)
    unit = 1.0 / apart if apart > 0.0 else 0.0
    for side in range(2):
        c = b if side else a
        members, centre, alongs, aways = (
            state.members[c],
            state.mean[c],
            pair[side, PAIR_ALONG],
            pair[side, PAIR_AWAY],
        )
        places, asides = pair[side, PAIR_PLACE], pair[side, PAIR_ASIDE]
        for i in range(state.size[c]):
            record = members[i]
            along = _along(points[record], centre, w)
            away, place = away_of[record], along * unit
            beside = away * away - place * place
            alongs[i], aways[i], places[i] = along, away, place
            asides[i] = math.sqrt(beside) if beside > 0.0 else 0.0


@spliced
def _along(point: NDArray[np.float64], centre: NDArray[np.float64], way: NDArray[np.float64]) -> float:
    """Return the scalar product of the difference point - centre with another vector."""
    along = 0.0
    for x in range(len(way)):
        along += (point[x] - centre[x]) * way[x]
    return along


@spliced
def _best_kept_swap(state: ExchangeState, a: int, b: int, between: float) -> tuple[float, int, int]:
    """Return what `_best_swap` returns, for classes without violations, where only swaps that keep t gain."""
    ledger, members, size_a, size_b = state.ledger, state.members, state.size[a], state.size[b]
    _open_both(state, a, b)
    for c in (a, b):
        if not ledger.windowed[c]:
            fill_windows(ledger, state.rules, c, state.size[c])
    best, best_i, best_j, both = state.bounds.gain, NO_NUMBER, NO_NUMBER, 1.0 / size_a + 1.0 / size_b
    for x in range(kept_swaps(ledger, a, size_a, b, size_b)):
        i, j = ledger.swaps[x] // WINDOWS_MAX_RECORDS, ledger.swaps[x] % WINDOWS_MAX_RECORDS
        one, other = members[a, i], members[b, j]
        if _about(state, one, other, both) + state.bounds.gain <= best:
            continue
        lost = _along(state.points[one], state.mean[a], state.between)
        gained = _along(state.points[other], state.mean[b], state.between)
        gain = _with_distance(state, one, other, both, 2.0 * (gained - lost - between))
        if gain <= best:
            continue
        if keeps_t(ledger, state.rules, a, size_a, b, size_b, i, j):
            best, best_i, best_j = gain, one, other
    return best, best_i, best_j


@spliced
def _about(state: ExchangeState, i: int, j: int, both: float) -> float:
    """Return the gain of a swap of two records up to rounding; cheaper than the gain that is compared."""
    one, other, w, total = state.points[i], state.points[j], state.between, 0.0
    for x in range(len(w)):
        way = other[x] - one[x]
        total += way * (2.0 * w[x] + both * way)
    return total


@spliced
def _best_swap(state: ExchangeState, a: int, b: int, between: float) -> tuple[float, int, int]:
    """Return the best gain above the least gain that counts, and the two records to swap."""
    bounds, pair, prices = state.bounds, state.pair, state.prices
    size_a, size_b = state.size[a], state.size[b]
    before = state.violation[a] + state.violation[b]
    hope = bounds.weight * before if before > 0.0 else 0.0
    best, best_i, best_j, prepared = bounds.gain, NO_NUMBER, NO_NUMBER, False
    both, apart = 1.0 / size_a + 1.0 / size_b, math.sqrt(between)
    twice, gone, new = 2.0 * apart, pair[0, PAIR_PLACE], pair[1, PAIR_PLACE]
    gone_aside, new_aside = pair[0, PAIR_ASIDE], pair[1, PAIR_ASIDE]
    lost, gained, outward, inward = (
        pair[0, PAIR_ALONG],
        pair[1, PAIR_ALONG],
        pair[0, PAIR_AWAY],
        pair[1, PAIR_AWAY],
    )
    low, high, widest = _extent(new, new_aside, size_b)
    for i in range(size_a):
        start, aside = apart + gone[i], gone_aside[i]
        near, far, wide = start - high, start - low, aside + widest
        most, other_end = near * (both * near - twice), far * (both * far - twice)
        if other_end > most:
            most = other_end
        if most + both * wide * wide + bounds.gain + hope <= best:
            continue
        if state.codes.shape[0] > 0:
            if not prepared:
                _open_both(state, a, b)
                prepare_swaps(state.ledger, state.rules, a, size_a, b, size_b)
                prepared = True
            path_prices(state.ledger, state.rules, bounds.weight, a, b, i, size_b, prices)
        for j in range(size_b):
            line, wide = start - new[j], aside + new_aside[j]
            most = line * (both * line - twice) + both * wide * wide
            promised = (
                bounds.gain + (1.0 + PRICE_MARGIN_SHARE) * hope - (1.0 - PRICE_MARGIN_SHARE) * prices[j]
            )
            if most + promised <= best:
                continue
            # The triangle inequality bounds the distance of the two records.
            gain, reach = 2.0 * (gained[j] - lost[i] - between), outward[i] + inward[j] + apart
            if gain + both * reach * reach + hope <= best:
                continue
            gain = _with_distance(state, state.members[a, i], state.members[b, j], both, gain)
            if gain + promised <= best:
                continue
            if state.codes.shape[0] > 0:
                gain = _priced(state, a, b, i, j, gain, before, best)
            if gain > best:
                best, best_i, best_j = gain, state.members[a, i], state.members[b, j]
    return best, best_i, best_j


@spliced
def _extent(
    places: NDArray[np.float64], asides: NDArray[np.float64], size: int
) -> tuple[float, float, float]:
    """Return the least and greatest place of `size` members along the line, and the farthest beside it."""
    low, high, widest = np.inf, -np.inf, 0.0
    for i in range(size):
        low = places[i] if places[i] < low else low
        high = places[i] if places[i] > high else high
        widest = asides[i] if asides[i] > widest else widest
    return low, high, widest


@spliced
def _with_distance(state: ExchangeState, i: int, j: int, times: float, total: float) -> float:
    """Return `total` plus `times` the squared distance of two records."""
    points = state.points
    for x in range(points.shape[1]):
        difference = points[i, x] - points[j, x]
        total += times * difference * difference
    return total


@spliced
def _open_both(state: ExchangeState, a: int, b: int) -> None:
    """Bring the ledgers of two classes up to date for swaps; opening one may drop the lists of the other."""
    ledger = state.ledger
    while ledger.filled[a] == ANSWERS_NOTHING or ledger.filled[b] == ANSWERS_NOTHING:
        open_ledger(state, a if ledger.filled[a] == ANSWERS_NOTHING else b, ANSWERS_SWAPS)


@spliced
def _priced(
    state: ExchangeState, a: int, b: int, i: int, j: int, gain: float, before: float, best: float
) -> float:
    """Return a swap's gain less the price of violations; any number <= `best` stands for one <= `best`."""
    ledger, rules, codes, weight = state.ledger, state.rules, state.codes, state.bounds.weight
    after, priced = 0.0, gain
    for side in range(2):
        c, other, gone, place = (b, a, j, i) if side else (a, b, i, j)
        own, size = 0.0, state.size[c]
        for s in range(codes.shape[0]):
            new = ledger.lists[s, list_of(ledger, CODE, other) + place]
            own += violation_after_swap(ledger, rules, s, c, size, gone, new, 1 - side, place)
            priced = gain + weight * (before - (after + own))
            if priced <= best:
                break
        if priced <= best:
            break
        after += own
    return priced


@spliced
def _better_move(
    state: ExchangeState, a: int, b: int, between: float, out: bool, back: bool, best: float, i: int, j: int
) -> tuple[float, int, int]:
    """Return gain and records of the best move, `out` (a to b) or `back`; the arguments if none is better."""
    pair, weight = state.pair, state.bounds.weight
    before = state.violation[a] + state.violation[b]
    hope = weight * before if before > 0.0 else 0.0
    for side in range(2):
        if not (back if side else out):
            continue
        source, target = (b, a) if side else (a, b)
        size, goal = state.size[source], state.size[target]
        sign = -2.0 if side else 2.0
        for place in range(size):
            record = state.members[source, place]
            near = pair[side, PAIR_AWAY, place] * pair[side, PAIR_AWAY, place]
            far = near + sign * pair[side, PAIR_ALONG, place] + between
            gain = near * size / (size - 1.0) - far * goal / (goal + 1.0)
            if gain + hope <= best:
                continue
            if state.codes.shape[0] > 0:
                while (
                    state.ledger.filled[source] < ANSWERS_MOVES or state.ledger.filled[target] < ANSWERS_MOVES
                ):
                    open_ledger(
                        state,
                        source if state.ledger.filled[source] < ANSWERS_MOVES else target,
                        ANSWERS_MOVES,
                    )
                after = state.ledger.leave[record]
                after += violation_with(state.ledger, state.rules, state.codes, target, goal, record)
                gain += weight * (before - after)
            if gain > best:
                best = gain
                i, j = (NO_NUMBER, record) if side else (record, NO_NUMBER)
    return best, i, j
