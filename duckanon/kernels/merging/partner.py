"""The search for the class that a violating class is merged with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled, inner
from duckanon.kernels.merging.state import (
    MergeState,
    current,
    join,
    least_violation,
    squared_distance,
    union_violation,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules

FREE_MERGE_LOSS = 1e-100
"""Loss assumed for merging equal centroids, so that the removed violation still ranks candidates."""

REMOVAL_ROUNDING_SHARE = 1e-9
"""Share of a violation below which a removal is rounding."""

BOUND_SLACK = 1e-9
"""Violation of a record by which a bound is loosened: far more than its rounding."""


@compiled
def merge_all(
    state: MergeState,
    rules: Rules,
    remaining: NDArray[np.int64],
    power: float,
    lost: float,
    most: float,
) -> float:
    """Merge the most urgent class until all satisfy the thresholds or one is left."""
    # Ties to the lowest index. `remaining` (m,) are the classes that exist, ascending; it is changed. With
    # power 0 the partner is the nearest class, otherwise the `efficient_partner`. Returned is `lost` plus the
    # increase of SSE; merging stops once that exceeds `most`. O(m^2 d) time; bounds keep the number of unions
    # small.
    bounds = np.empty(len(remaining))
    count = len(remaining)
    while count > 1 and lost <= most:
        x = _most_urgent(state, remaining[:count])
        if x < 0:
            return lost
        if power > 0.0:
            y = efficient_partner(state, rules, x, remaining[:count], bounds, power)
        else:
            y = _nearest(state, x, remaining[:count])
        lost += _loss(state, x, y)
        join(state, rules, x, y)
        count = _without(remaining, count, max(x, y))
    return lost


@compiled
def merge_round(
    state: MergeState,
    rules: Rules,
    violating: NDArray[np.int64],
    candidates: NDArray[np.int64],
    power: float,
) -> float:
    """Merge each violating class (v,), in order, with its best candidate (v, c); return the rise of SSE."""
    # The best is the most efficient, see `efficient_partner`. A violating class that has grown in this round
    # is skipped. A candidate that was merged in this round is replaced by the class that holds its records
    # now.
    bounds, lost = np.empty(candidates.shape[1]), 0.0
    sizes = state.table["size"].copy()
    for row in range(len(violating)):
        x, options = violating[row], candidates[row]
        if state.table[x]["parent"] == x and state.table[x]["size"] == sizes[x]:
            for i in range(len(options)):
                options[i] = current(state, options[i])
            y = efficient_partner(state, rules, x, options, bounds, power)
            if y >= 0:
                lost += _loss(state, x, y)
                join(state, rules, x, y)
    return lost


@inner
def efficient_partner(
    state: MergeState,
    rules: Rules,
    x: int,
    candidates: NDArray[np.int64],
    bounds: NDArray[np.float64],
    power: float,
) -> int:
    """Return the candidate whose union with x has the least (rise of SSE) / (violation removed) ** power."""
    # The first among equals; the nearest candidate if no union removes any violation; -1 if x is the only
    # candidate. A union removes at most the violations of both classes, which gives a lower bound of the
    # score. Unions are formed only for candidates whose bound (kept in `bounds`) and whose closer bound are
    # below the best score, beginning with the least bound.
    first = -1
    for i in range(len(candidates)):
        y = candidates[i]
        bounds[i] = np.inf
        if y != x:
            apart = state.table[x]["violation"] + state.table[y]["violation"]
            bounds[i] = _loss(state, x, y) / _weight(apart, power)
            if first < 0 or bounds[i] < bounds[first]:
                first = i
    if first < 0:
        return -1
    best, partner = _score(state, rules, x, candidates[first], power), candidates[first]
    for i in range(len(candidates)):
        if bounds[i] < best and i != first and _bound(state, rules, x, candidates[i], power) < best:
            score = _score(state, rules, x, candidates[i], power)
            if score < best:
                best, partner = score, candidates[i]
    return partner if best < np.inf else _nearest(state, x, candidates)


@inner
def _most_urgent(state: MergeState, remaining: NDArray[np.int64]) -> int:
    """Return the most urgent class, the first among equals, or -1 if all satisfy the thresholds."""
    urgent, violated = remaining[0], False
    for c in remaining:
        violated = violated or state.table[c]["violation"] > 0.0
        if state.table[c]["urgency"] > state.table[urgent]["urgency"]:
            urgent = c
    return urgent if violated else -1


@inner
def _bound(state: MergeState, rules: Rules, x: int, y: int, power: float) -> float:
    """Return a lower bound of the score: a union removes at most both violations less `least_violation`."""
    apart = state.table[x]["violation"] + state.table[y]["violation"]
    size = float(state.table[x]["size"] + state.table[y]["size"])
    removed = min(apart, apart - least_violation(state, rules, x, y) + BOUND_SLACK * size)
    return (
        _loss(state, x, y) / _weight(removed, power) if removed > REMOVAL_ROUNDING_SHARE * apart else np.inf
    )


@inner
def _weight(removed: float, power: float) -> float:
    """Return the power of the removed violation; the two powers that are tried need no pow()."""
    return removed if power == 1.0 else removed * removed if power == 2.0 else removed**power


@inner
def _score(state: MergeState, rules: Rules, x: int, y: int, power: float) -> float:
    """Return the increase of SSE / (violation removed) ** power; infinite if no violation is removed."""
    apart = state.table[x]["violation"] + state.table[y]["violation"]
    removed = apart - union_violation(state, rules, x, y)
    return (
        _loss(state, x, y) / _weight(removed, power) if removed > REMOVAL_ROUNDING_SHARE * apart else np.inf
    )


@inner
def _loss(state: MergeState, x: int, y: int) -> float:
    """Return the increase of SSE by merging two classes, at least `FREE_MERGE_LOSS`."""
    one, other = float(state.table[x]["size"]), float(state.table[y]["size"])
    return squared_distance(state, x, y) * (one * other / (one + other)) + FREE_MERGE_LOSS


@inner
def _nearest(state: MergeState, x: int, candidates: NDArray[np.int64]) -> int:
    """Return the candidate other than x with the nearest centroid, the first among equals."""
    partner, least = -1, np.inf
    for y in candidates:
        if y != x:
            distance = squared_distance(state, x, y)
            if partner < 0 or distance < least:
                partner, least = y, distance
    return partner


@inner
def _without(remaining: NDArray[np.int64], count: int, gone: int) -> int:
    """Remove a class from the first `count` ascending entries; return how many are left."""
    place = 0
    for i in range(count):
        if remaining[i] != gone:
            remaining[place] = remaining[i]
            place += 1
    return place
