"""Mondrian: the table is cut at medians, and each part again, while both sides keep k and the thresholds.

LeFevre, DeWitt and Ramakrishnan, "Mondrian multidimensional k-anonymity", ICDE 2006, section 4. With t as a
condition of every cut: Li, Li and Venkatasubramanian, "Closeness: a new privacy measure for data publishing",
IEEE TKDE 22(7), 2010, as Soria-Comas et al., IEEE TKDE 27(11), 2015, section 2, quote it. Steps:
docs/methods/generalization.md.

Guarantee: every class has k records or more. Every threshold is satisfied if one class of all records
satisfies it. Without thresholds a relaxed class has at most 2k-1 records, a strict class at most 2 d (k-1) +
m, where m is the largest number of equal records (Theorems 3 and 2 of the paper).

Reading of what the paper leaves open:

- The widest column has the greatest range on the scale of the points; of several columns the first. On
  'minmax' this is the range over the range in the table.
- A strict cut sends the values at most the median to the left, or the values below the median. The cut with
  the less unequal sides comes first; of two equally unequal cuts the cut whose sides are farther apart, then
  the former cut. If the first cut is not allowed, the other cut is tried. Theorem 2 needs both cuts: with the
  former alone, as in the pseudo-code, a part is not cut where half of its records have its greatest value.
- The left side of a relaxed cut is the larger side where the sides differ. Of the records with the median
  value, the left side takes the records that are least in the next widest column, of equal records in the
  column after that, in the end by record number. Columns without a range are cut, too, after all others.
- A column with a hierarchy is as wide as the lowest node above all values of the part. It is cut between two
  branches below the highest node that leaves k records on both sides, nearest to the middle. If that is not
  allowed, it is cut between the two values nearest to the middle. A relaxed cut divides a value only after
  that.

Cost: parts are stretches of all columns, which a cut divides in place. The records of a part also stand in
the order of every sensitive attribute, so the values of both sides are counted in one pass. A level costs O(n
(d + S)), and every cut that a threshold forbids O(n S). That is O(n (d + S) log n) where few cuts are
forbidden and no value is so frequent that sides are very unequal. O(n (d + S)) memory. Verdicts are those of
`Threshold`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Rules, rule_violation, rules_of
from duckanon.kernels.compiled import compiled, inner
from duckanon.kernels.points import check_class_size, distance_points, squared_points
from duckanon.kernels.splitmix import draw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.exchange.refine import Stop


def mondrian(
    points: ArrayLike,
    k: int,
    *,
    codes: Sequence[ArrayLike] = (),
    thresholds: Sequence[Threshold] = (),
    relaxed: bool = False,
    trees: Mapping[int, ColumnTree] | None = None,
    stop: Stop | None = None,
) -> NDArray[np.int64]:
    """Return classes of k records or more by Mondrian, those of a left side before the right side."""
    # `codes` (n,) are dense ranks for each threshold, else ValueError; `trees` are the hierarchies of columns
    # whose points are places; `stop` ends the cuts after a level.
    matrix = squared_points(points) if trees else distance_points(points)
    n = len(matrix)
    check_class_size(n, k)
    parts = parts_of(matrix, positions_of(codes, thresholds, n), trees or {})
    rules = rules_of(thresholds)
    nodes = np.array([[0, n]])
    while len(nodes) and not (stop is not None and stop()):
        nodes = divide(parts, rules, nodes, k, relaxed)
    for first, last in nodes.tolist():
        parts.begin[parts.record[first:last]] = first
    begins = np.zeros(n, np.int64)
    begins[parts.begin] = 1
    return np.asarray(np.cumsum(begins)[parts.begin] - 1)


TIED_SIDE = 2
"""Side of a record that has the median value, and may go to the left or to the right."""

EQUAL_GAP_FACTOR = 1 + 2.0**-30
"""Two gaps between values count as equal up to this ratio, since scaling rounds them."""


@dataclass(frozen=True, eq=False)
class ColumnTree:
    """A hierarchy of m values of a column; a point has the number of its value, 0..m-1."""

    # (m, H + 1) node above each value on level 0 (the value) to H (the root); values below a node stand
    # together
    paths: NDArray[np.int64]
    # (H + 1,) width of a part whose lowest common node is on that level; ascending from 0
    widths: NDArray[np.float64]


def tree_of(values: NDArray[np.float64], paths: ArrayLike) -> tuple[NDArray[np.float64], ColumnTree]:
    """Return the places (n,) of values in a hierarchy, and the hierarchy."""
    # Row i of `paths` (m, H + 1) has the nodes above the i-th distinct value, ascending. ValueError unless
    # the paths are a tree over the values.
    different, code, counts = np.unique(values, return_inverse=True, return_counts=True)
    given = np.asarray(paths)
    if len(given) != len(different):
        raise ValueError(f"a hierarchy has {len(given)} rows for {len(different)} different values")
    position = reference(counts, "hierarchical", given).position
    ordered = given[np.argsort(position)].astype(np.int64)
    return position[code].astype(np.float64), ColumnTree(ordered, level_widths(given.shape[1] - 1))


def level_widths(top: int, height: float = 1.0) -> NDArray[np.float64]:
    """Return height * sqrt(level / top): the distance of values whose lowest common node is on that level."""
    return np.asarray(height * np.sqrt(np.arange(top + 1) / max(top, 1)))


class Parts(NamedTuple):
    """The parts of the table: each is a stretch first:last, the same in all orders."""

    columns: NDArray[np.float64]  # (d, n) coordinates, part after part
    record: NDArray[np.int32]  # (n,) their records, ascending in each part
    positions: NDArray[np.int64]  # (S, n) position of the sensitive value of each record in the reference
    orders: NDArray[np.int32]  # (S, n) records of each part by sensitive value
    begin: NDArray[np.int64]  # (n,) for the records of classes: where their part begins
    # (n,) for places of the part being cut: 1 on the left, 0 on the right, or `TIED_SIDE`
    on_left: NDArray[np.uint8]
    goes_left: NDArray[np.uint8]  # (n,) the same by record; empty without thresholds
    widths: NDArray[np.float64]  # (d,) ranges in one part
    values: NDArray[np.int64]  # (2, n) sensitive values on the right and on the left, ascending
    weights: NDArray[np.int64]  # (2, n) records with each of these values
    spare: NDArray[np.float64]  # (n,) memory
    spare_record: NDArray[np.int32]  # (n,) memory
    nodes: NDArray[np.int64]  # (total,) paths of each column with a hierarchy, one after the other
    levels: NDArray[np.float64]  # (total,) width of each level of these columns
    # (d, 3) of each column: begin of its paths, begin of its levels, number of levels (0: no hierarchy)
    trees: NDArray[np.int64]
    # (1,) for pivots, so that no order of records makes medians slow; medians do not depend on it
    random_state: NDArray[np.uint64]


def positions_of(codes: Sequence[ArrayLike], thresholds: Sequence[Threshold], n: int) -> NDArray[np.int64]:
    """Return the positions (S, n) of the codes, checked."""
    if len(codes) != len(thresholds):
        raise ValueError(f"there are {len(thresholds)} thresholds for {len(codes)} attributes")
    positions = np.zeros((len(thresholds), n), np.int64)
    for row, code, threshold in zip(positions, codes, thresholds, strict=True):
        if np.shape(code) != (n,):
            raise ValueError(f"codes must hold one value a record, of shape ({n},), not {np.shape(code)}")
        row[:] = threshold.reference.positions(code)
    return positions


def parts_of(
    points: NDArray[np.float64], positions: NDArray[np.int64], trees: Mapping[int, ColumnTree]
) -> Parts:
    """Return the whole table as one part."""
    n, d = points.shape
    nodes, levels, places = [np.zeros(0, np.int64)], [np.zeros(0)], np.zeros((d, 3), np.int64)
    for column, tree in trees.items():
        places[column] = sum(map(len, nodes)), sum(map(len, levels)), len(tree.widths)
        nodes.append(np.ascontiguousarray(tree.paths, np.int64).ravel())
        levels.append(tree.widths)
    # Sensitive values need room only where there are thresholds.
    room = n if len(positions) else 0
    orders = np.empty((len(positions), n), np.int32)
    for order, values in zip(orders, positions, strict=True):
        order[:] = np.argsort(values, kind="stable")
    return Parts(
        points.T.copy(), np.arange(n, dtype=np.int32), positions, orders, np.zeros(n, np.int64),
        np.empty(n, np.uint8), np.empty(room, np.uint8), np.empty(d), np.empty((2, room), np.int64),
        np.empty((2, room), np.int64), np.empty(n), np.empty(n, np.int32),
        np.concatenate(nodes), np.concatenate(levels), places, np.zeros(1, np.uint64),
    )  # fmt: skip


@compiled
def divide(parts: Parts, rules: Rules, nodes: NDArray[np.int64], k: int, relaxed: bool) -> NDArray[np.int64]:
    """Cut every part of a level, or make it a class; return the parts of the next level, (m, 2)."""
    children, count = np.empty((2 * len(nodes), 2), np.int64), 0
    for node in range(len(nodes)):
        first, last = nodes[node, 0], nodes[node, 1]
        left = _cut(parts, rules, first, last, k, relaxed) if last - first >= 2 * k else 0
        if left == 0:
            for i in range(first, last):
                parts.begin[parts.record[i]] = first
            continue
        separate(parts, first, last)
        children[count, 0], children[count, 1] = first, first + left
        children[count + 1, 0], children[count + 1, 1] = first + left, last
        count += 2
    return children[:count]


@compiled
def _cut(parts: Parts, rules: Rules, first: int, last: int, k: int, relaxed: bool) -> int:
    """Mark the left side of the first allowed cut of a part; return its size, 0 if no cut is allowed."""
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
                if left > 0 and sides_keep(parts, rules, first, last, left, 0, 1):
                    return left
            if not relaxed:
                continue
        median = _median(parts, column, first, last)
        below, up_to, later = _around(parts.columns[column], first, last, median)
        after = size - up_to > below or (size - up_to == below and later)
        one, other = (up_to, below) if after else (below, up_to)
        if relaxed:
            one, other = (size + 1) // 2, 0
        for left in (one, other):
            if k <= left <= size - k:
                _mark(parts, column, first, last, median)
                if relaxed and left < up_to:
                    _divide_tied(parts, column, first, last, left - below)
                else:
                    _take_tied(parts.on_left, first, last, left - below)
                if sides_keep(parts, rules, first, last, left, 0, 1):
                    return left
    return 0


@inner
def _measure(parts: Parts, first: int, last: int) -> None:
    """Write the range of every column in a part."""
    for column in range(len(parts.columns)):
        values = parts.columns[column]
        low = high = values[first]
        for i in range(first + 1, last):
            if values[i] < low:
                low = values[i]
            if values[i] > high:
                high = values[i]
        parts.widths[column] = width_between(parts, column, low, high)


@inner
def width_between(parts: Parts, column: int, low: float, high: float) -> float:
    """Return the width of a part in a column, from its least and its greatest value."""
    if parts.trees[column, 2] > 0:
        return float(parts.levels[parts.trees[column, 1] + _level(parts, column, low, high)])
    return high - low


@inner
def _level(parts: Parts, column: int, low: float, high: float) -> int:
    """Return the level of the lowest common node of two values."""
    begin, levels = parts.trees[column, 0], parts.trees[column, 2]
    one, other, level = begin + int(low) * levels, begin + int(high) * levels, 0
    while parts.nodes[one + level] != parts.nodes[other + level]:
        level += 1
    return level


@compiled
def _mark_branch(parts: Parts, column: int, first: int, last: int, k: int, highest: bool) -> int:
    """Mark the left side of a cut between two values; return its size, 0 if no cut leaves k on both sides."""
    # The cut nearest to the middle: with `highest` of the cuts below the highest possible node, else of all.
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


@inner
def _next_widest(widths: NDArray[np.float64], after: int) -> int:
    """Return the column after another (-1: none) by descending width, the first of equal columns."""
    best = -1
    for column in range(len(widths)):
        follows = after < 0 or widths[column] < widths[after]
        follows = follows or (widths[column] == widths[after] and column > after)
        if follows and (best < 0 or widths[column] > widths[best]):
            best = column
    return best


@inner
def _median(parts: Parts, column: int, first: int, last: int) -> float:
    """Return the lower median of a column in a part."""
    for i in range(last - first):
        parts.spare[i] = parts.columns[column, first + i]
    return _select(parts.spare, last - first, (last - first - 1) // 2, parts.random_state)


@inner
def _select(values: NDArray[np.float64], size: int, place: int, random_state: NDArray[np.uint64]) -> float:
    """Rearrange the first `size` values; return the value that sorting puts at a place."""
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


@inner
def _around(values: NDArray[np.float64], first: int, last: int, median: float) -> tuple[int, int, bool]:
    """Count the values of a part below the median, and those at most the median.

    The third result tells whether the gap below the median is at most as wide as the gap above it.
    """
    below, up_to, before, after = 0, 0, -np.inf, np.inf
    for i in range(first, last):
        value = values[i]
        if value < median:
            below += 1
            before = max(before, value)
        elif value > median:
            after = min(after, value)
        else:
            up_to += 1
    return below, below + up_to, median - before <= EQUAL_GAP_FACTOR * (after - median)


@inner
def _mark(parts: Parts, column: int, first: int, last: int, median: float) -> None:
    """Mark values below the median as the left side, and values equal to the median as `TIED_SIDE`."""
    values = parts.columns[column]
    for i in range(first, last):
        parts.on_left[i] = int(values[i] < median) + TIED_SIDE * int(values[i] == median)


@inner
def _divide_tied(parts: Parts, column: int, first: int, last: int, left: int) -> None:
    """Put `left` tied records on the left: the least in the widest other column, then in the next, ..."""
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
            if on_left[i] == TIED_SIDE:
                spare[tied] = values[i]
                tied += 1
        if tied == left:
            break
        border = _select(spare, tied, left - 1, parts.random_state)
        for i in range(first, last):
            if on_left[i] == TIED_SIDE and values[i] != border:
                on_left[i] = int(values[i] < border)
                left -= int(values[i] < border)
    _take_tied(on_left, first, last, left)


@inner
def _take_tied(on_left: NDArray[np.uint8], first: int, last: int, left: int) -> None:
    """Put the first `left` records that are still tied on the left, the others on the right."""
    for i in range(first, last):
        if on_left[i] == TIED_SIDE:
            on_left[i] = int(left > 0)
            left -= 1


@compiled
def sides_keep(
    parts: Parts, rules: Rules, first: int, last: int, left: int, from_side: int, to_side: int
) -> bool:
    """Tell whether the right (0) to the left side (1), `left` records as marked, satisfy every threshold."""
    if len(parts.orders) > 0:
        for i in range(first, last):
            parts.goes_left[parts.record[i]] = parts.on_left[i]
    for which in range(len(parts.orders)):
        values = count_sides(parts, which, first, last)
        for side in range(from_side, to_side + 1):
            size = left if side else last - first - left
            present, weights = parts.values[side, : values[side]], parts.weights[side, : values[side]]
            if rule_violation(present, weights, size, rules, which) > 0.0:
                return False
    return True


@inner
def count_sides(parts: Parts, which: int, first: int, last: int) -> tuple[int, int]:
    """Count the values of a sensitive attribute on both sides; return the distinct values, right and left."""
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


@inner
def separate(parts: Parts, first: int, last: int) -> None:
    """Put the left side before the right side, each in its former order."""
    for column in range(len(parts.columns)):
        _stably(parts.columns[column], parts.on_left, parts.spare, first, last)
    _stably(parts.record, parts.on_left, parts.spare_record, first, last)
    for which in range(len(parts.orders)):
        for i in range(first, last):
            parts.on_left[i] = parts.goes_left[parts.orders[which, i]]
        _stably(parts.orders[which], parts.on_left, parts.spare_record, first, last)


@inner
def _stably(
    entries: NDArray[Any], on_left: NDArray[np.uint8], spare: NDArray[Any], first: int, last: int
) -> None:
    """Put the marked entries of a stretch before the others."""
    left, right = first, 0
    for i in range(first, last):
        entry, side = entries[i], int(on_left[i])
        # Both places are written and one of them advances: no branch that the processor predicts wrongly.
        entries[left] = entry
        spare[right] = entry
        left += side
        right += 1 - side
    for i in range(right):
        entries[left + i] = spare[i]
