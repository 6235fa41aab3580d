"""Microaggregation of a stream: tuples wait in a buffer, and leave in classes of k within their delay.

A tuple is read into the buffer. If the one that came `delay` places before it is still there, it expires: it
leaves in a class with k - 1 others, all of different subjects, or is dropped where the buffer does not hold
so many. What is done to a tuple depends on those before it alone, not on how the input is cut into batches.

Held tuples lie in the first slots of the buffer, in no order, so that a scan reads what is held and nothing
else; the last one moves into the slot of one that leaves. Coordinates are stored by column, and a scan
handles several tuples an instruction. Every distance is a sum in the order of the columns, the place in the
stream last. Tuples times the size of a class are compared with its sum, and not tuples with its centroid: a
division would round, and equal distances of whole numbers are to be found equal.

Source: Domingo-Ferrer and Soria-Comas, "Steered Microaggregation", IEEE ICDM Workshops, 2017, section V,
Algorithms 2 and 3 and Note 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner, uncounted
from duckanon.kernels.neighbours.heap import NO_RECORD, ascend
from duckanon.kernels.points import LARGEST

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

CHUNK = 64

READ, HELD, FORMED = range(3)
"""Places of the counts of a buffer."""


class Buffer(NamedTuple):
    """The tuples that wait, c = delay + 1 at most, and what is asked of their classes.

    Attributes
    ----------
    columns : ndarray of shape (d, c), float64
        Quasi-identifiers by slot.
    positions : ndarray of shape (c,), int64
        Place in the stream of the tuple in each slot, from 0.
    subjects : ndarray of shape (c,), int64
        Its subject; its position where every tuple is of another one.
    slots : ndarray of shape (2^b,), int64, at least c
        At the last b bits of a position the slot of that tuple, -1 where it has left.
    counts : ndarray of shape (3,), int64
        Tuples read, tuples held, which are in the first slots, and classes formed.
    k : int
        Tuples of a class.
    delay : int
        How many tuples may come after one before it leaves.
    order_weight : float
        What a place in the stream counts, where a quasi-identifier has 1.
    grow : bool
        Whether each further tuple is the one nearest to the centroid of the class as it is by then, and not
        to the expiring tuple.
    by_subject : bool
        Whether subjects are told, of which several tuples may come.
    """

    columns: NDArray[np.float64]
    positions: NDArray[np.int64]
    subjects: NDArray[np.int64]
    slots: NDArray[np.int64]
    counts: NDArray[np.int64]
    k: int
    delay: int
    order_weight: float
    grow: bool
    by_subject: bool


class Written(NamedTuple):
    """What has left a buffer.

    Attributes
    ----------
    positions : ndarray of shape (r,), int64
        Places in the stream of the tuples put out, in the order of output: class by class, ascending in each.
    classes : ndarray of shape (r,), int64
        Class of each. Numbers count on from call to call; each has k tuples.
    dropped : ndarray of shape (q,), int64
        Places in the stream of the tuples dropped, ascending.
    """

    positions: NDArray[np.int64]
    classes: NDArray[np.int64]
    dropped: NDArray[np.int64]


class _Forming(NamedTuple):
    """The class that is being formed, and the tuples that are to join it next."""

    members: NDArray[np.int64]  # (k,), positions
    subjects: NDArray[np.int64]  # (k,)
    sums: NDArray[np.float64]  # (d,), of the coordinates of its members
    places: NDArray[np.int64]  # (1,), sum of their distances in the stream from the first
    nearest: NDArray[np.int64]  # (k - 1,), or (1,) if it grows: positions of the next, in order of distance
    distances: NDArray[np.float64]  # of the same shape, squared; infinite where there is none yet
    measured: NDArray[np.float64]  # (CHUNK,)


def open_buffer(
    attributes: int, k: int, *, delay: int, order_weight: float = 0.0, grow: bool = False,
    by_subject: bool = False,
) -> Buffer:  # fmt: skip
    """Return an empty buffer.

    Parameters
    ----------
    attributes : int
        Quasi-identifiers d, at least 0; without any, all tuples are equal.
    k : int
        Tuples of a class, at least 1.
    delay : int
        How many tuples may come after one before it leaves, at least k - 1.
    order_weight : float, default 0
        Weight of the place in the stream, finite and at least 0; see `Buffer`.
    grow : bool, default False
        See `Buffer`.
    by_subject : bool, default False
        Whether `push` gets the subject of every tuple; if not, each is of a subject of its own.

    Returns
    -------
    Buffer
        Of less than (d + 4) (delay + 1) numbers: all that is kept between two calls of `push`.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    if attributes < 0:
        raise ValueError(f"attributes must be at least 0, not {attributes}")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if delay < k - 1:
        raise ValueError(f"delay must be at least k - 1 = {k - 1} for classes of {k} tuples, not {delay}")
    if not (math.isfinite(order_weight) and order_weight >= 0.0):
        raise ValueError(f"order_weight must be a finite number of at least 0, not {order_weight}")
    capacity = delay + 1
    buffer = Buffer(
        columns=np.zeros((attributes, capacity)),
        positions=np.zeros(capacity, np.int64),
        subjects=np.zeros(capacity, np.int64),
        slots=np.full(1 << int(delay).bit_length(), -1),
        counts=np.zeros(3, np.int64),
        k=int(k), delay=int(delay), order_weight=float(order_weight), grow=bool(grow),
        by_subject=bool(by_subject),
    )  # fmt: skip
    if order_weight > _limit(buffer) / capacity:
        raise ValueError(f"order_weight exceeds {_limit(buffer) / capacity:g}: squared distances overflow")
    return buffer


def push(buffer: Buffer, points: ArrayLike, subjects: ArrayLike | None = None) -> Written:
    """Read tuples into a buffer, and return what leaves it while they come.

    Parameters
    ----------
    buffer : Buffer
        Is changed.
    points : array_like of shape (m, d)
        Quasi-identifiers of the next m tuples of the stream, 0 or more: finite numbers on the scale on which
        distances are to be taken, up to 1e150 (with `grow` divided by k).
    subjects : array_like of shape (m,), optional
        Whole number of the subject of each; given if and only if the buffer was opened `by_subject`.

    Returns
    -------
    Written
        The same, one call after the other, however the stream is cut into batches.

    Raises
    ------
    ValueError
        If the shapes do not fit or a number is out of range; the buffer is then as before.

    Notes
    -----
    A class costs a scan of what is held, O(delay d), with `grow` k - 1 of them; where tuples come in an
    unlucky order, or one is dropped because too few subjects are held, O(delay k) more. O((m + delay) d)
    memory. Deterministic: equal distances go to the tuple that came first.
    """
    matrix = _checked(buffer, points)
    count = len(matrix)
    if buffer.by_subject != (subjects is not None):
        raise ValueError("subjects must be given if the buffer is by_subject, and only then")
    first = int(buffer.counts[READ])
    numbers = np.arange(first, first + count) if subjects is None else _whole(subjects, count)
    room = int(buffer.counts[HELD]) + count
    positions, dropped = np.empty(room, np.int64), np.empty(room, np.int64)
    formed = int(buffer.counts[FORMED])
    lost = _read(buffer, _forming(buffer), matrix, numbers, positions, dropped)
    return _written(buffer, formed, positions, dropped[:lost].copy())


def finish(buffer: Buffer) -> Written:
    """Let the oldest tuple expire again and again while a class can be formed, and return what leaves.

    Parameters
    ----------
    buffer : Buffer
        Is changed. What stays in it is of fewer than k subjects: see `held`.

    Returns
    -------
    Written
        Nothing is dropped.

    Notes
    -----
    As for `push`. The paper does not have it: at the end of a stream its Algorithm 2 leaves in the buffer
    what is there.
    """
    formed, positions = int(buffer.counts[FORMED]), np.empty(int(buffer.counts[HELD]), np.int64)
    _empty(buffer, _forming(buffer), positions)
    return _written(buffer, formed, positions, np.empty(0, np.int64))


def held(buffer: Buffer) -> NDArray[np.int64]:
    """Return the places in the stream of the tuples in a buffer, ascending.

    Parameters
    ----------
    buffer : Buffer
        Is not changed.

    Returns
    -------
    ndarray of shape (h,), int64
        At most `delay` of them between two calls of `push`.
    """
    return np.sort(buffer.positions[: buffer.counts[HELD]])


def _limit(buffer: Buffer) -> float:
    """Return the largest coordinate whose squared distances, times the size of a class, are finite."""
    return LARGEST / (buffer.k if buffer.grow else 1)


def _checked(buffer: Buffer, points: ArrayLike) -> NDArray[np.float64]:
    """Return the points, or a copy if they are read-only: for such numba would compile all once more."""
    matrix = np.require(points, np.float64, ["C", "W"])
    if matrix.ndim != 2 or matrix.shape[1] != len(buffer.columns):
        columns = f"{len(buffer.columns)} columns"
        raise ValueError(f"points must be a matrix of {columns}, one row a tuple, not {matrix.shape}")
    limit = _limit(buffer)
    if not (matrix.min(initial=0.0) >= -limit and matrix.max(initial=0.0) <= limit):
        row, column = np.argwhere(~(np.abs(matrix) <= limit))[0]
        value = matrix[row, column]
        raise ValueError(f"points hold {value} in row {row}, column {column}: not within {limit:g}")
    return matrix


def _whole(subjects: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return a copy of the subjects of so many tuples."""
    numbers = np.asarray(subjects)
    if numbers.shape != (count,):
        raise ValueError(f"subjects must hold one a tuple, of shape ({count},), not {numbers.shape}")
    if count and not np.can_cast(numbers.dtype, np.int64):
        raise ValueError(f"subjects must be whole numbers of 64 bits, not {numbers.dtype}: number them")
    return numbers.astype(np.int64)


def _forming(buffer: Buffer) -> _Forming:
    """Return room for a class."""
    wanted = min(1, buffer.k - 1) if buffer.grow else buffer.k - 1
    return _Forming(
        members=np.empty(buffer.k, np.int64),
        subjects=np.empty(buffer.k, np.int64),
        sums=np.empty(len(buffer.columns)),
        places=np.empty(1, np.int64),
        nearest=np.empty(wanted, np.int64),
        distances=np.empty(wanted),
        measured=np.empty(CHUNK),
    )


def _written(
    buffer: Buffer, formed: int, positions: NDArray[np.int64], dropped: NDArray[np.int64]
) -> Written:
    """Return the classes that were formed since there were `formed`."""
    classes = np.arange(formed, buffer.counts[FORMED]).repeat(buffer.k)
    return Written(positions[: len(classes)].copy(), classes, dropped)


@compiled
def _read(
    buffer: Buffer, forming: _Forming, points: NDArray[np.float64], subjects: NDArray[np.int64],
    written: NDArray[np.int64], dropped: NDArray[np.int64],
) -> int:  # fmt: skip
    """Read tuples one by one; write the positions put out and dropped, and return how many are dropped."""
    mask, out, lost = len(buffer.slots) - 1, 0, 0
    for i in range(len(points)):
        _hold(buffer, points[i], subjects[i])
        expiring = buffer.counts[READ] - 1 - buffer.delay
        if buffer.slots[expiring & mask] < 0:
            continue  # it has left, or is from before the beginning
        if _enough(buffer, forming):
            _form(buffer, forming, expiring)
            for j in range(buffer.k):
                written[out + j] = forming.members[j]
            out += buffer.k
        else:
            _remove(buffer, buffer.slots[expiring & mask])
            dropped[lost] = expiring
            lost += 1
    return lost


@compiled
def _empty(buffer: Buffer, forming: _Forming, written: NDArray[np.int64]) -> None:
    """Form classes around the oldest tuple while there are enough; write the positions put out."""
    mask, out = len(buffer.slots) - 1, 0
    read = buffer.counts[READ]
    for oldest in range(read - buffer.delay, read):
        if buffer.slots[oldest & mask] < 0:
            continue
        if not _enough(buffer, forming):
            return
        _form(buffer, forming, oldest)
        for j in range(buffer.k):
            written[out + j] = forming.members[j]
        out += buffer.k


@uncounted
def _hold(buffer: Buffer, point: NDArray[np.float64], subject: int) -> None:
    """Put the next tuple of the stream into the first free slot. O(d)."""
    slot, position = buffer.counts[HELD], buffer.counts[READ]
    for j in range(len(point)):
        buffer.columns[j, slot] = point[j]
    buffer.positions[slot], buffer.subjects[slot] = position, subject
    buffer.slots[position & (len(buffer.slots) - 1)] = slot
    buffer.counts[HELD] += 1
    buffer.counts[READ] += 1


@uncounted
def _remove(buffer: Buffer, hole: int) -> None:
    """Take a tuple out of its slot, into which the last one held moves. O(d)."""
    mask = len(buffer.slots) - 1
    buffer.counts[HELD] -= 1
    last = buffer.counts[HELD]
    buffer.slots[buffer.positions[hole] & mask] = -1
    if hole == last:
        return
    for j in range(len(buffer.columns)):
        buffer.columns[j, hole] = buffer.columns[j, last]
    buffer.positions[hole], buffer.subjects[hole] = buffer.positions[last], buffer.subjects[last]
    buffer.slots[buffer.positions[hole] & mask] = hole


@uncounted
def _enough(buffer: Buffer, forming: _Forming) -> bool:
    """Tell whether tuples of k different subjects are held. At worst O(held k)."""
    if not buffer.by_subject or buffer.counts[HELD] < buffer.k:
        return bool(buffer.counts[HELD] >= buffer.k)
    found = 0
    for slot in range(buffer.counts[HELD]):
        if not _among(buffer.subjects[slot], forming.subjects, found):
            forming.subjects[found] = buffer.subjects[slot]
            found += 1
            if found == buffer.k:
                return True
    return False


@uncounted
def _among(number: int, numbers: NDArray[np.int64], count: int) -> bool:
    """Tell whether a number is one of the first `count`."""
    place = 0
    while place < count and numbers[place] != number:
        place += 1
    return place < count


@inner
def _form(buffer: Buffer, forming: _Forming, expiring: int) -> None:
    """Take k tuples of different subjects out of the buffer, the expiring one first; there are enough."""
    for j in range(len(forming.sums)):
        forming.sums[j] = 0.0
    forming.places[0] = 0
    forming.members[0] = expiring
    _join(buffer, forming, 0)
    size = 1
    while size < buffer.k:
        _find(buffer, forming, size)
        for i in range(len(forming.nearest)):
            forming.members[size] = forming.nearest[i]
            _join(buffer, forming, size)
            size += 1
    ascend(forming.members)
    buffer.counts[FORMED] += 1


@uncounted
def _join(buffer: Buffer, forming: _Forming, place: int) -> None:
    """Move a member of the class, given by its position, out of the buffer. O(d)."""
    position = forming.members[place]
    slot = buffer.slots[position & (len(buffer.slots) - 1)]
    for j in range(len(forming.sums)):
        forming.sums[j] += buffer.columns[j, slot]
    forming.places[0] += position - forming.members[0]
    forming.subjects[place] = buffer.subjects[slot]
    _remove(buffer, slot)


@uncounted
def _find(buffer: Buffer, forming: _Forming, size: int) -> None:
    """Write the next members, those nearest to the centroid of the `size` there are, of other subjects."""
    distances, nearest, measured = forming.distances, forming.nearest, forming.measured
    for i in range(len(nearest)):
        distances[i], nearest[i] = np.inf, NO_RECORD
    last, stop = len(nearest) - 1, buffer.counts[HELD]
    for first in range(0, stop, CHUNK):
        count = min(CHUNK, stop - first)
        _measure(buffer, forming, size, first, count)
        for i in range(count):
            if measured[i] <= distances[last]:
                place = last
                if buffer.by_subject:
                    place = _place(buffer, forming, size, buffer.subjects[first + i])
                _insert(forming, place, measured[i], buffer.positions[first + i])


@uncounted
def _insert(forming: _Forming, place: int, distance: float, position: int) -> None:
    """Put a tuple among the nearest, by distance and then position, for that in a place if it is worse."""
    distances, nearest = forming.distances, forming.nearest
    if (
        place < 0
        or distance > distances[place]
        or (distance == distances[place] and position > nearest[place])
    ):
        return
    while place > 0 and (
        distance < distances[place - 1]
        or (distance == distances[place - 1] and position < nearest[place - 1])
    ):
        distances[place], nearest[place] = distances[place - 1], nearest[place - 1]
        place -= 1
    distances[place], nearest[place] = distance, position


@uncounted
def _measure(buffer: Buffer, forming: _Forming, size: int, first: int, count: int) -> None:
    """Write squared distances, times the square of its size, from the centroid of the class; CHUNK at most.

    Places are counted from the expiring tuple: however long the stream is, their differences are exact.
    """
    measured, positions = forming.measured[:count], buffer.positions[first : first + count]
    for i in range(count):
        measured[i] = 0.0
    for j in range(len(forming.sums)):
        # Parts of arrays, for an index that might be negative keeps the loop from being vectorised.
        column, total = buffer.columns[j, first : first + count], forming.sums[j]
        for i in range(count):
            difference = size * column[i] - total
            measured[i] += difference * difference
    if buffer.order_weight > 0.0:
        expiring, places = forming.members[0], forming.places[0]
        for i in range(count):
            difference = (size * (positions[i] - expiring) - places) * buffer.order_weight
            measured[i] += difference * difference


@uncounted
def _place(buffer: Buffer, forming: _Forming, size: int, subject: int) -> int:
    """Return which of the nearest a tuple may replace: the one of its subject, or else the last.

    It is -1, for none, if the class has the subject.
    """
    if _among(subject, forming.subjects, size):
        return -1
    mask = len(buffer.slots) - 1
    for i in range(len(forming.nearest)):
        if forming.nearest[i] == NO_RECORD:
            break
        if buffer.subjects[buffer.slots[forming.nearest[i] & mask]] == subject:
            return i
    return len(forming.nearest) - 1
