"""k-anonymity-first microaggregation: classes by MDAV, each refined by exchanges until its EMD is at most t.

Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, "t-Closeness through Microaggregation: Strict Privacy with
Enhanced Utility Preservation", IEEE TKDE 27(11), 2015, section 6, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from duckanon.kernels.closeness.threshold import Rules, rules_of
from duckanon.kernels.compiled import compiled
from duckanon.kernels.exchange.ledger import class_violation, enter, fill_ledger, violation_after_swap
from duckanon.kernels.exchange.ledger_state import Ledger, ledger_of
from duckanon.kernels.first.one_by_one import (
    Formation,
    farthest_from_centroid,
    formation_of,
    k_neighbourhood,
    make_class,
)
from duckanon.kernels.neighbours.boxtree import farthest, take
from duckanon.kernels.neighbours.heap import NO_RECORD, ascend, offer
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Threshold

ONLY_CLASS = cast("int", np.int64(0))
"""The only class of the ledger, and its only attribute; typed, so that nothing is compiled for a literal."""


def kanonymity_first(points: ArrayLike, codes: ArrayLike, k: int, threshold: Threshold) -> NDArray[np.int64]:
    """Return classes of at least k records whose EMD was lowered towards t while they were formed.

    Seeds as in MDAV: the record farthest from the centroid of the remaining ones, then the one farthest from
    that seed. A class starts as the seed and its k-1 nearest remaining records. While its EMD exceeds t, the
    other remaining records are offered to it one by one, nearest to the seed first: each takes the place of
    the member whose removal leaves the lowest EMD, if that is below the EMD so far. A record is offered to a
    class once; members that were put out (the seed may be one) remain for later classes. When fewer than 2k
    records remain, they are the last class.

    Parameters
    ----------
    points, k
        See `duckanon.literature`.
    codes : array_like of shape (n,), int
        Value code of the sensitive attribute of each record, one of `threshold.reference`.
    threshold : Threshold
        With t and without l. Its reference is the distribution in the whole table; any of the three
        distances.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of formation: k records each, the last one k..2k-1.

    Raises
    ------
    ValueError
        If there is not one code a record, a code is not of the reference, or the threshold has no t or has l.

    Notes
    -----
    The classes need not reach t: the records may run out, and no class of k reaches a t below the bound of
    Proposition 1. The paper then merges classes by its Algorithm 1, which is
    ``compose.merged(points, [codes], [threshold], labels, "nearest")``.

    EMDs are compared exactly, as integers (rounded only where n m k exceeds 2^52). Of equally near records
    the lowest number is offered first; of equally good members to put out the paper names none, the lowest
    number goes. At worst O(n^2 / k) distances, a heap of them for each class, and O(n^2 / k) offers of k
    exchanges each, an exchange being answered in constant time from prefix sums (in O(H) in a tree). O(n d)
    memory. Deterministic.

    Examples
    --------
    >>> from duckanon.kernels.closeness.reference import reference
    >>> from duckanon.kernels.closeness.threshold import Threshold
    >>> half = Threshold(reference([2, 2], "ordered"), t=Fraction(0))
    >>> kanonymity_first([[0.0], [1.0], [2.0], [10.0]], [0, 0, 1, 1], 2, half).tolist()
    [1, 0, 1, 0]
    """
    matrix = distance_points(points)
    given = np.asarray(codes)
    if given.shape != (len(matrix),):
        raise ValueError(f"codes must hold one value a record, of shape ({len(matrix)},), not {given.shape}")
    if threshold.t is None or threshold.l is not None:
        raise ValueError("k-anonymity-first takes a threshold with t and without l")
    positions = threshold.reference.positions(given)[None, :]
    state = formation_of(matrix, k)
    # The violation of t = 0 is the size times the EMD of a class: that orders classes of one size.
    zero = rules_of([replace(threshold, t=Fraction(0))])
    _run(state, positions, k, rules_of([threshold]), zero, ledger_of(zero, len(matrix), 1, k))
    return state.labels


@compiled
def _run(
    state: Formation, codes: NDArray[np.int64], k: int, rules: Rules, zero: Rules, ledger: Ledger
) -> None:
    """Form all classes."""
    left = state.tree.left
    while left[0] > 0:
        seed = farthest_from_centroid(state)
        _generate(state, codes, seed, k, rules, zero, ledger)
        if left[0] > 0:
            _generate(state, codes, farthest(state.tree, state.points[seed]), k, rules, zero, ledger)


@compiled
def _generate(
    state: Formation, codes: NDArray[np.int64], seed: int, k: int, rules: Rules, zero: Rules, ledger: Ledger
) -> None:
    """Make a class around the seed: GenerateCluster of Algorithm 2."""
    if state.tree.left[0] < 2 * k:
        _take(state, np.flatnonzero(state.labels < 0))
        return
    members = np.empty(k, np.int64)
    k_neighbourhood(state, seed, members)
    if _violation(ledger, rules, codes, members) > 0.0:
        _refine(state, codes, seed, members, rules, zero, ledger)
    _take(state, members)


@compiled
def _take(state: Formation, members: NDArray[np.int64]) -> None:
    """Make a class of records that the tree still holds."""
    take(state.tree, members)
    make_class(state, members)


@compiled
def _refine(
    state: Formation, codes: NDArray[np.int64], seed: int, members: NDArray[np.int64],
    rules: Rules, zero: Rules, ledger: Ledger,
) -> None:  # fmt: skip
    """Exchange members for the records left, nearest to the seed first, until the class meets t."""
    distances, queue = _queue(state, seed, members)
    violation = _violation(ledger, zero, codes, members)
    for _ in range(len(queue)):
        offered = -queue[0]
        offer(distances, queue, -np.inf, NO_RECORD)
        gone, least = _best_swap(ledger, zero, codes, members, offered)
        if least < violation:
            members[gone] = offered
            ascend(members)
            if _violation(ledger, rules, codes, members) == 0.0:
                return
            violation = _violation(ledger, zero, codes, members)


@compiled
def _violation(ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64]) -> float:
    """Fill the ledger for a class; return its violation."""
    fill_ledger(ledger, rules, codes, ONLY_CLASS, members)
    return class_violation(ledger, rules, ONLY_CLASS, len(members))


@compiled
def _queue(
    state: Formation, seed: int, members: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the records left outside the class: a heap of minus distance and number, nearest on top."""
    size = state.tree.left[0] - len(members)
    distances, records = np.full(size, np.inf), np.full(size, NO_RECORD)
    at = 0
    for record in range(len(state.labels)):
        if state.labels[record] >= 0:
            continue
        if at < len(members) and members[at] == record:
            at += 1
            continue
        distance = 0.0
        for j in range(len(state.rest)):
            difference = state.points[record, j] - state.points[seed, j]
            distance += difference * difference
        offer(distances, records, -distance, -record)
    return distances, records


@compiled
def _best_swap(
    ledger: Ledger, rules: Rules, codes: NDArray[np.int64], members: NDArray[np.int64], new: int
) -> tuple[int, float]:
    """Return the member whose place a record should take, and the violation of the class then."""
    best, least = -1, np.inf
    enter(ledger, rules, ONLY_CLASS, ONLY_CLASS, len(members), codes[ONLY_CLASS, new], ONLY_CLASS, ONLY_CLASS)
    for i in range(len(members)):
        violation = violation_after_swap(
            ledger,
            rules,
            ONLY_CLASS,
            ONLY_CLASS,
            len(members),
            i,
            codes[ONLY_CLASS, new],
            ONLY_CLASS,
            ONLY_CLASS,
        )
        if violation < least:
            best, least = i, violation
    return best, least
