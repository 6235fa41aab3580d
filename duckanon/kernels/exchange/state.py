"""A search by exchanges: its classes, the numbers kept of them, its bounds, its start and its result."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.threshold import rules_of
from duckanon.kernels.compiled import compiled, inner, spliced
from duckanon.kernels.exchange.ledger import class_violation, fill_ledger, fill_moves
from duckanon.kernels.exchange.ledger_path import PATH_MAX_POSITIONS
from duckanon.kernels.exchange.ledger_state import ANSWERS_NOTHING, ANSWERS_SWAPS, Ledger, ledger_of
from duckanon.kernels.neighbours.centroids import nearest, principal
from duckanon.kernels.points import ENLARGED_BELOW, check_class_size, distance_points, enlarged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Rules, Threshold

PRICE_MARGIN_SHARE = 2.0**-40
"""Share of a price that exceeds its rounding and is too small to matter."""


class Bounds(NamedTuple):
    """Limits and prices of a search."""

    least: int  # fewest records of a class
    most: int  # most records of a class
    weight: float  # SSE that one unit of violation counts as
    gain: float  # least gain for which an exchange is made: above the rounding of a sum of squares
    # if all attributes are quick paths: an SSE below the price of any violation. If no swap gains more than
    # this, windows tell which swaps remain. Otherwise 0.
    sure: float


class ExchangeState(NamedTuple):
    """Classes between which records move: arrays changed in place; made by `exchange_state_of`."""

    points: NDArray[np.float64]  # (n, d), all records; those of a class are neighbours in memory at the start
    number: NDArray[np.int64]  # (n,), place of each record in the order given
    record: NDArray[np.int64]  # (n,), record at each such place
    # (S, n), position of each record's value in each sensitive attribute with a threshold
    codes: NDArray[np.int64]
    label: NDArray[np.int64]  # (n,), class of each record
    place: NDArray[np.int64]  # (n,), place of each record among the members of its class
    # (classes, most), records of each class in its first ``size`` places; a class without records is free
    members: NDArray[np.int64]
    size: NDArray[np.int64]  # (classes,), records of each class
    sums: NDArray[np.float64]  # (classes, d), sum of the points of each class
    violation: NDArray[np.float64]  # (classes,), sum of the violations of each class
    touched: NDArray[np.int64]  # (classes + 1,), when each class changed last; the last entry is the clock
    measured: NDArray[np.bool_]  # (classes,), whether mean, away and reach of the class are up to date
    mean: NDArray[np.float64]  # (classes, d), mean of each class
    away: NDArray[np.float64]  # (n,), distance of each record from the mean of its class
    reach: NDArray[np.float64]  # (classes,), greatest such distance in each class
    pair: NDArray[np.float64]  # (2, 4, most), scratch memory of `exchange` for the members of two classes
    prices: NDArray[np.float64]  # (most,), scratch memory: the least cost in violations of a member's swaps
    between: NDArray[np.float64]  # (d,), scratch memory: the difference of two means
    ledger: Ledger  # violations of each class after every exchange
    rules: Rules  # the S thresholds
    bounds: Bounds


def exchange_state_of(
    points: NDArray[np.float64],
    codes: NDArray[np.int64],
    labels: NDArray[np.int64],
    rules: Rules,
    bounds: Bounds,
    *,
    classes: int,
) -> ExchangeState:
    """Return the state that begins with a partition: labels 0..m-1, with memory for `classes` classes."""
    # O(n (d + log n)) time, O(classes (most + d) + n d) memory, and the memory of the ledger.
    (n, d), most = points.shape, bounds.most
    size, number = np.bincount(labels, minlength=classes), np.argsort(labels, kind="stable")
    record, members = np.empty(n, dtype=np.int64), np.zeros((classes, most), dtype=np.int64)
    record[number] = np.arange(n)
    points, labels, sums = points[number], labels[number], np.zeros((classes, d))
    place = np.arange(n) - np.repeat(np.cumsum(size) - size, size)
    members[labels, place] = np.arange(n)
    for j in range(d):
        sums[:, j] = np.bincount(labels, weights=points[:, j], minlength=classes)
    state = ExchangeState(
        points,
        number,
        record,
        np.ascontiguousarray(codes[:, number]),
        labels,
        place,
        members,
        size,
        sums,
        np.zeros(classes),
        np.zeros(classes + 1, dtype=np.int64),
        np.zeros(classes, dtype=np.bool_),
        np.zeros((classes, d)),
        np.zeros(n),
        np.zeros(classes),
        np.zeros((2, 4, most)),
        np.zeros(most),
        np.zeros(d),
        ledger_of(rules, n, classes, most),
        rules,
        bounds,
    )
    update_violations(state, np.arange(classes))
    return state


@inner
def add(state: ExchangeState, c: int, record: int) -> None:
    """Add a record to a class; the violation of the class is not brought up to date."""
    at = state.size[c]
    state.members[c, at] = record
    state.label[record], state.place[record] = c, at
    state.size[c] = at + 1
    forget(state, c)
    sums, point = state.sums[c], state.points[record]
    for j in range(len(sums)):
        sums[j] += point[j]


@inner
def take(state: ExchangeState, record: int) -> None:
    """Take a record out of its class; the last member moves to its place."""
    c, at = state.label[record], state.place[record]
    last = state.size[c] - 1
    moved = state.members[c, last]
    state.members[c, at], state.place[moved] = moved, at
    state.size[c] = last
    forget(state, c)
    sums, point = state.sums[c], state.points[record]
    for j in range(len(sums)):
        sums[j] -= point[j]


@inner
def touch(state: ExchangeState, c: int) -> None:
    """Set the time of the last change of a class to now."""
    clock = len(state.touched) - 1
    state.touched[clock] += 1
    state.touched[c] = state.touched[clock]


@inner
def forget(state: ExchangeState, c: int) -> None:
    """Mark the mean, distances and ledger of a class as out of date."""
    state.measured[c] = False
    state.ledger.filled[c] = ANSWERS_NOTHING


@inner
def measure(state: ExchangeState, c: int) -> None:
    """Bring the mean of a class and the distances of its members from it up to date."""
    size, sums, mean, members = state.size[c], state.sums[c], state.mean[c], state.members[c]
    most = 0.0
    for j in range(len(mean)):
        mean[j] = sums[j] / size
    for i in range(size):
        point, away = state.points[members[i]], 0.0
        for j in range(len(mean)):
            difference = point[j] - mean[j]
            away += difference * difference
        most = away if away > most else most
        state.away[members[i]] = math.sqrt(away)
    state.reach[c] = math.sqrt(most)
    state.measured[c] = True


@inner
def open_ledger(state: ExchangeState, c: int, asked: int) -> None:
    """Bring a class's ledger up to date for `ANSWERS_SWAPS` or `ANSWERS_MOVES`; others may be dropped."""
    members = state.members[c, : state.size[c]]
    if state.ledger.filled[c] == ANSWERS_NOTHING:
        fill_ledger(state.ledger, state.rules, state.codes, c, members)
    if state.ledger.filled[c] < asked:
        fill_moves(state.ledger, state.rules, state.codes, c, members)


@spliced
def update_violation(state: ExchangeState, c: int) -> None:
    """Bring the violation of a class up to date."""
    if len(state.codes) > 0:
        open_ledger(state, c, ANSWERS_SWAPS)
        state.violation[c] = class_violation(state.ledger, state.rules, c, state.size[c])


@compiled
def update_violations(state: ExchangeState, classes: NDArray[np.int64]) -> None:
    """Bring the violations of some classes up to date; that of a free class is 0."""
    for c in classes:
        if state.size[c] > 0:
            update_violation(state, c)
        else:
            state.violation[c] = 0.0


@inner
def sse_of(state: ExchangeState, c: int) -> float:
    """Return the sum of squared distances between the members of a class and their mean."""
    total, size = 0.0, state.size[c]
    for j in range(state.points.shape[1]):
        mean = state.sums[c, j] / size if size > 0 else 0.0
        for i in range(size):
            difference = state.points[state.members[c, i], j] - mean
            total += difference * difference
    return total


GAIN_ROUNDING_SHARE = 1e-11
"""Gains below this share of the whole spread may be rounding."""

SPARE_CLASSES = 64
"""Free classes, so that a neighbourhood can be rebuilt with one class more."""

LARGE_CLASS_RECORDS = 256
"""Classes above this size, and above four times the median, stay as merging made them: every class gets as
much memory as the largest one that takes part needs.
"""


@dataclass(frozen=True, eq=False)
class Search:
    """A search under way; made by `search_of`."""

    state: ExchangeState  # the classes between which records move
    labels: NDArray[np.int64]  # (n,), class of each record before the search
    moving: NDArray[np.bool_]  # (n,), records that take part
    unit: float  # mean squared distance to the centre: the unit of prices

    def at_price(self, price: float) -> Search:
        """Return the same search in which a record beyond a threshold counts as `price` units."""
        weight, table = price * self.unit, self.state.rules.table
        # The least violation is one unit of an edge sum, where all attributes are paths with t alone.
        paths = self.state.ledger.quick & (table["height"] == 0) & (table["values"] <= PATH_MAX_POSITIONS)
        sure = (
            (1.0 - PRICE_MARGIN_SHARE) * weight / float(table["whole"].max())
            if len(table) and paths.all()
            else 0.0
        )
        bounds = self.state.bounds._replace(weight=weight, sure=sure)
        return replace(self, state=self.state._replace(bounds=bounds))


def search_of(
    points: ArrayLike,
    labels: ArrayLike,
    k: int,
    codes: NDArray[np.int64] | Sequence[ArrayLike],
    thresholds: Sequence[Threshold],
) -> Search:
    """Return a search that starts from a partition, with violations at no price; arguments as in `refine`."""
    # O(n d + m most) memory for m classes of at most `most` records.
    matrix = distance_points(points)
    check_class_size(len(matrix), k)
    owner = _checked(labels, len(matrix), k)
    coded = _positions(codes, thresholds, len(matrix))
    sizes = np.bincount(owner)
    # Under thresholds a class may grow beyond 2k - 1 for a while, before it gives records to neighbours.
    most = int(max(2 * k - 1, 4 * np.median(sizes) if len(thresholds) else 0))
    most = max(most, min(LARGE_CLASS_RECORDS, int(sizes.max())))
    moving = sizes[owner] <= most
    # Gains are differences of sums, which rounding would hide if the points were far from zero.
    # Enlarged: the squares of tiny numbers would vanish, and so would the least gain that ends the search.
    matrix = matrix[moving]
    matrix = np.ascontiguousarray(
        enlarged(matrix - matrix.mean(axis=0), ENLARGED_BELOW) if len(matrix) else matrix
    )
    moving_labels = np.unique(owner[moving], return_inverse=True)[1].astype(np.int64)
    classes = int(moving_labels.max(initial=-1)) + 1 + SPARE_CLASSES
    spread = float(np.sum(np.square(matrix)))
    bounds = Bounds(k, most, 0.0, GAIN_ROUNDING_SHARE * spread, 0.0)
    rules = rules_of(thresholds)
    state = exchange_state_of(matrix, coded[:, moving], moving_labels, rules, bounds, classes=classes)
    return Search(state, owner, moving, spread / max(len(matrix), 1))


def _checked(labels: ArrayLike, n: int, k: int) -> NDArray[np.int64]:
    """Return the labels (n,) if every class has at least k records; else raise ValueError."""
    owner = np.asarray(labels)
    if owner.shape != (n,) or owner.dtype.kind not in "iu" or owner.min() < 0:
        raise ValueError(f"labels must be one integer a record, of shape ({n},)")
    sizes = np.bincount(owner)
    if sizes.min() < k:
        raise ValueError(f"class {int(sizes.argmin())} has {sizes.min()} records, k is {k}")
    return owner.astype(np.int64)


def _positions(
    codes: NDArray[np.int64] | Sequence[ArrayLike], thresholds: Sequence[Threshold], n: int
) -> NDArray[np.int64]:
    """Return the positions of the value codes (S, n)."""
    if len(codes) != len(thresholds):
        raise ValueError(f"there are {len(thresholds)} thresholds for {len(codes)} attributes")
    coded = np.zeros((len(codes), n), dtype=np.int64)
    for row, (threshold, column) in enumerate(zip(thresholds, codes, strict=True)):
        if np.shape(column) != (n,):
            raise ValueError(f"codes must be one integer a record, of shape ({n},), not {np.shape(column)}")
        coded[row] = threshold.reference.positions(column)
    return coded


def labels_of(search: Search) -> NDArray[np.int64]:
    """Return the classes of all records (n,), numbered in the order of their first records."""
    # Classes that took no part keep their numbers, and the other classes follow.
    whole = search.labels.copy()
    whole[search.moving] = search.state.label[search.state.record] + search.labels.max() + 1
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def centroids_of(state: ExchangeState) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the classes that have records, ascending (m,), and their means (m, d)."""
    nonempty = np.flatnonzero(state.size)
    return nonempty, state.sums[nonempty] / state.size[nonempty, None]


def sse_left(state: ExchangeState, squares: float) -> float:
    """Return the SSE of all classes that take part, up to rounding; `squares` is that of their points."""
    nonempty, centroids = centroids_of(state)
    return squares - float(np.sum(np.square(centroids) * state.size[nonempty, None]))


def neighbours(state: ExchangeState, count: int) -> NDArray[np.int64]:
    """Return the nearest other classes of each class (classes, count), nearest first, then -1."""
    # O((m + n) log m) on average. Points in many columns are searched along their widest directions.
    nonempty, centroids = centroids_of(state)
    near = np.full((len(state.size), count), -1)
    ranks = np.arange(2, min(count + 1, len(nonempty)) + 1)
    if len(ranks):
        features = principal(centroids, np.arange(len(nonempty)))
        near[nonempty, : len(ranks)] = nonempty[nearest(features, features, ranks)]
    return near


def near_records(state: ExchangeState, count: int) -> NDArray[np.int64]:
    """Return the classes nearest to each record (n, count), nearest first, its own class among them."""
    # Fewer columns if there are fewer classes. Cost as that of `neighbours`.
    nonempty, centroids = centroids_of(state)
    ranks = np.arange(1, min(count, len(nonempty)) + 1)
    both = np.vstack([centroids, state.points])
    features = principal(both, np.arange(len(nonempty)))
    indices = nearest(features[: len(nonempty)], features[len(nonempty) :], ranks)
    return np.ascontiguousarray(nonempty[indices])
