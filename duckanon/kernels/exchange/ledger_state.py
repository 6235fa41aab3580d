"""What is known of the violations of classes: where it stands in memory, and how that is given out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from duckanon.kernels.compiled import inner, spliced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules

EDGE_SUM_MAX = 2.0**61
"""Largest edge sum that is kept in one machine word."""

WINDOWS_MAX_RECORDS = cast("int", np.int64(64))
"""Largest class whose windows are kept, at O(s^2) each time: as much as to look at the pairs of one other."""

NO_NUMBER = cast("int", np.int64(-1))
"""Typed, so that functions are not compiled once more for a literal."""

(
    CODE,
    PLACED,
    WINDOW,
    RANK,
    LOWER_RECORDS,
    HIGHER_RECORDS,
    ASCENDING,
    ENTERS_HIGH,
    ENTERS_LOW,
    KEPT_MORE,
    UP_MORE,
    SPARE_LIST,
) = (cast("int", np.int64(i)) for i in range(12))
"""Lists of a class and an attribute."""

LEDGER_LISTS = cast("int", np.int64(SPARE_LIST + 1))
"""How many they are: the spare one is the last."""

START, ROOM = range(2)
NODE_INSIDE, NODE_WITHOUT = range(2)
TOTAL, BOUND, TOTAL_MORE, BOUND_MORE = range(4)
"""What stands in the last dimension of `Ledger.span`, `Ledger.nodes` and `Ledger.sums`."""

ANSWERS_NOTHING, ANSWERS_SWAPS, ANSWERS_MOVES = (cast("int", np.int64(i)) for i in range(3))
"""What the ledger of a class can answer."""


class Ledger(NamedTuple):
    """What is known of the violations of m classes of n records; S attributes.

    The twelve lists of a class lie side by side in ``lists``, each with two places more than the class has
    records, and after them those of another: what is asked together is in few stretches of memory. A class
    that grows gets new places behind the last; when the memory is full, all are dropped.

    Attributes
    ----------
    quick : ndarray of shape (S,), bool
        Attributes answered in constant time: those with t alone, and sums that fit in a machine word.
    filled : ndarray of shape (m + 1,), int64
        What is known of each class: `ANSWERS_NOTHING`, `ANSWERS_SWAPS`, or `ANSWERS_MOVES` too; then the end
        of the lists in use.
    span : ndarray of shape (m, 2), int64
        `START`, `ROOM`: how many places a list of every class before has, and how many one of this class
        has; see `list_of`.
    windowed : ndarray of shape (m,), bool
        Classes whose windows are known.
    lists : ndarray of shape (S, 12 places), int64
        `ASCENDING`, the positions of the members in ascending order; by their places in the class `CODE`,
        their positions, and `RANK`, the members before each in that order. On a path: `LOWER_RECORDS` and
        `HIGHER_RECORDS`, what a member adds to the edge sum where it gives way to a record of a higher rank,
        or of none such; by rank `ENTERS_HIGH` and `ENTERS_LOW`, what that record adds then, without its own
        cost; by rank `KEPT_MORE` and `UP_MORE`, prefix sums of the costs at the own rank and one higher in a
        class with one member more; spare; by their places in the class `PLACED` and `WINDOW`, their positions
        and windows as `windows` compares them.
    nodes : ndarray of shape (S, height, places, 2), int64
        In a tree, on each level: `NODE_INSIDE`, the members of the class in the node above each, by its
        place, and `NODE_WITHOUT`, what the edge there adds to the edge sum of the class without it.
    sums : ndarray of shape (S, m, 4), int64
        `TOTAL`, `BOUND`: edge sum of the class, and the greatest one that t allows; `TOTAL_MORE`,
        `BOUND_MORE`: what does not depend on the record that joins, and the greatest edge sum with it.
    leave : ndarray of shape (n,), float64
        Violation of the class of each record without it.
    entry : ndarray of shape (2, S, 1 + max(2, height), most), int64
        For the members of two classes, the sides 0 and 1, who would enter the other: the rank, in a tree
        -1 where nothing is known yet; then on a path what it adds where it is higher than who gives way, and
        where it is not, in a tree what the edge on each level adds.
    swaps : ndarray of shape (WINDOWS_MAX_RECORDS^2 + 1,), int64
        Scratch memory of `kept_swaps`: place of a member in the one class, times `WINDOWS_MAX_RECORDS`, and
        in the other.
    slots : ndarray of shape (6, WINDOWS_MAX_RECORDS + 1), float64
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
    quick = (table["l_kind"] == 0) & (table["t"] >= 0.0) & (largest * (table["height"] + 1) < EDGE_SUM_MAX)
    # Classes of one record have three places each; two of the largest fit whatever is there.
    places = 3 * records + 2 * (most + 2)
    whole = np.int64
    return Ledger(
        quick, np.zeros(classes + 1, whole), np.zeros(classes, dtype=np.bool_),
        np.zeros((classes, 2), whole),
        np.zeros((count, LEDGER_LISTS * places), whole), np.zeros((count, height, places, 2), whole),
        np.zeros((count, classes, 4), whole),
        np.zeros(records), np.zeros((2, count, 1 + max(2, height), most), whole),
        np.zeros(WINDOWS_MAX_RECORDS * WINDOWS_MAX_RECORDS + 1, whole),
        np.zeros((6, WINDOWS_MAX_RECORDS + 1)),
        np.zeros((2, most + 1), whole),
    )  # fmt: skip


@spliced
def list_of(ledger: Ledger, which: int, c: int) -> int:
    """Return where a list of a class begins in `Ledger.lists` of each attribute."""
    return int(LEDGER_LISTS * ledger.span[c, START] + which * ledger.span[c, ROOM])


@spliced
def make_room(ledger: Ledger, c: int, size: int) -> None:
    """Give the lists of a class places for a size; what all classes have is dropped where none are left."""
    if ledger.span[c, ROOM] > size:
        return
    end, need = len(ledger.filled) - 1, size + 2
    if (ledger.filled[end] + need) * LEDGER_LISTS > ledger.lists.shape[1]:
        for x in range(len(ledger.filled)):
            ledger.filled[x] = ANSWERS_NOTHING
        for x in range(end):
            ledger.span[x, ROOM] = 0
    ledger.span[c, START], ledger.span[c, ROOM] = ledger.filled[end], need
    ledger.filled[end] += need


@inner
def lower_than(ascending: NDArray[np.int64], size: int, code: int) -> int:
    """Return how many of the first so many positions are below the given one."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def bound_of(rules: Rules, a: int, size: int) -> int:
    """Return the greatest edge sum that t allows to a class of a size."""
    rule = rules.table[a]
    return int(size * rule["step"] + size * rule["rest"] // rule["parts"])


@inner
def excess_of(rules: Rules, a: int, total: int, bound: int) -> float:
    """Return by how much an edge sum exceeds its bound, in records."""
    return (total - bound) / rules.table[a]["whole"] if total > bound else 0.0
