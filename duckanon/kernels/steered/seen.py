"""The sensitive values of a stream: of the tuples that wait, and how often each was read so far.

Values are codes, numbered in their order. A value that nobody has read, or that has left the window, has a
count of 0 and is none of the domain: codes may be given before their tuples are read.
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
    """What a class must keep of a sensitive attribute.

    Attributes
    ----------
    ordered : bool
        Whether the ground distance is that of ranks; if not, two values are equal or not.
    t : Fraction or None
        Largest EMD of the class from the tuples that were read, with a denominator of `T_DENOMINATOR` at
        most.
    l : int
        Least number of different values, at least 1.
    """

    ordered: bool
    t: Fraction | None = None
    l: int = 1  # noqa: E741 - l-diversity has this name everywhere


class Seen(NamedTuple):
    """Sensitive values of S attributes, of M different ones at most.

    Attributes
    ----------
    counts : ndarray of shape (S, M), int64
        How often each value was read, of the last W tuples where there is a window.
    members : ndarray of shape (S, M), int64
        How often the class that is being formed has it.
    excess : ndarray of shape (S, M), float64
        For `closeness`: by how much EMD is above t if one more member has it.
    changes : ndarray of shape (M,), int64
        For `closeness`.
    recent : ndarray of shape (S, W), int64
        Values of the last W tuples, by their position modulo W; W is 0 where all count.
    different : ndarray of shape (S,), int64
        How many values the class that is being formed has.
    ordered : ndarray of shape (S,), bool
        See `AttributeLimit`.
    t : ndarray of shape (S, 2), int64
        Numerator and denominator; both 0 where nothing is asked.
    l : ndarray of shape (S,), int64
        See `AttributeLimit`.
    """

    counts: NDArray[np.int64]
    members: NDArray[np.int64]
    excess: NDArray[np.float64]
    changes: NDArray[np.int64]
    recent: NDArray[np.int64]
    different: NDArray[np.int64]
    ordered: NDArray[np.bool_]
    t: NDArray[np.int64]
    l: NDArray[np.int64]  # noqa: E741 - l-diversity has this name everywhere


def seen_of(asked: Sequence[AttributeLimit], window: int) -> Seen:
    """Return that no tuple was read, with no value known; ValueError where t or l is out of range."""
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
    """Return the same where values have other codes: of each attribute the new code by the old one.

    A code of -1 is forgotten, which may be only where its count is 0. O(S (M + W)).
    """
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
    """Return new codes by the old ones, an attribute a row."""
    found = codes.copy()
    for s, new in enumerate(places):
        if len(new):  # where nobody was read there are codes of none
            found[s] = new[codes[s]]
    return found


@inner
def read(seen: Seen, position: int, codes: NDArray[np.int64], i: int) -> None:
    """Count the tuple at a position in the stream, the values of which are column i of codes. O(S)."""
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
    """Return how many of the tuples that were read count."""
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
    """Forget the members of the class, the tuples in some slots. O(count S)."""
    for s in range(len(seen.ordered)):
        seen.different[s] = 0
        for slot in range(first, first + count):
            seen.members[s, codes[s, slot]] = 0
