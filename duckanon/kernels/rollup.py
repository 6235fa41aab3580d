"""Roll-up: the equivalence classes of a table whose quasi-identifiers are generalized to a level each.

`most_kept` says how many records of a class can be kept if each released part of the class meets t. The class
has C_B records with a value of a set B, the table n_B of n records. A part of m records has at most C_B of
them, so it lacks at least max(0, m n_B - n C_B) records (times n) in B.

- In a tree of height H, take a set B for each node below the root: the lacks sum up to at most m n H EMD.
- On a path, take a set B on either side of each edge: the lacks sum up to at most m n (values - 1) EMD.

The sum is convex in m, and 0 for m = 0. So the sum is within the bound of t exactly for the m up to some
greatest m, which bisection finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.emd import crossing, edge_sum
from duckanon.kernels.closeness.threshold import Rules, rule_edges, rule_violation, rules_of, t_violation
from duckanon.kernels.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.reference import Edges
    from duckanon.kernels.closeness.threshold import Threshold

KEY_LIMIT = 2**62
"""Products of numbers of nodes stay below this; more columns are grouped a few at a time."""

COMBINED_MAX_VALUES = 1024
"""Most value combinations of quasi-identifiers that are looked up as one."""

DIRECT_KEYS_A_ROW = 8
"""A class is looked up directly by its key if there are at most this many keys a row, else by its hash."""


class Values(NamedTuple):
    """The values of a sensitive column in each distinct row."""

    starts: NDArray[np.int64]  # row r has the values starts[r]:starts[r + 1]
    codes: NDArray[np.int64]  # value codes, each once in a row
    records: NDArray[np.int64]  # records of each


@dataclass(frozen=True, eq=False)
class Generalized:
    """A quasi-identifier and the hierarchy above its values."""

    # (H + 1, m), node of each value code on each level, numbered from 0 within the level; H is 0 without a
    # hierarchy
    nodes: NDArray[np.int64]
    # (H + 1, m), leaves of the hierarchy below that node, including leaves without a record
    leaves: NDArray[np.int64]
    total: int  # leaves of the whole hierarchy

    @property
    def height(self) -> int:
        """Highest level."""
        return len(self.nodes) - 1


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The distinct rows of a table, coded."""

    codes: NDArray[np.int32]  # (r, d), value code of each quasi-identifier
    records: NDArray[np.int64]  # (r,), records with these codes
    quasi: tuple[Generalized, ...]  # the d quasi-identifiers
    sensitive: tuple[Values, ...] = ()  # every sensitive column with a threshold

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Neighbouring quasi-identifiers that are looked up as one, because few have many values."""
        groups: list[tuple[int, ...]] = []
        size = COMBINED_MAX_VALUES + 1
        for column, one in enumerate(self.quasi):
            values = one.nodes.shape[1]
            if size * values <= COMBINED_MAX_VALUES:
                groups[-1], size = (*groups[-1], column), size * values
            else:
                groups.append((column,))
                size = values
        return tuple(groups)

    @cached_property
    def grouped(self) -> NDArray[np.int32]:
        """Codes (r, groups) of these groups; a step of the last column of a group counts as one."""
        merged = np.zeros((len(self.records), len(self.groups)), np.int32)
        for place, group in enumerate(self.groups):
            for column in group:
                merged[:, place] *= self.quasi[column].nodes.shape[1]
                merged[:, place] += self.codes[:, column]
        return merged


def rows_memory(rows: DistinctRows) -> int:
    """Return the bytes of the arrays of some rows, without those of the hierarchies, which all rows share."""
    values = sum(one.starts.nbytes + one.codes.nbytes + one.records.nbytes for one in rows.sensitive)
    return 2 * rows.codes.nbytes + rows.records.nbytes + values


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes at some levels."""

    of_row: NDArray[np.int32]  # (r,), the class of each row, numbered by first row
    sizes: NDArray[np.int64]  # records of each class


@dataclass(frozen=True, eq=False)
class CodedThreshold:
    """A threshold as `violating_rows` takes it: its rules, and its position of each value code (m,)."""

    rules: Rules
    position: NDArray[np.int64]


def asked_of(threshold: Threshold, codes: NDArray[np.int64]) -> CodedThreshold:
    """Return a threshold for a column in which `codes` (m,) are the domain codes of each value code."""
    return CodedThreshold(rules_of([threshold]), threshold.reference.position[codes])


def values_of(row: NDArray[np.int64], codes: NDArray[np.int64], rows: int) -> Values:
    """Return the `Values` of records whose row and value code are given, each (n,). O(n log n)."""
    span = int(codes.max(initial=0)) + 1
    keys, records = np.unique(row * span + codes, return_counts=True)
    starts = np.searchsorted(keys, np.arange(rows + 1) * span)
    return Values(starts.astype(np.int64), keys % span, records.astype(np.int64))


def classes_at(rows: DistinctRows, levels: Sequence[int]) -> Classes:
    """Return the equivalence classes of the rows with each quasi-identifier at a level, 0..its height."""
    # Level 0 are the values themselves. O(r d) on average; the same on every run.
    nodes = [_nodes_of(rows, group, levels) for group in rows.groups]
    spans = [int(node.max()) + 1 for node in nodes]
    found, count, first = np.zeros(len(rows.records), np.int32), 1, 0
    while True:
        last, span = first, count
        # As many groups at once as fit in a key; one group always fits.
        while last < len(nodes) and span * spans[last] < KEY_LIMIT:
            span, last = span * spans[last], last + 1
        factors = np.cumprod([count, *spans[first:last]])[:-1].astype(np.int64)
        steps = [node * factor for node, factor in zip(nodes[first:last], factors, strict=True)]
        begins = np.cumsum([0, *map(len, steps)])[:-1].astype(np.int64)
        table = np.concatenate([np.zeros(0, np.int64), *steps])
        found, sizes = _grouped(rows.grouped, rows.records, found, first, begins, table, span)
        first, count = last, len(sizes)
        if first == len(nodes):
            return Classes(found, sizes)


def _nodes_of(rows: DistinctRows, group: tuple[int, ...], levels: Sequence[int]) -> NDArray[np.int64]:
    """Return the number of the nodes of a group for each of its codes, each column at its level."""
    found = np.zeros(1, np.int64)
    for column in group:
        nodes = rows.quasi[column].nodes[levels[column]]
        found = (found[:, None] * (int(nodes.max()) + 1) + nodes).ravel()
    return found


@compiled
def _grouped(
    codes: NDArray[np.int32],
    records: NDArray[np.int64],
    before: NDArray[np.int32],
    first: int,
    begins: NDArray[np.int64],
    table: NDArray[np.int64],
    span: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return classes of rows with equal keys below the span, and their sizes."""
    r = len(records)
    found, sizes = np.empty(r, np.int32), np.zeros(r, np.int64)
    direct = span <= DIRECT_KEYS_A_ROW * r
    room = 1
    while room < (span if direct else 2 * r):
        room *= 2
    place = np.full(room, -1, np.int32)
    keys = np.empty(1 if direct else room, np.int64)
    count = 0
    for row in range(r):
        key = np.int64(before[row])
        for column in range(len(begins)):
            key += table[begins[column] + codes[row, first + column]]
        slot = key
        if not direct:
            # Multiplication by an odd number spreads keys; the upper bits of the product are mixed best.
            slot = ((key * np.int64(-7046029254386353131)) >> np.int64(20)) & (room - 1)
            while place[slot] >= 0 and keys[slot] != key:
                slot = (slot + 1) & (room - 1)
            keys[slot] = key
        if place[slot] < 0:
            place[slot] = count
            count += 1
        found[row] = place[slot]
        sizes[place[slot]] += records[row]
    return found, sizes[:count].copy()


def rolled_up(rows: DistinctRows, classes: Classes) -> DistinctRows:
    """Return the rows in which each class of some levels is one row; for these levels and higher ones."""
    # O(entries log entries), of the sensitive columns. A class has the codes of its first row.
    first = _first_rows(classes.of_row, len(classes.sizes))
    sensitive = tuple(
        Values(*_united(classes.of_row, len(classes.sizes), values)) for values in rows.sensitive
    )
    return DistinctRows(np.ascontiguousarray(rows.codes[first]), classes.sizes, rows.quasi, sensitive)


@compiled
def _first_rows(of_row: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Return the first row of each class; classes are numbered in the order of these rows."""
    first, number = np.empty(count, np.int64), 0
    for row in range(len(of_row)):
        if of_row[row] == number:
            first[number] = row
            number += 1
    return first


@compiled
def _united(of_row: NDArray[np.int32], count: int, values: Values) -> Values:
    """Return the values of each class."""
    ends = np.zeros(count + 1, np.int64)
    for row in range(len(of_row)):
        ends[of_row[row] + 1] += 1
    ends = np.cumsum(ends)
    order, free = np.empty(len(of_row), np.int64), ends[:-1].copy()
    for row in range(len(of_row)):
        order[free[of_row[row]]] = row
        free[of_row[row]] += 1
    highest = 0
    for code in values.codes:
        highest = max(highest, code)
    held, seen = np.zeros(highest + 1, np.int64), np.empty(highest + 1, np.int64)
    starts = np.zeros(count + 1, np.int64)
    codes, records = np.empty(len(values.codes), np.int64), np.empty(len(values.codes), np.int64)
    filled = 0
    for number in range(count):
        different = 0
        for at in range(ends[number], ends[number + 1]):
            row = order[at]
            for entry in range(values.starts[row], values.starts[row + 1]):
                code = values.codes[entry]
                if held[code] == 0:
                    seen[different] = code
                    different += 1
                held[code] += values.records[entry]
        seen[:different].sort()
        for which in range(different):
            code = seen[which]
            codes[filled], records[filled] = code, held[code]
            held[code] = 0
            filled += 1
        starts[number + 1] = filled
    return Values(starts, codes[:filled].copy(), records[:filled].copy())


def violating_rows(
    rows: DistinctRows,
    which: int,
    asked: CodedThreshold,
    gone: NDArray[np.bool_],
    *,
    only_one: bool = False,
) -> NDArray[np.bool_]:
    """Tell for each class (r,) whether it violates a threshold. O(entries log entries)."""
    # `rows` has one row a class, see `rolled_up`; `which` is the number of the sensitive column. Classes that
    # are `gone` (r,) are skipped, and do not violate. With `only_one` the search stops at the first
    # violation.
    return np.asarray(
        _violating(rows.sensitive[which], rows.records, gone, asked.position, asked.rules, only_one)
    )


@compiled
def _violating(
    values: Values,
    sizes: NDArray[np.int64],
    gone: NDArray[np.bool_],
    position: NDArray[np.int64],
    rules: Rules,
    only_one: bool,
) -> NDArray[np.bool_]:
    """Apply the rule to the values of each class, in the order of their positions."""
    result = np.zeros(len(sizes), np.bool_)
    held = np.zeros(rules.table[0]["values"], np.int64)
    seen, weights = np.empty(len(held), np.int64), np.empty(len(held), np.int64)
    for row in range(len(sizes)):
        if gone[row]:
            continue
        count = _in_order(values, row, position, held, seen, weights)
        result[row] = rule_violation(seen[:count], weights[:count], sizes[row], rules, 0) > 0.0
        if only_one and result[row]:
            break
    return result


@compiled
def _in_order(
    values: Values,
    row: int,
    position: NDArray[np.int64],
    held: NDArray[np.int64],
    seen: NDArray[np.int64],
    weights: NDArray[np.int64],
) -> int:
    """Write the ascending positions of a row that have records, and their records; return how many."""
    first, last = values.starts[row], values.starts[row + 1]
    for entry in range(first, last):
        place = position[values.codes[entry]]
        seen[entry - first] = place
        held[place] = values.records[entry]
    seen[: last - first].sort()
    for which in range(last - first):
        weights[which] = held[seen[which]]
    return int(last - first)


def kept_records(
    rows: DistinctRows, which: int, asked: CodedThreshold, gone: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return how many records of each class (r,) can be kept at most if it is split, see `most_kept`."""
    # `rows` has one row a class, see `rolled_up`; `which` is the number of the sensitive column. `asked` has
    # the t that every released part of a class meets. No record is kept of classes that are `gone` (r,).
    # O(entries log entries) if all classes meet t themselves.
    return np.asarray(_kept(rows.sensitive[which], rows.records, gone, asked.position, asked.rules))


@compiled
def _kept(
    values: Values,
    sizes: NDArray[np.int64],
    gone: NDArray[np.bool_],
    position: NDArray[np.int64],
    rules: Rules,
) -> NDArray[np.int64]:
    """Compute for each class how many of its records can be kept."""
    result = np.zeros(len(sizes), np.int64)
    held = np.zeros(rules.table[0]["values"], np.int64)
    seen, weights = np.empty(len(held), np.int64), np.empty(len(held), np.int64)
    for row in range(len(sizes)):
        if not gone[row]:
            count = _in_order(values, row, position, held, seen, weights)
            result[row] = most_kept(seen[:count], weights[:count], sizes[row], rules, 0)
    return result


@compiled
def most_kept(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, rules: Rules, which: int
) -> int:
    """Return a number of records, 0 to size, above which no part of a class meets t of a rule."""
    # The class of `size` records has `weights` at the ascending positions `values`. O(s log s), on a path O(s
    # log m log s).
    edges, rule = rule_edges(rules, which), rules.table[which]
    if t_violation(lack(values, weights, size, size, edges), size, rule) == 0.0:
        return size
    kept, refused = 0, size
    while refused - kept > 1:
        middle = (kept + refused) // 2
        if t_violation(lack(values, weights, size, middle, edges), middle, rule) > 0.0:
            refused = middle
        else:
            kept = middle
    return kept


@compiled
def lack(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, kept: int, edges: Edges
) -> tuple[int, float]:
    """Return what every part of `kept` records lacks at least, in units of `edge_sum`: see above."""
    # In a tree twice that lack, because `edge_sum` counts the surplus as well. The sum is returned modulo
    # 2^64 and rounded, as by `edge_sum`.
    if len(edges.nodes) == 0:
        return _path_lack(values, weights, size, kept, edges)
    # |x| = 2 max(0, x) - x, and the x of a level sum up to n (m - s).
    height = len(edges.nodes) // len(edges.cumulative)
    spare = edges.total * (size - kept)
    low, high = edge_sum(values, weights, kept, edges)
    return low - height * spare, high - float(height) * float(spare)


@compiled
def _path_lack(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, kept: int, edges: Edges
) -> tuple[int, float]:
    """Return `lack` of a path: before each edge between two of its values the class has the same records."""
    prefix, m, spare = edges.prefix, len(edges.cumulative), edges.total * (size - kept)
    low, high = 0, 0.0
    below, start = 0, 0
    for j in range(len(values) + 1):
        end = int(values[j]) if j < len(values) else m
        if end > start:
            # Before an edge a part has at most what the class has, and at least that less all others.
            most = edges.total * below
            least = most - spare
            few = crossing(edges.cumulative, start, end, most, kept)
            many = crossing(edges.cumulative, start, few, least, kept)
            mass = int(prefix[end] - prefix[few] - prefix[many] + prefix[start])
            low += kept * mass - most * (end - few) + least * (many - start)
            high += float(kept) * float(mass) - float(most) * float(end - few)
            high += float(least) * float(many - start)
        if j < len(values):
            below += int(weights[j])
        start = end
    return low, high
