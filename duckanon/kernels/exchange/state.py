"""The classes of a partition while records move between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner
from duckanon.kernels.exchange.ledger import Ledger, ledger_of, missed_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules


class Groups(NamedTuple):
    """Classes between which records move: arrays changed in place; made by `groups_of`.

    Attributes
    ----------
    points : ndarray of shape (n, d), float64
        All records.
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
    missed : ndarray of shape (classes,), float64
        Sum of the violations of each class.
    touched : ndarray of shape (classes + 1,), int64
        When each class changed last; the last entry is the clock.
    """

    points: NDArray[np.float64]
    codes: NDArray[np.int64]
    label: NDArray[np.int64]
    place: NDArray[np.int64]
    members: NDArray[np.int64]
    size: NDArray[np.int64]
    sums: NDArray[np.float64]
    missed: NDArray[np.float64]
    touched: NDArray[np.int64]


class Room(NamedTuple):
    """Room that a search works in; made by `room_of`, written by every function that takes it.

    Attributes
    ----------
    along, away : ndarray of shape (2, most), float64
        Of the members of two classes: the product with the difference of the centroids, and the distance
        from the own centroid.
    between : ndarray of shape (d,), float64
        The difference of the two centroids.
    ledger : Ledger
        What the two classes miss after every exchange.
    """

    along: NDArray[np.float64]
    away: NDArray[np.float64]
    between: NDArray[np.float64]
    ledger: Ledger


def groups_of(
    points: NDArray[np.float64],
    codes: NDArray[np.int64],
    labels: NDArray[np.int64],
    rules: Rules,
    *,
    classes: int,
    most: int,
) -> Groups:
    """Return the classes of a partition, ready for records to move.

    Parameters
    ----------
    points : ndarray of shape (n, d), float64
        All records.
    codes : ndarray of shape (S, n), int64
        Position of each record's value in each attribute.
    labels : ndarray of shape (n,), int64
        Class of each record, 0..m-1, none empty.
    rules : Rules
        The S thresholds.
    classes : int
        Room for so many classes, at least m.
    most : int
        Most records of a class, at least the largest size.

    Returns
    -------
    Groups
        O(n d) time, O(classes * most + n d) memory.
    """
    n, d = points.shape
    groups = Groups(
        points,
        codes,
        labels.copy(),
        np.zeros(n, dtype=np.int64),
        np.zeros((classes, most), dtype=np.int64),
        np.zeros(classes, dtype=np.int64),
        np.zeros((classes, d)),
        np.zeros(classes),
        np.zeros(classes + 1, dtype=np.int64),
    )
    _enter(groups, rules, room_of(rules, d, most))
    return groups


def room_of(rules: Rules, dimensions: int, most: int) -> Room:
    """Return room for exchanges between classes of at most so many records.

    Parameters
    ----------
    rules : Rules
        The thresholds.
    dimensions, most : int
        d, and the most records of a class.

    Returns
    -------
    Room
        To be written.
    """
    return Room(np.zeros((2, most)), np.zeros((2, most)), np.zeros(dimensions), ledger_of(rules, most))


@compiled
def _enter(groups: Groups, rules: Rules, room: Room) -> None:
    """Enter every record in its class."""
    for record in range(len(groups.points)):
        add(groups, groups.label[record], record)
    for c in range(len(groups.size)):
        if groups.size[c] > 0:
            judge(groups, rules, c, room)


@inner
def add(groups: Groups, c: int, record: int) -> None:
    """Add a record to a class; what the class misses is not brought up to date."""
    at = groups.size[c]
    groups.members[c, at] = record
    groups.label[record], groups.place[record] = c, at
    groups.size[c] = at + 1
    for j in range(groups.points.shape[1]):
        groups.sums[c, j] += groups.points[record, j]


@inner
def take(groups: Groups, record: int) -> None:
    """Take a record out of its class, whose last member moves to its place."""
    c, at = groups.label[record], groups.place[record]
    last = groups.size[c] - 1
    moved = groups.members[c, last]
    groups.members[c, at], groups.place[moved] = moved, at
    groups.size[c] = last
    for j in range(groups.points.shape[1]):
        groups.sums[c, j] -= groups.points[record, j]


@inner
def touch(groups: Groups, c: int) -> None:
    """Note that a class has changed."""
    clock = len(groups.touched) - 1
    groups.touched[clock] += 1
    groups.touched[c] = groups.touched[clock]


@inner
def judge(groups: Groups, rules: Rules, c: int, room: Room) -> None:
    """Bring what a class misses up to date."""
    members = groups.members[c, : groups.size[c]]
    groups.missed[c] = missed_by(room.ledger, rules, groups.codes, members)


@inner
def sse_of(groups: Groups, c: int) -> float:
    """Return the sum of squared distances between the members of a class and their mean."""
    total, size = 0.0, groups.size[c]
    for j in range(groups.points.shape[1]):
        mean = groups.sums[c, j] / size if size > 0 else 0.0
        for i in range(size):
            difference = groups.points[groups.members[c, i], j] - mean
            total += difference * difference
    return total
