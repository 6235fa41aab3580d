"""Violations of a class after any swap or move of a record, kept until the class changes.

Numbers that depend on one class alone are computed at the first question after the class changed. Numbers
that also depend on the record that enters are computed later: on a path for all members of the other class at
once, in a tree at the first question about the record, in O(s H). Then every swap with this record takes
constant time on a path (see `ledger_path`). In a tree it takes O(H), since an exchange changes the counts of
two nodes a level. With bounds of shares an exchange changes the counts of two values, which are looked up in
O(log s). For attributes with l, or with t and shares, values are counted again for each question. All
arithmetic is exact, in integers, as in the audits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duckanon.kernels.closeness.shares import UNITS, share_units, value_units
from duckanon.kernels.closeness.threshold import rule_violation
from duckanon.kernels.compiled import inner, spliced
from duckanon.kernels.exchange.ledger_path import (
    enter_path,
    fill_path,
    path_join,
    path_moves,
    path_swap,
)
from duckanon.kernels.exchange.ledger_state import (
    ANSWERS_MOVES,
    ANSWERS_SWAPS,
    ASCENDING,
    BOUND,
    BOUND_MORE,
    CODE,
    NO_NUMBER,
    NODE_INSIDE,
    NODE_WITHOUT,
    RANK,
    SPARE_LIST,
    START,
    TOTAL,
    TOTAL_MORE,
    UNITS_LESS,
    UNITS_MORE,
    UNITS_NOW,
    bound_of,
    excess_of,
    list_of,
    lower_than,
    make_room,
)
from duckanon.kernels.neighbours.slots import ascend

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules
    from duckanon.kernels.exchange.ledger_state import Ledger

COUNTING_SORT_MAX_RECORDS = 16
"""Largest class that is sorted by counting, for each member, the members before it, without a branch."""


@spliced
def fill_ledger(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], c: int, members: NDArray[np.int64]
) -> None:
    """Fill the ledger of a class, given by its records, for swaps. O(S s (H + log m))."""
    make_room(ledger, c, len(members))
    for a in range(len(ledger.quick)):
        if rules.table[a]["values"] <= len(members):
            _order_by_counts(ledger, codes, rules.table[a]["values"], a, c, members)
        else:
            _order(ledger, codes, a, c, members)
        if ledger.quick[a]:
            size, rule = len(members), rules.table[a]
            ledger.sums[a, c, BOUND] = bound_of(rules, a, size)
            if rule["height"] == 0:
                ledger.sums[a, c, TOTAL] = fill_path(ledger, rules, a, c, size)
            else:
                fill_without(ledger, rules, a, c, size)
                ledger.sums[a, c, TOTAL] = tree_total(ledger, rules, a, c, size, size)
        elif ledger.shared[a]:
            _fill_shares(ledger, rules, a, c, len(members))
    ledger.filled[c], ledger.windowed[c] = ANSWERS_SWAPS, False


@spliced
def fill_moves(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], c: int, members: NDArray[np.int64]
) -> None:
    """Add what moves need to the ledger of a class that is filled for swaps. O(S s (H + log m))."""
    for record in members:
        ledger.leave[record] = 0.0
    for a in range(len(ledger.quick)):
        if not ledger.quick[a]:
            for record in members:
                ledger.leave[record] += _histogram_violation(
                    ledger, rules, a, c, len(members), codes[a, record], NO_NUMBER
                )
            continue
        ledger.sums[a, c, BOUND_MORE] = bound_of(rules, a, len(members) + 1)
        if rules.table[a]["height"] == 0:
            path_moves(ledger, rules, a, c, members)
        else:
            tree_moves(ledger, rules, a, c, members)
    ledger.filled[c] = ANSWERS_MOVES


@spliced
def class_violation(ledger: Ledger, rules: Rules, c: int, size: int) -> float:
    """Return the violation of a class with a filled ledger: the sum of `rule_violation` of its records."""
    violation = 0.0
    for a in range(len(ledger.quick)):
        if not ledger.quick[a]:
            violation += _histogram_violation(ledger, rules, a, c, size, NO_NUMBER, NO_NUMBER)
        else:
            violation += excess_of(rules, a, ledger.sums[a, c, TOTAL], ledger.sums[a, c, BOUND])
    return violation


@spliced
def prepare_swaps(ledger: Ledger, rules: Rules, first: int, size: int, second: int, others: int) -> None:
    """Prepare questions about swaps between classes of `size` and `others` records with filled ledgers."""
    for a in range(len(ledger.quick)):
        if not ledger.quick[a]:
            continue
        for side in range(2):
            c, own, count = (first, size, others) if side else (second, others, size)
            other, lists = second if side else first, ledger.lists[a]
            codes, ranks = lists[list_of(ledger, CODE, other) :], lists[list_of(ledger, RANK, other) :]
            for i in range(count):
                if rules.table[a]["height"] > 0:
                    ledger.entry[side, a, 0, i] = -1
                else:
                    # Two classes that are both like the table have a record at about the same rank.
                    enter_path(ledger, rules, a, c, own, codes[i], ranks[i], side, i)


@spliced
def enter(ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int, side: int, place: int) -> None:
    """Prepare questions about a record that enters class c of `size` records in place of a member."""
    if rules.table[a]["height"] == 0:
        enter_path(ledger, rules, a, c, size, code, 0, side, place)
    else:
        enter_tree(ledger, rules, a, c, size, code, side, place)


@spliced
def violation_after_swap(
    ledger: Ledger, rules: Rules, a: int, c: int, size: int, gone: int, new: int, side: int, place: int
) -> float:
    """Return the violation of attribute a by class c after member `gone` leaves and a record enters."""
    # `gone` is the member's place in the class. `new` is the position of the entering record; `side` and
    # `place` say where that record stands in `Ledger.entry`. `prepare_swaps` must have been called for the
    # two classes.
    bound = ledger.sums[a, c, BOUND]
    if not ledger.quick[a]:
        leaves = ledger.lists[a, list_of(ledger, CODE, c) + gone]
        return _histogram_violation(ledger, rules, a, c, size, leaves, new)
    if rules.table[a]["height"] > 0:
        if ledger.entry[side, a, 0, place] < 0:
            enter_tree(ledger, rules, a, c, size, new, side, place)
        total = tree_swap(ledger, rules, a, c, gone, new, side, place)
    else:
        total = path_swap(ledger, a, c, gone, side, place)
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
            violation += _histogram_violation(ledger, rules, a, c, size, NO_NUMBER, code)
            continue
        if rules.table[a]["height"] == 0:
            total = path_join(ledger, rules, a, c, size, code)
        else:
            total = ledger.sums[a, c, TOTAL_MORE] + tree_step(ledger, rules, a, c, size, code)
        violation += excess_of(rules, a, total, ledger.sums[a, c, BOUND_MORE])
    return violation


@spliced
def _order(ledger: Ledger, codes: NDArray[np.int64], a: int, c: int, members: NDArray[np.int64]) -> None:
    """Write the members' ascending positions and, by place in the class, each position and its rank."""
    size, lists = len(members), ledger.lists[a]
    own, ranks = lists[list_of(ledger, CODE, c) :], lists[list_of(ledger, RANK, c) :]
    ascending = lists[list_of(ledger, ASCENDING, c) :]
    for i in range(size):
        own[i] = codes[a, members[i]]
    for i in range(size if size <= COUNTING_SORT_MAX_RECORDS else 0):
        code, rank, place = own[i], 0, 0
        for j in range(size):
            rank += own[j] < code
            place += (own[j] == code) & (j < i)
        ranks[i], ascending[rank + place] = rank, code
    if size > COUNTING_SORT_MAX_RECORDS:
        for i in range(size):
            ascending[i] = own[i]
        ascend(ascending[:size])
        for i in range(size):
            ranks[i] = lower_than(ascending, size, own[i])


@spliced
def _order_by_counts(
    ledger: Ledger, codes: NDArray[np.int64], values: int, a: int, c: int, members: NDArray[np.int64]
) -> None:
    """Write the same as `_order`, where the table has no more values than the class has members. O(s)."""
    size, lists, lower, place = len(members), ledger.lists[a], ledger.histogram[0], 0
    own, ranks = lists[list_of(ledger, CODE, c) :], lists[list_of(ledger, RANK, c) :]
    ascending = lists[list_of(ledger, ASCENDING, c) :]
    for x in range(values):
        lower[x] = 0
    for i in range(size):
        code = codes[a, members[i]]
        own[i] = code
        lower[code] += 1
    for x in range(values):
        count = lower[x]
        lower[x] = place
        for _ in range(count):
            ascending[place] = x
            place += 1
    for i in range(size):
        ranks[i] = lower[own[i]]


@inner
def _histogram_violation(
    ledger: Ledger, rules: Rules, a: int, c: int, size: int, gone: int, new: int
) -> float:
    """Return the violation of a class without position `gone` and with position `new`, -1 for none. O(s)."""
    if ledger.shared[a]:
        return _share_violation(ledger, rules, a, c, size, gone, new)
    ascending, used, i = ledger.lists[a, list_of(ledger, ASCENDING, c) :], 0, 0
    count = size + (new >= 0) - (gone >= 0)
    while i < size or new >= 0:
        if new >= 0 and (i >= size or ascending[i] >= new):
            value, new = new, -1
        else:
            value = ascending[i]
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


@inner
def _fill_shares(ledger: Ledger, rules: Rules, a: int, c: int, size: int) -> None:
    """Write the violation of the bounds of shares by the counts of a class: of its size, and of one off."""
    ascending, used, sums = ledger.lists[a, list_of(ledger, ASCENDING, c) :], 0, ledger.sums[a, c]
    for i in range(size):
        if i == 0 or ascending[i] != ascending[i - 1]:
            ledger.histogram[0, used], ledger.histogram[1, used] = ascending[i], 0
            used += 1
        ledger.histogram[1, used - 1] += 1
    values, counts, rule = ledger.histogram[0, :used], ledger.histogram[1, :used], rules.table[a]
    sums[UNITS_NOW] = share_units(values, counts, size, rule, rules.arrays)
    sums[UNITS_LESS] = share_units(values, counts, size - 1, rule, rules.arrays)
    sums[UNITS_MORE] = share_units(values, counts, size + 1, rule, rules.arrays)


@inner
def _share_violation(ledger: Ledger, rules: Rules, a: int, c: int, size: int, gone: int, new: int) -> float:
    """Return what `_histogram_violation` does, for bounds of shares alone. O(log s)."""
    rule, arrays, ascending = rules.table[a], rules.arrays, ledger.lists[a, list_of(ledger, ASCENDING, c) :]
    count = size + (new >= 0) - (gone >= 0)
    units = ledger.sums[a, c, UNITS_NOW if count == size else UNITS_MORE if count > size else UNITS_LESS]
    if gone >= 0 and gone != new:
        here = lower_than(ascending, size, gone + 1) - lower_than(ascending, size, gone)
        units += value_units(gone, here - 1, count, rule, arrays) - value_units(
            gone, here, count, rule, arrays
        )
    if new >= 0 and gone != new:
        here = lower_than(ascending, size, new + 1) - lower_than(ascending, size, new)
        units += value_units(new, here + 1, count, rule, arrays) - value_units(new, here, count, rule, arrays)
    return float(units / UNITS)


@spliced
def fill_without(ledger: Ledger, rules: Rules, a: int, c: int, size: int) -> None:
    """Write what the edges above each member add without it; the members below a node are consecutive."""
    arrays, tree, lists, at = rules.arrays, tree_of(rules, a), ledger.lists[a], ledger.span[c, START]
    own, ranks = lists[list_of(ledger, CODE, c) :], lists[list_of(ledger, RANK, c) :]
    ascending, inside = lists[list_of(ledger, ASCENDING, c) :], lists[list_of(ledger, SPARE_LIST, c) :]
    for h in range(tree.height):
        first, level = 0, tree.nodes + h * tree.values
        for r in range(1, size + 1):
            if r < size and arrays[level + ascending[r]] == arrays[level + ascending[first]]:
                continue
            for x in range(first, r):
                inside[x] = r - first
            first = r
        for i in range(size):
            count, below = inside[ranks[i]], arrays[tree.below + h * tree.values + own[i]]
            step = edge(tree, count - 1, size, below) - edge(tree, count, size, below)
            ledger.nodes[a, h, at + i, NODE_INSIDE], ledger.nodes[a, h, at + i, NODE_WITHOUT] = count, step


@inner
def tree_total(ledger: Ledger, rules: Rules, a: int, c: int, size: int, as_of: int) -> int:
    """Return the edge sum of the counts of a class, as if the class had another size. O(s H)."""
    arrays, tree = rules.arrays, tree_of(rules, a)
    ascending, total = ledger.lists[a, list_of(ledger, ASCENDING, c) :], tree.total * as_of * tree.height
    for h in range(tree.height):
        count, level = 0, h * tree.values
        for r in range(size):
            place = level + ascending[r]
            count += 1
            if r + 1 < size:
                following = level + ascending[r + 1]
                if arrays[tree.nodes + place] == arrays[tree.nodes + following]:
                    continue
            below = arrays[tree.below + place]
            total += edge(tree, count, as_of, below) - as_of * below
            count = 0
    return int(total)


@spliced
def enter_tree(
    ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int, side: int, place: int
) -> None:
    """Write the entry of a record that would enter class c: what the record adds on each level."""
    entry, arrays, tree = ledger.entry, rules.arrays, tree_of(rules, a)
    ascending = ledger.lists[a, list_of(ledger, ASCENDING, c) :]
    rank = lower_than(ascending, size, code)
    entry[side, a, 0, place] = rank
    for h in range(tree.height):
        below = arrays[tree.below + h * tree.values + code]
        count = _inside(ascending, arrays, tree, size, rank, h, code)
        entry[side, a, 1 + h, place] = edge(tree, count + 1, size, below) - edge(tree, count, size, below)


@spliced
def tree_swap(
    ledger: Ledger, rules: Rules, a: int, c: int, gone: int, enters: int, side: int, place: int
) -> int:
    """Return the edge sum of a tree after a swap; the count of a node above both records does not change."""
    tree, total, h = tree_of(rules, a), ledger.sums[a, c, TOTAL], 0
    level, leaves = tree.nodes, ledger.lists[a, list_of(ledger, CODE, c) + gone]
    node = ledger.span[c, START] + gone
    while h < tree.height and rules.arrays[level + leaves] != rules.arrays[level + enters]:
        total += ledger.nodes[a, h, node, NODE_WITHOUT] + ledger.entry[side, a, 1 + h, place]
        level += tree.values
        h += 1
    return int(total)


@spliced
def tree_moves(ledger: Ledger, rules: Rules, a: int, c: int, members: NDArray[np.int64]) -> None:
    """Add what a tree says of the class without each member."""
    arrays, tree, at, size = rules.arrays, tree_of(rules, a), ledger.span[c, START], len(members)
    own = ledger.lists[a, list_of(ledger, CODE, c) :]
    ledger.sums[a, c, TOTAL_MORE] = tree_total(ledger, rules, a, c, size, size + 1)
    less, bound = tree_total(ledger, rules, a, c, size, size - 1), bound_of(rules, a, size - 1)
    for i in range(size if size > 1 else 0):
        left = less
        for h in range(tree.height):
            below = arrays[tree.below + h * tree.values + own[i]]
            count = ledger.nodes[a, h, at + i, NODE_INSIDE]
            left += edge(tree, count - 1, size - 1, below) - edge(tree, count, size - 1, below)
        ledger.leave[members[i]] += excess_of(rules, a, left, bound)


@spliced
def tree_step(ledger: Ledger, rules: Rules, a: int, c: int, size: int, code: int) -> int:
    """Return what a record adds to the edge sum of a class, whose size counts as one more."""
    arrays, tree, step = rules.arrays, tree_of(rules, a), 0
    ascending = ledger.lists[a, list_of(ledger, ASCENDING, c) :]
    rank = lower_than(ascending, size, code)
    for h in range(tree.height):
        below = arrays[tree.below + h * tree.values + code]
        count = _inside(ascending, arrays, tree, size, rank, h, code)
        step += edge(tree, count + 1, size + 1, below) - edge(tree, count, size + 1, below)
    return int(step)


@inner
def _inside(
    ascending: NDArray[np.int64], arrays: NDArray[np.int64], tree: TreeArrays, size: int, rank: int, h: int,
    code: int,
) -> int:  # fmt: skip
    """Return how many members lie below the node on level h above the member of a rank: a run of ranks."""
    level = tree.nodes + h * tree.values
    node, low, high = arrays[level + code], rank, rank
    while low > 0 and arrays[level + ascending[low - 1]] == node:
        low -= 1
    while high < size and arrays[level + ascending[high]] == node:
        high += 1
    return high - low


class TreeArrays(NamedTuple):
    """Where the arrays of one tree stand in `Rules.arrays`: nodes above positions, records below them."""

    total: int
    values: int
    height: int
    nodes: int
    below: int


@inner
def tree_of(rules: Rules, a: int) -> TreeArrays:
    """Return the places of a tree."""
    rule = rules.table[a]
    m, height = rule["values"], rule["height"]
    nodes = rule["start"] + 2 * m + 1
    return TreeArrays(rule["total"], m, height, nodes, nodes + m * height)


@inner
def edge(tree: TreeArrays, count: int, size: int, below: int) -> int:
    """Return |n P - s Q| of the edge above a node with `count` members and `below` records of the table."""
    difference: int = abs(tree.total * count - size * below)
    return difference
