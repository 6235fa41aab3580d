"""Distance-based record linkage: which released records are nearest to what an attacker knows.

Released records that an attacker cannot tell apart form a group; a search tree over the groups finds the
nearest ones, all of them where several are equally near. A released cell is one value, a range, or a set of
values, so a tree of points will not do.
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

    from duckanon.evaluation.attack.cells import Alternatives, Counted

    Ints = npt.NDArray[np.int64]


class Cells(NamedTuple):
    """The released cells of some groups in some columns (a named tuple, because numba takes it apart).

    Attributes
    ----------
    start : ndarray of shape (a, groups + 1), int64
        Cell j of group g is ``least[start[j, g]:start[j, g + 1]]``, its alternatives, at least one.
    least, most : ndarray of shape (alternatives, 2), float64
        From where to where an alternative reaches; both the value itself for a value, NaN for NULL. A nominal
        value is its code, NULL among them. A number is the sum of two, the second smaller than the last digit
        of the first.
    nominal : ndarray of shape (a,), bool
        Whether two different values of a column are at squared distance 1, whatever they are.
    center : ndarray of shape (a, 2), float64
        The number of a column that stands for NULL.
    factor : ndarray of shape (a,), float64
        What a difference of 1 in a column counts in a distance.
    """

    start: NDArray[np.int64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    nominal: NDArray[np.bool_]
    center: NDArray[np.float64]
    factor: NDArray[np.float64]


@compiled
def distance(cells: Cells, group: int, point: NDArray[np.float64]) -> float:
    """Squared distance from a point (a, 2) to the nearest alternative of each cell of a group.

    O(alternatives). A point is what is known of a record: numbers, codes of nominal values, NaN for NULL.
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
    """How far a number (a pair) is above another; zero exactly if they are equal.

    Only what is left after subtraction is rounded.
    """
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
"""Groups in a leaf, at most."""

SLACK = 1e-9
"""Squared distances that differ by no more than this share are ties: rounding must not break them."""

VALUES_ONE_BY_ONE = 8
"""Values that are looked at one by one before their number is halved again and again."""

STACK = 128


class GroupTree(NamedTuple):
    """A perfect, balanced tree over groups: node v has the children 2v + 1 and 2v + 2.

    Attributes
    ----------
    cells : Cells
        Of all groups.
    order, first : ndarray of shape (groups,) and (leaves + 1,), int64
        Groups leaf by leaf, and where each leaf begins.
    low, high : ndarray of shape (nodes, a, 2), float64
        What the cells below a node span, without NULL.
    absent : ndarray of shape (nodes, a), bool
        Whether a number is NULL below a node.
    """

    cells: Cells
    order: NDArray[np.int64]
    first: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    absent: NDArray[np.bool_]


class Guesses(NamedTuple):
    """What the records of each group, and of all together, would tell about c columns.

    Attributes
    ----------
    start : ndarray of shape (c, groups + 2), int64
        Column j of group g has the values ``position[start[j, g]:start[j, g + 1]]``.
    position : ndarray of shape (values,), float64
        Ascending within a group; without NULL.
    before : ndarray of shape (values + 1,), int64
        Records that have one of the values before.
    absent : ndarray of shape (c, groups + 1), int64
        Records of a group with NULL.

    Notes
    -----
    The last group, number `groups`, is all of them.
    """

    start: NDArray[np.int64]
    position: NDArray[np.float64]
    before: NDArray[np.int64]
    absent: NDArray[np.int64]


def plant(cells: Cells) -> GroupTree:
    """Return the search tree over all g groups. O(g log g) time, O(g) memory.

    There is at least one group; no column at all is allowed.
    """
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
    """Return the first alternative of each cell as z-scores; codes on 0 to 4, the width of common ones."""
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
    """Compute what the nodes span, leaves first."""
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
    """Let a node span two more numbers."""
    if beyond(low, tree.low[node, j]) < 0:
        tree.low[node, j] = low
    if beyond(high, tree.high[node, j]) > 0:
        tree.high[node, j] = high


@compiled
def attack(
    tree: GroupTree,
    weight: NDArray[np.int64],
    known: NDArray[np.float64],
    truth: NDArray[np.int64],
    guesses: Guesses,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Return what linking each record to the nearest released records gives.

    Parameters
    ----------
    tree : Tree
        The released groups.
    weight : ndarray of shape (groups,), int64
        Records of each, at least 1.
    known : ndarray of shape (r, a, 2), float64
        What the attacker knows of r records; NaN for a number that is NULL.
    truth : ndarray of shape (r,), int64
        Group in which a record was released; negative where it was not, or where nobody knows.
    guesses : Guesses
        The released values of c columns.
    low, high : ndarray of shape (r, c), float64
        Interval around the true value of each column; NaN where it is NULL.

    Returns
    -------
    nearest : ndarray of shape (r,), int64
        Number of nearest released records.
    hit : ndarray of shape (r,), bool
        Whether the group of `truth` is among them.
    inside : ndarray of shape (r, c), int64
        How many of them have a value in the interval; NULL is in the interval of NULL.

    Notes
    -----
    O(log g) a record on average; O(g) where all groups are equally near. Deterministic.
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
            # Nothing is nearer than anything else, as when a text does not occur in the release.
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
    """Return the squared distance of the nearest group."""
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
    """Write the groups within a squared distance into `nearby`; return how many there are."""
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
    """Return a squared distance that no group below a node undercuts."""
    total = 0.0
    for j in range(len(point)):
        if np.isnan(point[j, 0]) or tree.absent[node, j]:
            continue
        gap = max(0.0, beyond(tree.low[node, j], point[j]), beyond(point[j], tree.high[node, j]))
        total += min(gap, 1.0) if tree.cells.nominal[j] else (gap * tree.cells.factor[j]) ** 2
    return total


@compiled
def _records(guesses: Guesses, column: int, group: int, low: float, high: float) -> int:
    """Return how many records of a group have a value of a column in an interval."""
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
    """Return the first place in an ascending part of the values that is not below a value, else its end."""
    while first < last:
        middle = (first + last) // 2
        if values[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first


@dataclass(frozen=True, eq=False)
class Problem:
    """The sample of r records of the original, and m released classes.

    Attributes
    ----------
    known : ndarray of shape (r, q, 2), float64
        Quasi-identifiers: coordinates (NaN for NULL), or codes of nominal columns; as pairs.
    cells : tuple of Alternatives
        What the classes released for each quasi-identifier, on the same scale.
    nominal : ndarray of shape (q,), bool
        Which columns have codes.
    center, factor : ndarray of shape (q, 2) and (q,), float64
        Coordinate of the mean, and the unit of the coordinates in standard deviations.
    records : ndarray of shape (m,), int64
        Released records of each class.
    truth : ndarray of shape (r,), int64
        Class of each record; negative where it was left out, or where nobody knows.
    guesses : tuple of Counted
        Released values of the columns to be disclosed.
    low, high : ndarray of shape (r, c), float64
        Interval around the true values of those columns; NaN for NULL.
    """

    known: npt.NDArray[np.float64]
    cells: tuple[Alternatives, ...]
    nominal: npt.NDArray[np.bool_]
    center: npt.NDArray[np.float64]
    factor: npt.NDArray[np.float64]
    records: Ints
    truth: Ints
    guesses: tuple[Counted, ...]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class Linked(NamedTuple):
    """What an attack found for each record of the sample.

    Attributes
    ----------
    groups, smallest : int
        Released combinations of the known columns, and the fewest records that share one.
    nearest : ndarray of shape (r,), int64
        Number of nearest released records.
    own : ndarray of shape (r,), int64
        How many of them are in the group of the record; 0 where it is not among them, or nobody knows.
    inside : ndarray of shape (r, c), int64
        How many of them have a value in the interval of each column.
    """

    groups: int
    smallest: int
    nearest: Ints
    own: Ints
    inside: Ints


def link(problem: Problem, subset: Sequence[int]) -> Linked:
    """Link every record of the sample by some of the quasi-identifiers. O((m + r) log m) time on average.

    `subset` are their numbers; none for an attacker who picks a record blindly.
    """
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
    """Return the group of each class, and the first class of each group: those with equal keys."""
    group, first = np.zeros(classes, np.int64), np.zeros(1, np.int64)
    for key in keys:
        pairs = group * (int(key.max()) + 1) + key
        _, first, group = np.unique(pairs, return_index=True, return_inverse=True)
    return group.astype(np.int64), first.astype(np.int64)


def _gathered(problem: Problem, subset: list[int], rows: Ints) -> Cells:
    """Return the cells of some classes, all columns behind each other."""
    start = np.zeros((len(subset), len(rows) + 1), np.int64)
    least, most, used = [np.zeros((0, 2))], [np.zeros((0, 2))], 0
    for j, column in enumerate(problem.cells[at] for at in subset):
        lengths = column.start[rows + 1] - column.start[rows]
        ends = np.cumsum(lengths)
        start[j, 0], start[j, 1:] = used, used + ends
        # Position of every alternative: where its cell begins, and how far it is from there.
        at = np.repeat(column.start[rows] - (ends - lengths), lengths) + np.arange(int(ends[-1]))
        least.append(column.least[at])
        most.append(column.most[at])
        used += int(ends[-1])
    nominal, center, factor = problem.nominal[subset], problem.center[subset], problem.factor[subset]
    return Cells(start, np.concatenate(least), np.concatenate(most), nominal, center, factor)


def _guesses(columns: Sequence[Counted], group: Ints, groups: int) -> Guesses:
    """Return the released values of each group, sorted and counted; those of all of them come last."""
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
