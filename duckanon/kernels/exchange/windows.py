"""Windows: which positions on a path may replace a member without breaking t.

For a class within t, most swaps break t. For each rank at which a record may enter, the edge sum after the
swap is convex in the position of that record. So the positions that t allows lie between two ends. The window
of a member covers the positions allowed at all ranks. Two comparisons for each class then rule out a swap
before any other computation. A window may be wider than t allows, never narrower, and `keeps_t` decides. All
attributes are quick paths, see `ledger_state`.

A record at rank p and position x costs C(p, x). C is convex in x: it is the difference of two edge sums whose
steps grow with x. Its steps lie between -T and T, where T is the number of records of the table. So C is at
least ``-T x`` and at least ``turn(p - 1) - turn(p) + T x``; `before` gives these costs beyond the crossings.
The edge sum must stay within its bound, so that x lies between two ends for each rank. A window holds the
ends of all ranks that have a position of the class between them, and is one position wider for rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from duckanon.kernels.compiled import inner, spliced
from duckanon.kernels.exchange.costs import path_of
from duckanon.kernels.exchange.ledger_path import enter_path, path_swap
from duckanon.kernels.exchange.ledger_state import (
    ASCENDING,
    BOUND,
    CODE,
    ENTERS_HIGH,
    ENTERS_LOW,
    HIGHER_RECORDS,
    LOWER_RECORDS,
    PLACED,
    RANK,
    TOTAL,
    WINDOW,
    WINDOWS_MAX_RECORDS,
    list_of,
)

if TYPE_CHECKING:
    from duckanon.kernels.closeness.threshold import Rules
    from duckanon.kernels.exchange.ledger_state import Ledger

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
