"""The sensitive values that a stream has read, those of the class that is being formed, and what is required.

Values are codes, numbered in their order. A value that was never read, or has left the window, has a count of
0 and is not part of the domain. So codes may be given before their tuples are read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.threshold import L_DISTINCT, L_ENTROPY, L_RECURSIVE, THRESHOLD_DENOMINATOR
from duckanon.kernels.compiled import inner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import LKind

T_DENOMINATOR = 10**12
"""Largest denominator of t, as everywhere else."""


class AttributeLimit(NamedTuple):
    """What a class must keep of a sensitive attribute."""

    ordered: bool  # whether the ground distance is that of ranks
    # largest EMD of the class from the tuples read; its denominator is at most `T_DENOMINATOR`
    t: Fraction | None = None
    # least diversity, at least 1; a whole number unless the kind is 'entropy'
    l: float = 1  # noqa: E741 - l-diversity has this name everywhere
    l_kind: LKind = "distinct"
    c: Fraction | None = None  # of 'recursive', at most twelve decimals
    height: int = 0  # levels of the hierarchy whose distance counts; 0 for another ground distance
    shares: bool = False  # whether values have a largest share, which `renumber` gets


class Seen(NamedTuple):
    """Sensitive values of S attributes, with at most M different values each."""

    # (S, M), how often each value was read, in the last W tuples if there is a window
    counts: NDArray[np.int64]
    members: NDArray[np.int64]  # (S, M), how often the class that is being formed has the value
    excess: NDArray[np.float64]  # (S, M), for `closeness`: the excess if one more member has the value
    changes: NDArray[np.int64]  # (M,), for `closeness`
    # (S, W), values of the last W tuples, by their position modulo W; W is 0 if all count
    recent: NDArray[np.int64]
    different: NDArray[np.int64]  # (S,), number of values in the class that is being formed
    ordered: NDArray[np.bool_]  # (S,), see `AttributeLimit`
    t: NDArray[np.int64]  # (S, 2), numerator and denominator; both 0 if t is not required
    # (S,), least number of different values; every kind of l-diversity needs l of them
    l: NDArray[np.int64]  # noqa: E741 - l-diversity has this name everywhere
    l_kinds: NDArray[np.int64]  # (S,), `L_DISTINCT`, `L_ENTROPY` or `L_RECURSIVE`
    entropy_l: NDArray[np.float64]  # (S,), l of 'entropy'
    c: NDArray[np.int64]  # (S,), c of 'recursive' in steps of 1 / `THRESHOLD_DENOMINATOR`
    heights: NDArray[np.int64]  # (S,), levels below the root of a hierarchy, 0 without
    nodes: NDArray[np.int64]  # (S, H, M), node 0..M-1 above each value on each level, 0 being the values
    shared: NDArray[np.bool_]  # (S,), whether values have a largest share
    # (S, M, 2), largest share of each value in a class, numerator and denominator; both 0 if it has none
    shares: NDArray[np.int64]
    measured: NDArray[np.bool_]  # (S,), whether more than different values are required
    numbers: NDArray[np.int64]  # (2, M), for the sums of nodes, and for counts in their order


L_KINDS = {"distinct": L_DISTINCT, "entropy": L_ENTROPY, "recursive": L_RECURSIVE}


class Known(NamedTuple):
    """What a class must know of the values of an attribute beside their order."""

    # (H, M), node above each value on each level below the root, 0 being the values; H is 0 without hierarchy
    nodes: NDArray[np.int64]
    # (M, 2), largest share of each value in a class, numerator and denominator; both 0 if it has none
    shares: NDArray[np.int64]


def plain(size: int) -> Known:
    """Return what is known of values without a hierarchy and without a largest share."""
    return Known(np.zeros((0, size), np.int64), np.zeros((size, 2), np.int64))


def seen_of(asked: Sequence[AttributeLimit], window: int) -> Seen:
    """Return the state before any tuple and any value; ValueError if t or l is out of range."""
    for one in asked:
        if one.l < 1:
            raise ValueError(f"l must be at least 1, not {one.l}")
        if one.l_kind == "recursive" and (one.c is None or one.c <= 0 or one.l != int(one.l)):
            raise ValueError("l_kind 'recursive' needs a whole l, and c above 0")
        if one.t is not None and not (0 < one.t <= 1 and one.t.denominator <= T_DENOMINATOR):
            raise ValueError(f"t must be above 0, at most 1 and of twelve decimals at most, not {one.t}")
    count = len(asked)
    t = [(0, 0) if one.t is None else (one.t.numerator, one.t.denominator) for one in asked]
    kinds = [L_KINDS[one.l_kind] for one in asked]
    c = [math.floor((one.c or 0) * THRESHOLD_DENOMINATOR) for one in asked]
    measured = [one.t is not None or one.l_kind != "distinct" or one.shares for one in asked]
    return Seen(
        counts=np.zeros((count, 0), np.int64),
        members=np.zeros((count, 0), np.int64),
        excess=np.zeros((count, 0)),
        changes=np.zeros(0, np.int64),
        recent=np.zeros((count, window), np.int64),
        different=np.zeros(count, np.int64),
        ordered=np.array([one.ordered for one in asked], np.bool_),
        t=np.array(t, np.int64).reshape(count, 2),
        l=np.array([math.ceil(one.l) for one in asked], np.int64),
        l_kinds=np.array(kinds, np.int64),
        entropy_l=np.array([one.l for one in asked], np.float64),
        c=np.array(c, np.int64),
        heights=np.array([one.height for one in asked], np.int64),
        nodes=np.zeros((count, max((one.height for one in asked), default=0), 0), np.int64),
        shared=np.array([one.shares for one in asked], np.bool_),
        shares=np.zeros((count, 0, 2), np.int64),
        measured=np.array(measured, np.bool_),
        numbers=np.zeros((2, 0), np.int64),
    )


def renumbered(
    seen: Seen, places: Sequence[NDArray[np.int64]], sizes: Sequence[int], known: Sequence[Known]
) -> Seen:
    """Return the same with new codes of values: `places` has each attribute's new code by the old one."""
    # O(S (M H + W)). A code of -1 drops the value, whose count must be 0.
    count, most = len(places), max(sizes, default=0)
    counts = np.zeros((count, most), np.int64)
    for s, new in enumerate(places):
        stay = np.flatnonzero(new >= 0)
        counts[s, new[stay]] = seen.counts[s, stay]
    nodes = np.zeros((*seen.nodes.shape[:2], most if seen.nodes.shape[1] else 0), np.int64)
    shares = np.zeros((count, most if seen.shared.any() else 0, 2), np.int64)
    for s, one in enumerate(known):
        for level, row in enumerate(one.nodes):
            nodes[s, level, : len(row)] = np.unique(row, return_inverse=True)[1]
        if seen.shared[s]:
            shares[s, : len(one.shares)] = one.shares
    return seen._replace(
        counts=counts, members=np.zeros((count, most), np.int64), excess=np.zeros((count, most)),
        changes=np.zeros(most, np.int64), recent=recoded(seen.recent, places),
        nodes=nodes, shares=shares, numbers=np.zeros((2, most), np.int64),
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
