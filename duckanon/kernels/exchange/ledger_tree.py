"""Violations in a tree: an exchange changes the counts of two nodes a level, O(H) a swap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.compiled import inner, spliced
from duckanon.kernels.exchange.costs import edge, tree_of
from duckanon.kernels.exchange.ledger_state import (
    ASCENDING,
    CODE,
    NODE_INSIDE,
    NODE_WITHOUT,
    RANK,
    SPARE_LIST,
    START,
    TOTAL,
    TOTAL_MORE,
    bound_of,
    excess_of,
    list_of,
    lower_than,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules
    from duckanon.kernels.exchange.costs import TreeArrays
    from duckanon.kernels.exchange.ledger_state import Ledger


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
