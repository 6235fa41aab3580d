"""Exchanges in a tree: counts of the class at the nodes above the records that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.closeness.threshold import Rules, rule_edges
from duckanon.kernels.compiled import inner, spliced
from duckanon.kernels.exchange.ledger_state import Ledger, over

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.reference import Edges


@spliced
def open_tree(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64],
    others: NDArray[np.int64], side: int, a: int, moves: bool,
) -> None:  # fmt: skip
    """Fill the ledger for one side and one tree."""
    edges, size = rule_edges(rules, a), len(members)
    m, height = rules.table[a]["values"], rules.table[a]["height"]
    for h in range(height):
        for i in range(size):
            ledger.own[side, a, h, i] = _inside(ledger, edges, side, a, size, h * m, codes[members[i]])
        for j in range(len(others)):
            ledger.other[side, a, h, j] = _inside(ledger, edges, side, a, size, h * m, codes[others[j]])
    ledger.total[side, a] = _tree_total(ledger, edges, side, a, size, size)
    if not moves:
        return
    less, more = (
        _tree_total(ledger, edges, side, a, size, size - 1),
        _tree_total(ledger, edges, side, a, size, size + 1),
    )
    for i in range(size):
        left = less
        for h in range(height):
            below, count = edges.below[h * m + codes[members[i]]], ledger.own[side, a, h, i]
            left += _edge(edges, count - 1, size - 1, below) - _edge(edges, count, size - 1, below)
        if size > 1:
            ledger.leave[side, i] += over(rules, a, size - 1, left)
    for j in range(len(others)):
        grown = more
        for h in range(height):
            below, count = edges.below[h * m + codes[others[j]]], ledger.other[side, a, h, j]
            grown += _edge(edges, count + 1, size + 1, below) - _edge(edges, count, size + 1, below)
        ledger.join[side, j] += over(rules, a, size + 1, grown)


@inner
def _edge(edges: Edges, count: int, size: int, below: int) -> int:
    """Return |n P - s Q| of the edge above a node with some members of the class and records of the table."""
    difference: int = abs(edges.total * count - size * below)
    return difference


@inner
def _inside(ledger: Ledger, edges: Edges, side: int, a: int, size: int, level: int, x: int) -> int:
    """Return how many members lie below the node of a level above position x."""
    count = 0
    for r in range(size):
        count += edges.nodes[level + ledger.ascending[side, a, r]] == edges.nodes[level + x]
    return count


@inner
def _tree_total(ledger: Ledger, edges: Edges, side: int, a: int, size: int, as_of: int) -> int:
    """Return the edge sum of the counts of a class, taken as a class of another size."""
    m = len(edges.cumulative)
    height = len(edges.nodes) // m
    total = edges.total * as_of * height
    for h in range(height):
        count = 0
        for r in range(size):
            place = h * m + ledger.ascending[side, a, r]
            count += 1
            if r + 1 == size or edges.nodes[place] != edges.nodes[h * m + ledger.ascending[side, a, r + 1]]:
                below = edges.below[place]
                total += _edge(edges, count, as_of, below) - as_of * below
                count = 0
    return total


@inner
def tree_swap(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], side: int, a: int, size: int,
    i: int, j: int, gone: int, new: int,
) -> int:  # fmt: skip
    """Return the edge sum of a tree after a swap."""
    edges, m = rule_edges(rules, a), rules.table[a]["values"]
    total = ledger.total[side, a]
    for h in range(rules.table[a]["height"]):
        x, y = h * m + codes[gone], h * m + codes[new]
        if edges.nodes[x] != edges.nodes[y]:
            minus, plus = ledger.own[side, a, h, i], ledger.other[side, a, h, j]
            total += _edge(edges, minus - 1, size, edges.below[x]) - _edge(edges, minus, size, edges.below[x])
            total += _edge(edges, plus + 1, size, edges.below[y]) - _edge(edges, plus, size, edges.below[y])
    return int(total)
