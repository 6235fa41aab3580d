"""Violations of a class after any swap or move of a record, kept until the class changes.

On a path the EMD of a class is a sum over its records: the j-th of s records in ascending order costs what
its place adds to the transport, ``C_s(j, v)``, which follows from one crossing of the two distribution
functions. A record that enters or leaves shifts the ranks of a run of the others by one, so that prefix sums
of the costs at the own rank, one rank lower and one rank higher answer for every exchange. In a tree an
exchange changes the counts of two nodes a level. All is exact integer arithmetic, as the audits have it.

What belongs to a class alone is filled at the first question after a change. What depends on the record that
would enter is computed on a path for all members of the other class at once, in a tree at the first question
about it, O(s H); then every swap with it takes constant time, or O(H). On a path it is one sum: with K, D and
U for the prefix sums at the own rank, one lower and one higher, a record that enters at rank q for the member
of rank r < q changes the edge sum by ``(K(r) - D(r + 1)) + (D(q) - K(q) + its own cost)``, one term of
either, and likewise for r >= q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from duckanon.kernels.closeness.reference import LARGEST_LISTED
from duckanon.kernels.closeness.threshold import Rules, rule_violation
from duckanon.kernels.compiled import spliced, uncounted
from duckanon.kernels.exchange.costs import Path, Tree, before, cost, edge, path_of, tree_of
from duckanon.kernels.neighbours.heap import ascend

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT = 2.0**61
"""Largest edge sum that is kept in one machine word."""

COUNTED = 16
"""Largest class that is put in order by counting, for each member, those before it: nothing branches."""

WINDOWS = cast("int", np.int64(64))
"""Largest class whose windows are kept, at O(s^2) each time: as much as to look at the pairs of one other."""

NONE = cast("int", np.int64(-1))
"""Typed, so that functions are not compiled once more for a literal."""

ASCENDING, CODE, RANK, LOWER, HIGHER, ENTERS_HIGH, ENTERS_LOW, KEPT_MORE, UP_MORE, SPARE, LEAST, GREATEST = (
    cast("int", np.int64(i)) for i in range(12)
)
"""Lists of a class and an attribute."""

START, ROOM = range(2)
INSIDE, WITHOUT = range(2)
TOTAL, BOUND, TOTAL_MORE, BOUND_MORE = range(4)
"""What stands in the last dimension of `Ledger.span`, `Ledger.nodes` and `Ledger.sums`."""

NOTHING, SWAPS, MOVES = (cast("int", np.int64(i)) for i in range(3))
"""What the ledger of a class can answer."""


class Ledger(NamedTuple):
    """What is known of the violations of m classes of n records; S attributes.

    The lists of all classes lie one after the other in ``lists``, with two places more than the class has
    records. One that grows gets a new place behind the last; when the memory is full, all are dropped.

    Attributes
    ----------
    quick : ndarray of shape (S,), bool
        Attributes answered in constant time: those with t alone, and sums that fit in a machine word.
    filled : ndarray of shape (m + 1,), int64
        What is known of each class: `NOTHING`, `SWAPS`, or `MOVES` too; then the end of the lists in use.
    span : ndarray of shape (m, 2), int64
        `START`, `ROOM`: first place of the lists of each class, and how many places they have.
    windowed : ndarray of shape (m,), bool
        Classes whose windows are known.
    lists : ndarray of shape (12, S, places), int64
        `ASCENDING`, the positions of the members in ascending order; by their places in the class `CODE`,
        their positions, and `RANK`, the members before each in that order. On a path: `LOWER` and `HIGHER`,
        what a member adds to the edge sum where it gives way to a record of a higher rank, or of none such;
        by rank `ENTERS_HIGH` and `ENTERS_LOW`, what that record adds then, without its own cost; by rank
        `KEPT_MORE` and `UP_MORE`, prefix sums of the costs at the own rank and one higher in a class with
        one member more; spare; by their places in the class `LEAST` and `GREATEST`, their window, see
        `windows`.
    nodes : ndarray of shape (S, height, places, 2), int64
        In a tree, on each level: `INSIDE`, the members of the class in the node above each, by its place, and
        `WITHOUT`, what the edge there adds to the edge sum of the class without it.
    sums : ndarray of shape (S, m, 4), int64
        `TOTAL`, `BOUND`: edge sum of the class, and the greatest one that t allows; `TOTAL_MORE`,
        `BOUND_MORE`: what does not depend on the record that joins, and the greatest edge sum with it.
    leave : ndarray of shape (n,), float64
        Violation of the class of each record without it.
    entry : ndarray of shape (2, S, 1 + max(2, height), most), int64
        For the members of two classes, the sides 0 and 1, who would enter the other: the rank, in a tree
        -1 where nothing is known yet; then on a path what it adds where it is higher than who gives way, and
        where it is not, in a tree what the edge on each level adds.
    swaps : ndarray of shape (2, WINDOWS^2 + 1), int64
        Scratch memory of `kept_swaps`: places of members in the one class, and in the other.
    slots : ndarray of shape (6, WINDOWS + 1), float64
        Scratch memory of `fill_windows`.
    histogram : ndarray of shape (2, most + 1), int64
        The values of a class and how often each occurs, for the attributes that are not quick.
    """

    quick: NDArray[np.bool_]
    filled: NDArray[np.int64]
    windowed: NDArray[np.bool_]
    span: NDArray[np.int64]
    lists: NDArray[np.int64]
    nodes: NDArray[np.int64]
    sums: NDArray[np.int64]
    leave: NDArray[np.float64]
    entry: NDArray[np.int64]
    swaps: NDArray[np.int64]
    slots: NDArray[np.float64]
    histogram: NDArray[np.int64]


def ledger_of(rules: Rules, records: int, classes: int, most: int) -> Ledger:
    """Return memory for so many records in classes of at most `most`.

    O(S (n H + m + most)) memory: about 290 + 48 H bytes a record and attribute.
    """
    table, count = rules.table, len(rules.table)
    height = max([0, *table["height"].tolist()])
    largest = table["total"].astype(float) * table["values"] * (most + 1.0)
    quick = (table["l_kind"] == 0) & (table["t"] >= 0.0) & (largest * (table["height"] + 1) < EXACT)
    # Classes of one record have three places each; two of the largest fit whatever is there.
    places = 3 * records + 2 * (most + 2)
    whole = np.int64
    return Ledger(
        quick, np.zeros(classes + 1, whole), np.zeros(classes, dtype=np.bool_),
        np.zeros((classes, 2), whole),
        np.zeros((12, count, places), whole), np.zeros((count, height, places, 2), whole),
        np.zeros((count, classes, 4), whole),
        np.zeros(records), np.zeros((2, count, 1 + max(2, height), most), whole),
        np.zeros((2, WINDOWS * WINDOWS + 1), whole), np.zeros((6, WINDOWS + 1)),
        np.zeros((2, most + 1), whole),
    )  # fmt: skip


@spliced
def fill_ledger(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], c: int, members: NDArray[np.int64]
) -> None:
    """Fill the ledger of a class, given by its records, for swaps. O(S s (H + log m))."""
    _make_room(ledger, c, len(members))
    for a in range(len(ledger.quick)):
        if rules.table[a]["values"] <= len(members):
            _order_by_counts(ledger, codes, rules.table[a]["values"], a, c, members)
        else:
            _order(ledger, codes, a, c, members)
        if ledger.quick[a]:
            size, rule = len(members), rules.table[a]
            ledger.sums[a, c, BOUND] = _bound(rules, a, size)
            if rule["height"] == 0:
                ledger.sums[a, c, TOTAL] = _fill_path(ledger, rules, a, c, size)
            else:
                _fill_without(ledger, rules, a, c, size)
                ledger.sums[a, c, TOTAL] = _tree_total(ledger, rules, a, c, size, size)
    ledger.filled[c], ledger.windowed[c] = SWAPS, False


@spliced
def fill_moves(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], c: int, members: NDArray[np.int64]
) -> None:
    """Fill what the ledger of a class, filled for swaps, needs for moves. O(S s (H + log m))."""
    for record in members:
        ledger.leave[record] = 0.0
    for a in range(len(ledger.quick)):
        if not ledger.quick[a]:
            for record in members:
                ledger.leave[record] += _histogram_violation(
                    ledger, rules, a, c, len(members), codes[a, record], NONE
                )
            continue
        ledger.sums[a, c, BOUND_MORE] = _bound(rules, a, len(members) + 1)
        if rules.table[a]["height"] == 0:
            _path_moves(ledger, rules, a, c, members)
        else:
            _tree_moves(ledger, rules, a, c, members)
    ledger.filled[c] = MOVES


@spliced
def class_violation(ledger: Ledger, rules: Rules, c: int, size: int) -> float:
    """Return the violation of a class whose ledger is filled; equal to what the others say of its records."""
    violation = 0.0
    for a in range(len(ledger.quick)):
        if not ledger.quick[a]:
            violation += _histogram_violation(ledger, rules, a, c, size, NONE, NONE)
        else:
            violation += _excess(rules, a, ledger.sums[a, c, TOTAL], ledger.sums[a, c, BOUND])
    return violation


@spliced
def prepare_swaps(ledger: Ledger, rules: Rules, first: int, size: int, second: int, others: int) -> None:
    """Prepare the questions about swaps of two classes, of so many records, whose ledgers are filled."""
    for a in range(len(ledger.quick)):
        if not ledger.quick[a]:
            continue
        for side in range(2):
            c, own, count = (first, size, others) if side else (second, others, size)
            there, lists = ledger.span[second if side else first, START], ledger.lists
            for i in range(count):
                if rules.table[a]["height"] > 0:
                    ledger.entry[side, a, 0, i] = -1
                else:
                    # Classes that are both like the table have a record at about the same rank.
                    code, rank = lists[CODE, a, there + i], lists[RANK, a, there + i]
                    enter_path(ledger, rules, a, c, own, code, rank, side, i)


@spliced
def enter(ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int, side: int, place: int) -> None:
    """Prepare the questions about a record that would enter class c, of so many records, for a member."""
    if rules.table[a]["height"] == 0:
        enter_path(ledger, rules, a, c, size, code, 0, side, place)
    else:
        _enter_tree(ledger, rules, a, c, size, code, side, place)


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
def violation_after_swap(
    ledger: Ledger, rules: Rules, a: int, c: int, size: int, gone: int, new: int, side: int, place: int
) -> float:
    """Return the violation of attribute a by class c whose member at the place `gone` gives way to another.

    `new` is the position of that one; `side` and `place` say where in `Ledger.entry` it stands. The swaps of
    the two classes are prepared.
    """
    at, bound = ledger.span[c, START] + gone, ledger.sums[a, c, BOUND]
    if not ledger.quick[a]:
        return _histogram_violation(ledger, rules, a, c, size, ledger.lists[CODE, a, at], new)
    if rules.table[a]["height"] > 0:
        if ledger.entry[side, a, 0, place] < 0:
            _enter_tree(ledger, rules, a, c, size, new, side, place)
        total = _tree_swap(ledger, rules, a, c, at, new, side, place)
    else:
        total = path_swap(ledger, a, c, at, side, place)
    return (total - bound) / rules.table[a]["whole"] if total > bound else 0.0


@spliced
def violation_with(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], c: int, size: int, new: int
) -> float:
    """Return the violation of a class that a record joins; the ledger is filled for moves."""
    violation = 0.0
    for a in range(len(ledger.quick)):
        code = codes[a, new]
        if not ledger.quick[a]:
            violation += _histogram_violation(ledger, rules, a, c, size, NONE, code)
            continue
        if rules.table[a]["height"] == 0:
            total = _path_join(ledger, rules, a, c, size, code)
        else:
            total = ledger.sums[a, c, TOTAL_MORE] + _tree_step(ledger, rules, a, c, size, code)
        violation += _excess(rules, a, total, ledger.sums[a, c, BOUND_MORE])
    return violation


@spliced
def _make_room(ledger: Ledger, c: int, size: int) -> None:
    """Give the lists of a class places for a size; what all classes have is dropped where none are left."""
    if ledger.span[c, ROOM] > size:
        return
    end, need = len(ledger.filled) - 1, size + 2
    if ledger.filled[end] + need > ledger.lists.shape[2]:
        for x in range(len(ledger.filled)):
            ledger.filled[x] = NOTHING
        for x in range(end):
            ledger.span[x, ROOM] = 0
    ledger.span[c, START], ledger.span[c, ROOM] = ledger.filled[end], need
    ledger.filled[end] += need


@spliced
def _order(ledger: Ledger, codes: NDArray[np.int64], a: int, c: int, members: NDArray[np.int64]) -> None:
    """Write the ascending positions of the members, and by their places the position and the rank of each."""
    at, size, lists = ledger.span[c, START], len(members), ledger.lists
    own, ascending, ranks = lists[CODE, a, at:], lists[ASCENDING, a, at:], lists[RANK, a, at:]
    for i in range(size):
        own[i] = codes[a, members[i]]
    for i in range(size if size <= COUNTED else 0):
        code, rank, place = own[i], 0, 0
        for j in range(size):
            rank += own[j] < code
            place += (own[j] == code) & (j < i)
        ranks[i], ascending[rank + place] = rank, code
    if size > COUNTED:
        for i in range(size):
            ascending[i] = own[i]
        ascend(ascending[:size])
        for i in range(size):
            ranks[i] = _lower(lists[ASCENDING, a], at, size, own[i])


@spliced
def _order_by_counts(
    ledger: Ledger, codes: NDArray[np.int64], values: int, a: int, c: int, members: NDArray[np.int64]
) -> None:
    """Write what `_order` writes where a table has no more values than the class members. O(s)."""
    at, size, lists, lower = ledger.span[c, START], len(members), ledger.lists, ledger.histogram[0]
    for x in range(values):
        lower[x] = 0
    for i in range(size):
        code = codes[a, members[i]]
        lists[CODE, a, at + i] = code
        lower[code] += 1
    place = at
    for x in range(values):
        count = lower[x]
        lower[x] = place - at
        for _ in range(count):
            lists[ASCENDING, a, place] = x
            place += 1
    for i in range(size):
        lists[RANK, a, at + i] = lower[lists[CODE, a, at + i]]


@uncounted
def _lower(ascending: NDArray[np.int64], first: int, size: int, code: int) -> int:
    """Return how many of so many positions from the first are below the given one."""
    low, high = first, first + size
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < code:
            low = middle + 1
        else:
            high = middle
    return int(low - first)


@uncounted
def _histogram_violation(
    ledger: Ledger, rules: Rules, a: int, c: int, size: int, gone: int, new: int
) -> float:
    """Return the violation of a class without one position and with another, -1 for none. O(s)."""
    at = ledger.span[c, START]
    used, i = 0, 0
    count = size + (new >= 0) - (gone >= 0)
    while i < size or new >= 0:
        if new >= 0 and (i >= size or ledger.lists[ASCENDING, a, at + i] >= new):
            value, new = new, -1
        else:
            value = ledger.lists[ASCENDING, a, at + i]
            i += 1
            if value == gone:
                gone = -1
                continue
        if used > 0 and ledger.histogram[0, used - 1] == value:
            ledger.histogram[1, used - 1] += 1
        else:
            ledger.histogram[0, used], ledger.histogram[1, used] = value, 1
            used += 1
    return rule_violation(ledger.histogram[0, :used], ledger.histogram[1, :used], count, rules, a)


@uncounted
def _bound(rules: Rules, a: int, size: int) -> int:
    """Return the greatest edge sum that t allows to a class of a size."""
    rule = rules.table[a]
    return int(size * rule["step"] + size * rule["rest"] // rule["parts"])


@uncounted
def _excess(rules: Rules, a: int, total: int, bound: int) -> float:
    """Return by how much an edge sum exceeds its bound, in records."""
    return (total - bound) / rules.table[a]["whole"] if total > bound else 0.0


@spliced
def path_swap(ledger: Ledger, a: int, c: int, gone: int, side: int, place: int) -> int:
    """Return the edge sum of a path after a swap; `gone` is where who gives way stands in `lists`."""
    total, lists, entry = ledger.sums[a, c, TOTAL], ledger.lists, ledger.entry
    if entry[side, a, 0, place] > lists[RANK, a, gone]:
        return int(total + lists[LOWER, a, gone] + entry[side, a, 1, place])
    return int(total + lists[HIGHER, a, gone] + entry[side, a, 2, place])


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
def _enter_tree(
    ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int, side: int, place: int
) -> None:
    """Write what is to be known of a record that would enter class c: what it adds on each level."""
    entry, arrays, at = ledger.entry, rules.arrays, ledger.span[c, START]
    rank, tree = _lower(ledger.lists[ASCENDING, a], at, size, code), tree_of(rules, a)
    entry[side, a, 0, place] = rank
    for h in range(tree.height):
        below = arrays[tree.below + h * tree.values + code]
        count = _inside(ledger.lists[ASCENDING, a], arrays, tree, at, size, rank, h, code)
        entry[side, a, 1 + h, place] = edge(tree, count + 1, size, below) - edge(tree, count, size, below)


@spliced
def _fill_path(ledger: Ledger, rules: Rules, a: int, c: int, size: int) -> int:
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
def _path_join(ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int) -> int:
    """Return the edge sum of a path that a record joins."""
    lists, at, path = ledger.lists, ledger.span[c, START], path_of(rules, a)
    q = _lower(lists[ASCENDING, a], at, size, code)
    total = lists[KEPT_MORE, a, at + q] + lists[UP_MORE, a, at + size] - lists[UP_MORE, a, at + q]
    return int(ledger.sums[a, c, TOTAL_MORE] + total + cost(rules.arrays, path, size + 1, q + 1, code))


@spliced
def _path_moves(ledger: Ledger, rules: Rules, a: int, c: int, members: NDArray[np.int64]) -> None:
    """Add what a path says of the class without each member; prepare it for those that join."""
    lists, at, size, path = ledger.lists, ledger.span[c, START], len(members), path_of(rules, a)
    if size > 1:
        kept, down = KEPT_MORE, UP_MORE
        _prefix(ledger, rules.arrays, path, a, at, size, size - 1, kept, down, SPARE)
        whole = before(rules.arrays, path, size - 1, size - 1, path.values) + lists[down, a, at + size]
        bound = _bound(rules, a, size - 1)
        for i in range(size):
            place = at + lists[RANK, a, at + i]
            total = whole + lists[kept, a, place] - lists[down, a, place + 1]
            ledger.leave[members[i]] += _excess(rules, a, total, bound)
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
def _tree_swap(
    ledger: Ledger, rules: Rules, a: int, c: int, gone: int, enters: int, side: int, place: int
) -> int:
    """Return the edge sum of a tree after a swap: where both have the same node, it has as many as before."""
    tree, total, h = tree_of(rules, a), ledger.sums[a, c, TOTAL], 0
    level, leaves = tree.nodes, ledger.lists[CODE, a, gone]
    while h < tree.height and rules.arrays[level + leaves] != rules.arrays[level + enters]:
        total += ledger.nodes[a, h, gone, WITHOUT] + ledger.entry[side, a, 1 + h, place]
        level += tree.values
        h += 1
    return int(total)


@spliced
def _tree_moves(ledger: Ledger, rules: Rules, a: int, c: int, members: NDArray[np.int64]) -> None:
    """Add what a tree says of the class without each member."""
    arrays, tree, at, size = rules.arrays, tree_of(rules, a), ledger.span[c, START], len(members)
    ledger.sums[a, c, TOTAL_MORE] = _tree_total(ledger, rules, a, c, size, size + 1)
    less, bound = _tree_total(ledger, rules, a, c, size, size - 1), _bound(rules, a, size - 1)
    for i in range(size if size > 1 else 0):
        left = less
        for h in range(tree.height):
            below = arrays[tree.below + h * tree.values + ledger.lists[CODE, a, at + i]]
            count = ledger.nodes[a, h, at + i, INSIDE]
            left += edge(tree, count - 1, size - 1, below) - edge(tree, count, size - 1, below)
        ledger.leave[members[i]] += _excess(rules, a, left, bound)


@spliced
def _tree_step(ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int) -> int:
    """Return what a record adds to the edge sum of the counts of a class, taken as one with a member more."""
    arrays, tree, step, at = rules.arrays, tree_of(rules, a), 0, ledger.span[c, START]
    rank = _lower(ledger.lists[ASCENDING, a], at, size, code)
    for h in range(tree.height):
        below = arrays[tree.below + h * tree.values + code]
        count = _inside(ledger.lists[ASCENDING, a], arrays, tree, at, size, rank, h, code)
        step += edge(tree, count + 1, size + 1, below) - edge(tree, count, size + 1, below)
    return int(step)


@uncounted
def _tree_total(ledger: Ledger, rules: Rules, a: int, c: int, size: int, as_of: int) -> int:
    """Return the edge sum of the counts of a class, taken as a class of another size. O(s H)."""
    arrays, tree, at = rules.arrays, tree_of(rules, a), ledger.span[c, START]
    total = tree.total * as_of * tree.height
    for h in range(tree.height):
        count, level = 0, h * tree.values
        for r in range(size):
            place = level + ledger.lists[ASCENDING, a, at + r]
            count += 1
            if r + 1 < size:
                following = level + ledger.lists[ASCENDING, a, at + r + 1]
                if arrays[tree.nodes + place] == arrays[tree.nodes + following]:
                    continue
            below = arrays[tree.below + place]
            total += edge(tree, count, as_of, below) - as_of * below
            count = 0
    return int(total)


@spliced
def _fill_without(ledger: Ledger, rules: Rules, a: int, c: int, size: int) -> None:
    """Write what the edges above each member add without it: members below a node are a run in the order."""
    arrays, tree, at = rules.arrays, tree_of(rules, a), ledger.span[c, START]
    for h in range(tree.height):
        first, level = 0, tree.nodes + h * tree.values
        for r in range(1, size + 1):
            if r < size:
                node = arrays[level + ledger.lists[ASCENDING, a, at + r]]
                if node == arrays[level + ledger.lists[ASCENDING, a, at + first]]:
                    continue
            for x in range(first, r):
                ledger.lists[SPARE, a, at + x] = r - first
            first = r
        for place in range(at, at + size):
            count = ledger.lists[SPARE, a, at + ledger.lists[RANK, a, place]]
            below = arrays[tree.below + h * tree.values + ledger.lists[CODE, a, place]]
            step = edge(tree, count - 1, size, below) - edge(tree, count, size, below)
            ledger.nodes[a, h, place, INSIDE], ledger.nodes[a, h, place, WITHOUT] = count, step


@uncounted
def _inside(
    ascending: NDArray[np.int64], arrays: NDArray[np.int64], tree: Tree, first: int, size: int, rank: int,
    h: int, code: int,
) -> int:  # fmt: skip
    """Return how many of the positions lie below the node of a level above one of some rank: a run there."""
    level = tree.nodes + h * tree.values
    node, low, high = arrays[level + code], first + rank, first + rank
    while low > first and arrays[level + ascending[low - 1]] == node:
        low -= 1
    while high < first + size and arrays[level + ascending[high]] == node:
        high += 1
    return int(high - low)
