"""The tuples of a stream that wait, and the requirements on the classes in which they leave.

Held tuples lie in the first slots of the buffer, in no order, so that a scan reads held tuples only. A tuple
that leaves changes places with the last held tuple. So the members of a class that is being formed lie right
behind the held tuples, and can be put back by a count if the class cannot leave. Coordinates are stored by
column, so that an instruction handles several tuples.
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
