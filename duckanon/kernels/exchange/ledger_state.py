"""What two classes would miss after any swap or move between them, each answer in constant time.

On a path the EMD of a class is a sum over its records: the j-th of s records in ascending order costs what
its place adds to the transport, ``C_s(j, v)``, which follows from one crossing of the two distribution
functions. A record that enters or leaves shifts the ranks of a run of the others by one, so that prefix sums
of the costs at the own rank, one rank lower and one rank higher answer for every exchange. In a tree an
exchange changes the counts of two nodes a level. All is exact integer arithmetic, as the audits have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from duckanon.kernels.closeness.threshold import Rules, rule_violation
from duckanon.kernels.compiled import inner
from duckanon.kernels.neighbours.heap import ascend

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT = 2.0**61
"""Largest edge sum that is kept in one machine word."""


INSERTION = 32
"""Largest class that is sorted by insertion."""

NONE, SIDE = cast("int", np.int64(-1)), cast("int", np.int64(0))
"""Typed, so that functions are not compiled once more for a literal."""


class Ledger(NamedTuple):
    """Room for two classes, called the sides 0 and 1; S attributes, at most `most` records a class.

    Attributes
    ----------
    quick : ndarray of shape (S,), bool
        Attributes answered in constant time: those with t alone, and sums that fit in a machine word.
    ascending : ndarray of shape (2, S, most), int64
        Positions of the members in ascending order.
    rank, into : ndarray of shape (2, S, most), int64
        Of each member, the members before it in that order; of each member of the other side, the members
        below its position.
    kept, down, up : ndarray of shape (2, S, most + 1), int64
        Prefix sums of the costs at the own rank, one lower and one higher.
    enter : ndarray of shape (2, S, 2, most), int64
        Cost of each member of the other side at the rank `into`, and one above.
    own, other : ndarray of shape (2, S, height, most), int64
        In a tree: members in the node above each member, and above each member of the other side.
    total : ndarray of shape (2, S), int64
        Edge sum of the class on a tree; on a path, what does not depend on the members.
    leave, join : ndarray of shape (2, most), float64
        What the class misses without a member, and with a member of the other side.
    values, weights : ndarray of shape (most + 1,), int64
        One histogram, for the attributes that are not quick.
    """

    quick: NDArray[np.bool_]
    ascending: NDArray[np.int64]
    rank: NDArray[np.int64]
    into: NDArray[np.int64]
    kept: NDArray[np.int64]
    down: NDArray[np.int64]
    up: NDArray[np.int64]
    enter: NDArray[np.int64]
    own: NDArray[np.int64]
    other: NDArray[np.int64]
    total: NDArray[np.int64]
    leave: NDArray[np.float64]
    join: NDArray[np.float64]
    values: NDArray[np.int64]
    weights: NDArray[np.int64]


def ledger_of(rules: Rules, most: int) -> Ledger:
    """Return room for the exchanges between two classes.

    Parameters
    ----------
    rules : Rules
        S thresholds.
    most : int
        Most records of a class.

    Returns
    -------
    Ledger
        O(S most height) memory, to be filled by `open_ledger`.
    """
    table, count = rules.table, len(rules.table)
    height = max([1, *table["height"].tolist()])
    largest = table["total"].astype(float) * table["values"] * (most + 1.0)
    quick = (table["l_kind"] == 0) & (table["t"] >= 0.0) & (largest * (table["height"] + 1) < EXACT)
    each, prefix = (2, count, most), (2, count, most + 1)
    whole = np.int64
    return Ledger(
        quick,
        np.zeros(each, whole), np.zeros(each, whole), np.zeros(each, whole),
        np.zeros(prefix, whole), np.zeros(prefix, whole), np.zeros(prefix, whole),
        np.zeros((2, count, 2, most), whole),
        np.zeros((2, count, height, most), whole), np.zeros((2, count, height, most), whole),
        np.zeros((2, count), whole),
        np.zeros((2, most)), np.zeros((2, most)),
        np.zeros(most + 1, whole), np.zeros(most + 1, whole),
    )  # fmt: skip


@inner
def over(rules: Rules, a: int, size: int, total: int) -> float:
    """Return by how much an edge sum exceeds what t allows to a class of a size, in records."""
    rule = rules.table[a]
    bound = size * rule["step"] + size * rule["rest"] // rule["parts"]
    return (total - bound) / rule["whole"] if total > bound else 0.0


@inner
def order_members(
    ledger: Ledger, codes: NDArray[np.int64], members: NDArray[np.int64], others: NDArray[np.int64],
    side: int, a: int,
) -> None:  # fmt: skip
    """Write the ascending positions, the rank of each member and how many lie below each of the others."""
    target, rank, into = ledger.ascending[side, a], ledger.rank[side, a], ledger.into[side, a]
    size = len(members)
    if size > INSERTION:
        for i in range(size):
            target[i] = codes[members[i]]
        ascend(target[:size])
    for i in range(size if size <= INSERTION else 0):
        code = codes[members[i]]
        at = i
        while at > 0 and target[at - 1] > code:
            target[at] = target[at - 1]
            at -= 1
        target[at] = code
    for i in range(size):
        rank[i] = np.searchsorted(target[:size], codes[members[i]])
    for j in range(len(others)):
        into[j] = np.searchsorted(target[:size], codes[others[j]])


@inner
def general(ledger: Ledger, rules: Rules, side: int, a: int, size: int, gone: int, new: int) -> float:
    """Return what a side misses without one position and with another, -1 for none, by its histogram."""
    source = ledger.ascending[side, a]
    used, i = 0, 0
    count = size + (new >= 0) - (gone >= 0)
    while i < size or new >= 0:
        if new >= 0 and (i >= size or source[i] >= new):
            value, new = new, -1
        else:
            value = source[i]
            i += 1
            if value == gone:
                gone = -1
                continue
        if used > 0 and ledger.values[used - 1] == value:
            ledger.weights[used - 1] += 1
        else:
            ledger.values[used], ledger.weights[used] = value, 1
            used += 1
    return rule_violation(ledger.values[:used], ledger.weights[:used], count, rules, a)
