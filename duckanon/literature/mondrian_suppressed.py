"""Mondrian with suppression: few records that keep a part wide are cut off it, and left out of the release.

An addition of ours to the method of LeFevre, DeWitt and Ramakrishnan, see `duckanon.literature.mondrian`.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.threshold import rules_of, violations_per_class
from duckanon.kernels.merging.merge import class_members
from duckanon.kernels.points import check_class_size, distance_points, squared_points
from duckanon.literature.offers import BORDER, COLUMN, LOW_SIDE, RATE, RECORDS, cut_off, offers_of
from duckanon.literature.parts import divide, parts_of, positions_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Rules, Threshold
    from duckanon.kernels.exchange.refine import Stop
    from duckanon.literature.lattice import Limits
    from duckanon.literature.parts import ColumnTree, Parts


@dataclass(frozen=True, eq=False)
class Suppression:
    """What may be suppressed.

    Attributes
    ----------
    most : int
        Most records that may be suppressed.
    limits : callable, optional
        The thresholds of the released table, by the records of its values, see `Limits`; by default the
        distribution in the whole table remains the reference of t.
    attribute : ndarray of shape (d,), int, optional
        Number of the attribute that each column belongs to; by default each is one of its own.
    importance : ndarray of shape (attributes,), float, optional
        How much the width of each attribute counts; by default 1.
    """

    most: int
    limits: Limits | None = None
    attribute: NDArray[np.int64] | None = None
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
    """Return classes of at least k records by Mondrian, of which few records are left out.

    A part that no column can cut is cut at a border where one side keeps what is asked and the other, which
    does not, is suppressed, as long as that lessens the loss. It is the sum over all records of the squared
    widths of their class, each over that of the table; a suppressed record counts as one in a class as wide
    as the table. The cut that gains most for each suppressed record comes first, until no more records may be
    suppressed or nothing is gained. The side that is kept is cut on as by `mondrian`.

    Parameters
    ----------
    points, k, codes, thresholds, relaxed, trees, stop
        See `duckanon.literature.mondrian`.
    suppression : Suppression
        What may be suppressed.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of the cuts, -1 where it is suppressed. The loss is at most
        that of `mondrian`, and every threshold that this keeps is kept, t against the released records.

    Raises
    ------
    ValueError
        As `mondrian`.

    Notes
    -----
    A border lies between two values of a column, and cuts off the records beyond it, on either side, at least
    one in `FINEST` of the part. Of all borders of a part the `TRIED` with the greatest gain in their own
    column are measured in all columns, and the best of them at which the kept side keeps everything is taken;
    of equal ones the one that gains most in its own column, in the end that in the first column, of the low
    side, with the fewest records; see `duckanon.literature.offers`. A side that is to be suppressed and keeps
    everything itself is a class, and costs nothing. A cut for which too few records are left is passed over.

    Where t is asked for, the distribution of the released records becomes the reference. A class that misses
    a threshold now is suppressed, if there are records left for it and that loses less than to take back the
    cut it came from; else all that is released of the part before that cut is one class, a box again; and
    so on until nothing changes: all released records as one class have EMD 0. If the loss is not less than
    without suppression then, half as many records may be suppressed, and so on, at worst none.

    Every cut costs what a level and a sort of all columns cost for its part, and suppresses one in `FINEST`
    of its records: together no more than `FINEST` * most / n of them for the table, twice that where
    suppressions are taken back. With t memory is twice that of `mondrian`. Deterministic.

    Examples
    --------
    >>> points = [[0.0], [1.0], [2.0], [3.0], [40.0], [41.0], [42.0], [90.0]]
    >>> mondrian_suppressed(points, 3, Suppression(1)).tolist()
    [0, 0, 0, 0, 1, 1, 1, -1]
    """
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
    changing = suppression.limits is not None and any(one.t is not None for one in thresholds)
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
    """The records in their order, what is asked of them, and how losses are measured."""

    points: NDArray[np.float64]
    codes: list[NDArray[np.int64]]
    thresholds: Sequence[Threshold]
    trees: Mapping[int, ColumnTree]
    scales: NDArray[np.float64]  # (d,): the squares of widths over them add up to a loss
    price: float  # of a suppressed record: the loss of one in a class as wide as the table


class _Cutting(NamedTuple):
    """What cuts, and when it ends."""

    parts: Parts
    rules: Rules
    k: int
    relaxed: bool
    scales: NDArray[np.float64]
    price: float
    stop: Stop | None

    def stopped(self) -> bool:
        """Whether nobody wants the classes any more."""
        return self.stop is not None and self.stop()


def _moved(parts: Parts) -> tuple[NDArray[np.generic], ...]:
    """Return what cuts put into another order."""
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
    """Return by what the width of each column is divided, (d,), and the price of a suppressed record.

    The squares of the widths of a whole attribute add up to its importance; infinite where it is constant.
    """
    columns = points.shape[1]
    widths = _widths(points.min(axis=0)[None], points.max(axis=0)[None], trees)[0]
    attribute = np.arange(columns) if suppression.attribute is None else suppression.attribute
    importance = suppression.importance
    scales = np.full(columns, np.inf)
    for number in np.unique(attribute):
        own = attribute == number
        # Over the greatest, so that no square overflows, and not all of them vanish.
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
    """Return of each class 0..m-1 its size and the loss of each of its records."""
    order = np.argsort(labels, kind="stable")[np.count_nonzero(labels < 0) :]
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    shape = len(starts), table.points.shape[1]
    low, high = np.empty(shape), np.empty(shape)
    # Column by column: all at once would be one more copy of the points.
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
    """Cut the last of the nodes as Mondrian does; return the classes, (m, 2), and add all parts to nodes."""
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
    """Suppress up to so many records; return where the class of each place begins, -1 for none, and the rest.

    Parts that are new are added to the nodes.
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
    """Suppress classes, or take cuts back, until all keep what is asked of the release; tell whether they do.

    `left` records may be suppressed. The owner of each place is changed.
    """
    nodes = nodes[np.argsort(nodes[:, 1] - nodes[:, 0], kind="stable")]
    while True:
        for begin in _violating(parts, table, suppression, owner).tolist():
            own = np.flatnonzero(owner == begin)
            # One that was united with another since is looked at again with it.
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
        # The values that are still there have the codes of the smaller table.
        row[:] = (np.cumsum(counts[-1] > 0) - 1)[here]
    begins, number = np.unique(owner[released], return_inverse=True)
    offsets, members = class_members(number, codes)
    violations = violations_per_class(suppression.limits(counts), members, offsets)
    return np.asarray(begins[violations.any(axis=0)])


def _before_the_cut(
    owner: NDArray[np.int64], own: NDArray[np.int64], nodes: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return the released places of the smallest part that has more of them than a class, if there is one."""
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
    """Tell whether a class loses less if it is suppressed than if it is one with those it was cut from."""
    records = parts.record[united]
    few = table._replace(points=table.points[records])
    apart = np.unique(owner[united], return_inverse=True)[1]
    sizes, each = _losses(few, apart)
    mine = apart[np.searchsorted(united, own[0])]
    _, together = _losses(few, np.zeros(len(united), np.int64))
    suppressed = len(own) * (table.price - each[mine])
    return bool(suppressed < len(united) * together[0] - (sizes * each).sum())
