"""Violations on a path: the EMD of a class is a sum over its records, in ascending order.

The j-th of s records costs what its place adds to the transport, ``C_s(j, v)``, which follows from one
crossing of the two distribution functions. A record that enters or leaves shifts the ranks of a run of the
others by one, so that prefix sums of the costs at the own rank, one rank lower and one rank higher answer for
every exchange.

With K, D and U for these sums, a record that enters at rank q for the member of rank r < q changes the edge
sum by ``(K(r) - D(r + 1)) + (D(q) - K(q) + its own cost)``, one term of either, and likewise for r >= q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.closeness.reference import LARGEST_LISTED
from duckanon.kernels.compiled import spliced, uncounted
from duckanon.kernels.exchange.costs import before, cost, path_of
from duckanon.kernels.exchange.ledger_state import (
    ASCENDING,
    BOUND,
    ENTERS_HIGH,
    ENTERS_LOW,
    HIGHER,
    KEPT_MORE,
    LOWER,
    RANK,
    SPARE,
    START,
    TOTAL,
    TOTAL_MORE,
    UP_MORE,
    bound_of,
    excess_of,
    lower_than,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules
    from duckanon.kernels.exchange.costs import Path
    from duckanon.kernels.exchange.ledger_state import Ledger


@spliced
def fill_path(ledger: Ledger, rules: Rules, a: int, c: int, size: int) -> int:
    """Write what the members of a class on a path add after swaps; return its edge sum."""
    lists, at, arrays, path = ledger.lists, ledger.span[c, START], rules.arrays, path_of(rules, a)
    kept, down, up = 0, 0, 0
    ascending, ranks, prefix = lists[ASCENDING, a, at:], lists[RANK, a, at:], arrays[path.prefix :]
    lower, higher = lists[LOWER, a, at:], lists[HIGHER, a, at:]
    by_lower, by_higher = lists[KEPT_MORE, a, at:], lists[UP_MORE, a, at:]
    highs, lows = lists[ENTERS_HIGH, a, at:], lists[ENTERS_LOW, a, at:]
    first = size * (size + 1) // 2 - 1
    quantiles, turns = arrays[path.quantiles + first :], arrays[path.turns + first :]
    highs[0] = lows[0] = 0
    for r in range(size):
        x = ascending[r]
        if size <= LARGEST_LISTED:
            # What `before` returns, four times, with each list asked once; what ranks do not have is dropped.
            step, last = path.total * x, r + 2 if r + 2 <= size else size
            at_1 = step * r - size * prefix[x]
            at_0, at_2, at_3 = at_1 - step, at_1 + step, at_1 + 2 * step
            at_0 = turns[r - 1] - at_0 if x > quantiles[r - 1] else at_0
            at_1 = turns[r] - at_1 if x > quantiles[r] else at_1
            at_2 = turns[r + 1] - at_2 if x > quantiles[r + 1] else at_2
            at_3 = turns[last] - at_3 if x > quantiles[last] else at_3
        else:
            at_0, at_1 = before(arrays, path, size, r - 1, x), before(arrays, path, size, r, x)
            at_2, at_3 = before(arrays, path, size, r + 1, x), before(arrays, path, size, r + 2, x)
        at_0, at_3 = at_0 if r > 0 else 0, at_3 if r + 2 <= size else 0
        # By rank at first, in lists that are filled for moves later.
        by_lower[r], by_higher[r] = kept - (down + at_0 - at_1), up - (kept + at_1 - at_2)
        down, kept, up = down + at_0 - at_1, kept + at_1 - at_2, up + at_2 - at_3
        highs[r + 1], lows[r + 1] = down - kept, kept - up
    for i in range(size):
        lower[i], higher[i] = by_lower[ranks[i]], by_higher[ranks[i]]
    return int(before(arrays, path, size, size, path.values) + kept)


@spliced
def enter_path(
    ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int, rank: int, side: int, place: int
) -> None:
    """Write what is to be known of a record that would enter class c; its rank is sought near the given."""
    entry, lists, arrays, path = ledger.entry, ledger.lists, rules.arrays, path_of(rules, a)
    at = ledger.span[c, START]
    ascending = lists[ASCENDING, a, at : at + size]
    rank = rank if rank < size else size
    while rank > 0 and ascending[rank - 1] >= code:
        rank -= 1
    while rank < size and ascending[rank] < code:
        rank += 1
    at_1 = before(arrays, path, size, rank, code)
    high = before(arrays, path, size, rank - 1 if rank > 0 else 0, code) - at_1
    low = at_1 - before(arrays, path, size, rank + 1 if rank < size else size, code)
    entry[side, a, 0, place] = rank
    entry[side, a, 1, place] = lists[ENTERS_HIGH, a, at + rank] + high
    entry[side, a, 2, place] = lists[ENTERS_LOW, a, at + rank] + low


@spliced
def path_swap(ledger: Ledger, a: int, c: int, gone: int, side: int, place: int) -> int:
    """Return the edge sum of a path after a swap; `gone` is where who gives way stands in `lists`."""
    total, lists, entry = ledger.sums[a, c, TOTAL], ledger.lists, ledger.entry
    if entry[side, a, 0, place] > lists[RANK, a, gone]:
        return int(total + lists[LOWER, a, gone] + entry[side, a, 1, place])
    return int(total + lists[HIGHER, a, gone] + entry[side, a, 2, place])


@spliced
def path_prices(
    ledger: Ledger, rules: Rules, weight: float, first: int, second: int, i: int, size: int,
    prices: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write what violations of paths a swap of member i of a class costs, with each of so many of another.

    `weight` is the price of one; attributes that are not quick, and trees, count nothing here. Nothing
    branches: most swaps of near classes gain SSE, and it is the violations, by chance, that decide.
    """
    lists, entry = ledger.lists, ledger.entry
    for j in range(size):
        prices[j] = 0.0
    for a in range(len(ledger.quick)):
        if not ledger.quick[a] or rules.table[a]["height"] > 0:
            continue
        at, there = ledger.span[first, START] + i, ledger.span[second, START]
        price, rank, enters = weight / rules.table[a]["whole"], lists[RANK, a, at], entry[0, a, 0, i]
        excess = ledger.sums[a, first, TOTAL] - ledger.sums[a, first, BOUND]
        lower, higher = excess + lists[LOWER, a, at], excess + lists[HIGHER, a, at]
        excess = ledger.sums[a, second, TOTAL] - ledger.sums[a, second, BOUND]
        high, low = excess + entry[0, a, 1, i], excess + entry[0, a, 2, i]
        ranks, lowers = lists[RANK, a, there : there + size], lists[LOWER, a, there : there + size]
        highers, entering = lists[HIGHER, a, there : there + size], entry[1, a, 0]
        highs, lows = entry[1, a, 1], entry[1, a, 2]
        for j in range(size):
            if_high, if_low = lower + highs[j], higher + lows[j]
            own = if_high if entering[j] > rank else if_low
            if_high, if_low = lowers[j] + high, highers[j] + low
            other = if_high if enters > ranks[j] else if_low
            own, other = own if own > 0 else 0, other if other > 0 else 0
            prices[j] += price * (own + other)


@spliced
def path_moves(ledger: Ledger, rules: Rules, a: int, c: int, members: NDArray[np.int64]) -> None:
    """Add what a path says of the class without each member; prepare it for those that join."""
    lists, at, size, path = ledger.lists, ledger.span[c, START], len(members), path_of(rules, a)
    if size > 1:
        kept, down = KEPT_MORE, UP_MORE
        _prefix(ledger, rules.arrays, path, a, at, size, size - 1, kept, down, SPARE)
        whole = before(rules.arrays, path, size - 1, size - 1, path.values) + lists[down, a, at + size]
        bound = bound_of(rules, a, size - 1)
        for i in range(size):
            place = at + lists[RANK, a, at + i]
            total = whole + lists[kept, a, place] - lists[down, a, place + 1]
            ledger.leave[members[i]] += excess_of(rules, a, total, bound)
    _prefix(ledger, rules.arrays, path, a, at, size, size + 1, KEPT_MORE, SPARE, UP_MORE)
    ledger.sums[a, c, TOTAL_MORE] = before(rules.arrays, path, size + 1, size + 1, path.values)


@uncounted
def _prefix(
    ledger: Ledger, arrays: NDArray[np.int64], path: Path, a: int, at: int, size: int, as_of: int,
    kept: int, down: int, up: int,
) -> None:  # fmt: skip
    """Write the prefix sums of the costs of a class as of another size, where its ranks exist."""
    lists = ledger.lists
    lists[kept, a, at] = lists[down, a, at] = lists[up, a, at] = 0
    for r in range(size):
        x, place = lists[ASCENDING, a, at + r], at + r
        at_0 = before(arrays, path, as_of, r - 1, x) if r > 0 else 0
        at_1 = before(arrays, path, as_of, r, x)
        at_2 = before(arrays, path, as_of, r + 1, x) if r + 1 <= as_of else 0
        at_3 = before(arrays, path, as_of, r + 2, x) if r + 2 <= as_of else 0
        lists[down, a, place + 1] = lists[down, a, place] + (at_0 - at_1)
        lists[kept, a, place + 1] = lists[kept, a, place] + (at_1 - at_2)
        lists[up, a, place + 1] = lists[up, a, place] + (at_2 - at_3)


@spliced
def path_join(ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int) -> int:
    """Return the edge sum of a path that a record joins."""
    lists, at, path = ledger.lists, ledger.span[c, START], path_of(rules, a)
    q = lower_than(lists[ASCENDING, a], at, size, code)
    total = lists[KEPT_MORE, a, at + q] + lists[UP_MORE, a, at + size] - lists[UP_MORE, a, at + q]
    return int(ledger.sums[a, c, TOTAL_MORE] + total + cost(rules.arrays, path, size + 1, q + 1, code))
