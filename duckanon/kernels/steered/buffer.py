"""The tuples of a stream that wait, and what is asked of the classes in which they leave.

Held tuples lie in the first slots of the buffer, in no order, so that a scan reads what is held and nothing
else. One that leaves changes places with the last one held: the members of a class that is being formed lie
right behind those held, and come back by a count where the class cannot leave. Coordinates are stored by
column, and a scan handles several tuples an instruction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import inner
from duckanon.kernels.points import COORDINATE_MAX
from duckanon.kernels.steered.seen import AttributeLimit, Seen, seen_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TUPLES_READ, TUPLES_HELD, CLASSES_FORMED = range(3)
"""Places of the counts of a buffer."""


class Waiting(NamedTuple):
    """The tuples that wait, c = delay + 1 at most, and what is asked of their classes but for t and l.

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
    codes : ndarray of shape (S, c), int64
        Sensitive values of the tuple in each slot.
    k : int
        Tuples of a class, at least; just as many where nothing is asked of sensitive values.
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
    codes: NDArray[np.int64]
    k: int
    delay: int
    order_weight: float
    grow: bool
    by_subject: bool


class Buffer(NamedTuple):
    """What waits, and the distribution of the sensitive values that were read.

    The two are handed to compiled functions apart: a call copies all arrays of what it takes.
    """

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
    asked : sequence of AttributeLimit, optional
        What a class must keep of each sensitive attribute; then `push` gets their values.
    window : int, default 0
        A class is compared with the last so many tuples that were read, at least delay + 1; 0 is all.

    Returns
    -------
    Buffer
        Of less than (d + S + 4) (delay + 1) numbers, and those of `Seen`: all that is kept between two calls
        of `push`.

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
    return np.sort(buffer.waiting.positions[: buffer.counts[TUPLES_HELD]])


def limit_of(waiting: Waiting) -> float:
    """Return the largest coordinate whose squared distances, times the size of a class, are finite."""
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
    """Give the tuple that was held last its sensitive values, column i of codes. O(S)."""
    for s in range(len(codes)):
        waiting.codes[s, waiting.counts[TUPLES_HELD] - 1] = codes[s, i]


@inner
def remove(waiting: Waiting, slot: int) -> None:
    """Take a tuple out of the buffer: it changes places with the last one held. O(d + S)."""
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
    """Let the last tuples that were taken out be held again."""
    first = waiting.counts[TUPLES_HELD]
    for slot in range(first, first + count):
        waiting.slots[waiting.positions[slot] & (len(waiting.slots) - 1)] = slot
    waiting.counts[TUPLES_HELD] += count
