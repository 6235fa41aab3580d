"""Microaggregation of a stream: tuples wait in a buffer, and leave in classes of k within their delay.

A tuple is read into the buffer. If the tuple that came `delay` places before is still there, that tuple
expires. It leaves in a class with k - 1 others, all of different subjects, or is dropped if the buffer does
not hold k subjects. If t or l is required, a class that does not keep it grows; if that fails, the expiring
tuple is dropped. What happens to a tuple depends only on the tuples before it, not on how the input is cut
into batches. Deterministic: among equal distances the tuple that came first is taken.

A class costs a scan of the held tuples, O(delay d), and with `grow` k - 1 scans. O(delay k) is added if
tuples come in an unlucky order, or one is dropped because too few subjects are held. With requirements on S
attributes of at most M values, O(S M + delay (d + S)) is added for each tuple beyond k. Memory is O((m +
delay) d) for m new tuples.

Source: Domingo-Ferrer and Soria-Comas, "Steered Microaggregation", IEEE ICDM Workshops, 2017, section V,
Algorithms 2 and 3 and Note 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.steered.buffer import (
    CLASSES_FORMED,
    TUPLES_HELD,
    TUPLES_READ,
    Buffer,
    Forming,
    Waiting,
    enough,
    form,
    forming_of,
    held,
    hold,
    limit_of,
    open_buffer,
    put_codes,
    remove,
)
from duckanon.kernels.steered.seen import AttributeLimit, Known, Seen, plain, read, recoded, renumbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "TUPLES_HELD",
    "TUPLES_READ",
    "AttributeLimit",
    "Buffer",
    "Known",
    "StreamOutput",
    "finish",
    "held",
    "open_buffer",
    "push",
    "renumber",
]

SUM_LIMIT = 2**62
"""Sums of counts that are compared are below this."""


class StreamOutput(NamedTuple):
    """What has left a buffer."""

    # (r,), places in the stream, in the order of output: class after class, ascending in each
    positions: NDArray[np.int64]
    # (r,), class of each; numbers count on from call to call; k tuples each, or more for t and l
    classes: NDArray[np.int64]
    dropped: NDArray[np.int64]  # (q,), places in the stream of the dropped tuples, ascending
    apart: NDArray[np.bool_]  # (q,), whether k subjects were held, but no class of them keeps t and l


def renumber(
    buffer: Buffer,
    places: Sequence[NDArray[np.int64]],
    sizes: Sequence[int],
    known: Sequence[Known] | None = None,
) -> Buffer:
    """Return the buffer with new codes of sensitive values, which make room for values between known ones."""
    # The old buffer must not be used any more. `places` has for each attribute the new code by the old one,
    # ascending, -1 for a value that is dropped because no tuple that counts has it. `sizes` are the numbers
    # of values then. `known` has the hierarchy and the largest shares of the values then, where either is
    # asked. O(S (M H + delay + window)).
    waiting = buffer.waiting._replace(codes=recoded(buffer.waiting.codes, places))
    told = [plain(size) for size in sizes] if known is None else known
    return Buffer(waiting, renumbered(buffer.seen, places, sizes, told))


def push(
    buffer: Buffer, points: ArrayLike, subjects: ArrayLike | None = None, codes: ArrayLike | None = None
) -> StreamOutput:
    """Read tuples (m, d), m >= 0, into a buffer, which changes; return what leaves meanwhile."""
    # Points are finite, on the scale on which distances are taken, at most 1e150 (with `grow` divided by k,
    # with `asked` by delay + 1). Subjects (m,) are whole numbers, given if and only if the buffer was opened
    # `by_subject`. Codes (S, m), as numbered by `renumber`, are given if and only if something is `asked`.
    # ValueError leaves the buffer unchanged.
    matrix = _checked(buffer, points)
    count = len(matrix)
    if buffer.waiting.by_subject != (subjects is not None):
        raise ValueError("subjects must be given if the buffer is by_subject, and only then")
    values = _coded(buffer, codes, count)
    first = int(buffer.counts[TUPLES_READ])
    numbers = np.arange(first, first + count) if subjects is None else _whole(subjects, count)
    room = _room(int(buffer.counts[TUPLES_HELD]) + count)
    out, lost = _read(buffer.waiting, buffer.seen, forming_of(buffer.waiting), matrix, numbers, values, room)
    return _cut(room, out, lost)


def finish(buffer: Buffer) -> StreamOutput:
    """Let the oldest tuple expire while a class can be formed; return what leaves."""
    # Only tuples without a class that keeps t and l are dropped. Fewer than k subjects stay, see `held`. Not
    # in the paper: its Algorithm 2 leaves in the buffer what is there at the end of a stream.
    room = _room(int(buffer.counts[TUPLES_HELD]))
    out, lost = _empty(buffer.waiting, buffer.seen, forming_of(buffer.waiting), room)
    return _cut(room, out, lost)


def _checked(buffer: Buffer, points: ArrayLike) -> NDArray[np.float64]:
    """Return the points, copied if read-only: numba would compile everything again for such arrays."""
    matrix = np.require(points, np.float64, ["C", "W"])
    if matrix.ndim != 2 or matrix.shape[1] != len(buffer.waiting.columns):
        columns = f"{len(buffer.waiting.columns)} columns"
        raise ValueError(f"points must be a matrix of {columns}, one row a tuple, not {matrix.shape}")
    limit = limit_of(buffer.waiting)
    if not (matrix.min(initial=0.0) >= -limit and matrix.max(initial=0.0) <= limit):
        row, column = np.argwhere(~(np.abs(matrix) <= limit))[0]
        value = matrix[row, column]
        raise ValueError(f"points hold {value} in row {row}, column {column}: not within {limit:g}")
    return matrix


def _whole(subjects: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return a copy of the subjects of `count` tuples."""
    numbers = np.asarray(subjects)
    if numbers.shape != (count,):
        raise ValueError(f"subjects must hold one a tuple, of shape ({count},), not {numbers.shape}")
    if count and not np.can_cast(numbers.dtype, np.int64):
        raise ValueError(f"subjects must be whole numbers of 64 bits, not {numbers.dtype}: number them")
    return numbers.astype(np.int64)


def _coded(buffer: Buffer, codes: ArrayLike | None, count: int) -> NDArray[np.int64]:
    """Return the codes of the sensitive values of `count` tuples."""
    attributes, values = buffer.seen.counts.shape
    if (codes is not None) != (attributes > 0):
        raise ValueError("codes must be given if something is asked of sensitive values, and only then")
    matrix = np.require(np.zeros((0, count)) if codes is None else codes, np.int64, ["C", "W"])
    if matrix.shape != (attributes, count):
        raise ValueError(f"codes must be of shape ({attributes}, {count}), not {matrix.shape}")
    if matrix.size and not (matrix.min() >= 0 and matrix.max() < values):
        raise ValueError(f"codes must be numbers from 0 to {values - 1}, of values that were numbered")
    window = buffer.seen.recent.shape[1]
    counted = min(int(buffer.counts[TUPLES_READ]) + count, window or SUM_LIMIT)
    terms = max(values, 2) * max(1, buffer.seen.nodes.shape[1])
    if terms * counted * (buffer.waiting.delay + 1) >= SUM_LIMIT:
        raise ValueError(
            f"{values} sensitive values of {counted} tuples are too many for exact sums: use a window"
        )
    return matrix


def _room(count: int) -> StreamOutput:
    """Return room for what leaves."""
    positions, classes, dropped = (np.empty(count, np.int64) for _ in range(3))
    return StreamOutput(positions, classes, dropped, np.empty(count, np.bool_))


def _cut(room: StreamOutput, out: int, lost: int) -> StreamOutput:
    """Return the part of the room that was used."""
    return StreamOutput(
        room.positions[:out].copy(), room.classes[:out].copy(), room.dropped[:lost].copy(),
        room.apart[:lost].copy(),
    )  # fmt: skip


@compiled
def _read(
    waiting: Waiting, seen: Seen, forming: Forming, points: NDArray[np.float64], subjects: NDArray[np.int64],
    codes: NDArray[np.int64], room: StreamOutput,
) -> tuple[int, int]:  # fmt: skip
    """Read tuples one by one; return how many are put out and how many are dropped."""
    mask, out, lost = len(waiting.slots) - 1, 0, 0
    for i in range(len(points)):
        hold(waiting, points[i], subjects[i])
        if len(codes) > 0:
            put_codes(waiting, codes, i)
            read(seen, waiting.counts[TUPLES_READ] - 1, codes, i)
        expiring = waiting.counts[TUPLES_READ] - 1 - waiting.delay
        if waiting.slots[expiring & mask] < 0:
            continue  # it has left, or is from before the beginning
        few = not enough(waiting, forming)
        size = 0 if few else form(waiting, seen, forming, expiring)
        out = _put(waiting, forming, size, room, out)
        if size == 0:
            lost = _drop(waiting, expiring, not few, room, lost)
    return out, lost


@compiled
def _empty(waiting: Waiting, seen: Seen, forming: Forming, room: StreamOutput) -> tuple[int, int]:
    """Form classes around the oldest tuple while enough are held; return how many leave and are dropped."""
    mask, out, lost = len(waiting.slots) - 1, 0, 0
    end = waiting.counts[TUPLES_READ]
    for oldest in range(end - waiting.delay, end):
        if waiting.slots[oldest & mask] < 0:
            continue
        if not enough(waiting, forming):
            break
        size = form(waiting, seen, forming, oldest)
        out = _put(waiting, forming, size, room, out)
        if size == 0:
            lost = _drop(waiting, oldest, True, room, lost)
    return out, lost


@compiled
def _put(waiting: Waiting, forming: Forming, size: int, room: StreamOutput, out: int) -> int:
    """Write the members of a class that was formed; return how many tuples are put out so far."""
    for j in range(size):
        room.positions[out + j] = forming.members[j]
        room.classes[out + j] = waiting.counts[CLASSES_FORMED] - 1
    return out + size


@compiled
def _drop(waiting: Waiting, position: int, apart: bool, room: StreamOutput, lost: int) -> int:
    """Drop a tuple; return how many are dropped so far."""
    remove(waiting, waiting.slots[position & (len(waiting.slots) - 1)])
    room.dropped[lost], room.apart[lost] = position, apart
    return lost + 1
