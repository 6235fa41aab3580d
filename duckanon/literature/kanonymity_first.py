"""k-anonymity-first microaggregation: classes by MDAV, each refined by exchanges until its EMD is at most t.

Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, "t-Closeness through Microaggregation: Strict Privacy with
Enhanced Utility Preservation", IEEE TKDE 27(11), 2015, section 6, Algorithm 2. Steps:
docs/methods/t-closeness.md.

The classes need not reach t: records may run out, and no class of k reaches a t below the bound of
Proposition 1. The paper then merges classes by its Algorithm 1, which is
``compose.merged(points, [codes], [threshold], labels, "nearest")``.

Reading: a record is offered to a class once. A member that was put out, even the seed, remains for later
classes. Of equally near records the lowest number is offered first. The paper does not say which of equally
good members to put out; here the lowest number goes.

EMDs are compared exactly, as integers; they are rounded only where n m k exceeds 2^52. At worst O(n^2 / k)
distances with a heap of them for each class, and O(n^2 / k) offers of k exchanges each. An exchange is
answered in constant time from prefix sums, in a tree in O(H).
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
from duckanon.kernels.first.mdav import (
    Formation,
    farthest_from_centroid,
    formation_of,
    k_neighbourhood,
    make_class,
)
from duckanon.kernels.neighbours.boxtree import farthest, take
from duckanon.kernels.neighbours.slots import NO_RECORD, ascend, offer
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Threshold

ONLY_CLASS = cast("int", np.int64(0))
"""The only class of the ledger, and its only attribute. Typed, since literals are compiled anew."""


def kanonymity_first(points: ArrayLike, codes: ArrayLike, k: int, threshold: Threshold) -> NDArray[np.int64]:
    """Return classes of k records, the last of k..2k-1, whose EMD was lowered towards t, not always to t."""
    # The threshold has t, no l, and the whole table as reference, with any distance; ValueError otherwise.
    matrix = distance_points(points)
    given = np.asarray(codes)
    if given.shape != (len(matrix),):
        raise ValueError(f"codes must hold one value a record, of shape ({len(matrix)},), not {given.shape}")
    if threshold.t is None or threshold.l is not None:
        raise ValueError("k-anonymity-first takes a threshold with t and without l")
    positions = threshold.reference.positions(given)[None, :]
    state = formation_of(matrix, k)
    # The violation of t = 0 is class size times EMD. Classes of one size have the order of their EMDs.
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
    """Return the records outside the class as a heap of minus distance and number, nearest on top."""
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
    """Return the member to be replaced by a record, and the violation of the class after that."""
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
