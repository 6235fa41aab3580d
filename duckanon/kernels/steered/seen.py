"""The sensitive values of a stream: of the tuples that wait, and how often each was read so far.

Values are codes, numbered in their order. A value that was never read, or has left the window, has a count of
0 and is not part of the domain. So codes may be given before their tuples are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import inner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

T_DENOMINATOR = 10**12
"""Largest denominator of t, as everywhere else."""


class AttributeLimit(NamedTuple):
    """What a class must keep of a sensitive attribute."""

    ordered: bool  # whether the ground distance is that of ranks; otherwise two values are equal or not
    # largest EMD of the class from the tuples read; its denominator is at most `T_DENOMINATOR`
    t: Fraction | None = None
    # least number of different values, at least 1
    l: int = 1  # noqa: E741 - l-diversity has this name everywhere


class Seen(NamedTuple):
    """Sensitive values of S attributes, with at most M different values each."""

    # (S, M), how often each value was read, in the last W tuples if there is a window
    counts: NDArray[np.int64]
    members: NDArray[np.int64]  # (S, M), how often the class that is being formed has the value
    excess: NDArray[np.float64]  # (S, M), for `closeness`: the EMD above t if one more member has the value
    changes: NDArray[np.int64]  # (M,), for `closeness`
    # (S, W), values of the last W tuples, by their position modulo W; W is 0 if all count
    recent: NDArray[np.int64]
    different: NDArray[np.int64]  # (S,), number of values in the class that is being formed
    ordered: NDArray[np.bool_]  # (S,), see `AttributeLimit`
    t: NDArray[np.int64]  # (S, 2), numerator and denominator; both 0 if t is not required
    # (S,), see `AttributeLimit`
    l: NDArray[np.int64]  # noqa: E741 - l-diversity has this name everywhere


def seen_of(asked: Sequence[AttributeLimit], window: int) -> Seen:
    """Return the state before any tuple and any value; ValueError if t or l is out of range."""
    for one in asked:
        if one.l < 1:
            raise ValueError(f"l must be at least 1, not {one.l}")
        if one.t is not None and not (0 < one.t <= 1 and one.t.denominator <= T_DENOMINATOR):
            raise ValueError(f"t must be above 0, at most 1 and of twelve decimals at most, not {one.t}")
    count = len(asked)
    t = [(0, 0) if one.t is None else (one.t.numerator, one.t.denominator) for one in asked]
    return Seen(
        counts=np.zeros((count, 0), np.int64),
        members=np.zeros((count, 0), np.int64),
        excess=np.zeros((count, 0)),
        changes=np.zeros(0, np.int64),
        recent=np.zeros((count, window), np.int64),
        different=np.zeros(count, np.int64),
        ordered=np.array([one.ordered for one in asked], np.bool_),
        t=np.array(t, np.int64).reshape(count, 2),
        l=np.array([one.l for one in asked], np.int64),
    )


def renumbered(seen: Seen, places: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> Seen:
    """Return the same with new codes of values: `places` has each attribute's new code by the old one."""
    # O(S (M + W)). A code of -1 drops the value, whose count must be 0.
    count, most = len(places), max(sizes, default=0)
    counts = np.zeros((count, most), np.int64)
    for s, new in enumerate(places):
        stay = np.flatnonzero(new >= 0)
        counts[s, new[stay]] = seen.counts[s, stay]
    return seen._replace(
        counts=counts, members=np.zeros((count, most), np.int64), excess=np.zeros((count, most)),
        changes=np.zeros(most, np.int64), recent=recoded(seen.recent, places),
    )  # fmt: skip


def recoded(codes: NDArray[np.int64], places: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the new codes, given by the old ones; an attribute a row."""
    found = codes.copy()
    for s, new in enumerate(places):
        if len(new):  # before the first tuple, no codes exist
            found[s] = new[codes[s]]
    return found


@inner
def read(seen: Seen, position: int, codes: NDArray[np.int64], i: int) -> None:
    """Count the tuple at a position in the stream; its values are column i of codes. O(S)."""
    window = seen.recent.shape[1]
    for s in range(len(seen.ordered)):
        code = codes[s, i]
        seen.counts[s, code] += 1
        if window > 0:
            place = position % window
            if position >= window:
                seen.counts[s, seen.recent[s, place]] -= 1
            seen.recent[s, place] = code


@inner
def number_of(seen: Seen, tuples: int) -> int:
    """Return how many of the tuples read count."""
    window = seen.recent.shape[1]
    return int(min(tuples, window) if window > 0 else tuples)


@inner
def enter(seen: Seen, codes: NDArray[np.int64], slot: int) -> None:
    """Count the tuple in a slot as a member of the class that is being formed. O(S)."""
    for s in range(len(seen.ordered)):
        code = codes[s, slot]
        seen.different[s] += seen.members[s, code] == 0
        seen.members[s, code] += 1


@inner
def forget(seen: Seen, codes: NDArray[np.int64], first: int, count: int) -> None:
    """Remove the members of the class, the tuples in some slots, from the counts. O(count S)."""
    for s in range(len(seen.ordered)):
        seen.different[s] = 0
        for slot in range(first, first + count):
            seen.members[s, codes[s, slot]] = 0
