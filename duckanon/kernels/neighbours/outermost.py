"""The record farthest from a centre that moves slowly, while records leave: exact, seldom over all records.

The rim holds the records that were farthest from an earlier centre, the anchor; every other record lies
within a radius of the anchor, so by the triangle inequality within radius + |centre - anchor| of the centre.
As long as some record of the rim is farther than that, the farthest of the rim is the farthest of all.
Otherwise the search tree answers, and now and then the rim is renewed.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import inner
from duckanon.kernels.neighbours.boxtree import BoxTree, farthest
from duckanon.kernels.neighbours.heap import NO_RECORD, offer
from duckanon.kernels.neighbours.slots import CHUNK, Slots, farthest_in, measure, remove

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAFETY = 1.0 + 1e-9
"""Factor on the bound: far above the rounding of a distance, far below what costs time."""
PATIENCE = 8
"""Queries between two renewals: that many searches of the tree cost about as much as a renewal."""


class Rim(NamedTuple):
    """The outermost records (a named tuple, because numba takes it apart).

    Attributes
    ----------
    slots : Slots
        The records of the rim in one bin; `slots.slot` is -1 for the others.
    anchor : ndarray of shape (d,), float64
        The centre for which the rim was made.
    radius : ndarray of shape (1,), float64
        No record outside the rim is farther from the anchor; negative if there is none outside.
    age : ndarray of shape (1,), int64
        Queries since the rim was made.
    """

    slots: Slots
    anchor: NDArray[np.float64]
    radius: NDArray[np.float64]
    age: NDArray[np.int64]


def unmade_rim(n: int, d: int) -> Rim:
    """Return a rim for n records in d columns that the first query will make.

    Parameters
    ----------
    n, d : int
        Shape of the points.

    Returns
    -------
    Rim
        Room for about 4 sqrt(n) records, O(n) memory.
    """
    room = min(n, 4 * isqrt(n) + CHUNK)
    one = np.zeros(1, np.int64)
    places = np.zeros(room, np.int64)
    slots = Slots(np.zeros((d, room)), places, np.full(n, -1), places.copy(), one, one.copy())
    return Rim(slots, np.zeros(d), np.full(1, np.inf), np.full(1, PATIENCE))


@inner
def leave(rim: Rim, records: NDArray[np.int64]) -> None:
    """Take records that leave the tree out of the rim, if they are there. O(d) each.

    Parameters
    ----------
    rim : Rim
        Changed in place.
    records : ndarray of shape (k,), int64
        Any records, all different.
    """
    for record in records:
        if rim.slots.slot[record] >= 0:
            remove(rim.slots, record)
            rim.slots.slot[record] = -1


@inner
def farthest_from_centre(rim: Rim, tree: BoxTree, centre: NDArray[np.float64]) -> int:
    """Return the record left in the tree that is farthest from the centre, of several the lowest.

    Parameters
    ----------
    rim : Rim
        Rim of the records of the tree; may be renewed.
    tree : BoxTree
        At least one record is left.
    centre : ndarray of shape (d,), float64
        A point; the nearer to that of the last queries, the faster.

    Returns
    -------
    int
        Number of the record, the same as `farthest(tree, centre)`.
    """
    rim.age[0] += 1
    start = rim.slots.start[0]
    best_distance, best_record = farthest_in(rim.slots, start, start + rim.slots.left[0], centre)
    moved = 0.0
    for j in range(len(centre)):
        difference = centre[j] - rim.anchor[j]
        moved += difference * difference
    bound = (rim.radius[0] + np.sqrt(moved)) * SAFETY
    if rim.radius[0] < 0.0 or best_distance > bound * bound:
        return best_record
    if rim.age[0] > PATIENCE:
        _renew(rim, tree, centre)
    return farthest(tree, centre)


@inner
def _renew(rim: Rim, tree: BoxTree, centre: NDArray[np.float64]) -> None:
    """Fill the rim with the records of the tree that are farthest from the centre."""
    for at in range(rim.slots.left[0]):
        rim.slots.slot[rim.slots.record[at]] = -1
    size = min(len(rim.slots.record), tree.left[0])
    radius = _outermost(tree.slots, centre, rim.slots.record[:size])
    for at in range(size):
        record = rim.slots.record[at]
        rim.slots.slot[record] = at
        for j in range(len(centre)):
            rim.slots.columns[j, at] = tree.slots.columns[j, tree.slots.slot[record]]
    rim.slots.left[0] = size
    for j in range(len(centre)):
        rim.anchor[j] = centre[j]
    rim.radius[0] = -1.0 if size == tree.left[0] else radius
    rim.age[0] = 0


@inner
def _outermost(slots: Slots, centre: NDArray[np.float64], records: NDArray[np.int64]) -> float:
    """Write the farthest records, as many as have room, and return the least of their distances."""
    nearness, distances = np.empty(len(records)), np.empty(CHUNK)
    for i in range(len(records)):
        nearness[i], records[i] = np.inf, NO_RECORD
    for number in range(len(slots.start)):
        start = slots.start[number]
        stop = start + slots.left[number]
        for first in range(start, stop, CHUNK):
            last = min(first + CHUNK, stop)
            measure(slots, first, last, centre, distances)
            for i in range(last - first):
                if -distances[i] < nearness[0]:
                    offer(nearness, records, -distances[i], slots.record[first + i])
    return float(np.sqrt(-nearness[0]))
