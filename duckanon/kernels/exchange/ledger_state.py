"""The memory of the ledger: what is known of the violations of classes, and where it is stored.

Every class has twelve lists. The lists of one class lie side by side in `Ledger.lists`, each with two places
more than the class has records, and the lists of the next class follow. So the numbers that one question
needs lie in few stretches of memory. A class that grows gets new places at the end. When the memory is full,
the lists of all classes are dropped.

The lists, for each attribute:

- `ASCENDING`: the positions of the members in ascending order.
- `CODE`, `RANK`: by place in the class, the member's position, and the number of members before it in that
  order.
- `LOWER_RECORDS`, `HIGHER_RECORDS`: on a path, what a member adds to the edge sum if it leaves for a record
  of a higher rank, and if it leaves for any other record.
- `ENTERS_HIGH`, `ENTERS_LOW`: on a path by rank, what the entering record adds in these two cases, without
  its own cost.
- `KEPT_MORE`, `UP_MORE`: on a path by rank, prefix sums of the costs at the own rank and one rank higher, in
  a class with one member more.
- `SPARE_LIST`: spare.
- `PLACED`, `WINDOW`: by place in the class, the positions and windows of the members, as `windows` compares
  them.
"""

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
"""Largest class with windows; they take O(s^2), as much as the pairs of records with one other class."""

NO_NUMBER = cast("int", np.int64(-1))
"""No record or class. Typed, so that functions are not compiled once more for a literal."""

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
"""Number of these lists; the spare list is the last."""

START, ROOM = range(2)
NODE_INSIDE, NODE_WITHOUT = range(2)
TOTAL, BOUND, TOTAL_MORE, BOUND_MORE = range(4)
UNITS_NOW, UNITS_LESS, UNITS_MORE = range(3)
"""What stands in the last dimension of `Ledger.span`, `Ledger.nodes` and `Ledger.sums`."""

ANSWERS_NOTHING, ANSWERS_SWAPS, ANSWERS_MOVES = (cast("int", np.int64(i)) for i in range(3))
"""What the ledger of a class can answer."""


class Ledger(NamedTuple):
    """What is known of the violations of m classes with n records, for S attributes."""

    # (S,), attributes answered in constant time: t alone, and sums that fit in a machine word
    quick: NDArray[np.bool_]
    shared: NDArray[np.bool_]  # (S,), attributes with bounds of shares alone, answered in O(log s)
    # (m + 1,), what each class can answer: `ANSWERS_NOTHING`, `ANSWERS_SWAPS`, or `ANSWERS_MOVES` as well;
    # the last entry is the end of the lists in use
    filled: NDArray[np.int64]
    windowed: NDArray[np.bool_]  # (m,), classes whose windows are known
    # (m, 2): `START`, the places in a list of all classes before; `ROOM`, those in a list of this class; see
    # `list_of`
    span: NDArray[np.int64]
    lists: NDArray[np.int64]  # (S, 12 places), see the module's head
    # (S, height, places, 2), in a tree by level and by place: `NODE_INSIDE`, the members in the node above
    # the member; `NODE_WITHOUT`, what the edge there adds to the edge sum of the class without the member
    nodes: NDArray[np.int64]
    # (S, m, 4): `TOTAL`, `BOUND`, the edge sum of the class and the greatest one that t allows; `TOTAL_MORE`,
    # the part that does not depend on the record that joins; `BOUND_MORE`, the greatest edge sum allowed with
    # it. For bounds of shares: `UNITS_NOW`, the violation in units; `UNITS_LESS`, `UNITS_MORE`, that of the
    # same counts in a class of one record less and one more
    sums: NDArray[np.int64]
    leave: NDArray[np.float64]  # (n,), violation of the class of each record without that record
    # (2, S, 1 + max(2, height), most), for the members of two classes (sides 0 and 1) that would enter the
    # other class: the rank, in a tree -1 if nothing is known yet; then on a path what the record adds if its
    # rank is higher than that of the leaving record, and otherwise; in a tree what the edge on each level
    # adds
    entry: NDArray[np.int64]
    # (WINDOWS_MAX_RECORDS^2 + 1,), scratch memory of `kept_swaps`: place in the one class times
    # `WINDOWS_MAX_RECORDS`, plus place in the other
    swaps: NDArray[np.int64]
    slots: NDArray[np.float64]  # (6, WINDOWS_MAX_RECORDS + 1), scratch memory of `fill_windows`
    # (2, most + 1), values of a class and their counts, for attributes that are not quick
    histogram: NDArray[np.int64]


def ledger_of(rules: Rules, records: int, classes: int, most: int) -> Ledger:
    """Return memory for `records` in `classes` of at most `most` records."""
    # O(S (n H + m + most)) memory: about 290 + 48 H bytes a record and attribute.
    table, count = rules.table, len(rules.table)
    height = max([0, *table["height"].tolist()])
    largest = table["total"].astype(float) * table["values"] * (most + 1.0)
    alone = (table["l_kind"] == 0) & ((table["shares"] < 0) | (table["t"] < 0.0))
    shared = alone & (table["shares"] >= 0)
    quick = alone & (table["t"] >= 0.0) & (largest * (table["height"] + 1) < EDGE_SUM_MAX)
    # Classes of one record have three places each; two of the largest fit whatever is there.
    places = 3 * records + 2 * (most + 2)
    whole = np.int64
    return Ledger(
        quick, shared, np.zeros(classes + 1, whole), np.zeros(classes, dtype=np.bool_),
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
    """Give the lists of a class room for `size` records; a full memory drops the lists of all classes."""
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
    """Return how many of the first `size` ascending positions are below the given position."""
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
    """Return the greatest edge sum that t allows for a class of `size` records."""
    rule = rules.table[a]
    return int(size * rule["step"] + size * rule["rest"] // rule["parts"])


@inner
def excess_of(rules: Rules, a: int, total: int, bound: int) -> float:
    """Return by how much an edge sum exceeds its bound, in records."""
    return (total - bound) / rules.table[a]["whole"] if total > bound else 0.0
