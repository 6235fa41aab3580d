"""Distance-based record linkage: which released records are nearest to what an attacker knows.

Released records that an attacker cannot tell apart form a group; a search tree over the groups finds the
nearest ones, all of them where several are equally near. A released cell is one value, a range, or a set of
values, so a tree of points will not do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.evaluation.attack.distances import beyond, distance
from duckanon.kernels.compiled import compiled, inner
from duckanon.kernels.neighbours.kd import kd_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.evaluation.attack.distances import Cells

LEAF = 8
"""Groups in a leaf, at most."""

SLACK = 1e-9
"""Squared distances that differ by no more than this share are ties: rounding must not break them."""

NEAR = 8
"""Values that are looked at one by one before their number is halved again and again."""

STACK = 128


class Tree(NamedTuple):
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


def plant(cells: Cells) -> Tree:
    """Return the search tree over all groups.

    Parameters
    ----------
    cells : Cells
        At least one group; no column at all is allowed.

    Returns
    -------
    Tree
        O(g log g) time, O(g) memory for g groups.
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
    tree = Tree(cells, order.astype(np.int64), first.astype(np.int64), *empty)
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
def _span(tree: Tree) -> None:
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


@inner
def _widen(tree: Tree, node: int, j: int, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
    """Let a node span two more numbers."""
    if beyond(low, tree.low[node, j]) < 0:
        tree.low[node, j] = low
    if beyond(high, tree.high[node, j]) > 0:
        tree.high[node, j] = high


@compiled
def attack(
    tree: Tree,
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
    found = np.empty(groups, np.int64)
    for i in range(size):
        limit = _least(tree, known[i]) * (1 + SLACK)
        count = _within(tree, known[i], limit, found)
        if count == groups:
            # Nothing is nearer than anything else, as when a text does not occur in the release.
            nearest[i], hit[i] = everyone, truth[i] >= 0
            for j in range(columns):
                inside[i, j] = _records(guesses, j, groups, low[i, j], high[i, j])
            continue
        for at in range(count):
            group = found[at]
            nearest[i] += weight[group]
            hit[i] = hit[i] or group == truth[i]
            for j in range(columns):
                inside[i, j] += _records(guesses, j, group, low[i, j], high[i, j])
    return nearest, hit, inside


@inner
def _least(tree: Tree, point: NDArray[np.float64]) -> float:
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


@inner
def _within(tree: Tree, point: NDArray[np.float64], limit: float, found: NDArray[np.int64]) -> int:
    """Write the groups within a squared distance into `found`; return how many there are."""
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
                    found[count] = tree.order[at]
                    count += 1
            continue
        nodes[height], nodes[height + 1] = 2 * node + 1, 2 * node + 2
        height += 2
    return count


@inner
def _bound(tree: Tree, node: int, point: NDArray[np.float64]) -> float:
    """Return a squared distance that no group below a node undercuts."""
    total = 0.0
    for j in range(len(point)):
        if np.isnan(point[j, 0]) or tree.absent[node, j]:
            continue
        gap = max(0.0, beyond(tree.low[node, j], point[j]), beyond(point[j], tree.high[node, j]))
        total += min(gap, 1.0) if tree.cells.nominal[j] else (gap * tree.cells.factor[j]) ** 2
    return total


@inner
def _records(guesses: Guesses, column: int, group: int, low: float, high: float) -> int:
    """Return how many records of a group have a value of a column in an interval."""
    if np.isnan(low):
        return int(guesses.absent[column, group])
    first, last = guesses.start[column, group], guesses.start[column, group + 1]
    begin = _before(guesses.position, first, last, low)
    end = begin
    while end < last and end < begin + NEAR and guesses.position[end] <= high:
        end += 1
    if end == begin + NEAR:
        end = _before(guesses.position, end, last, np.nextafter(high, np.inf))
    return int(guesses.before[end] - guesses.before[begin])


@inner
def _before(values: NDArray[np.float64], first: int, last: int, value: float) -> int:
    """Return the first place in an ascending part of the values that is not below a value, else its end."""
    while first < last:
        middle = (first + last) // 2
        if values[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first
