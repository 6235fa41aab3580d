"""The state of an exchange search: the classes, and what the search keeps and aims at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner, spliced
from duckanon.kernels.exchange.ledger import class_violation, fill_ledger, fill_moves
from duckanon.kernels.exchange.ledger_state import ANSWERS_NOTHING, ANSWERS_SWAPS, Ledger, ledger_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules


PRICE_MARGIN_SHARE = 2.0**-40
"""Share of a price that is more than its rounding, and less than matters."""


class Bounds(NamedTuple):
    """What a search must keep, and what it aims at.

    Attributes
    ----------
    least, most : int
        Records of a class.
    weight : float
        SSE that one unit of violation counts as.
    gain : float
        Least gain for which something is done: above the rounding of a sum of squares.
    sure : float
        SSE that counts less than every violation, where all attributes are paths which are quick: if no swap
        gains more, windows tell which are left. Otherwise 0.
    """

    least: int
    most: int
    weight: float
    gain: float
    sure: float


class ExchangeState(NamedTuple):
    """Classes between which records move: arrays changed in place; made by `exchange_state_of`.

    Attributes
    ----------
    points : ndarray of shape (n, d), float64
        All records, those of a class one after the other at the start: what is asked together lies together.
    number, record : ndarray of shape (n,), int64
        Place of each record in the order in which they were given, and the record of each such place.
    codes : ndarray of shape (S, n), int64
        Position of each record's value in each sensitive attribute with a threshold.
    label, place : ndarray of shape (n,), int64
        Class of each record, and its place among the members of that class.
    members : ndarray of shape (classes, most), int64
        Records of each class in its first ``size`` places; a class without records is free.
    size : ndarray of shape (classes,), int64
        Records of each class.
    sums : ndarray of shape (classes, d), float64
        Sum of the points of each class.
    violation : ndarray of shape (classes,), float64
        Sum of the violations of each class.
    touched : ndarray of shape (classes + 1,), int64
        When each class changed last; the last entry is the clock.
    measured : ndarray of shape (classes,), bool
        Classes whose mean and distances from it are up to date.
    mean : ndarray of shape (classes, d), float64
        Mean of each class.
    away : ndarray of shape (n,), float64
        Distance of each record from the mean of its class.
    reach : ndarray of shape (classes,), float64
        The greatest of these distances in each class.
    pair : ndarray of shape (2, 4, most), float64
        Scratch memory of `exchange` for the members of two classes.
    prices : ndarray of shape (most,), float64
        Scratch memory: the least that a member's swaps cost in violations.
    between : ndarray of shape (d,), float64
        Scratch memory: the difference of two means.
    ledger : Ledger
        The violations of each class after every exchange.
    rules : Rules
        The S thresholds.
    bounds : Bounds
        What the search keeps and aims at.
    """

    points: NDArray[np.float64]
    number: NDArray[np.int64]
    record: NDArray[np.int64]
    codes: NDArray[np.int64]
    label: NDArray[np.int64]
    place: NDArray[np.int64]
    members: NDArray[np.int64]
    size: NDArray[np.int64]
    sums: NDArray[np.float64]
    violation: NDArray[np.float64]
    touched: NDArray[np.int64]
    measured: NDArray[np.bool_]
    mean: NDArray[np.float64]
    away: NDArray[np.float64]
    reach: NDArray[np.float64]
    pair: NDArray[np.float64]
    prices: NDArray[np.float64]
    between: NDArray[np.float64]
    ledger: Ledger
    rules: Rules
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
    """Return the state that begins with a partition: labels 0..m-1, with memory for so many classes.

    O(n (d + log n)) time, O(classes (most + d) + n d) memory, and that of the ledger.
    """
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
    """Add a record to a class, whose violation is not brought up to date."""
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
    """Take a record out of its class, whose last member moves to its place."""
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
    """Note that a class has changed."""
    clock = len(state.touched) - 1
    state.touched[clock] += 1
    state.touched[c] = state.touched[clock]


@inner
def forget(state: ExchangeState, c: int) -> None:
    """Note that what is kept of a class is out of date."""
    state.measured[c] = False
    state.ledger.filled[c] = ANSWERS_NOTHING


@inner
def measure(state: ExchangeState, c: int) -> None:
    """Bring the mean of a class, and the distances of its members from it, up to date."""
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
    """Bring the ledger of a class up to date, for `ANSWERS_SWAPS` or `MOVES`; others may be dropped."""
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
