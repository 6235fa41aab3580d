"""Distance-based record linkage: the released records nearest to what an attacker knows.

Released records that an attacker cannot tell apart form a group. A search tree over the groups finds the
nearest groups, all of them where several are equally near. A released cell is a value, a range or a set of
values, so a tree of points is not enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.neighbours.kd import kd_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from numpy.typing import NDArray

    from duckanon.evaluation.columns import Alternatives, Counted

    Ints = npt.NDArray[np.int64]


class Cells(NamedTuple):
    """Released cells of groups in a columns, each of one alternative or more (a tuple, as numba needs)."""

    start: NDArray[np.int64]  # (a, groups + 1) cell j of group g is least[start[j, g]:start[j, g + 1]]
    # (alternatives, 2) least and greatest number of an alternative, equal for a value; NaN for NULL. A number
    # is a pair, whose second part is below the last digit of the first. A nominal value or NULL is its code.
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    nominal: NDArray[np.bool_]  # (a,) two different values of the column are at squared distance 1
    center: NDArray[np.float64]  # (a, 2) number of the column that stands for NULL
    factor: NDArray[np.float64]  # (a,) distance of a difference of 1 in the column


@compiled
def distance(cells: Cells, group: int, point: NDArray[np.float64]) -> float:
    """Return the summed squared distance from a point (a, 2) to the nearest alternative of each cell.

    A point holds the known values of a record: numbers (NaN for NULL), codes of nominal values.
    O(alternatives).
    """
    total = 0.0
    for j in range(len(point)):
        best = np.inf
        for one in range(cells.start[j, group], cells.start[j, group + 1]):
            best = min(best, _apart(cells, j, one, point[j]))
        total += best
    return total


@compiled
def beyond(value: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return a number less another, both pairs; only the difference is rounded, so 0 means equal."""
    return float((value[0] - other[0]) + (value[1] - other[1]))


@compiled
def _apart(cells: Cells, j: int, one: int, value: NDArray[np.float64]) -> float:
    """Return the squared distance between a value and an alternative; NULL is a coordinate of its own."""
    least, most, extra = cells.least[one], cells.most[one], 0.0
    if cells.nominal[j]:
        return 0.0 if value[0] == least[0] else 1.0
    if np.isnan(value[0]) and np.isnan(least[0]):
        return 0.0
    if np.isnan(value[0]):
        value, extra = cells.center[j], 1.0
    elif np.isnan(least[0]):
        least, most, extra = cells.center[j], cells.center[j], 1.0
    gap = max(0.0, max(beyond(least, value), beyond(value, most))) * cells.factor[j]
    return float(gap * gap + extra)


LEAF = 8
"""Most groups in a leaf."""

SLACK = 1e-9
"""Squared distances whose relative difference is at most this are ties, so that rounding breaks no tie."""

VALUES_ONE_BY_ONE = 8
"""Values that are compared one by one before a binary search."""

STACK = 128


class GroupTree(NamedTuple):
    """A perfect, balanced tree over groups: node v has the children 2v + 1 and 2v + 2."""

    cells: Cells  # of all groups
    order: NDArray[np.int64]  # (groups,) groups leaf by leaf
    first: NDArray[np.int64]  # (leaves + 1,) where each leaf begins
    low: NDArray[np.float64]  # (nodes, a, 2) least number below a node, without NULL
    high: NDArray[np.float64]  # (nodes, a, 2) greatest number below a node, without NULL
    absent: NDArray[np.bool_]  # (nodes, a) whether a number below a node is NULL


class Guesses(NamedTuple):
    """Released values of c columns by group; the last group, number `groups`, is all groups together."""

    start: NDArray[np.int64]  # (c, groups + 2) group g has the values position[start[j, g]:start[j, g + 1]]
    position: NDArray[np.float64]  # (values,) values, ascending within a group, without NULL
    before: NDArray[np.int64]  # (values + 1,) records with an earlier value
    absent: NDArray[np.int64]  # (c, groups + 1) records of a group with NULL


def plant(cells: Cells) -> GroupTree:
    """Return the search tree over g >= 1 groups; there may be no column. O(g log g) time, O(g) memory."""
    columns, groups = cells.start.shape[0], cells.start.shape[1] - 1
    depth = 0
    while columns and -(-groups >> depth) > LEAF:
        depth += 1
    order, sizes = np.arange(groups), np.array([groups])
    if depth:
        order, sizes = kd_order(_centers(cells), depth)
    shape = (2 * len(sizes) - 1, columns)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    empty = np.full((*shape, 2), np.inf), np.full((*shape, 2), -np.inf), np.zeros(shape, np.bool_)
    tree = GroupTree(cells, order.astype(np.int64), first.astype(np.int64), *empty)
    _span(tree)
    return tree


def _centers(cells: Cells) -> NDArray[np.float64]:
    """Return the first alternative of each cell as z-scores; codes are scaled to 0..4, as wide as these."""
    columns, groups = cells.start.shape[0], cells.start.shape[1] - 1
    centers = np.zeros((groups, columns))
    for j in range(columns):
        at = cells.start[j, :-1]
        middle = ((cells.least[at] - cells.center[j]) + (cells.most[at] - cells.center[j])).sum(axis=1) / 2
        centers[:, j] = np.nan_to_num(middle * cells.factor[j])
        if cells.nominal[j]:
            centers[:, j] *= 4 / max(centers[:, j].max(), 1.0)
    return centers


@compiled
def _span(tree: GroupTree) -> None:
    """Compute the numbers that each node spans, leaves first."""
    cells, leaves = tree.cells, len(tree.first) - 1
    for leaf in range(leaves):
        node = leaves - 1 + leaf
        for at in range(tree.first[leaf], tree.first[leaf + 1]):
            for j in range(len(cells.nominal)):
                for one in range(cells.start[j, tree.order[at]], cells.start[j, tree.order[at] + 1]):
                    if np.isnan(cells.least[one, 0]):
                        tree.absent[node, j] = True
                    else:
                        _widen(tree, node, j, cells.least[one], cells.most[one])
    for node in range(leaves - 2, -1, -1):
        for child in (2 * node + 1, 2 * node + 2):
            for j in range(len(cells.nominal)):
                _widen(tree, node, j, tree.low[child, j], tree.high[child, j])
                tree.absent[node, j] = tree.absent[node, j] or tree.absent[child, j]


@compiled
def _widen(tree: GroupTree, node: int, j: int, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
    """Extend the span of a node by two numbers."""
    if beyond(low, tree.low[node, j]) < 0:
        tree.low[node, j] = low
    if beyond(high, tree.high[node, j]) > 0:
        tree.high[node, j] = high


@compiled
def attack(
    tree: GroupTree,
    weight: NDArray[np.int64],  # (groups,) records of each group, at least 1
    known: NDArray[np.float64],  # (r, a, 2) known values; NaN for a number that is NULL
    truth: NDArray[np.int64],  # (r,) group of each record; negative where it was left out or is unknown
    guesses: Guesses,  # released values of c columns
    low: NDArray[np.float64],  # (r, c) interval around the true value; NaN where it is NULL
    high: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Return for r records: nearest records (r,), own group among them (r,), and disclosing records (r, c).

    Disclosing: nearest records with a value in the interval; NULL is in the interval of NULL. Deterministic.
    O(log g) a record on average, O(g) where all groups are equally near.
    """
    size, columns = len(known), guesses.start.shape[0]
    nearest, hit = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    inside = np.zeros((size, columns), np.int64)
    groups, everyone = tree.cells.start.shape[1] - 1, weight.sum()
    nearby = np.empty(groups, np.int64)
    for i in range(size):
        limit = _least(tree, known[i]) * (1 + SLACK)
        count = _within(tree, known[i], limit, nearby)
        if count == groups:
            # All groups are equally near, as for a text that does not occur in the release.
            nearest[i], hit[i] = everyone, truth[i] >= 0
            for j in range(columns):
                inside[i, j] = _records(guesses, j, groups, low[i, j], high[i, j])
            continue
        for at in range(count):
            group = nearby[at]
            nearest[i] += weight[group]
            hit[i] = hit[i] or group == truth[i]
            for j in range(columns):
                inside[i, j] += _records(guesses, j, group, low[i, j], high[i, j])
    return nearest, hit, inside


@compiled
def _least(tree: GroupTree, point: NDArray[np.float64]) -> float:
    """Return the squared distance to the nearest group."""
    first_leaf = len(tree.first) - 2
    nodes, bounds = np.empty(STACK, np.int64), np.empty(STACK)
    nodes[0], bounds[0], height = 0, 0.0, 1
    best = np.inf
    while height > 0:
        height -= 1
        node, bound = nodes[height], bounds[height]
        if bound >= best:
            continue
        if node >= first_leaf:
            for at in range(tree.first[node - first_leaf], tree.first[node - first_leaf + 1]):
                best = min(best, distance(tree.cells, tree.order[at], point))
            continue
        near, far = 2 * node + 1, 2 * node + 2
        reach, other = _bound(tree, near, point), _bound(tree, far, point)
        if other < reach:
            near, far, reach, other = far, near, other, reach
        nodes[height], bounds[height] = far, other
        nodes[height + 1], bounds[height + 1] = near, reach
        height += 2
    return best


@compiled
def _within(tree: GroupTree, point: NDArray[np.float64], limit: float, nearby: NDArray[np.int64]) -> int:
    """Write the groups within a squared distance into `nearby`; return their number."""
    first_leaf = len(tree.first) - 2
    nodes = np.empty(STACK, np.int64)
    nodes[0], height, count = 0, 1, 0
    while height > 0:
        height -= 1
        node = nodes[height]
        if _bound(tree, node, point) > limit:
            continue
        if node >= first_leaf:
            for at in range(tree.first[node - first_leaf], tree.first[node - first_leaf + 1]):
                if distance(tree.cells, tree.order[at], point) <= limit:
                    nearby[count] = tree.order[at]
                    count += 1
            continue
        nodes[height], nodes[height + 1] = 2 * node + 1, 2 * node + 2
        height += 2
    return count


@compiled
def _bound(tree: GroupTree, node: int, point: NDArray[np.float64]) -> float:
    """Return a lower bound on the squared distance to every group below a node."""
    total = 0.0
    for j in range(len(point)):
        if np.isnan(point[j, 0]) or tree.absent[node, j]:
            continue
        gap = max(0.0, beyond(tree.low[node, j], point[j]), beyond(point[j], tree.high[node, j]))
        total += min(gap, 1.0) if tree.cells.nominal[j] else (gap * tree.cells.factor[j]) ** 2
    return total


@compiled
def _records(guesses: Guesses, column: int, group: int, low: float, high: float) -> int:
    """Return the number of records of a group with a value of a column in an interval."""
    if np.isnan(low):
        return int(guesses.absent[column, group])
    first, last = guesses.start[column, group], guesses.start[column, group + 1]
    begin = _before(guesses.position, first, last, low)
    end = begin
    while end < last and end < begin + VALUES_ONE_BY_ONE and guesses.position[end] <= high:
        end += 1
    if end == begin + VALUES_ONE_BY_ONE:
        end = _before(guesses.position, end, last, np.nextafter(high, np.inf))
    return int(guesses.before[end] - guesses.before[begin])


@compiled
def _before(values: NDArray[np.float64], first: int, last: int, value: float) -> int:
    """Return the first place of an ascending part whose value is not below `value`, else its end."""
    while first < last:
        middle = (first + last) // 2
        if values[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first


@dataclass(frozen=True, eq=False)
class Problem:
    """A sample of r records of the original, and m released classes; q known columns, c to be disclosed."""

    # (r, q, 2) quasi-identifiers as pairs: coordinates (NaN for NULL), or codes of nominal columns
    known: npt.NDArray[np.float64]
    # released cells of the classes for each quasi-identifier, on the same scale
    cells: tuple[Alternatives, ...]
    nominal: npt.NDArray[np.bool_]  # (q,) which columns have codes
    center: npt.NDArray[np.float64]  # (q, 2) coordinate of the mean
    factor: npt.NDArray[np.float64]  # (q,) unit of the coordinates in standard deviations
    records: Ints  # (m,) released records of each class
    truth: Ints  # (r,) class of each record; negative where it was left out or is unknown
    guesses: tuple[Counted, ...]  # released values of the columns to be disclosed
    low: npt.NDArray[np.float64]  # (r, c) interval around the true values of these columns; NaN for NULL
    high: npt.NDArray[np.float64]  # (r, c)


class Linked(NamedTuple):
    """Result of an attack for each record of the sample."""

    groups: int  # released combinations of the known columns
    smallest: int  # fewest records with one combination
    nearest: Ints  # (r,) number of nearest released records
    own: Ints  # (r,) nearest records in the group of the record; 0 where none is, or the group is unknown
    inside: Ints  # (r, c) nearest records with a value in the interval of each column


def link(problem: Problem, subset: Sequence[int]) -> Linked:
    """Link the sample by the quasi-identifiers of `subset`, blindly if it is empty. O((m + r) log m)."""
    group, first = _groups([problem.cells[j].key for j in subset], len(problem.records))
    weight = np.bincount(group, weights=problem.records, minlength=len(first)).astype(np.int64)
    truth = np.where(problem.truth < 0, -1, group[problem.truth])
    nearest, hit, inside = attack(
        plant(_gathered(problem, list(subset), first)),
        weight,
        np.ascontiguousarray(problem.known[:, list(subset)]),
        truth,
        _guesses(problem.guesses, group, len(first)),
        problem.low,
        problem.high,
    )
    return Linked(len(first), int(weight.min()), nearest, np.where(hit, weight[truth], 0), inside)


def _groups(keys: Sequence[Ints], classes: int) -> tuple[Ints, Ints]:
    """Return the group of each class, equal keys being a group, and the first class of each group."""
    group, first = np.zeros(classes, np.int64), np.zeros(1, np.int64)
    for key in keys:
        pairs = group * (int(key.max()) + 1) + key
        _, first, group = np.unique(pairs, return_index=True, return_inverse=True)
    return group.astype(np.int64), first.astype(np.int64)


def _gathered(problem: Problem, subset: list[int], rows: Ints) -> Cells:
    """Return the cells of some classes, column after column."""
    start = np.zeros((len(subset), len(rows) + 1), np.int64)
    least, most, used = [np.zeros((0, 2))], [np.zeros((0, 2))], 0
    for j, column in enumerate(problem.cells[at] for at in subset):
        lengths = column.start[rows + 1] - column.start[rows]
        ends = np.cumsum(lengths)
        start[j, 0], start[j, 1:] = used, used + ends
        # Position of every alternative: begin of its cell, and place in the cell.
        at = np.repeat(column.start[rows] - (ends - lengths), lengths) + np.arange(int(ends[-1]))
        least.append(column.least[at])
        most.append(column.most[at])
        used += int(ends[-1])
    nominal, center, factor = problem.nominal[subset], problem.center[subset], problem.factor[subset]
    return Cells(start, np.concatenate(least), np.concatenate(most), nominal, center, factor)


def _guesses(columns: Sequence[Counted], group: Ints, groups: int) -> Guesses:
    """Return the released values of each group, sorted and counted; the values of all groups come last."""
    start = np.zeros((len(columns), groups + 2), np.int64)
    absent = np.zeros((len(columns), groups + 1), np.int64)
    position, records, used = [np.zeros(0)], [np.zeros(1, np.int64)], 0
    for j, column in enumerate(columns):
        of, null = group[column.classes], np.isnan(column.value)
        absent[j, :-1] = np.bincount(of[null], weights=column.records[null], minlength=groups)
        absent[j, -1] = absent[j, :-1].sum()
        of, value, number = of[~null], column.value[~null], column.records[~null]
        within, among = np.lexsort((value, of)), np.argsort(value, kind="stable")
        start[j, :-1] = used + np.searchsorted(of[within], np.arange(groups + 1))
        position += [value[within], value[among]]
        records += [number[within], number[among]]
        used += 2 * len(value)
        start[j, -1] = used
    return Guesses(start, np.concatenate(position), np.cumsum(np.concatenate(records)), absent)
