"""What two classes would miss after any swap or move between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.closeness.emd import edge_sum
from duckanon.kernels.closeness.threshold import Rules, rule_edges
from duckanon.kernels.compiled import inner, spliced
from duckanon.kernels.exchange.ledger_path import open_path, path_swap
from duckanon.kernels.exchange.ledger_state import NONE, SIDE, Ledger, general, order_members, over
from duckanon.kernels.exchange.ledger_tree import open_tree, tree_swap

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@spliced
def open_ledger(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64],
    one: NDArray[np.int64], two: NDArray[np.int64], moves: bool,
) -> None:  # fmt: skip
    """Fill the ledger for two classes, given by their records; `leave` and `join` only where asked for.

    O(S s log m) time, or O(S s^2 H) in a tree.
    """
    for side in range(2):
        members, others = (two, one) if side else (one, two)
        ledger.leave[side, : len(members)] = 0.0
        ledger.join[side, : len(others)] = 0.0
        for a in range(len(ledger.quick)):
            order_members(ledger, codes[a], members, others, side, a)
            if not ledger.quick[a]:
                if moves:
                    _general_moves(ledger, rules, codes[a], members, others, side, a)
            elif rules.table[a]["height"] == 0:
                open_path(ledger, rules, codes[a], members, others, side, a, moves)
            else:
                open_tree(ledger, rules, codes[a], members, others, side, a, moves)


@inner
def missed_by_swap(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], side: int, size: int,
    i: int, j: int, gone: int, new: int,
) -> float:  # fmt: skip
    """Return what a side misses when its i-th member, record `gone`, is replaced by the j-th other, `new`."""
    missed = 0.0
    for a in range(len(ledger.quick)):
        if not ledger.quick[a]:
            missed += general(ledger, rules, side, a, size, codes[a, gone], codes[a, new])
        elif rules.table[a]["height"] == 0:
            missed += over(rules, a, size, path_swap(ledger, side, a, size, i, j))
        else:
            missed += over(rules, a, size, tree_swap(ledger, rules, codes[a], side, a, size, i, j, gone, new))
    return missed


@inner
def missed_by(ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64]) -> float:
    """Return what a class misses, by its records; equal to what the other functions say of the same class."""
    missed, size = 0.0, len(members)
    for a in range(len(ledger.quick)):
        order_members(ledger, codes[a], members, members[:0], SIDE, a)
        if not ledger.quick[a]:
            missed += general(ledger, rules, SIDE, a, size, NONE, NONE)
            continue
        used = 0
        for i in range(size):
            value = ledger.ascending[0, a, i]
            if used > 0 and ledger.values[used - 1] == value:
                ledger.weights[used - 1] += 1
            else:
                ledger.values[used], ledger.weights[used] = value, 1
                used += 1
        low, _ = edge_sum(ledger.values[:used], ledger.weights[:used], size, rule_edges(rules, a))
        missed += over(rules, a, size, low)
    return missed


@spliced
def _general_moves(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64],
    others: NDArray[np.int64], side: int, a: int,
) -> None:  # fmt: skip
    size = len(members)
    for i in range(size):
        ledger.leave[side, i] += general(ledger, rules, side, a, size, codes[members[i]], NONE)
    for j in range(len(others)):
        ledger.join[side, j] += general(ledger, rules, side, a, size, NONE, codes[others[j]])
