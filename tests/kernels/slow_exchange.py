"""The exchange of records as it was before ledgers were kept: a ledger is opened for every pair of classes.

The slow reference of `duckanon.kernels.exchange.exchange`: in tests, where both must do the same exchanges in
the same order, and in `benchmarks.bench_exchange`. It has its own ledger, state and steps, and is compiled as
all kernels were then; of the product it takes what a threshold says of one class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numba
import numpy as np

from duckanon.kernels.closeness.emd import edge_sum
from duckanon.kernels.closeness.reference import LISTED_CLASS_MAX_RECORDS
from duckanon.kernels.closeness.threshold import Rules, rule_edges, rule_violation
from duckanon.kernels.neighbours.slots import ascend

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.reference import Edges
    from duckanon.kernels.exchange.state import Bounds, ExchangeState

USUAL = {"cache": True, "nogil": True, "error_model": "numpy"}
compiled, inner = numba.njit(**USUAL), numba.njit(**USUAL, no_cpython_wrapper=True)
spliced = numba.njit(**USUAL, inline="always")
"""As `duckanon.kernels.compiled` had them: what comes from another way to compile is not the kernel's."""

EXACT = 2.0**61
"""Largest edge sum that is kept in one machine word."""

INSERTION = 32
"""Largest class that is sorted by insertion."""

NONE, SIDE = cast("int", np.int64(-1)), cast("int", np.int64(0))
"""Typed, so that functions are not compiled once more for a literal."""


class Ledger(NamedTuple):
    """Memory for two classes, called the sides 0 and 1; S attributes, at most `most` records a class.

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
    inside, others_inside : ndarray of shape (2, S, height, most), int64
        In a tree: members in the node above each member, and above each member of the other side.
    total : ndarray of shape (2, S), int64
        Edge sum of the class on a tree; on a path, what does not depend on the members.
    leave, join : ndarray of shape (2, most), float64
        Violation of the class without a member, and with a member of the other side.
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
    inside: NDArray[np.int64]
    others_inside: NDArray[np.int64]
    total: NDArray[np.int64]
    leave: NDArray[np.float64]
    join: NDArray[np.float64]
    values: NDArray[np.int64]
    weights: NDArray[np.int64]


def ledger_of(rules: Rules, most: int) -> Ledger:
    """Return memory for exchanges between classes of at most `most` records. O(S most height)."""
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


@spliced
def fill_ledger(
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
                    _histogram_moves(ledger, rules, codes[a], members, others, side, a)
            elif rules.table[a]["height"] == 0:
                fill_path(ledger, rules, codes[a], members, others, side, a, moves)
            else:
                fill_tree(ledger, rules, codes[a], members, others, side, a, moves)


@inner
def violation_after_swap(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], side: int, size: int,
    i: int, j: int, gone: int, new: int,
) -> float:  # fmt: skip
    """Return the violation of a side whose i-th member, record `gone`, gives way to the j-th other, `new`."""
    violation = 0.0
    for a in range(len(ledger.quick)):
        if not ledger.quick[a]:
            violation += histogram_violation(ledger, rules, side, a, size, codes[a, gone], codes[a, new])
        elif rules.table[a]["height"] == 0:
            violation += t_violation(rules, a, size, path_swap(ledger, side, a, size, i, j))
        else:
            violation += t_violation(
                rules, a, size, tree_swap(ledger, rules, codes[a], side, a, size, i, j, gone, new)
            )
    return violation


@inner
def class_violation(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64]
) -> float:
    """Return the violation of a class, by its records; equal to what the other functions say of it."""
    violation, size = 0.0, len(members)
    for a in range(len(ledger.quick)):
        order_members(ledger, codes[a], members, members[:0], SIDE, a)
        if not ledger.quick[a]:
            violation += histogram_violation(ledger, rules, SIDE, a, size, NONE, NONE)
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
        violation += t_violation(rules, a, size, low)
    return violation


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
def histogram_violation(
    ledger: Ledger, rules: Rules, side: int, a: int, size: int, gone: int, new: int
) -> float:
    """Return the violation of a side without one position and with another, -1 for none."""
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


@spliced
def _histogram_moves(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64],
    others: NDArray[np.int64], side: int, a: int,
) -> None:  # fmt: skip
    size = len(members)
    for i in range(size):
        ledger.leave[side, i] += histogram_violation(ledger, rules, side, a, size, codes[members[i]], NONE)
    for j in range(len(others)):
        ledger.join[side, j] += histogram_violation(ledger, rules, side, a, size, NONE, codes[others[j]])


@inner
def t_violation(rules: Rules, a: int, size: int, total: int) -> float:
    """Return by how much an edge sum exceeds what t allows to a class of a size, in records."""
    rule = rules.table[a]
    bound = size * rule["step"] + size * rule["rest"] // rule["parts"]
    return (total - bound) / rule["whole"] if total > bound else 0.0


class Path(NamedTuple):
    """Where the arrays of one path stand in `Rules.arrays`: cumulative counts, prefix sums, quantiles."""

    total: int
    values: int
    cumulative: int
    prefix: int
    quantiles: int


@inner
def path_of(rules: Rules, a: int) -> Path:
    """Return the places of a path."""
    rule = rules.table[a]
    m, start = rule["values"], rule["start"]
    return Path(rule["total"], m, start, start + m, start + 2 * m + 1)


@spliced
def fill_path(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64],
    others: NDArray[np.int64], side: int, a: int, moves: bool,
) -> None:  # fmt: skip
    """Fill the ledger for one side and one path."""
    arrays, path, size = rules.arrays, path_of(rules, a), len(members)
    m = path.values
    ascending, kept = ledger.ascending[side, a], ledger.kept[side, a]
    down, up = ledger.down[side, a], ledger.up[side, a]
    if moves and size > 1:
        _prefix(arrays, path, ascending, kept, down, up, size, size - 1)
        total = _before(arrays, path, size - 1, size - 1, m)
        for i in range(size):
            r = ledger.rank[side, a, i]
            left = total + kept[r] + down[size] - down[r + 1]
            ledger.leave[side, i] += t_violation(rules, a, size - 1, left)
    if moves:
        _prefix(arrays, path, ascending, kept, down, up, size, size + 1)
        total = _before(arrays, path, size + 1, size + 1, m)
        for j in range(len(others)):
            q = ledger.into[side, a, j]
            grown = total + kept[q] + up[size] - up[q]
            grown += _cost(arrays, path, size + 1, q + 1, codes[others[j]])
            ledger.join[side, j] += t_violation(rules, a, size + 1, grown)
    _prefix(arrays, path, ascending, kept, down, up, size, size)
    ledger.total[side, a] = _before(arrays, path, size, size, m)
    for j in range(len(others)):
        q = ledger.into[side, a, j]
        ledger.enter[side, a, 0, j] = _cost(arrays, path, size, q, codes[others[j]]) if q > 0 else 0
        ledger.enter[side, a, 1, j] = _cost(arrays, path, size, q + 1, codes[others[j]]) if q < size else 0


@inner
def path_swap(ledger: Ledger, side: int, a: int, size: int, i: int, j: int) -> int:
    """Return the edge sum of a path after a swap."""
    kept, r, q = ledger.kept[side, a], ledger.rank[side, a, i], ledger.into[side, a, j]
    total = ledger.total[side, a] + kept[size]
    if q > r:
        down = ledger.down[side, a]
        swapped = total - kept[q] + kept[r] + down[q] - down[r + 1] + ledger.enter[side, a, 0, j]
        return int(swapped)
    up = ledger.up[side, a]
    return int(total - kept[r + 1] + kept[q] + up[r] - up[q] + ledger.enter[side, a, 1, j])


@inner
def _prefix(
    arrays: NDArray[np.int64], path: Path, ascending: NDArray[np.int64], kept: NDArray[np.int64],
    down: NDArray[np.int64], up: NDArray[np.int64], size: int, as_of: int,
) -> None:  # fmt: skip
    """Write the prefix sums of the costs of a class as of another size, where its ranks exist."""
    kept[0] = down[0] = up[0] = 0
    for r in range(size):
        x = ascending[r]
        at_0 = _before(arrays, path, as_of, r - 1, x) if r > 0 else 0
        at_1 = _before(arrays, path, as_of, r, x)
        at_2 = _before(arrays, path, as_of, r + 1, x) if r + 1 <= as_of else 0
        at_3 = _before(arrays, path, as_of, r + 2, x) if r + 2 <= as_of else 0
        down[r + 1] = down[r] + (at_0 - at_1)
        kept[r + 1] = kept[r] + (at_1 - at_2)
        up[r + 1] = up[r] + (at_2 - at_3)


@inner
def _cost(arrays: NDArray[np.int64], path: Path, size: int, rank: int, x: int) -> int:
    """Return what the record of a rank 1..size at position x adds to the edge sum, C_size(rank, x)."""
    return _before(arrays, path, size, rank - 1, x) - _before(arrays, path, size, rank, x)


@inner
def _before(arrays: NDArray[np.int64], path: Path, size: int, p: int, x: int) -> int:
    """Return the edge sum before position x of a distribution function that stays at p of size records."""
    level = path.total * p
    if size <= LISTED_CLASS_MAX_RECORDS:
        q = arrays[path.quantiles + size * (size + 1) // 2 - 1 + p]
    else:
        q, end = 0, path.values
        while q < end:
            middle = (q + end) // 2
            if arrays[path.cumulative + middle] * size > level:
                end = middle
            else:
                q = middle + 1
    value = level * x - size * arrays[path.prefix + x]
    if x > q:
        value = 2 * (level * q - size * arrays[path.prefix + q]) - value
    return int(value)


@spliced
def fill_tree(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64],
    others: NDArray[np.int64], side: int, a: int, moves: bool,
) -> None:  # fmt: skip
    """Fill the ledger for one side and one tree."""
    edges, size = rule_edges(rules, a), len(members)
    m, height = rules.table[a]["values"], rules.table[a]["height"]
    for h in range(height):
        for i in range(size):
            ledger.inside[side, a, h, i] = _inside(ledger, edges, side, a, size, h * m, codes[members[i]])
        for j in range(len(others)):
            ledger.others_inside[side, a, h, j] = _inside(
                ledger, edges, side, a, size, h * m, codes[others[j]]
            )
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
            below, count = edges.below[h * m + codes[members[i]]], ledger.inside[side, a, h, i]
            left += _edge(edges, count - 1, size - 1, below) - _edge(edges, count, size - 1, below)
        if size > 1:
            ledger.leave[side, i] += t_violation(rules, a, size - 1, left)
    for j in range(len(others)):
        grown = more
        for h in range(height):
            below, count = edges.below[h * m + codes[others[j]]], ledger.others_inside[side, a, h, j]
            grown += _edge(edges, count + 1, size + 1, below) - _edge(edges, count, size + 1, below)
        ledger.join[side, j] += t_violation(rules, a, size + 1, grown)


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
            minus, plus = ledger.inside[side, a, h, i], ledger.others_inside[side, a, h, j]
            total += _edge(edges, minus - 1, size, edges.below[x]) - _edge(edges, minus, size, edges.below[x])
            total += _edge(edges, plus + 1, size, edges.below[y]) - _edge(edges, plus, size, edges.below[y])
    return int(total)


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
def _inside(ledger: Ledger, edges: Edges, side: int, a: int, size: int, level: int, x: int) -> int:
    """Return how many members lie below the node of a level above position x."""
    count = 0
    for r in range(size):
        count += edges.nodes[level + ledger.ascending[side, a, r]] == edges.nodes[level + x]
    return count


@inner
def _edge(edges: Edges, count: int, size: int, below: int) -> int:
    """Return |n P - s Q| of the edge above a node with some members of the class and records of the table."""
    difference: int = abs(edges.total * count - size * below)
    return difference


class Scratch(NamedTuple):
    """Products and distances of the members of two classes, the difference of their means, their ledger."""

    along: NDArray[np.float64]
    away: NDArray[np.float64]
    between: NDArray[np.float64]
    ledger: Ledger


class SlowState(NamedTuple):
    """The fields of the same names of `ExchangeState`, and the scratch memory."""

    points: NDArray[np.float64]
    codes: NDArray[np.int64]
    label: NDArray[np.int64]
    place: NDArray[np.int64]
    members: NDArray[np.int64]
    size: NDArray[np.int64]
    sums: NDArray[np.float64]
    violation: NDArray[np.float64]
    touched: NDArray[np.int64]
    rules: Rules
    bounds: Bounds
    scratch: Scratch


def slow_state_of(state: ExchangeState) -> SlowState:
    """Return a copy of a state for the slow kernel."""
    rules, bounds, most = state.rules, state.bounds, state.members.shape[1]
    scratch = Scratch(
        np.zeros((2, most)), np.zeros((2, most)), np.zeros(state.points.shape[1]), ledger_of(rules, most)
    )
    return SlowState(
        state.points, state.codes, state.label.copy(), state.place.copy(), state.members.copy(),
        state.size.copy(), state.sums.copy(), state.violation.copy(), state.touched.copy(), rules, bounds,
        scratch,
    )  # fmt: skip


@inner
def add(state: SlowState, c: int, record: int) -> None:
    """Add a record to a class, whose violation is not brought up to date."""
    at = state.size[c]
    state.members[c, at] = record
    state.label[record], state.place[record] = c, at
    state.size[c] = at + 1
    for j in range(state.points.shape[1]):
        state.sums[c, j] += state.points[record, j]


@inner
def take(state: SlowState, record: int) -> None:
    """Take a record out of its class, whose last member moves to its place."""
    c, at = state.label[record], state.place[record]
    last = state.size[c] - 1
    moved = state.members[c, last]
    state.members[c, at], state.place[moved] = moved, at
    state.size[c] = last
    for j in range(state.points.shape[1]):
        state.sums[c, j] -= state.points[record, j]


@inner
def touch(state: SlowState, c: int) -> None:
    """Note that a class has changed."""
    clock = len(state.touched) - 1
    state.touched[clock] += 1
    state.touched[c] = state.touched[clock]


@inner
def update_violation(state: SlowState, c: int) -> None:
    """Bring the violation of a class up to date."""
    members = state.members[c, : state.size[c]]
    state.violation[c] = class_violation(state.scratch.ledger, state.rules, state.codes, members)


ONE, OTHER = cast("int", np.int64(0)), cast("int", np.int64(1))
"""Sides of a ledger; typed, so that functions are not compiled once for each literal."""

PAIRS = 4096
"""Two classes with more pairs of records than this are left alone: merging made them, swaps would be dear."""


@compiled
def slow_sweep(state: SlowState, neighbours: NDArray[np.int64], seen: NDArray[np.int64], most: int) -> float:
    """Exchange records between every class and its neighbours (classes, c), -1 for none; return the gain.

    `seen` (classes,) tells when each class was visited last: pairs unchanged since then are passed over. Of a
    pair so many exchanges at `most` are carried out.
    """
    total = 0.0
    for a in range(len(neighbours)):
        if state.size[a] == 0:
            continue
        last = seen[a]
        seen[a] = state.touched[-1]
        for b in neighbours[a]:
            if b < 0 or b == a or state.size[b] == 0 or state.size[a] * state.size[b] > PAIRS:
                continue
            if state.touched[a] > last or state.touched[b] > last:
                total += exchange(state, a, b, most)
    return total


@inner
def exchange(state: SlowState, a: int, b: int, most: int) -> float:
    """Carry out the best swap or move between two classes until none is left, or so many; return the gain."""
    total, made = 0.0, 0
    while made < most:
        gain, i, j = _best(state, a, b)
        if gain <= state.bounds.gain:
            return total
        total += gain
        made += 1
        if i >= 0:
            take(state, i)
        if j >= 0:
            take(state, j)
            add(state, a, j)
        if i >= 0:
            add(state, b, i)
        update_violation(state, a)
        update_violation(state, b)
        touch(state, a)
        touch(state, b)
    return total


@spliced
def _best(state: SlowState, a: int, b: int) -> tuple[float, int, int]:
    """Return the best gain and the records that go from a to b and from b to a; -1 for none."""
    bounds = state.bounds
    size_a, size_b = state.size[a], state.size[b]
    before = state.violation[a] + state.violation[b]
    give = size_a > bounds.least and size_b < bounds.most
    get = size_b > bounds.least and size_a < bounds.most
    if state.codes.shape[0] > 0:
        one, two = state.members[a, :size_a], state.members[b, :size_b]
        fill_ledger(state.scratch.ledger, state.rules, state.codes, one, two, give or get)
    between = _measure(state, a, b)
    best, i, j = _best_swap(state, a, b, before, between)
    if give:
        gain, moved = _best_move(state, a, b, ONE, before, between)
        if gain > best:
            best, i, j = gain, moved, -1
    if get:
        gain, moved = _best_move(state, b, a, OTHER, before, between)
        if gain > best:
            best, i, j = gain, -1, moved
    return best, i, j


@spliced
def _measure(state: SlowState, a: int, b: int) -> float:
    """Write products and distances of the members of two classes; return their squared distance."""
    points, sums, scratch, between = state.points, state.sums, state.scratch, 0.0
    for j in range(points.shape[1]):
        w = sums[a, j] / state.size[a] - sums[b, j] / state.size[b]
        scratch.between[j] = w
        between += w * w
    for side in range(2):
        c = b if side else a
        size = state.size[c]
        for i in range(size):
            record = state.members[c, i]
            along, away = 0.0, 0.0
            for j in range(points.shape[1]):
                difference = points[record, j] - sums[c, j] / size
                along += difference * scratch.between[j]
                away += difference * difference
            scratch.along[side, i], scratch.away[side, i] = along, np.sqrt(away)
    return between


@spliced
def _best_swap(state: SlowState, a: int, b: int, before: float, between: float) -> tuple[float, int, int]:
    """Return the best gain above the least one, and the two records that change places."""
    points, bounds, scratch = state.points, state.bounds, state.scratch
    rules, codes, ledger = state.rules, state.codes, state.scratch.ledger
    size_a, size_b = state.size[a], state.size[b]
    hope = bounds.weight * before if before > 0.0 else 0.0
    best, best_i, best_j = bounds.gain, -1, -1
    both, apart = 1.0 / size_a + 1.0 / size_b, np.sqrt(between)
    for i in range(size_a):
        record = state.members[a, i]
        for j in range(size_b):
            base = 2.0 * (scratch.along[1, j] - scratch.along[0, i] - between)
            # The triangle inequality bounds the distance of the two records.
            reach = scratch.away[0, i] + scratch.away[1, j] + apart
            if base + both * reach * reach + hope <= best:
                continue
            other = state.members[b, j]
            gain = base
            for x in range(points.shape[1]):
                difference = points[record, x] - points[other, x]
                gain += both * difference * difference
            if gain + hope <= best:
                continue
            if codes.shape[0] > 0:
                after = violation_after_swap(ledger, rules, codes, ONE, size_a, i, j, record, other)
                if gain + bounds.weight * (before - after) <= best:
                    continue
                after += violation_after_swap(ledger, rules, codes, OTHER, size_b, j, i, other, record)
                gain += bounds.weight * (before - after)
            if gain > best:
                best, best_i, best_j = gain, record, other
    return best, best_i, best_j


@inner
def _best_move(
    state: SlowState, source: int, target: int, side: int, before: float, between: float
) -> tuple[float, int]:
    """Return the best gain above the least one, and the record that goes from source to target."""
    scratch, weight = state.scratch, state.bounds.weight
    size, goal = state.size[source], state.size[target]
    sign = -2.0 if side else 2.0
    best, record = state.bounds.gain, -1
    for i in range(size):
        near = scratch.away[side, i] * scratch.away[side, i]
        far = near + sign * scratch.along[side, i] + between
        gain = near * size / (size - 1.0) - far * goal / (goal + 1.0)
        if state.codes.shape[0] > 0:
            after = scratch.ledger.leave[side, i] + scratch.ledger.join[1 - side, i]
            gain += weight * (before - after)
        if gain > best:
            best, record = gain, state.members[source, i]
    return best, record
