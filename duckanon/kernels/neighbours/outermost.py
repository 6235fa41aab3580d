"""The record farthest from a centre that moves slowly, while records leave: exact, seldom over all records.

The outermost records are those that were farthest from an earlier centre, the anchor. Every other record lies
within a radius of the anchor, and so, by the triangle inequality, within radius + |centre - anchor| of the
centre. If some outermost record is farther than that, the farthest outermost record is the farthest of all.
Otherwise the search tree answers. Now and then the outermost records are searched anew. The nearer the centre
is to the centres of the last queries, the faster a query is.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.neighbours.boxtree import BoxTree, farthest
from duckanon.kernels.neighbours.heap import NO_RECORD, offer
from duckanon.kernels.neighbours.slots import CHUNK_SLOTS, Slots, farthest_in, measure, remove

if TYPE_CHECKING:
    from numpy.typing import NDArray

BOUND_SAFETY_FACTOR = 1.0 + 1e-9
"""Factor on the bound: far above the rounding of a distance, and too small to cost time."""
QUERIES_A_RENEWAL = 8
"""Queries between two renewals: this many searches of the tree cost about as much as a renewal."""


class Outermost(NamedTuple):
    """The records that were farthest from the anchor."""

    slots: Slots  # these records in one bin; `slots.slot` is -1 for the others
    anchor: NDArray[np.float64]  # (d,), the centre from which they were farthest
    # (1,), no other record is farther from the anchor; negative if there is no other
    radius: NDArray[np.float64]
    age: NDArray[np.int64]  # (1,), queries since they were searched


def empty_outermost(n: int, d: int) -> Outermost:
    """Return memory for about 4 sqrt(n) records in d columns; the first query searches the records."""
    most = min(n, 4 * isqrt(n) + CHUNK_SLOTS)
    one = np.zeros(1, np.int64)
    places = np.zeros(most, np.int64)
    slots = Slots(np.zeros((d, most)), places, np.full(n, -1), places.copy(), one, one.copy())
    return Outermost(slots, np.zeros(d), np.full(1, np.inf), np.full(1, QUERIES_A_RENEWAL))


@compiled
def discard(outermost: Outermost, records: NDArray[np.int64]) -> None:
    """Remove records that leave the tree, if they are among the outermost. O(d) each."""
    for record in records:
        if outermost.slots.slot[record] >= 0:
            remove(outermost.slots, record)
            outermost.slots.slot[record] = -1


@compiled
def farthest_from_centre(outermost: Outermost, tree: BoxTree, centre: NDArray[np.float64]) -> int:
    """Return the record left in the tree that is farthest from the centre (d,): `farthest(tree, centre)`."""
    outermost.age[0] += 1
    start = outermost.slots.start[0]
    best_distance, best_record = farthest_in(outermost.slots, start, start + outermost.slots.left[0], centre)
    moved = 0.0
    for j in range(len(centre)):
        difference = centre[j] - outermost.anchor[j]
        moved += difference * difference
    bound = (outermost.radius[0] + np.sqrt(moved)) * BOUND_SAFETY_FACTOR
    if outermost.radius[0] < 0.0 or best_distance > bound * bound:
        return best_record
    if outermost.age[0] > QUERIES_A_RENEWAL:
        _renew(outermost, tree, centre)
    return farthest(tree, centre)


@compiled
def _renew(outermost: Outermost, tree: BoxTree, centre: NDArray[np.float64]) -> None:
    """Search the records of the tree that are farthest from the centre."""
    for at in range(outermost.slots.left[0]):
        outermost.slots.slot[outermost.slots.record[at]] = -1
    size = min(len(outermost.slots.record), tree.left[0])
    radius = _farthest_records(tree.slots, centre, outermost.slots.record[:size])
    for at in range(size):
        record = outermost.slots.record[at]
        outermost.slots.slot[record] = at
        for j in range(len(centre)):
            outermost.slots.columns[j, at] = tree.slots.columns[j, tree.slots.slot[record]]
    outermost.slots.left[0] = size
    for j in range(len(centre)):
        outermost.anchor[j] = centre[j]
    outermost.radius[0] = -1.0 if size == tree.left[0] else radius
    outermost.age[0] = 0


@compiled
def _farthest_records(slots: Slots, centre: NDArray[np.float64], records: NDArray[np.int64]) -> float:
    """Fill `records` with the farthest records; return the least of their distances."""
    nearness, distances = np.empty(len(records)), np.empty(CHUNK_SLOTS)
    for i in range(len(records)):
        nearness[i], records[i] = np.inf, NO_RECORD
    for number in range(len(slots.start)):
        start = slots.start[number]
        stop = start + slots.left[number]
        for first in range(start, stop, CHUNK_SLOTS):
            last = min(first + CHUNK_SLOTS, stop)
            measure(slots, first, last, centre, distances)
            for i in range(last - first):
                if -distances[i] < nearness[0]:
                    offer(nearness, records, -distances[i], slots.record[first + i])
    return float(np.sqrt(-nearness[0]))
