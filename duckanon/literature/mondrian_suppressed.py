"""Mondrian with suppression: few records that make a part wide are cut off and left out of the release.

An addition of ours to the method of LeFevre, DeWitt and Ramakrishnan, see `duckanon.literature.mondrian`.
Steps: docs/methods/generalization.md, "Suppression".

Loss: the sum over all records of the squared widths of their class, each over the width of the table. A
suppressed record counts as a record in a class as wide as the table.

Cuts: a part that no column can cut is cut at a border where one side keeps k and the thresholds, and the
other side is suppressed, as long as that lessens the loss. A side to be suppressed that keeps everything
itself is a class, and costs nothing. A border lies between two values of a column and cuts off the records
beyond it, on either side, at least one in `RECORDS_A_CUT_OFF` of the part. The `TRIED_BORDERS` borders with
the greatest gain in their own column are measured in all columns. The best of these whose kept side keeps
everything is taken; of equal borders the border that gains most in its own column, then in the first column,
of the low side, with the fewest records (`duckanon.literature.offers`). The cut that gains most for each
suppressed record comes first. A cut that needs more records than are left is passed over. The kept side is
cut on as by `mondrian`. Cuts end when no more records may be suppressed, or nothing is gained.

With t or bounds of shares, the distribution of the released records becomes the reference. A class that now
misses a threshold is suppressed, if records are left for it and that loses less than to take back the cut
that made it. Otherwise all released records of the part before that cut become one class, a box again. This
is repeated until nothing changes: all released records as one class have EMD 0. If the loss is then not less
than without suppression, half as many records may be suppressed, and so on, at worst none. So the loss is at
most that of `mondrian`, and every threshold that `mondrian` keeps is kept, t against the released records.

Cost: a cut costs a level and a sort of all columns for its part, and suppresses at least one in
`RECORDS_A_CUT_OFF` of its records. Together the cuts cost at most `RECORDS_A_CUT_OFF` * most / n levels and
sorts of the table, twice that where suppressions are taken back. With t memory is twice that of `mondrian`.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.threshold import rules_of, violations_per_class
from duckanon.kernels.merge import class_members
from duckanon.kernels.points import check_class_size, distance_points, squared_points
from duckanon.literature.mondrian import divide, parts_of, positions_of
from duckanon.literature.offers import BORDER, COLUMN, LOW_SIDE, RATE, RECORDS, cut_off, offers_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Rules, Threshold
    from duckanon.kernels.exchange.refine import Stop
    from duckanon.literature.lattice import Limits
    from duckanon.literature.mondrian import ColumnTree, Parts


@dataclass(frozen=True, eq=False)
class Suppression:
    """What may be suppressed, and how losses are weighed."""

    most: int  # records that may be suppressed
    # thresholds of the released table, see `Limits`; without them the whole table stays the reference of t
    limits: Limits | None = None
    # (d,) number of the attribute of each column; by default each column is an attribute
    attribute: NDArray[np.int64] | None = None
    # (attributes,) weight of the width of each attribute; by default 1
    importance: NDArray[np.float64] | None = None


def mondrian_suppressed(
    points: ArrayLike,
    k: int,
    suppression: Suppression,
    *,
    codes: Sequence[ArrayLike] = (),
    thresholds: Sequence[Threshold] = (),
    relaxed: bool = False,
    trees: Mapping[int, ColumnTree] | None = None,
    stop: Stop | None = None,
) -> NDArray[np.int64]:
    """Return classes of k records or more by Mondrian, in the order of the cuts; -1: suppressed."""
    # The other parameters and errors are those of `mondrian`.
    matrix = squared_points(points) if trees else distance_points(points)
    n = len(matrix)
    check_class_size(n, k)
    parts = parts_of(matrix, positions_of(codes, thresholds, n), trees or {})
    scales, price = _scales(matrix, trees or {}, suppression)
    table = _CutTable(matrix, [np.asarray(code) for code in codes], thresholds, trees or {}, scales, price)
    cutting = _Cutting(parts, rules_of(thresholds), k, relaxed, scales, price, stop)
    nodes = [np.array([[0, n]])]
    whole = _cut_down(cutting, nodes)
    before = np.repeat(whole[:, 0], whole[:, 1] - whole[:, 0])
    changing = suppression.limits is not None and any(
        one.t is not None or one.shares is not None for one in thresholds
    )
    kept = [array.copy() for array in _moved(parts)] if changing else []
    plain = _labels(parts, before)
    loss = _loss(table, plain) if changing else 0.0
    most = suppression.most
    while most > 0:
        made = [*nodes]
        owner, left = _trimmed(cutting, whole, before.copy(), made, most)
        if not changing or (owner >= 0).all():
            return _labels(parts, owner)
        if _mended(parts, table, suppression, owner, np.concatenate(made), left):
            labels = _labels(parts, owner)
            if _loss(table, labels) < loss:
                return labels
        most //= 2
        for array, copy in zip(_moved(parts), kept, strict=True):
            array[:] = copy
    return plain


class _CutTable(NamedTuple):
    """The records in their order, the thresholds, and how losses are measured."""

    points: NDArray[np.float64]
    codes: list[NDArray[np.int64]]
    thresholds: Sequence[Threshold]
    trees: Mapping[int, ColumnTree]
    scales: NDArray[np.float64]  # (d,): a loss is the sum of (width / scale)^2 over the columns
    price: float  # loss of a suppressed record: that of a record in a class as wide as the table


class _Cutting(NamedTuple):
    """Parts, rules and limits of the cuts, and when they end."""

    parts: Parts
    rules: Rules
    k: int
    relaxed: bool
    scales: NDArray[np.float64]
    price: float
    stop: Stop | None

    def stopped(self) -> bool:
        """Whether the caller has stopped the cuts."""
        return self.stop is not None and self.stop()


def _moved(parts: Parts) -> tuple[NDArray[np.generic], ...]:
    """Return the arrays that cuts reorder."""
    return parts.columns, parts.record, parts.orders


def _labels(parts: Parts, owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class of each record, from the place at which the class at each place begins."""
    begins, number = np.unique(owner, return_inverse=True)
    labels = np.empty(len(owner), np.int64)
    labels[parts.record] = number - int(begins[0] < 0)
    return labels


def _scales(
    points: NDArray[np.float64], trees: Mapping[int, ColumnTree], suppression: Suppression
) -> tuple[NDArray[np.float64], float]:
    """Return the scale (d,) by which each width is divided, and the loss of a suppressed record."""
    # The squared widths of the table over the scales add up to the importance of each attribute; inf if it is
    # constant.
    columns = points.shape[1]
    widths = _widths(points.min(axis=0)[None], points.max(axis=0)[None], trees)[0]
    attribute = np.arange(columns) if suppression.attribute is None else suppression.attribute
    importance = suppression.importance
    scales = np.full(columns, np.inf)
    for number in np.unique(attribute):
        own = attribute == number
        # Widths over the greatest width: no square overflows, and not all squares underflow.
        greatest = float(widths[own].max())
        if greatest > 0:
            diagonal = greatest * float(np.sqrt(((widths[own] / greatest) ** 2).sum()))
            scales[own] = diagonal / (1.0 if importance is None else float(np.sqrt(importance[number])))
    return scales, float(((widths / scales) ** 2).sum())


def _widths(
    low: NDArray[np.float64], high: NDArray[np.float64], trees: Mapping[int, ColumnTree]
) -> NDArray[np.float64]:
    """Return the widths (m, d) of classes with these least and greatest values."""
    widths = high - low
    for column, tree in trees.items():
        apart = tree.paths[low[:, column].astype(np.int64)] != tree.paths[high[:, column].astype(np.int64)]
        widths[:, column] = tree.widths[apart.sum(axis=1)]
    return widths


def _losses(table: _CutTable, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the size of each class 0..m-1, and the loss of each of its records."""
    order = np.argsort(labels, kind="stable")[np.count_nonzero(labels < 0) :]
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    shape = len(starts), table.points.shape[1]
    low, high = np.empty(shape), np.empty(shape)
    # Column by column: all columns at once would need a copy of the points.
    for column, values in enumerate(table.points.T):
        low[:, column] = np.minimum.reduceat(values[order], starts)
        high[:, column] = np.maximum.reduceat(values[order], starts)
    each = ((_widths(low, high, table.trees) / table.scales) ** 2).sum(axis=1)
    return np.diff(starts, append=len(order)), each


def _loss(table: _CutTable, labels: NDArray[np.int64]) -> float:
    """Return the loss of all records."""
    sizes, each = _losses(table, labels)
    return float((sizes * each).sum()) + table.price * int(np.count_nonzero(labels < 0))


def _cut_down(cutting: _Cutting, nodes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Cut the last entry of `nodes` as Mondrian does; return the classes, (m, 2), and append all parts."""
    classes = []
    while len(nodes[-1]):
        level = nodes[-1]
        if cutting.stopped():
            classes.append(level)
            break
        below = divide(cutting.parts, cutting.rules, level, cutting.k, cutting.relaxed)
        classes.append(level[~np.isin(level[:, 0], below[:, 0])])
        nodes.append(below)
    found = np.concatenate(classes)
    return found[np.argsort(found[:, 0])]


def _trimmed(
    cutting: _Cutting,
    classes: NDArray[np.int64],
    owner: NDArray[np.int64],
    nodes: list[NDArray[np.int64]],
    most: int,
) -> tuple[NDArray[np.int64], int]:
    """Suppress up to `most` records; return the begin of the class of each place (-1: none), and the rest.

    The rest is how many records may still be suppressed. New parts are appended to `nodes`.
    """
    parts, rules, k, *_ = cutting
    queue: list[tuple[float, int, int, int, int, float, bool]] = []

    def offer(stretches: NDArray[np.int64]) -> None:
        offers = offers_of(parts, rules, stretches, k, most, cutting.scales, cutting.price)
        for (first, last), one in zip(stretches.tolist(), offers.tolist(), strict=True):
            if one[RATE] > 0.0:
                place = int(one[RECORDS]), int(one[COLUMN]), one[BORDER], one[LOW_SIDE] > 0.0
                heappush(queue, (-one[RATE], first, last, *place))

    offer(classes)
    while queue and most > 0 and not cutting.stopped():
        _, first, last, records, column, border, low = heappop(queue)
        if records > most:
            continue
        middle = last - records
        if cut_off(parts, rules, first, last, k, column, border, low):
            sides = [[first, middle], [middle, last]]
        else:
            sides = [[first, middle]]
            owner[middle:last] = -1
            most -= records
        nodes.append(np.array(sides))
        below = _cut_down(cutting, nodes)
        for begin, end in below.tolist():
            owner[begin:end] = begin
        offer(below)
    return owner, most


def _mended(
    parts: Parts,
    table: _CutTable,
    suppression: Suppression,
    owner: NDArray[np.int64],
    nodes: NDArray[np.int64],
    left: int,
) -> bool:
    """Suppress classes, up to `left` records, or take cuts back, until all classes keep the thresholds.

    The thresholds are those of the release. Changes the owner of each place; returns whether it succeeded.
    """
    nodes = nodes[np.argsort(nodes[:, 1] - nodes[:, 0], kind="stable")]
    while True:
        for begin in _violating(parts, table, suppression, owner).tolist():
            own = np.flatnonzero(owner == begin)
            # A class that was united with another class since is checked with the union.
            if len(own) == 0:
                continue
            united = _before_the_cut(owner, own, nodes)
            if united is None:
                return False
            if len(own) <= left and _suppressing_is_better(parts, table, owner, own, united):
                owner[own] = -1
                left -= len(own)
            else:
                owner[united] = owner[united[0]]
        if not len(_violating(parts, table, suppression, owner)):
            return True


def _violating(
    parts: Parts, table: _CutTable, suppression: Suppression, owner: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the classes that miss a threshold against the released records, ascending."""
    if suppression.limits is None:
        return np.zeros(0, np.int64)
    released = owner >= 0
    records = parts.record[released]
    counts, codes = [], np.empty((len(table.codes), len(records)), np.int64)
    for row, code, threshold in zip(codes, table.codes, table.thresholds, strict=True):
        here = code[records].astype(np.int64)
        counts.append(np.bincount(here, minlength=len(threshold.reference.counts)).astype(np.int64))
        # The values that are released have the codes of the smaller table.
        row[:] = (np.cumsum(counts[-1] > 0) - 1)[here]
    begins, number = np.unique(owner[released], return_inverse=True)
    offsets, members = class_members(number, codes)
    violations = violations_per_class(suppression.limits(counts), members, offsets)
    return np.asarray(begins[violations.any(axis=0)])


def _before_the_cut(
    owner: NDArray[np.int64], own: NDArray[np.int64], nodes: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return the released places of the smallest part with more of them than a class has; None if none."""
    for first, last in nodes[(nodes[:, 0] <= own[0]) & (nodes[:, 1] > own[-1])].tolist():
        places = first + np.flatnonzero(owner[first:last] >= 0)
        if len(places) > len(own):
            return np.asarray(places)
    return None


def _suppressing_is_better(
    parts: Parts,
    table: _CutTable,
    owner: NDArray[np.int64],
    own: NDArray[np.int64],
    united: NDArray[np.int64],
) -> bool:
    """Tell whether suppressing a class loses less than to unite it with the classes it was cut from."""
    records = parts.record[united]
    few = table._replace(points=table.points[records])
    apart = np.unique(owner[united], return_inverse=True)[1]
    sizes, each = _losses(few, apart)
    mine = apart[np.searchsorted(united, own[0])]
    _, together = _losses(few, np.zeros(len(united), np.int64))
    suppressed = len(own) * (table.price - each[mine])
    return bool(suppressed < len(united) * together[0] - (sizes * each).sum())
