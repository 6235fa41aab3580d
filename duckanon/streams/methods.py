"""One set of functions for all methods of a stream: tuples enter a buffer and leave in classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from duckanon.errors import PolicyError, SourceError
from duckanon.kernels.castle import clusters
from duckanon.kernels.castle import stream as castle
from duckanon.kernels.steered import stream
from duckanon.release.recoding import Members

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from duckanon.streams.policy import StreamPolicy

REUSABLE_CLASSES = 1_000
"""Classes of CASTLE that are kept for single tuples; this bounds the memory of a stream."""


@dataclass(frozen=True)
class Departure:
    """Tuples that left, in the order of output: whole classes, and single tuples of earlier classes."""

    positions: NDArray[np.int64]  # (r,), places in the stream
    classes: NDArray[np.int64]  # (r,), classes whose values the tuples get
    times: NDArray[np.int64]  # (r,), place of the last tuple read before
    alone: NDArray[np.bool_]  # (r,), whether the class left before
    dropped: NDArray[np.int64]  # (q,), places of dropped tuples, ascending
    why: Mapping[str, int]  # number of dropped tuples, by reason
    ranges: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None  # (r, d) each, None if unknown

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Place of the first tuple of each run: a class, or a single tuple."""
        begins = np.ones(len(self.classes), np.bool_)
        for column in (self.times, self.classes, self.alone):
            begins[1:] &= column[1:] == column[:-1]
        begins[1:] = ~begins[1:]
        return np.flatnonzero(begins)

    @cached_property
    def members(self) -> Members:
        """The classes of the tuples, for the recoder."""
        return Members(self.classes, self.starts, self.alone)

    def without(self, outside: NDArray[np.int64]) -> Departure:
        """Return the departure without the tuples at some places, which count as dropped."""
        stay = np.ones(len(self.positions), np.bool_)
        stay[outside] = False
        ranges = None if self.ranges is None else (self.ranges[0][stay], self.ranges[1][stay])
        dropped = np.sort(np.concatenate([self.dropped, self.positions[~stay]]))
        return Departure(
            self.positions[stay], self.classes[stay], self.times[stay], self.alone[stay], dropped,
            {**self.why, "outside": len(outside)}, ranges,
        )  # fmt: skip


@dataclass(frozen=True)
class MethodFunctions:
    """Functions of a method on its buffer; other code reads only the number of tuples, counts[0]."""

    opened: Callable[
        [StreamPolicy, int, Sequence[stream.AttributeLimit]], Any
    ]  # with the number of coordinates
    push: Callable[[Any, NDArray[np.float64], NDArray[np.int64] | None, NDArray[np.int64] | None], Departure]
    finish: Callable[[Any], Departure]
    held: Callable[[Any], NDArray[np.int64]]  # places in the stream, ascending
    public: Callable[[Any], NDArray[np.int64]]  # classes with which single tuples may leave


def _open_steered(
    policy: StreamPolicy, dimensions: int, asked: Sequence[stream.AttributeLimit]
) -> stream.Buffer:
    return stream.open_buffer(
        dimensions, policy.rows.k, delay=policy.delay, order_weight=policy.order_weight,
        grow=policy.cluster == "grow", by_subject=bool(policy.rows.subject), asked=asked,
        window=policy.window if asked else 0,
    )  # fmt: skip


def _push_steered(
    buffer: stream.Buffer, points: NDArray[np.float64], subjects: NDArray[np.int64] | None,
    codes: NDArray[np.int64] | None,
) -> Departure:  # fmt: skip
    try:
        written = stream.push(buffer, points, subjects, codes)
    except ValueError as cause:  # too many sensitive values for exact sums
        raise SourceError(str(cause)) from cause
    firsts = np.flatnonzero(np.diff(written.classes, prepend=-1))
    sizes = np.diff(firsts, append=len(written.classes))
    # A class leaves when its first tuple expires.
    return _steered(written, np.repeat(written.positions[firsts] + buffer.waiting.delay, sizes))


def _finish_steered(buffer: stream.Buffer) -> Departure:
    written = stream.finish(buffer)
    last = int(buffer.counts[stream.TUPLES_READ]) - 1
    return _steered(written, np.full(len(written.positions), last))


def _steered(written: stream.StreamOutput, times: NDArray[np.int64]) -> Departure:
    alone, apart = np.zeros(len(written.positions), np.bool_), int(written.apart.sum())
    why = {"few": len(written.dropped) - apart, "closeness": apart}
    return Departure(written.positions, written.classes, times, alone, written.dropped, why)


def _open_castle(
    policy: StreamPolicy, dimensions: int, _: Sequence[stream.AttributeLimit]
) -> clusters.Castle:
    return clusters.open_clusters(
        dimensions, policy.rows.k, delay=policy.delay, clusters=policy.clusters, recent=policy.recent,
        reusable=REUSABLE_CLASSES, by_subject=bool(policy.rows.subject),
    )  # fmt: skip


def _castle(written: castle.CastleOutput) -> Departure:
    unlike = int(written.unlike.sum())
    why = {"few": len(written.dropped) - unlike, "unlike": unlike}
    return Departure(
        written.positions, written.classes, written.times, written.alone, written.dropped, why,
        (written.lows, written.highs),
    )  # fmt: skip


METHODS: Mapping[str, MethodFunctions] = {
    "steered": MethodFunctions(
        _open_steered, _push_steered, _finish_steered, stream.held, lambda _: np.zeros(0, np.int64)
    ),
    "castle": MethodFunctions(
        _open_castle,
        lambda waiting, points, subjects, _: _castle(castle.push(waiting, points, subjects)),
        lambda waiting: _castle(castle.finish(waiting)),
        castle.held,
        castle.public,
    ),
}


def opened(policy: StreamPolicy, dimensions: int, asked: Sequence[stream.AttributeLimit]) -> Any:
    """Return an empty buffer; a PolicyError where the kernel refuses a number."""
    try:
        return METHODS[policy.method].opened(policy, dimensions, asked)
    except ValueError as cause:
        raise PolicyError(str(cause)) from cause
