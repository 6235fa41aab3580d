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

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.castle.clusters import (
    CLASSES_FORMED,
    CLASSES_PUBLIC,
    CLUSTERS_OPEN,
    NO_PLACE,
    TUPLES_HELD,
    TUPLES_READ,
    Castle,
    enough,
    hold,
    merge,
    take,
    under_tau,
    within,
)
from duckanon.kernels.compiled import compiled, inner

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


class CastleOutput(NamedTuple):
    """What has left, in the order of output."""

    positions: NDArray[np.int64]  # (r,), places in the stream: class after class, ascending in each
    classes: NDArray[np.int64]  # (r,), class whose ranges the tuple gets; numbers count on from call to call
    times: NDArray[np.int64]  # (r,), place of the last tuple read before this tuple left
    # (r,), whether the tuple came after its class had left with tuples of k subjects
    alone: NDArray[np.bool_]
    lows: NDArray[np.float64]  # (r, d), ranges of the class
    highs: NDArray[np.float64]  # (r, d)
    dropped: NDArray[np.int64]  # (q,), places in the stream of the dropped tuples, ascending
    # (q,), whether k subjects were held, but most clusters were larger than the tuple's own
    unlike: NDArray[np.bool_]


class Parting(NamedTuple):
    """The members of a cluster that leaves, n at most, and their classes."""

    members: NDArray[np.int64]  # (1,), how many there are
    slots: NDArray[np.int64]  # (n,), by place in the stream
    buckets: NDArray[np.int64]  # (n,), of its subject: numbered from 0 in the order of their first members
    firsts: NDArray[np.int64]  # (n,), first member of each bucket
    left: NDArray[np.int64]  # (n,), members of each bucket that have no class yet
    looked: NDArray[np.int64]  # (n,), the class for which each bucket was looked at last
    parts: NDArray[np.int64]  # (n,), class of each member, -1 for none yet
    lows: NDArray[np.float64]  # (n / k + 1, d), of each class
    highs: NDArray[np.float64]
    nearest: NDArray[np.int64]  # (k - 1,), members that are to join the class
    distances: NDArray[np.float64]  # (k - 1,)


def parting_of(castle: Castle) -> Parting:
    """Return room for a cluster that leaves."""
    count, parts = castle.delay + 1, ((castle.delay + 1) // castle.k + 1, castle.points.shape[1])
    slots, buckets, firsts, left, looked, classes = (np.empty(count, np.int64) for _ in range(6))
    return Parting(
        np.zeros(1, np.int64), slots, buckets, firsts, left, looked, classes,
        np.empty(parts), np.empty(parts), np.empty(castle.k - 1, np.int64), np.empty(castle.k - 1),
    )  # fmt: skip


@inner
def gather(castle: Castle, parting: Parting, home: int) -> int:
    """Write the members of a cluster and their number; return the number of their subjects."""
    mask, members, buckets = len(castle.homes) - 1, 0, 0
    read = castle.counts[TUPLES_READ]
    for position in range(max(0, read - 1 - castle.delay), read):
        slot = position & mask
        if castle.homes[slot] != home:
            continue
        bucket = 0 if castle.by_subject else buckets
        while bucket < buckets and (
            castle.subjects[parting.slots[parting.firsts[bucket]]] != castle.subjects[slot]
        ):
            bucket += 1
        if bucket == buckets:
            parting.firsts[bucket], parting.left[bucket], parting.looked[bucket] = members, 0, NO_PLACE
            buckets += 1
        parting.slots[members], parting.buckets[members] = slot, bucket
        parting.parts[members] = NO_PLACE
        parting.left[bucket] += 1
        members += 1
    parting.members[0] = members
    return buckets


@compiled
def leave(castle: Castle, parting: Parting, home: int, room: CastleOutput, written: int) -> int:
    """Let a cluster of at least k subjects leave, split if it has 2k; return how many tuples are written."""
    buckets = gather(castle, parting, home)
    members = parting.members[0]
    classes = _split(castle, parting, members, buckets) if buckets >= 2 * castle.k else 0
    if classes == 0:
        classes = 1
        for i in range(members):
            parting.parts[i] = 0
    mask, end = len(castle.homes) - 1, castle.counts[TUPLES_READ]
    out = written
    for part in range(classes):
        _reach(castle, parting, members, part)
        for i in range(members):
            if parting.parts[i] == part:
                slot = parting.slots[i]
                position = end - 1 - ((end - 1 - slot) & mask)
                write(
                    castle, room, out, position, castle.counts[CLASSES_FORMED], False,
                    parting.lows[part], parting.highs[part],
                )  # fmt: skip
                castle.homes[slot] = NO_PLACE
                out += 1
        _publish(castle, parting.lows[part], parting.highs[part])
    castle.counts[TUPLES_HELD] -= members
    castle.sizes[home] = 0
    castle.counts[CLUSTERS_OPEN] -= 1
    return out - written


@inner
def write(
    castle: Castle, room: CastleOutput, place: int, position: int, number: int, alone: bool,
    lows: NDArray[np.float64], highs: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write a tuple that leaves."""
    room.positions[place], room.classes[place] = position, number
    room.times[place], room.alone[place] = castle.counts[TUPLES_READ] - 1, alone
    for j in range(len(lows)):
        room.lows[place, j], room.highs[place, j] = lows[j], highs[j]


@inner
def _publish(castle: Castle, lows: NDArray[np.float64], highs: NDArray[np.float64]) -> None:
    """Count a class and its loss; keep the class for use again if its loss is below tau."""
    loss = 0.0
    for j in range(len(lows)):
        loss += highs[j] - lows[j]
    castle.losses[castle.counts[CLASSES_FORMED] % len(castle.losses)] = loss
    castle.counts[CLASSES_FORMED] += 1
    if under_tau(castle, loss) > 0.0:
        place = castle.counts[CLASSES_PUBLIC] % len(castle.public_classes)
        for j in range(len(lows)):
            castle.public_lows[place, j], castle.public_highs[place, j] = lows[j], highs[j]
        castle.public_classes[place] = castle.counts[CLASSES_FORMED] - 1
        castle.counts[CLASSES_PUBLIC] += 1


@inner
def _split(castle: Castle, parting: Parting, members: int, buckets: int) -> int:
    """Write the class of each member of a cluster; return how many classes there are."""
    # A class is the earliest member and the k - 1 members nearest to it, each the earliest of another
    # subject. When fewer than k subjects are left, all members of each go to the class that its earliest
    # tuple widens least.
    left, part = buckets, 0
    while left >= castle.k:
        left -= _pick(castle, parting, members, part)
        part += 1
    for i in range(part):
        _reach(castle, parting, members, i)
    for i in range(members):
        if parting.parts[i] != NO_PLACE:
            continue
        best, least = NO_PLACE, np.inf
        for other in range(part):
            widened = 0.0
            for j in range(castle.points.shape[1]):
                value = castle.points[parting.slots[i], j]
                widened += max(0.0, parting.lows[other, j] - value)
                widened += max(0.0, value - parting.highs[other, j])
            if best == NO_PLACE or widened < least:
                best, least = other, widened
        for other in range(i, members):
            if parting.parts[other] == NO_PLACE and parting.buckets[other] == parting.buckets[i]:
                parting.parts[other] = best
                _widen(castle, parting, other, best)
    return part


@inner
def _pick(castle: Castle, parting: Parting, members: int, part: int) -> int:
    """Give a class its first k members; return of how many subjects no member is left."""
    first, last, done = NO_PLACE, castle.k - 1, 0
    for i in range(last):
        parting.nearest[i], parting.distances[i] = NO_PLACE, np.inf
    for i in range(members):
        if parting.parts[i] != NO_PLACE or parting.looked[parting.buckets[i]] == part:
            continue
        parting.looked[parting.buckets[i]] = part
        if first == NO_PLACE:
            first = i
            continue
        distance = 0.0
        for j in range(castle.points.shape[1]):
            distance += abs(castle.points[parting.slots[i], j] - castle.points[parting.slots[first], j])
        place = last
        while place > 0 and distance < parting.distances[place - 1]:
            place -= 1
        if place < last:
            for other in range(last - 1, place, -1):
                parting.nearest[other] = parting.nearest[other - 1]
                parting.distances[other] = parting.distances[other - 1]
            parting.nearest[place], parting.distances[place] = i, distance
    for i in range(castle.k):
        member = first if i == last else parting.nearest[i]
        parting.parts[member] = part
        parting.left[parting.buckets[member]] -= 1
        done += parting.left[parting.buckets[member]] == 0
    return done


@inner
def _reach(castle: Castle, parting: Parting, members: int, part: int) -> None:
    """Write the ranges of a class."""
    for j in range(castle.points.shape[1]):
        parting.lows[part, j], parting.highs[part, j] = np.inf, -np.inf
    for i in range(members):
        if parting.parts[i] == part:
            _widen(castle, parting, i, part)


@inner
def _widen(castle: Castle, parting: Parting, member: int, part: int) -> None:
    """Widen the ranges of a class by a member."""
    for j in range(castle.points.shape[1]):
        value = castle.points[parting.slots[member], j]
        parting.lows[part, j] = min(parting.lows[part, j], value)
        parting.highs[part, j] = max(parting.highs[part, j], value)
