"""The classes of a partition while they are being merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.emd import edge_sum
from duckanon.kernels.closeness.threshold import Rules, rule_edges, rule_violation
from duckanon.kernels.compiled import compiled, inner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.histograms import Histograms

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
