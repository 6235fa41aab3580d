"""Mondrian: the table is cut at medians, and each part again, as long as both sides keep what is asked.

LeFevre, DeWitt and Ramakrishnan, "Mondrian multidimensional k-anonymity", ICDE 2006, section 4; with t as a
condition of every cut: Li, Li and Venkatasubramanian, "Closeness: a new privacy measure for data publishing",
IEEE TKDE 22(7), 2010, as Soria-Comas et al., IEEE TKDE 27(11), 2015, section 2, quote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Rules, rule_violation, rules_of
from duckanon.kernels.compiled import compiled, inner, uncounted
from duckanon.kernels.points import check_class_size, distance_points, squared_points
from duckanon.kernels.splitmix import draw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.exchange.refine import Stop

TIED = 2
"""Of a place: its record has the median value, and may go to either side."""


def mondrian(
    points: ArrayLike,
    k: int,
    *,
    codes: Sequence[ArrayLike] = (),
    thresholds: Sequence[Threshold] = (),
    relaxed: bool = False,
    trees: Mapping[int, Tree] | None = None,
    stop: Stop | None = None,
) -> NDArray[np.int64]:
    """Return classes of at least k records by Mondrian.

    A part of the table, at first all of it, is cut at the median of its widest column. A cut is allowed where
    both sides have k records and satisfy every threshold; if the widest column allows none, the next widest
    is tried, and a part that no column can cut is a class. Strict: all records with one value of the column
    go to one side. Relaxed: those with the median value are divided, so that the sides are equally large.

    Parameters
    ----------
    points, k
        See `duckanon.literature`.
    codes : sequence of S array_like of shape (n,), int
        Value codes of sensitive attributes, dense ranks.
    thresholds : sequence of S Threshold
        What every class must satisfy, with t, l or both. Their reference may be a larger table.
    relaxed : bool
        Whether the records with the median value may be divided.
    trees : mapping from int to Tree, optional
        Columns of the points that hold places in a hierarchy, and that hierarchy.
    stop : callable, optional
        Asked after each level: True leaves the parts as they are, which keep k and the thresholds.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of the cuts: all of a left side come before those of the
        right one. Every size is at least k, and every threshold is satisfied if one class of all records
        satisfies it. Without thresholds a relaxed class has at most 2k-1 records, a strict one at most
        2 d (k-1) + m, where m is the largest number of equal records (Theorems 3 and 2 of the paper).

    Raises
    ------
    ValueError
        If the codes are not one a record for each threshold, or not those that its reference counts.

    Notes
    -----
    What the paper leaves open is read thus. The widest column is the one with the greatest range on the scale
    of the points, of several the first: on 'minmax' that is the range over the range in the table. A strict
    cut is the one of the two around the median (at most it, or less than it, goes left) with the less unequal
    sides, of two the former; if that is not allowed, the other one. Theorem 2 needs both: with the former
    alone, as in the pseudo-code, no part would be cut whose greatest value is that of half its records. The
    left side of a relaxed cut is the greater one where they differ; of the records with the median value it
    takes those that are least in the next widest column, of equal ones in the next one, in the end by record
    number; after all others, columns without a range are cut, too.

    A column with a hierarchy is as wide as the lowest node above all of the part. It is cut between two
    branches below the highest node that leaves k records on both sides, nearest to the middle; if that is not
    allowed, between the two values nearest to the middle. A relaxed cut divides a value only after that.

    Parts are stretches of all columns, which a cut divides in place; the records of each also stand in the
    order of every sensitive attribute, so that the values of both sides are counted in one pass. A level
    costs O(n (d + S)), and O(n S) for every cut that a threshold forbids: O(n (d + S) log n) where few are
    forbidden and no value is so frequent that sides are very unequal. O(n (d + S)) memory. Deterministic;
    verdicts as of `Threshold`.

    Examples
    --------
    >>> mondrian([[0.0], [9.0], [1.0], [8.0]], 2).tolist()
    [0, 1, 0, 1]
    >>> mondrian([[0.0], [3.0], [3.0], [3.0]], 2).tolist()
    [0, 0, 0, 0]
    >>> mondrian([[0.0], [3.0], [3.0], [3.0]], 2, relaxed=True).tolist()
    [0, 0, 1, 1]
    """
    matrix = squared_points(points) if trees else distance_points(points)
    n = len(matrix)
    check_class_size(n, k)
    parts = _parts_of(matrix, _positions(codes, thresholds, n), trees or {})
    rules = rules_of(thresholds)
    nodes = np.array([[0, n]])
    while len(nodes) and not (stop is not None and stop()):
        nodes = _divide(parts, rules, nodes, k, relaxed)
    for first, last in nodes.tolist():
        parts.begin[parts.record[first:last]] = first
    begins = np.zeros(n, np.int64)
    begins[parts.begin] = 1
    return np.asarray(np.cumsum(begins)[parts.begin] - 1)


@dataclass(frozen=True, eq=False)
class Tree:
    """A hierarchy of the values of a column.

    Attributes
    ----------
    paths : ndarray of shape (m, H + 1), int64
        Node above each value, in an order in which the values below a node stand together, on level 0 (the
        value) to H (the root). A point has the number of its value, 0..m-1.
    widths : ndarray of shape (H + 1,), float64
        How wide a part is of which a node of that level is the lowest above all values; ascending from 0.
    """

    paths: NDArray[np.int64]
    widths: NDArray[np.float64]


def tree_of(
    values: NDArray[np.float64], paths: ArrayLike, height: float = 1.0
) -> tuple[NDArray[np.float64], Tree]:
    """Return the places (n,) of values in a hierarchy, and the hierarchy as `mondrian` takes it.

    Row i of the paths, (m, H + 1), has the nodes above the i-th different value, ascending. Two values are as
    far apart as the square root of the level of their lowest common ancestor over H, times `height`.
    ValueError if the paths are no tree over the values.
    """
    different, code, counts = np.unique(values, return_inverse=True, return_counts=True)
    given = np.asarray(paths)
    if len(given) != len(different):
        raise ValueError(f"a hierarchy has {len(given)} rows for {len(different)} different values")
    position = reference(counts, "hierarchical", given).position
    ordered = given[np.argsort(position)].astype(np.int64)
    return position[code].astype(np.float64), Tree(ordered, level_widths(given.shape[1] - 1, height))


def level_widths(top: int, height: float = 1.0) -> NDArray[np.float64]:
    """Return how far apart two values are whose lowest common ancestor is on level 0 to the top."""
    return np.asarray(height * np.sqrt(np.arange(top + 1) / max(top, 1)))


class _Parts(NamedTuple):
    """The parts of the table: each is a stretch first:last, the same of all orders.

    Attributes
    ----------
    columns : ndarray of shape (d, n), float64
        Coordinates, part after part.
    record : ndarray of shape (n,), int32
        Their records, ascending in each part.
    positions : ndarray of shape (S, n), int64
        Of the sensitive value of each record, as the reference counts them.
    orders : ndarray of shape (S, n), int32
        The records of each part by sensitive value.
    begin : ndarray of shape (n,), int64
        For the records of classes: where their part begins.
    on_left : ndarray of shape (n,), uint8
        1 for the places of a part that the cut in question puts on the left, 0 for the others; `TIED`.
    goes_left : ndarray of shape (n,), uint8
        The same for its records; without thresholds nobody asks.
    widths : ndarray of shape (d,), float64
        Ranges in one part.
    values, weights : ndarray of shape (2, n), int64
        Sensitive values on the right and on the left, ascending, and the records with each.
    spare : ndarray of shape (n,), float64
    spare_record : ndarray of shape (n,), int32
    nodes : ndarray of shape (total,), int64
        Of each column with a hierarchy its paths, one after the other.
    levels : ndarray of shape (total,), float64
        Of each of these columns the width of each level.
    trees : ndarray of shape (d, 3), int64
        Of each column where its paths begin, where its levels begin, and how many levels there are; 0 levels
        where there is no hierarchy.
    random_state : ndarray of shape (1,), uint64
        For pivots: no order of records makes medians dear. Medians do not depend on it.
    """

    columns: NDArray[np.float64]
    record: NDArray[np.int32]
    positions: NDArray[np.int64]
    orders: NDArray[np.int32]
    begin: NDArray[np.int64]
    on_left: NDArray[np.uint8]
    goes_left: NDArray[np.uint8]
    widths: NDArray[np.float64]
    values: NDArray[np.int64]
    weights: NDArray[np.int64]
    spare: NDArray[np.float64]
    spare_record: NDArray[np.int32]
    nodes: NDArray[np.int64]
    levels: NDArray[np.float64]
    trees: NDArray[np.int64]
    random_state: NDArray[np.uint64]


def _positions(codes: Sequence[ArrayLike], thresholds: Sequence[Threshold], n: int) -> NDArray[np.int64]:
    """Return the positions (S, n) of the codes, checked."""
    if len(codes) != len(thresholds):
        raise ValueError(f"there are {len(thresholds)} thresholds for {len(codes)} attributes")
    positions = np.zeros((len(thresholds), n), np.int64)
    for row, code, threshold in zip(positions, codes, thresholds, strict=True):
        if np.shape(code) != (n,):
            raise ValueError(f"codes must hold one value a record, of shape ({n},), not {np.shape(code)}")
        row[:] = threshold.reference.positions(code)
    return positions


def _parts_of(points: NDArray[np.float64], positions: NDArray[np.int64], trees: Mapping[int, Tree]) -> _Parts:
    """Return the whole table as one part."""
    n, d = points.shape
    nodes, levels, places = [np.zeros(0, np.int64)], [np.zeros(0)], np.zeros((d, 3), np.int64)
    for column, tree in trees.items():
        places[column] = sum(map(len, nodes)), sum(map(len, levels)), len(tree.widths)
        nodes.append(np.ascontiguousarray(tree.paths, np.int64).ravel())
        levels.append(tree.widths)
    # Only those with thresholds need room for sensitive values.
    room = n if len(positions) else 0
    orders = np.empty((len(positions), n), np.int32)
    for order, values in zip(orders, positions, strict=True):
        order[:] = np.argsort(values, kind="stable")
    return _Parts(
        points.T.copy(), np.arange(n, dtype=np.int32), positions, orders, np.zeros(n, np.int64),
        np.empty(n, np.uint8), np.empty(room, np.uint8), np.empty(d), np.empty((2, room), np.int64),
        np.empty((2, room), np.int64), np.empty(n), np.empty(n, np.int32),
        np.concatenate(nodes), np.concatenate(levels), places, np.zeros(1, np.uint64),
    )  # fmt: skip


@compiled
def _divide(
    parts: _Parts, rules: Rules, nodes: NDArray[np.int64], k: int, relaxed: bool
) -> NDArray[np.int64]:
    """Cut every part of a level, or make it a class; return the parts of the next level, (m, 2)."""
    children, count = np.empty((2 * len(nodes), 2), np.int64), 0
    for node in range(len(nodes)):
        first, last = nodes[node, 0], nodes[node, 1]
        left = _cut(parts, rules, first, last, k, relaxed) if last - first >= 2 * k else 0
        if left == 0:
            for i in range(first, last):
                parts.begin[parts.record[i]] = first
            continue
        _separate(parts, first, last)
        children[count, 0], children[count, 1] = first, first + left
        children[count + 1, 0], children[count + 1, 1] = first + left, last
        count += 2
    return children[:count]


@inner
def _cut(parts: _Parts, rules: Rules, first: int, last: int, k: int, relaxed: bool) -> int:
    """Mark the left side of the first allowed cut of a part, and return its size; 0 if there is none."""
    size = last - first
    _measure(parts, first, last)
    column = -1
    for _ in range(len(parts.widths)):
        column = _next_widest(parts.widths, column)
        if parts.widths[column] == 0.0 and not relaxed:
            return 0
        if parts.trees[column, 2] > 0:
            for highest in (True, False):
                left = _mark_branch(parts, column, first, last, k, highest)
                if left > 0 and _allowed(parts, rules, first, last, left):
                    return left
            if not relaxed:
                continue
        median = _median(parts, column, first, last)
        below, up_to = _around(parts.columns[column], first, last, median)
        one, other = (up_to, below) if size - up_to >= below else (below, up_to)
        if relaxed:
            one, other = (size + 1) // 2, 0
        for left in (one, other):
            if k <= left <= size - k:
                _mark(parts, column, first, last, median)
                if relaxed and left < up_to:
                    _divide_tied(parts, column, first, last, left - below)
                else:
                    _take_tied(parts.on_left, first, last, left - below)
                if _allowed(parts, rules, first, last, left):
                    return left
    return 0


@uncounted
def _measure(parts: _Parts, first: int, last: int) -> None:
    """Write the range of every column in a part."""
    for column in range(len(parts.columns)):
        values = parts.columns[column]
        low = high = values[first]
        for i in range(first + 1, last):
            if values[i] < low:
                low = values[i]
            if values[i] > high:
                high = values[i]
        parts.widths[column] = high - low
        if parts.trees[column, 2] > 0:
            parts.widths[column] = parts.levels[parts.trees[column, 1] + _level(parts, column, low, high)]


@uncounted
def _level(parts: _Parts, column: int, low: float, high: float) -> int:
    """Return the level of the lowest node above two values."""
    begin, levels = parts.trees[column, 0], parts.trees[column, 2]
    one, other, level = begin + int(low) * levels, begin + int(high) * levels, 0
    while parts.nodes[one + level] != parts.nodes[other + level]:
        level += 1
    return level


@inner
def _mark_branch(parts: _Parts, column: int, first: int, last: int, k: int, highest: bool) -> int:
    """Mark the left side of a cut between two values, and return its size; 0 if no side would have k records.

    Nearest to the middle: of those below the highest node, or of all.
    """
    size, values = last - first, parts.columns[column]
    ordered = parts.spare[:size]
    ordered[:] = values[first:last]
    ordered.sort()
    best, best_level, border = 0, -1, 0.0
    for left in range(k, size - k + 1):
        if ordered[left - 1] == ordered[left]:
            continue
        level = _level(parts, column, ordered[left - 1], ordered[left]) if highest else 0
        nearer = abs(2 * left - size) < abs(2 * best - size)
        if level > best_level or (level == best_level and nearer):
            best, best_level, border = left, level, ordered[left - 1]
    for i in range(first, last):
        parts.on_left[i] = int(values[i] <= border)
    return best


@uncounted
def _next_widest(widths: NDArray[np.float64], after: int) -> int:
    """Return the column that follows another (-1: none) by descending width, of several the first."""
    best = -1
    for column in range(len(widths)):
        follows = after < 0 or widths[column] < widths[after]
        follows = follows or (widths[column] == widths[after] and column > after)
        if follows and (best < 0 or widths[column] > widths[best]):
            best = column
    return best


@uncounted
def _median(parts: _Parts, column: int, first: int, last: int) -> float:
    """Return the lower median of a column in a part."""
    for i in range(last - first):
        parts.spare[i] = parts.columns[column, first + i]
    return _select(parts.spare, last - first, (last - first - 1) // 2, parts.random_state)


@uncounted
def _select(values: NDArray[np.float64], size: int, place: int, random_state: NDArray[np.uint64]) -> float:
    """Rearrange the first values, and return the one that comes to a place if they are sorted."""
    low, high = 0, size - 1
    while low < high:
        pivot = values[low + draw(random_state, high - low + 1)]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            low = high
    return float(values[place])


@uncounted
def _around(values: NDArray[np.float64], first: int, last: int, median: float) -> tuple[int, int]:
    """Return how many values of a part are below the median, and how many are at most it."""
    below, up_to = 0, 0
    for i in range(first, last):
        below += int(values[i] < median)
        up_to += int(values[i] <= median)
    return below, up_to


@uncounted
def _mark(parts: _Parts, column: int, first: int, last: int, median: float) -> None:
    """Mark those below the median as the left side, and those with the median value as `TIED`."""
    values = parts.columns[column]
    for i in range(first, last):
        parts.on_left[i] = int(values[i] < median) + TIED * int(values[i] == median)


@uncounted
def _divide_tied(parts: _Parts, column: int, first: int, last: int, left: int) -> None:
    """Put so many of the tied on the left: the least by the widest other column, then by the next, ..."""
    on_left, spare = parts.on_left, parts.spare
    other = -1
    for _ in range(len(parts.widths)):
        other = _next_widest(parts.widths, other)
        if parts.widths[other] == 0.0:
            break
        if other == column:
            continue
        values, tied = parts.columns[other], 0
        for i in range(first, last):
            if on_left[i] == TIED:
                spare[tied] = values[i]
                tied += 1
        if tied == left:
            break
        border = _select(spare, tied, left - 1, parts.random_state)
        for i in range(first, last):
            if on_left[i] == TIED and values[i] != border:
                on_left[i] = int(values[i] < border)
                left -= int(values[i] < border)
    _take_tied(on_left, first, last, left)


@uncounted
def _take_tied(on_left: NDArray[np.uint8], first: int, last: int, left: int) -> None:
    """Put the first so many of those that are still tied on the left, the others on the right."""
    for i in range(first, last):
        if on_left[i] == TIED:
            on_left[i] = int(left > 0)
            left -= 1


@inner
def _allowed(parts: _Parts, rules: Rules, first: int, last: int, left: int) -> bool:
    """Tell whether both sides, as marked, satisfy every threshold."""
    if len(parts.orders) > 0:
        for i in range(first, last):
            parts.goes_left[parts.record[i]] = parts.on_left[i]
    for which in range(len(parts.orders)):
        right_values, left_values = _count(parts, which, first, last)
        for side, values, size in ((0, right_values, last - first - left), (1, left_values, left)):
            present, weights = parts.values[side, :values], parts.weights[side, :values]
            if rule_violation(present, weights, size, rules, which) > 0.0:
                return False
    return True


@uncounted
def _count(parts: _Parts, which: int, first: int, last: int) -> tuple[int, int]:
    """Count the values of a sensitive attribute on both sides; return how many differ, right and left."""
    right, left = 0, 0
    for i in range(first, last):
        record = parts.orders[which, i]
        side, position = parts.goes_left[record], parts.positions[which, record]
        place = left if side else right
        if place > 0 and parts.values[side, place - 1] == position:
            parts.weights[side, place - 1] += 1
            continue
        parts.values[side, place], parts.weights[side, place] = position, 1
        if side:
            left += 1
        else:
            right += 1
    return right, left


@uncounted
def _separate(parts: _Parts, first: int, last: int) -> None:
    """Put what the left side has before what the right side has, both in the order that they had."""
    for column in range(len(parts.columns)):
        _stably(parts.columns[column], parts.on_left, parts.spare, first, last)
    _stably(parts.record, parts.on_left, parts.spare_record, first, last)
    for which in range(len(parts.orders)):
        for i in range(first, last):
            parts.on_left[i] = parts.goes_left[parts.orders[which, i]]
        _stably(parts.orders[which], parts.on_left, parts.spare_record, first, last)


@uncounted
def _stably(
    entries: NDArray[Any], on_left: NDArray[np.uint8], spare: NDArray[Any], first: int, last: int
) -> None:
    """Put the marked entries of a stretch before the others."""
    left, right = first, 0
    for i in range(first, last):
        entry, side = entries[i], int(on_left[i])
        # Both are written, and one of them stays: no branch to be guessed wrong.
        entries[left] = entry
        spare[right] = entry
        left += side
        right += 1 - side
    for i in range(right):
        entries[left + i] = spare[i]
