"""The class in which a tuple leaves a buffer: the tuple and those most like it, of different subjects.

Every distance is a sum in the order of the columns, with the place in the stream last. A tuple times the size
of the class is compared with the sum of the class, instead of the tuple with the centroid. A division would
round, and equal distances of whole numbers have to be found equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner
from duckanon.kernels.neighbours.heap import NO_RECORD, ascend
from duckanon.kernels.steered.buffer import (
    CLASSES_FORMED,
    TUPLES_HELD,
    TUPLES_READ,
    Waiting,
    put_back,
    remove,
)
from duckanon.kernels.steered.closeness import ahead, excess, look_ahead, missing
from duckanon.kernels.steered.seen import Seen, enter, forget

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
