"""Violations on a path: the EMD of a class is a sum over its records, in ascending order.

The j-th of s records adds its transport cost ``C_s(j, v)`` at position v. One crossing of the two
distribution functions gives this cost. A record that enters or leaves shifts the ranks of a run of other
records by one. So three prefix sums of costs answer for every exchange: K at the own rank, D one rank lower,
U one rank higher.

Example: a record enters at rank q in place of the member of rank r < q. The edge sum changes by ``(K(r) - D(r
+ 1)) + (D(q) - K(q) + its own cost)``. The first term depends on the leaving record only, the second on the
entering record only. The case r >= q is alike, with U.

Windows say which positions may replace a member without breaking t. For a class within t, most swaps break t.
For each rank at which a record may enter, the edge sum after the swap is convex in the position of that
record. So the positions that t allows lie between two ends. The window of a member covers the positions
allowed at all ranks. Two comparisons for each class then rule out a swap before any other computation. A
window may be wider than t allows, never narrower, and `keeps_t` decides. All attributes are then quick paths,
see `ledger_state`.

A record at rank p and position x costs C(p, x). C is convex in x: it is the difference of two edge sums whose
steps grow with x. Its steps lie between -T and T, where T is the number of records of the table. So C is at
least ``-T x`` and at least ``turn(p - 1) - turn(p) + T x``; `before` gives these costs beyond the crossings.
The edge sum must stay within its bound, so that x lies between two ends for each rank. A window holds the
ends of all ranks that have a position of the class between them, and is one position wider for rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from duckanon.kernels.closeness.reference import LISTED_CLASS_MAX_RECORDS
from duckanon.kernels.closeness.threshold import LISTED_QUANTILES
from duckanon.kernels.compiled import inner, spliced
from duckanon.kernels.exchange.ledger_state import (
    ASCENDING,
    BOUND,
    CODE,
    ENTERS_HIGH,
    ENTERS_LOW,
    HIGHER_RECORDS,
    KEPT_MORE,
    LOWER_RECORDS,
    PLACED,
    RANK,
    SPARE_LIST,
    TOTAL,
    TOTAL_MORE,
    UP_MORE,
    WINDOW,
    WINDOWS_MAX_RECORDS,
    bound_of,
    excess_of,
    list_of,
    lower_than,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules
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


class Path(NamedTuple):
    """Where a path stands in `Rules.arrays`: cumulative counts, prefix sums, quantiles and turns."""

    total: int
    values: int
    cumulative: int
    prefix: int
    quantiles: int
    turns: int


@inner
def path_of(rules: Rules, a: int) -> Path:
    """Return the places of a path."""
    rule = rules.table[a]
    m, start = rule["values"], rule["start"]
    quantiles = start + 2 * m + 1
    return Path(rule["total"], m, start, start + m, quantiles, quantiles + LISTED_QUANTILES)


@inner
def cost(arrays: NDArray[np.int64], path: Path, size: int, rank: int, x: int) -> int:
    """Return what the record of a rank 1..size at position x adds to the edge sum, C_size(rank, x)."""
    return before(arrays, path, size, rank - 1, x) - before(arrays, path, size, rank, x)


@inner
def before(arrays: NDArray[np.int64], path: Path, size: int, p: int, x: int) -> int:
    """Return the edge sum before position x of a distribution function that stays at p of size records."""
    level = path.total * p
    if size <= LISTED_CLASS_MAX_RECORDS:
        place = size * (size + 1) // 2 - 1 + p
        q, turn = arrays[path.quantiles + place], arrays[path.turns + place]
    else:
        q = _crossing(arrays, path, size, level)
        turn = 2 * (level * q - size * arrays[path.prefix + q])
    # Both values are computed before the comparison. Half of all records pass it, so a branch would be slow.
    value = level * x - size * arrays[path.prefix + x]
    return int(turn - value if x > q else value)


@inner
def _crossing(arrays: NDArray[np.int64], path: Path, size: int, level: int) -> int:
    """Return the first position whose cumulative count of the table exceeds a level."""
    # A function of its own, so that `before` is short enough to be inlined in the loops around it.
    q, end = 0, path.values
    while q < end:
        middle = (q + end) // 2
        if arrays[path.cumulative + middle] * size > level:
            end = middle
        else:
            q = middle + 1
    return q


UNSIGNED = np.uint64
"""Unsigned index: for a signed one numba checks whether it counts from the end. Without compilation any
number works.
"""

WORD = cast("int", np.int64(2**32))
BEYOND_BITS = cast("int", np.int64(2**31 - 2**63))
"""One comparison instead of two. A member's window is ``greatest * WORD - least`` and a position x is ``x *
WORD - x``. The difference is ``(greatest - x) * WORD + (x - least)``. One of these bits is set exactly if
either term is below 0, since there are at most `PATH_MAX_POSITIONS` positions.
"""

PATH_MAX_POSITIONS = 2**30
"""Largest number of positions on a path for which windows are kept."""

POSITIONS_AFTER, POSITIONS_UNTIL, FROM_HIGH, TO_HIGH, FROM_LOW, TO_LOW = range(6)
"""Rows of `Ledger.slots`, by the rank at which a record enters: the positions that have this rank, and the
ends of windows without the part that depends on the leaving member, if its rank is lower and if it is not.
"""


@inner
def fill_windows(ledger: Ledger, rules: Rules, c: int, size: int) -> None:
    """Fill the windows of the members of a class within t whose ledger is filled for swaps. O(S s^2)."""
    for a in range(len(ledger.quick)):
        _path_windows(ledger, rules, a, c, size)
    ledger.windowed[c] = True


@spliced
def kept_swaps(ledger: Ledger, first: int, size: int, second: int, others: int) -> int:
    """Write the swaps of two classes that windows do not rule out to `Ledger.swaps`; return how many."""
    # Both classes are within t, with filled windows. Swaps are ordered by the place in the first class, then
    # by the place in the second. The loop has no branch: about one swap of a member remains, and a processor
    # cannot predict which one.
    swaps, kept = ledger.swaps, UNSIGNED(0)
    for a in range(len(ledger.quick)):
        lists, count, kept = ledger.lists[a], kept, UNSIGNED(0)
        one, window = lists[list_of(ledger, PLACED, first) :], lists[list_of(ledger, WINDOW, first) :]
        two, windows = lists[list_of(ledger, PLACED, second) :], lists[list_of(ledger, WINDOW, second) :]
        if a == 0:
            for i in range(size):
                own, own_window, pair = one[i], window[i], i * WINDOWS_MAX_RECORDS
                for j in range(others):
                    beyond = (own_window - two[j]) | (windows[j] - own)
                    swaps[kept] = pair + j
                    kept += UNSIGNED((beyond & BEYOND_BITS) == 0)
        else:
            for x in range(count):
                pair = swaps[x]
                i, j = pair // WINDOWS_MAX_RECORDS, pair % WINDOWS_MAX_RECORDS
                beyond = (window[i] - two[j]) | (windows[j] - one[i])
                swaps[kept] = pair
                kept += UNSIGNED((beyond & BEYOND_BITS) == 0)
    return int(kept)


@inner
def keeps_t(
    ledger: Ledger, rules: Rules, first: int, size: int, second: int, others: int, i: int, j: int
) -> bool:
    """Tell whether two classes are within t after a swap of member i of the first and j of the second."""
    for a in range(len(ledger.quick)):
        for side in range(2):
            c, other, count = (second, first, others) if side else (first, second, size)
            gone, new, lists = j if side else i, i if side else j, ledger.lists[a]
            code, rank = lists[list_of(ledger, CODE, other) + new], lists[list_of(ledger, RANK, other) + new]
            enter_path(ledger, rules, a, c, count, code, rank, side, 0)
            if path_swap(ledger, a, c, gone, side, 0) > ledger.sums[a, c, BOUND]:
                return False
    return True


@spliced
def _path_windows(ledger: Ledger, rules: Rules, a: int, c: int, size: int) -> None:
    """Write the window of each member on a path."""
    lists, path, slots = ledger.lists[a], path_of(rules, a), ledger.slots
    each, turns = 1.0 / path.total, rules.arrays[path.turns + size * (size + 1) // 2 - 1 :]
    ascending, highs = lists[list_of(ledger, ASCENDING, c) :], lists[list_of(ledger, ENTERS_HIGH, c) :]
    lows = lists[list_of(ledger, ENTERS_LOW, c) :]
    for q in range(size + 1):
        slots[POSITIONS_AFTER, q] = ascending[q - 1] + 1 if q > 0 else 0
        slots[POSITIONS_UNTIL, q] = ascending[q] if q < size else path.values
        high, low = turns[q - 1] - turns[q] if q > 0 else 0, turns[q] - turns[q + 1] if q < size else 0
        slots[FROM_HIGH, q], slots[TO_HIGH, q] = each * highs[q], each * (highs[q] + high)
        slots[FROM_LOW, q], slots[TO_LOW, q] = each * lows[q], each * (lows[q] + low)
    left = ledger.sums[a, c, BOUND] - ledger.sums[a, c, TOTAL]
    ranks, lower = lists[list_of(ledger, RANK, c) :], lists[list_of(ledger, LOWER_RECORDS, c) :]
    higher, window = lists[list_of(ledger, HIGHER_RECORDS, c) :], lists[list_of(ledger, WINDOW, c) :]
    own, placed = lists[list_of(ledger, CODE, c) :], lists[list_of(ledger, PLACED, c) :]
    for i in range(size):
        least, greatest, rank = float(path.values), -1.0, ranks[i]
        high_room, low_room = 1.0 + each * (left - lower[i]), 1.0 + each * (left - higher[i])
        for q in range(size + 1):
            # Both values are computed before the comparison, so that the loop has no branch.
            high_first, low_first = slots[FROM_HIGH, q] - high_room, slots[FROM_LOW, q] - low_room
            high_last, low_last = high_room - slots[TO_HIGH, q], low_room - slots[TO_LOW, q]
            first, last = high_first if q > rank else low_first, high_last if q > rank else low_last
            first = first if first > slots[POSITIONS_AFTER, q] else slots[POSITIONS_AFTER, q]
            last = last if last < slots[POSITIONS_UNTIL, q] else slots[POSITIONS_UNTIL, q]
            least = first if first <= last and first < least else least
            greatest = last if first <= last and last > greatest else greatest
        window[i], placed[i] = int(greatest) * WORD - int(least), own[i] * WORD - own[i]
