"""Violations on a path: the EMD of a class is a sum over its records, in ascending order.

The j-th of s records adds its transport cost ``C_s(j, v)`` at position v. One crossing of the two
distribution functions gives this cost. A record that enters or leaves shifts the ranks of a run of other
records by one. So three prefix sums of costs answer for every exchange: K at the own rank, D one rank lower,
U one rank higher.

Example: a record enters at rank q in place of the member of rank r < q. The edge sum changes by ``(K(r) - D(r
+ 1)) + (D(q) - K(q) + its own cost)``. The first term depends on the leaving record only, the second on the
entering record only. The case r >= q is alike, with U.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.closeness.reference import LISTED_CLASS_MAX_RECORDS
from duckanon.kernels.compiled import inner, spliced
from duckanon.kernels.exchange.costs import before, cost, path_of
from duckanon.kernels.exchange.ledger_state import (
    ASCENDING,
    BOUND,
    ENTERS_HIGH,
    ENTERS_LOW,
    HIGHER_RECORDS,
    KEPT_MORE,
    LOWER_RECORDS,
    RANK,
    SPARE_LIST,
    TOTAL,
    TOTAL_MORE,
    UP_MORE,
    bound_of,
    excess_of,
    list_of,
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
    """Write what each member of a class on a path adds after swaps; return the edge sum of the class."""
    lists, arrays, path = ledger.lists[a], rules.arrays, path_of(rules, a)
    kept, down, up, prefix = 0, 0, 0, arrays[path.prefix :]
    ascending, ranks = lists[list_of(ledger, ASCENDING, c) :], lists[list_of(ledger, RANK, c) :]
    lower, higher = lists[list_of(ledger, LOWER_RECORDS, c) :], lists[list_of(ledger, HIGHER_RECORDS, c) :]
    by_lower, by_higher = lists[list_of(ledger, KEPT_MORE, c) :], lists[list_of(ledger, UP_MORE, c) :]
    highs, lows = lists[list_of(ledger, ENTERS_HIGH, c) :], lists[list_of(ledger, ENTERS_LOW, c) :]
    first = size * (size + 1) // 2 - 1
    quantiles, turns = arrays[path.quantiles + first :], arrays[path.turns + first :]
    highs[0] = lows[0] = 0
    for r in range(size):
        x = ascending[r]
        if size <= LISTED_CLASS_MAX_RECORDS:
            # Four calls of `before`, with one look-up in each list; ranks that do not exist are ignored.
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
        # Indexed by rank for now; these lists are filled for moves later.
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
    """Write the entry of a record that would enter class c; its rank is searched from the given rank on."""
    entry, lists, arrays, path = ledger.entry, ledger.lists[a], rules.arrays, path_of(rules, a)
    ascending = lists[list_of(ledger, ASCENDING, c) :]
    rank = rank if rank < size else size
    while rank > 0 and ascending[rank - 1] >= code:
        rank -= 1
    while rank < size and ascending[rank] < code:
        rank += 1
    at_1 = before(arrays, path, size, rank, code)
    high = before(arrays, path, size, rank - 1 if rank > 0 else 0, code) - at_1
    low = at_1 - before(arrays, path, size, rank + 1 if rank < size else size, code)
    entry[side, a, 0, place] = rank
    entry[side, a, 1, place] = lists[list_of(ledger, ENTERS_HIGH, c) + rank] + high
    entry[side, a, 2, place] = lists[list_of(ledger, ENTERS_LOW, c) + rank] + low


@spliced
def path_swap(ledger: Ledger, a: int, c: int, gone: int, side: int, place: int) -> int:
    """Return the edge sum of a path after a swap; `gone` is the place of the record that leaves."""
    total, lists, entry = ledger.sums[a, c, TOTAL], ledger.lists[a], ledger.entry
    if entry[side, a, 0, place] > lists[list_of(ledger, RANK, c) + gone]:
        return int(total + lists[list_of(ledger, LOWER_RECORDS, c) + gone] + entry[side, a, 1, place])
    return int(total + lists[list_of(ledger, HIGHER_RECORDS, c) + gone] + entry[side, a, 2, place])


@spliced
def path_prices(
    ledger: Ledger, rules: Rules, weight: float, first: int, second: int, i: int, size: int,
    prices: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write what swaps of member i with each member of another class cost in violations of paths."""
    # The other class has `size` members. `weight` is the price of one unit of violation. Attributes that are
    # not quick, and trees, count as nothing. The loops have no branches: most swaps of near classes gain SSE,
    # so that violations decide, and a processor could not predict them.
    entry = ledger.entry
    for j in range(size):
        prices[j] = 0.0
    for a in range(len(ledger.quick)):
        if not ledger.quick[a] or rules.table[a]["height"] > 0:
            continue
        lists, enters, price = ledger.lists[a], entry[0, a, 0, i], weight / rules.table[a]["whole"]
        rank = lists[list_of(ledger, RANK, first) + i]
        excess = ledger.sums[a, first, TOTAL] - ledger.sums[a, first, BOUND]
        lower = excess + lists[list_of(ledger, LOWER_RECORDS, first) + i]
        higher = excess + lists[list_of(ledger, HIGHER_RECORDS, first) + i]
        excess = ledger.sums[a, second, TOTAL] - ledger.sums[a, second, BOUND]
        high, low = excess + entry[0, a, 1, i], excess + entry[0, a, 2, i]
        ranks, lowers = (
            lists[list_of(ledger, RANK, second) :],
            lists[list_of(ledger, LOWER_RECORDS, second) :],
        )
        highers, entering = lists[list_of(ledger, HIGHER_RECORDS, second) :], entry[1, a, 0]
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
    """Write what a path says of the class without each member, and prepare the path for records that join."""
    lists, size, path = ledger.lists[a], len(members), path_of(rules, a)
    if size > 1:
        _prefix(ledger, rules.arrays, path, a, c, size, size - 1, KEPT_MORE, UP_MORE, SPARE_LIST)
        kept, down = lists[list_of(ledger, KEPT_MORE, c) :], lists[list_of(ledger, UP_MORE, c) :]
        ranks = lists[list_of(ledger, RANK, c) :]
        whole = before(rules.arrays, path, size - 1, size - 1, path.values) + down[size]
        bound = bound_of(rules, a, size - 1)
        for i in range(size):
            total = whole + kept[ranks[i]] - down[ranks[i] + 1]
            ledger.leave[members[i]] += excess_of(rules, a, total, bound)
    _prefix(ledger, rules.arrays, path, a, c, size, size + 1, KEPT_MORE, SPARE_LIST, UP_MORE)
    ledger.sums[a, c, TOTAL_MORE] = before(rules.arrays, path, size + 1, size + 1, path.values)


@inner
def _prefix(
    ledger: Ledger, arrays: NDArray[np.int64], path: Path, a: int, c: int, size: int, as_of: int,
    same: int, lower: int, higher: int,
) -> None:  # fmt: skip
    """Write the prefix sums of the costs of a class as if it had another size, where its ranks exist."""
    lists = ledger.lists[a]
    kept, down = lists[list_of(ledger, same, c) :], lists[list_of(ledger, lower, c) :]
    up, ascending = lists[list_of(ledger, higher, c) :], lists[list_of(ledger, ASCENDING, c) :]
    kept[0] = down[0] = up[0] = 0
    for r in range(size):
        x = ascending[r]
        at_0 = before(arrays, path, as_of, r - 1, x) if r > 0 else 0
        at_1 = before(arrays, path, as_of, r, x)
        at_2 = before(arrays, path, as_of, r + 1, x) if r + 1 <= as_of else 0
        at_3 = before(arrays, path, as_of, r + 2, x) if r + 2 <= as_of else 0
        down[r + 1] = down[r] + (at_0 - at_1)
        kept[r + 1] = kept[r] + (at_1 - at_2)
        up[r + 1] = up[r] + (at_2 - at_3)


@spliced
def path_join(ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int) -> int:
    """Return the edge sum of a path after a record joins."""
    lists, path = ledger.lists[a], path_of(rules, a)
    kept, up = lists[list_of(ledger, KEPT_MORE, c) :], lists[list_of(ledger, UP_MORE, c) :]
    q = lower_than(lists[list_of(ledger, ASCENDING, c) :], size, code)
    total = kept[q] + up[size] - up[q]
    return int(ledger.sums[a, c, TOTAL_MORE] + total + cost(rules.arrays, path, size + 1, q + 1, code))
