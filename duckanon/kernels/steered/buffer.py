"""The tuples of a stream that wait, and the class in which a tuple leaves.

Held tuples lie in the first slots of the buffer, in no order, so that a scan reads held tuples only. A tuple
that leaves changes places with the last held tuple. So the members of a class that is being formed lie right
behind the held tuples, and can be put back by a count if the class cannot leave. Coordinates are stored by
column, so that an instruction handles several tuples.

A tuple leaves with the tuples most like it, of different subjects. Every distance is a sum in the order of
the columns, with the place in the stream last. A tuple times the size of the class is compared with the sum
of the class, instead of the tuple with the centroid. A division would round, and equal distances of whole
numbers have to be found equal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner
from duckanon.kernels.neighbours.slots import NO_RECORD, ascend
from duckanon.kernels.points import COORDINATE_MAX
from duckanon.kernels.steered.closeness import ahead, excess, look_ahead, missing
from duckanon.kernels.steered.seen import AttributeLimit, Seen, enter, forget, seen_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TUPLES_READ, TUPLES_HELD, CLASSES_FORMED = range(3)
"""Places of the counts of a buffer."""


class Waiting(NamedTuple):
    """The tuples that wait, c = delay + 1 at most, and the requirements on their classes except t and l."""

    columns: NDArray[np.float64]  # (d, c), quasi-identifiers by slot
    positions: NDArray[np.int64]  # (c,), place in the stream of the tuple in each slot, from 0
    # (c,), subject of that tuple; its position if every tuple is of another subject
    subjects: NDArray[np.int64]
    # (2^b,), at least c: at the last b bits of a position the slot of that tuple, -1 if it has left
    slots: NDArray[np.int64]
    counts: NDArray[np.int64]  # (3,): tuples read; tuples held, which are in the first slots; classes formed
    codes: NDArray[np.int64]  # (S, c), sensitive values of the tuple in each slot
    k: int  # least tuples of a class; exactly k if nothing is required of sensitive values
    delay: int  # tuples that may come after a tuple before it leaves
    order_weight: float  # weight of a place in the stream; a quasi-identifier has 1
    # whether the next member is the tuple nearest to the centroid of the class so far, not to the expiring
    # tuple
    grow: bool
    by_subject: bool  # whether tuples carry a subject; several tuples may have the same


class Buffer(NamedTuple):
    """The waiting tuples, and the distribution of the sensitive values that were read."""

    # Compiled functions take the two separately: a call copies all arrays of its arguments.

    waiting: Waiting
    seen: Seen

    @property
    def counts(self) -> NDArray[np.int64]:
        """Tuples read, tuples held, and classes formed."""
        return self.waiting.counts


def open_buffer(
    attributes: int, k: int, *, delay: int, order_weight: float = 0.0, grow: bool = False,
    by_subject: bool = False, asked: Sequence[AttributeLimit] = (), window: int = 0,
) -> Buffer:  # fmt: skip
    """Return an empty buffer; ValueError if a number is out of range."""
    # d = `attributes` >= 0 (without any, all tuples are equal), k >= 1, delay >= k - 1, `order_weight` finite
    # and >= 0. `asked` has the requirements on each sensitive attribute. A class is compared with the last
    # `window` tuples read, at least delay + 1; 0 means all. All that is kept between two calls of `push` are
    # fewer than (d + S + 4) (delay + 1) numbers, and those of `Seen`.
    if attributes < 0:
        raise ValueError(f"attributes must be at least 0, not {attributes}")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if delay < k - 1:
        raise ValueError(f"delay must be at least k - 1 = {k - 1} for classes of {k} tuples, not {delay}")
    if not (math.isfinite(order_weight) and order_weight >= 0.0):
        raise ValueError(f"order_weight must be a finite number of at least 0, not {order_weight}")
    capacity = delay + 1
    if window and window < capacity:
        raise ValueError(f"window must be at least delay + 1 = {capacity}, or 0 for all, not {window}")
    waiting = Waiting(
        columns=np.zeros((attributes, capacity)),
        positions=np.zeros(capacity, np.int64),
        subjects=np.zeros(capacity, np.int64),
        slots=np.full(1 << int(delay).bit_length(), -1),
        counts=np.zeros(3, np.int64),
        codes=np.zeros((len(asked), capacity), np.int64),
        k=int(k), delay=int(delay), order_weight=float(order_weight), grow=bool(grow),
        by_subject=bool(by_subject),
    )  # fmt: skip
    if order_weight > limit_of(waiting) / capacity:
        raise ValueError(f"order_weight exceeds {limit_of(waiting) / capacity:g}: squared distances overflow")
    return Buffer(waiting, seen_of(asked, window))


def held(buffer: Buffer) -> NDArray[np.int64]:
    """Return the places in the stream of the held tuples, ascending; between calls of `push` <= `delay`."""
    return np.sort(buffer.waiting.positions[: buffer.counts[TUPLES_HELD]])


def limit_of(waiting: Waiting) -> float:
    """Return the largest coordinate for which squared distances times the class size stay finite."""
    if len(waiting.codes):
        return COORDINATE_MAX / (waiting.delay + 1)
    return COORDINATE_MAX / (waiting.k if waiting.grow else 1)


@inner
def hold(waiting: Waiting, point: NDArray[np.float64], subject: int) -> None:
    """Put the next tuple of the stream into the first free slot. O(d)."""
    slot, position = waiting.counts[TUPLES_HELD], waiting.counts[TUPLES_READ]
    for j in range(len(point)):
        waiting.columns[j, slot] = point[j]
    waiting.positions[slot], waiting.subjects[slot] = position, subject
    waiting.slots[position & (len(waiting.slots) - 1)] = slot
    waiting.counts[TUPLES_HELD] += 1
    waiting.counts[TUPLES_READ] += 1


@inner
def put_codes(waiting: Waiting, codes: NDArray[np.int64], i: int) -> None:
    """Write the sensitive values of the tuple that was held last, column i of codes. O(S)."""
    for s in range(len(codes)):
        waiting.codes[s, waiting.counts[TUPLES_HELD] - 1] = codes[s, i]


@inner
def remove(waiting: Waiting, slot: int) -> None:
    """Take a tuple out of the buffer; it changes places with the last held tuple. O(d + S)."""
    mask = len(waiting.slots) - 1
    waiting.counts[TUPLES_HELD] -= 1
    last = waiting.counts[TUPLES_HELD]
    waiting.slots[waiting.positions[slot] & mask] = -1
    if slot == last:
        return
    for j in range(len(waiting.columns)):
        column = waiting.columns[j]
        column[slot], column[last] = column[last], column[slot]
    positions, subjects, codes = waiting.positions, waiting.subjects, waiting.codes
    positions[slot], positions[last] = positions[last], positions[slot]
    subjects[slot], subjects[last] = subjects[last], subjects[slot]
    for j in range(len(codes)):
        codes[j, slot], codes[j, last] = codes[j, last], codes[j, slot]
    waiting.slots[positions[slot] & mask] = slot


@inner
def put_back(waiting: Waiting, count: int) -> None:
    """Let the last `count` tuples that were taken out be held again."""
    first = waiting.counts[TUPLES_HELD]
    for slot in range(first, first + count):
        waiting.slots[waiting.positions[slot] & (len(waiting.slots) - 1)] = slot
    waiting.counts[TUPLES_HELD] += count


CHUNK_SLOTS = 64


class Forming(NamedTuple):
    """The class that is being formed, and the tuples that join it next."""

    members: NDArray[np.int64]  # (k,), or (delay + 1,) if a class may be larger: positions
    subjects: NDArray[np.int64]  # of the same shape
    sums: NDArray[np.float64]  # (d,), of the coordinates of its members
    places: NDArray[np.int64]  # (1,), sum of their distances in the stream from the first
    nearest: NDArray[np.int64]  # (k - 1,), or (1,) if it grows: positions of the next, in order of distance
    distances: NDArray[np.float64]  # of the same shape, squared; infinite where there is none yet
    measured: NDArray[np.float64]  # (CHUNK_SLOTS,)


def forming_of(waiting: Waiting) -> Forming:
    """Return room for a class."""
    wanted = min(1, waiting.k - 1) if waiting.grow else waiting.k - 1
    most = waiting.delay + 1 if len(waiting.codes) else waiting.k
    return Forming(
        members=np.empty(most, np.int64),
        subjects=np.empty(most, np.int64),
        sums=np.empty(len(waiting.columns)),
        places=np.empty(1, np.int64),
        nearest=np.empty(wanted, np.int64),
        distances=np.empty(wanted),
        measured=np.empty(CHUNK_SLOTS),
    )


@inner
def enough(waiting: Waiting, forming: Forming) -> bool:
    """Tell whether tuples of k different subjects are held. At worst O(held k)."""
    if not waiting.by_subject or waiting.counts[TUPLES_HELD] < waiting.k:
        return bool(waiting.counts[TUPLES_HELD] >= waiting.k)
    found = 0
    for slot in range(waiting.counts[TUPLES_HELD]):
        if not _among(waiting.subjects[slot], forming.subjects, found):
            forming.subjects[found] = waiting.subjects[slot]
            found += 1
            if found == waiting.k:
                return True
    return False


@inner
def _among(number: int, numbers: NDArray[np.int64], count: int) -> bool:
    """Tell whether a number is one of the first `count`."""
    place = 0
    while place < count and numbers[place] != number:
        place += 1
    return place < count


@compiled
def form(waiting: Waiting, seen: Seen, forming: Forming, expiring: int) -> int:
    """Take the expiring tuple and k - 1 others or more, of different subjects, out of the buffer."""
    # The buffer holds enough subjects. Return the number of tuples of the class; 0 if no class keeps t and l,
    # and then all tuples are held as before.
    for j in range(len(forming.sums)):
        forming.sums[j] = 0.0
    forming.places[0] = 0
    forming.members[0] = expiring
    _join(waiting, forming, 0)
    size = 1
    while size < waiting.k:
        _find(waiting, forming, size)
        for i in range(len(forming.nearest)):
            forming.members[size] = forming.nearest[i]
            _join(waiting, forming, size)
            size += 1
    if len(waiting.codes) > 0:
        size = _grown(waiting, seen, forming, size)
    if size > 0:
        ascend(forming.members[:size])
        waiting.counts[CLASSES_FORMED] += 1
    return size


@compiled
def _grown(waiting: Waiting, seen: Seen, forming: Forming, size: int) -> int:
    """Let a class grow until it keeps t and l; return its size, or 0 if no tuple helps."""
    # In that case all its tuples are held again.
    codes, tuples = waiting.codes, waiting.counts[TUPLES_READ]
    for slot in range(waiting.counts[TUPLES_HELD], waiting.counts[TUPLES_HELD] + size):
        enter(seen, codes, slot)
    lacking, above = missing(seen), excess(seen, size, tuples)
    while lacking > 0 or above > 0.0:
        look_ahead(seen, size, tuples)
        helper, fewer, less = _helper(waiting, seen, forming, size)
        if helper == NO_RECORD or fewer > lacking or (fewer == lacking and less >= above):
            forget(seen, codes, waiting.counts[TUPLES_HELD], size)
            put_back(waiting, size)
            return 0
        forming.members[size] = helper
        _join(waiting, forming, size)
        enter(seen, codes, waiting.counts[TUPLES_HELD])
        size, lacking, above = size + 1, fewer, less
    forget(seen, codes, waiting.counts[TUPLES_HELD], size)
    return size


@compiled
def _helper(waiting: Waiting, seen: Seen, forming: Forming, size: int) -> tuple[int, int, float]:
    """Return the position of the tuple of another subject that helps most, and what is missing with it."""
    # Among tuples that help as much: the nearest to the centroid, then the earliest. O(held (d + S)).
    found, fewer, less, nearest = NO_RECORD, 0, 0.0, 0.0
    for first in range(0, waiting.counts[TUPLES_HELD], CHUNK_SLOTS):
        count = min(CHUNK_SLOTS, waiting.counts[TUPLES_HELD] - first)
        _measure(waiting, forming, size, first, count)
        for i in range(count):
            position, distance = waiting.positions[first + i], forming.measured[i]
            lacking, above = ahead(seen, waiting.codes, first + i)
            if found != NO_RECORD and (lacking, above, distance, position) >= (fewer, less, nearest, found):
                continue
            if waiting.by_subject and _among(waiting.subjects[first + i], forming.subjects, size):
                continue
            found, fewer, less, nearest = position, lacking, above, distance
    return found, fewer, less


@inner
def _join(waiting: Waiting, forming: Forming, place: int) -> None:
    """Move a tuple, given by its position, from the buffer to the class. O(d)."""
    position = forming.members[place]
    slot = waiting.slots[position & (len(waiting.slots) - 1)]
    for j in range(len(forming.sums)):
        forming.sums[j] += waiting.columns[j, slot]
    forming.places[0] += position - forming.members[0]
    forming.subjects[place] = waiting.subjects[slot]
    remove(waiting, slot)


@inner
def _find(waiting: Waiting, forming: Forming, size: int) -> None:
    """Write the next members: the tuples of other subjects nearest to the centroid of the `size` members."""
    distances, nearest, measured = forming.distances, forming.nearest, forming.measured
    for i in range(len(nearest)):
        distances[i], nearest[i] = np.inf, NO_RECORD
    last, stop = len(nearest) - 1, waiting.counts[TUPLES_HELD]
    for first in range(0, stop, CHUNK_SLOTS):
        count = min(CHUNK_SLOTS, stop - first)
        _measure(waiting, forming, size, first, count)
        for i in range(count):
            if measured[i] <= distances[last]:
                place = last
                if waiting.by_subject:
                    place = _place(waiting, forming, size, waiting.subjects[first + i])
                _insert(forming, place, measured[i], waiting.positions[first + i])


@inner
def _insert(forming: Forming, place: int, distance: float, position: int) -> None:
    """Insert a tuple into the nearest, by distance, then position, if the one at `place` is worse."""
    # The tuple at `place` leaves the nearest.
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


@inner
def _measure(waiting: Waiting, forming: Forming, size: int, first: int, count: int) -> None:
    """Write squared distances of a chunk of tuples from the centroid of the class, times its squared size."""
    # Places are counted from the expiring tuple, so that their differences are exact in a stream of any
    # length.
    measured, positions = forming.measured[:count], waiting.positions[first : first + count]
    for i in range(count):
        measured[i] = 0.0
    for j in range(len(forming.sums)):
        # Slices: an index that might be negative would keep the loop from being vectorised.
        column, total = waiting.columns[j, first : first + count], forming.sums[j]
        for i in range(count):
            difference = size * column[i] - total
            measured[i] += difference * difference
    if waiting.order_weight > 0.0:
        expiring, places = forming.members[0], forming.places[0]
        for i in range(count):
            difference = (size * (positions[i] - expiring) - places) * waiting.order_weight
            measured[i] += difference * difference


@inner
def _place(waiting: Waiting, forming: Forming, size: int, subject: int) -> int:
    """Return which of the nearest a tuple may replace: the one of its subject, otherwise the last."""
    # -1, for none, if the class has the subject already.
    if _among(subject, forming.subjects, size):
        return -1
    mask = len(waiting.slots) - 1
    for i in range(len(forming.nearest)):
        if forming.nearest[i] == NO_RECORD:
            break
        if waiting.subjects[waiting.slots[forming.nearest[i] & mask]] == subject:
            return i
    return len(forming.nearest) - 1
