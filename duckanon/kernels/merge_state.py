"""The classes of a partition while `merge` merges them, and the search for the class to merge with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.emd import edge_sum
from duckanon.kernels.closeness.threshold import Rules, rule_edges, rule_violation
from duckanon.kernels.compiled import compiled, inner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.reference import Histograms

CLASS = np.dtype(
    [("size", np.int64), ("parent", np.int64), ("violation", np.float64), ("urgency", np.float64)]
)
"""One class: its records, the class it was merged into (or itself), the sum of its violations (0.0 once it
satisfies every threshold), and its urgency. The most urgent class is merged next; a class that is gone has
the urgency -1.
"""


class MergeState(NamedTuple):
    """Classes that are being merged, by class; arrays are changed in place; made by `merge_state_of`."""

    # (m, d + r + S b): means, and from column `binned` on sums of each attribute by parts of its order
    features: NDArray[np.float64]
    dimensions: int  # d, the columns of `features` that make distances
    binned: int
    by_emd: bool
    table: NDArray[np.void]  # `CLASS` of each class; a merged class keeps the lower index
    # (m, S, 2): start in `entries` and number of the values of attribute a in class c
    runs: NDArray[np.int64]
    entries: NDArray[np.int64]  # values in row 0, their counts in row 1
    spare: NDArray[np.int64]  # memory for a union and for compaction
    used: NDArray[np.int64]  # (1,), entries in use


def merge_state_of(
    features: NDArray[np.float64],
    sizes: NDArray[np.int64],
    histograms: Sequence[Histograms],
    *,
    dimensions: int,
    bins: int = 0,
    violations: NDArray[np.float64],
    emd: NDArray[np.float64] | None = None,
) -> MergeState:
    """Return the state that begins with a partition, everything copied."""
    # `features` (m, d + r + S b) are the means of the classes in d `dimensions`, which make distances, in r
    # others, and in b `bins` of each of S attributes. `sizes` and `violations` are (m,), `histograms` has one
    # entry for each threshold. The urgency is the EMD (m,) if given, otherwise the violation.
    live = sum(len(h.values) for h in histograms)
    entries = np.zeros((2, 2 * live), dtype=np.int64)
    runs = np.zeros((len(sizes), len(histograms), 2), dtype=np.int64)
    base = 0
    for attribute, histogram in enumerate(histograms):
        end = base + len(histogram.values)
        entries[0, base:end], entries[1, base:end] = histogram.values, histogram.weights
        runs[:, attribute, 0], runs[:, attribute, 1] = histogram.starts[:-1] + base, np.diff(histogram.starts)
        base = end
    table = np.zeros(len(sizes), dtype=CLASS)
    table["size"], table["parent"] = sizes, np.arange(len(sizes))
    table["violation"], table["urgency"] = violations, violations if emd is None else emd
    spare, used = np.zeros((2, live), dtype=np.int64), np.array([live], dtype=np.int64)
    binned = features.shape[1] - len(histograms) * bins
    return MergeState(features.copy(), dimensions, binned, emd is not None, table, runs, entries, spare, used)


def copied(state: MergeState) -> MergeState:
    """Return a copy of the state, every array."""
    return MergeState(
        state.features.copy(), state.dimensions, state.binned, state.by_emd, state.table.copy(),
        state.runs.copy(), state.entries.copy(), state.spare.copy(), state.used.copy(),
    )  # fmt: skip


@compiled
def _update_violation(state: MergeState, rules: Rules, c: int) -> None:
    """Set the violation and the urgency of a class."""
    entry, entries = state.table[c], state.entries
    violation = 0.0
    for a in range(state.runs.shape[1]):
        first = state.runs[c, a, 0]
        last = first + state.runs[c, a, 1]
        violation += rule_violation(entries[0, first:last], entries[1, first:last], entry["size"], rules, a)
        if state.by_emd:
            low, high = edge_sum(
                entries[0, first:last], entries[1, first:last], entry["size"], rule_edges(rules, a)
            )
            numerator = float(low) if high < 2.0**62 else high
            entry["urgency"] = numerator / (float(entry["size"]) * rules.table[a]["whole"])
    entry["violation"] = violation
    if not state.by_emd:
        entry["urgency"] = violation


@inner
def current(state: MergeState, c: int) -> int:
    """Return the class that holds the records of class c now."""
    while state.table[c]["parent"] != c:
        entry = state.table[c]
        entry["parent"] = state.table[entry["parent"]]["parent"]
        c = entry["parent"]
    return c


@inner
def squared_distance(state: MergeState, x: int, y: int) -> float:
    """Return the squared Euclidean distance between the centroids of two classes."""
    total = 0.0
    for i in range(state.dimensions):
        difference = state.features[x, i] - state.features[y, i]
        total += difference * difference
    return total


@inner
def least_violation(state: MergeState, rules: Rules, x: int, y: int) -> float:
    """Return a lower bound, up to rounding, of `union_violation`: from t alone, by the sums of the parts."""
    features, one, other = state.features, float(state.table[x]["size"]), float(state.table[y]["size"])
    violation, place, attributes = 0.0, state.binned, state.runs.shape[1]
    bins = (features.shape[1] - place) // attributes
    for a in range(attributes):
        rule, total = rules.table[a], 0.0
        for i in range(place, place + bins):
            total += abs(one * features[x, i] + other * features[y, i])
        place += bins
        if rule["t"] >= 0.0:
            violation += max(0.0, total / rule["whole"] - (one + other) * rule["t"])
    return violation


@inner
def union_violation(state: MergeState, rules: Rules, x: int, y: int) -> float:
    """Return the violation of the union of two classes: at most the sum of theirs, up to rounding."""
    spare, size = state.spare, state.table[x]["size"] + state.table[y]["size"]
    violation = 0.0
    for a in range(state.runs.shape[1]):
        end = _unite(state, x, y, a, spare, 0)
        violation += rule_violation(spare[0, :end], spare[1, :end], size, rules, a)
    return violation


@inner
def join(state: MergeState, rules: Rules, x: int, y: int) -> int:
    """Merge two classes that are not gone; return the index of the union, the lower of the two."""
    kept, gone = min(x, y), max(x, y)
    runs, left, right = state.runs, state.table[kept], state.table[gone]
    needed = state.used[0]
    for a in range(runs.shape[1]):
        needed += runs[kept, a, 1] + runs[gone, a, 1]
    if needed > state.entries.shape[1]:
        _compact(state)
    for a in range(runs.shape[1]):
        place = state.used[0]
        runs[kept, a, 1] = _unite(state, kept, gone, a, state.entries, place)
        runs[kept, a, 0], runs[gone, a, 1] = place, 0
        state.used[0] += runs[kept, a, 1]
    size = left["size"] + right["size"]
    for i in range(state.features.shape[1]):
        total = state.features[kept, i] * left["size"] + state.features[gone, i] * right["size"]
        state.features[kept, i] = total / size
    left["size"] = size
    right["parent"], right["violation"], right["urgency"] = kept, 0.0, -1.0
    _update_violation(state, rules, kept)
    return kept


@inner
def _unite(state: MergeState, x: int, y: int, a: int, target: NDArray[np.int64], place: int) -> int:
    """Write the united histogram of two classes to the target; return its length."""
    entries, runs, start = state.entries, state.runs, place
    i, j = runs[x, a, 0], runs[y, a, 0]
    i_end, j_end = i + runs[x, a, 1], j + runs[y, a, 1]
    while i < i_end or j < j_end:
        from_x = j == j_end or (i < i_end and entries[0, i] <= entries[0, j])
        from_y = i == i_end or (j < j_end and entries[0, j] <= entries[0, i])
        target[0, place] = entries[0, i] if from_x else entries[0, j]
        target[1, place] = 0
        if from_x:
            target[1, place] += entries[1, i]
            i += 1
        if from_y:
            target[1, place] += entries[1, j]
            j += 1
        place += 1
    return place - start


@inner
def _compact(state: MergeState) -> None:
    """Move the histograms of the classes that are not gone to the front."""
    entries, spare, used = state.entries, state.spare, 0
    for c in range(state.runs.shape[0]):
        for a in range(state.runs.shape[1]):
            first = state.runs[c, a, 0]
            state.runs[c, a, 0] = used
            for i in range(first, first + state.runs[c, a, 1]):
                spare[0, used], spare[1, used] = entries[0, i], entries[1, i]
                used += 1
    for i in range(used):
        entries[0, i], entries[1, i] = spare[0, i], spare[1, i]
    state.used[0] = used


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
