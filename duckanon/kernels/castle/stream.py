"""CASTLE: tuples of a stream wait in clusters, which leave as ranges within a delay and may be used again.

A tuple is read into the cluster whose ranges it widens least, or into a new cluster. If the tuple that came
`delay` places before is still held, that tuple expires. Four cases follow:

- Its cluster has tuples of k subjects: the cluster leaves.
- The tuple lies within the ranges of a class that left before: it leaves alone with these ranges, which are
  public already.
- Most clusters have more subjects than its own cluster: the tuple is dropped.
- Otherwise: its cluster is merged with others until it has k subjects, and leaves.

A cluster of 2k subjects or more leaves in several classes. What happens to a tuple depends only on the tuples
before it, not on how the input is cut into batches.

A tuple costs O(clusters d), and O(delay) more with subjects. A tuple that expires costs O((delay + reusable)
d). A cluster of n tuples that leaves costs O(n^2 d / k). Deterministic: the earliest among equals is taken,
where the paper takes any cluster or tuple.

Source: Cao, Carminati, Ferrari and Tan, "CASTLE: Continuously Anonymizing Data Streams", IEEE Transactions on
Dependable and Secure Computing 8(3), 2011: best selection, delay constraint, output, split and merge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.castle.classes import CastleOutput, Parting, gather, leave, parting_of, write
from duckanon.kernels.castle.clusters import (
    CLUSTERS_OPEN,
    NO_PLACE,
    TUPLES_HELD,
    TUPLES_READ,
    Castle,
    enough,
    hold,
    merge,
    take,
    within,
)
from duckanon.kernels.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

COORDINATE_MAX = 1e150
"""Largest coordinate: sums of widths are finite."""


def push(castle: Castle, points: ArrayLike, subjects: ArrayLike | None = None) -> CastleOutput:
    """Read tuples (m, d), m >= 0, into the clusters, which change; return what leaves meanwhile."""
    # The points are finite, at most 1e150, on the scale on which widths are added. Subjects (m,), int64, are
    # given if and only if the clusters were opened `by_subject`. ValueError leaves the clusters unchanged.
    matrix = np.require(points, np.float64, ["C", "W"])
    if matrix.ndim != 2 or matrix.shape[1] != castle.points.shape[1]:
        raise ValueError(f"points must be of shape (m, {castle.points.shape[1]}), not {matrix.shape}")
    if not np.abs(matrix).max(initial=0.0) <= COORDINATE_MAX:
        raise ValueError(f"points must be finite numbers within {COORDINATE_MAX:g}")
    if castle.by_subject != (subjects is not None):
        raise ValueError("subjects must be given if the clusters are by_subject, and only then")
    first = int(castle.counts[TUPLES_READ])
    numbers = np.arange(first, first + len(matrix)) if subjects is None else np.array(subjects)
    if numbers.shape != (len(matrix),) or (len(numbers) and not np.can_cast(numbers.dtype, np.int64)):
        raise ValueError(f"subjects must be one whole number a tuple, of shape ({len(matrix)},)")
    room = _room(castle, int(castle.counts[TUPLES_HELD]) + len(matrix))
    written, lost = _read(castle, parting_of(castle), matrix, numbers.astype(np.int64), room)
    return _cut(room, written, lost)


def finish(castle: Castle) -> CastleOutput:
    """Let every tuple expire, the oldest first; return what leaves."""
    # What stays (see `held`) found no class and has fewer than k subjects. Not in the paper, whose streams
    # are endless.
    room = _room(castle, int(castle.counts[TUPLES_HELD]))
    written, lost = _empty(castle, parting_of(castle), room)
    return _cut(room, written, lost)


def held(castle: Castle) -> NDArray[np.int64]:
    """Return the places in the stream of the tuples that wait, ascending; at most `delay` between calls."""
    read = int(castle.counts[TUPLES_READ])
    places = np.arange(max(0, read - castle.delay - 1), read)
    return np.asarray(places[castle.homes[places & (len(castle.homes) - 1)] != NO_PLACE])


def public(castle: Castle) -> NDArray[np.int64]:
    """Return the numbers of the classes that may be used again, ascending."""
    return np.sort(castle.public_classes[castle.public_classes != NO_PLACE])


def _room(castle: Castle, count: int) -> CastleOutput:
    """Return room for what leaves."""
    ranges = (count, castle.points.shape[1])
    return CastleOutput(
        np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64),
        np.empty(count, np.bool_), np.empty(ranges), np.empty(ranges), np.empty(count, np.int64),
        np.empty(count, np.bool_),
    )  # fmt: skip


def _cut(room: CastleOutput, written: int, lost: int) -> CastleOutput:
    """Return the part of the room that was used."""
    return CastleOutput(
        room.positions[:written].copy(), room.classes[:written].copy(), room.times[:written].copy(),
        room.alone[:written].copy(), room.lows[:written].copy(), room.highs[:written].copy(),
        room.dropped[:lost].copy(), room.unlike[:lost].copy(),
    )  # fmt: skip


@compiled
def _read(
    castle: Castle,
    parting: Parting,
    points: NDArray[np.float64],
    subjects: NDArray[np.int64],
    room: CastleOutput,
) -> tuple[int, int]:
    """Read tuples one by one; return how many are written and how many are dropped."""
    mask, written, lost = len(castle.homes) - 1, 0, 0
    for i in range(len(points)):
        hold(castle, points[i], subjects[i])
        expiring = castle.counts[TUPLES_READ] - 1 - castle.delay
        if expiring >= 0 and castle.homes[expiring & mask] != NO_PLACE:
            more = _expire(castle, parting, expiring, room, written)
            if more == 0:
                room.dropped[lost], room.unlike[lost] = expiring, enough(castle, parting.firsts)
                take(castle, expiring & mask)
                lost += 1
            written += more
    return written, lost


@compiled
def _empty(castle: Castle, parting: Parting, room: CastleOutput) -> tuple[int, int]:
    """Let all held tuples expire; return how many are written and how many are dropped."""
    mask, written, lost = len(castle.homes) - 1, 0, 0
    read = castle.counts[TUPLES_READ]
    for oldest in range(max(0, read - castle.delay), read):
        if castle.homes[oldest & mask] == NO_PLACE:
            continue
        more = _expire(castle, parting, oldest, room, written)
        if more == 0 and enough(castle, parting.firsts):
            room.dropped[lost], room.unlike[lost] = oldest, True
            take(castle, oldest & mask)
            lost += 1
        written += more
    return written, lost


@compiled
def _expire(castle: Castle, parting: Parting, position: int, room: CastleOutput, written: int) -> int:
    """Let a tuple leave, alone or with its cluster; return how many are written, 0 if it cannot leave."""
    slot = position & (len(castle.homes) - 1)
    home = castle.homes[slot]
    if castle.sizes[home] < castle.k:
        place = within(castle, slot)
        if place != NO_PLACE:
            write(
                castle, room, written, position, castle.public_classes[place], True,
                castle.public_lows[place], castle.public_highs[place],
            )  # fmt: skip
            take(castle, slot)
            return 1
        larger = 0
        for other in range(len(castle.sizes)):
            larger += castle.sizes[other] > castle.sizes[home]
        if 2 * larger > castle.counts[CLUSTERS_OPEN] or not enough(castle, parting.firsts):
            return 0
        while gather(castle, parting, home) < castle.k:
            merge(castle, home)
    return leave(castle, parting, home, room, written)
