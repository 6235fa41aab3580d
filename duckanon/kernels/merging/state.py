"""The classes of a partition while they are being merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.emd import edge_sum
from duckanon.kernels.closeness.threshold import Rules, rule_edges, rule_violation
from duckanon.kernels.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.histograms import Histograms


CLASS = np.dtype([("size", np.int64), ("parent", np.int64), ("missed", np.float64), ("urgency", np.float64)])
"""One class: its records; the class it was merged into or itself; what it misses; when it is merged.

``missed`` is the sum of its violations, 0.0 once it satisfies every threshold. The most urgent class is
merged next; a class that is gone has the urgency -1.
"""


class Classes(NamedTuple):
    """Classes that are being merged: arrays by class, changed in place; made by `classes_of`.

    A merged class lives on under the lower index. Attribute a of class c has ``runs[c, a, 1]`` values from
    ``pool[0, runs[c, a, 0]]`` on, with their counts in ``pool[1]``; ``used[0]`` entries of the pool are in
    use, ``spare`` is room for a union and for compaction.
    """

    features: NDArray[np.float64]
    dimensions: int
    by_emd: bool
    table: NDArray[np.void]
    runs: NDArray[np.int64]
    pool: NDArray[np.int64]
    spare: NDArray[np.int64]
    used: NDArray[np.int64]


def classes_of(
    features: NDArray[np.float64],
    sizes: NDArray[np.int64],
    histograms: Sequence[Histograms],
    *,
    dimensions: int,
    missed: NDArray[np.float64],
    emd: NDArray[np.float64] | None = None,
) -> Classes:
    """Return the classes of a partition, ready to be merged.

    Parameters
    ----------
    features : ndarray of shape (m, d + r), float64
        Mean of each class in d quasi-identifier coordinates and in r further ones.
    sizes : ndarray of shape (m,), int64
        Records of each class.
    histograms : sequence of Histograms
        Values of the classes, one for each of S thresholds.
    dimensions : int
        d, the coordinates that make distances.
    missed : ndarray of shape (m,), float64
        Sum of the violations of each class.
    emd : ndarray of shape (m,), float64, optional
        EMD of each class for the only threshold: then this is the urgency, else what is missed.

    Returns
    -------
    Classes
        Copies; O(m (d + r) + number of histogram entries) memory.
    """
    live = sum(len(h.values) for h in histograms)
    pool = np.zeros((2, 2 * live), dtype=np.int64)
    runs = np.zeros((len(sizes), len(histograms), 2), dtype=np.int64)
    base = 0
    for attribute, own in enumerate(histograms):
        end = base + len(own.values)
        pool[0, base:end], pool[1, base:end] = own.values, own.weights
        runs[:, attribute, 0], runs[:, attribute, 1] = own.starts[:-1] + base, np.diff(own.starts)
        base = end
    table = np.zeros(len(sizes), dtype=CLASS)
    table["size"], table["parent"] = sizes, np.arange(len(sizes))
    table["missed"], table["urgency"] = missed, missed if emd is None else emd
    spare, used = np.zeros((2, live), dtype=np.int64), np.array([live], dtype=np.int64)
    return Classes(features.copy(), dimensions, emd is not None, table, runs, pool, spare, used)


def copied(classes: Classes) -> Classes:
    """Return classes that can be merged while the given ones stay as they are.

    Parameters
    ----------
    classes : Classes
        The classes.

    Returns
    -------
    Classes
        The same, every array copied.
    """
    return Classes(
        classes.features.copy(), classes.dimensions, classes.by_emd, classes.table.copy(),
        classes.runs.copy(), classes.pool.copy(), classes.spare.copy(), classes.used.copy(),
    )  # fmt: skip


@compiled
def _judge(classes: Classes, rules: Rules, c: int) -> None:
    """Set what a class misses, and its urgency."""
    entry, pool = classes.table[c], classes.pool
    missed = 0.0
    for a in range(classes.runs.shape[1]):
        first = classes.runs[c, a, 0]
        last = first + classes.runs[c, a, 1]
        missed += rule_violation(pool[0, first:last], pool[1, first:last], entry["size"], rules, a)
        if classes.by_emd:
            low, high = edge_sum(
                pool[0, first:last], pool[1, first:last], entry["size"], rule_edges(rules, a)
            )
            numerator = float(low) if high < 2.0**62 else high
            entry["urgency"] = numerator / (float(entry["size"]) * rules.table[a]["whole"])
    entry["missed"] = missed
    if not classes.by_emd:
        entry["urgency"] = missed


@compiled
def current(classes: Classes, c: int) -> int:
    """Return the class that holds the records of class c now.

    Parameters
    ----------
    classes : Classes
        The classes.
    c : int
        A class, gone or not.

    Returns
    -------
    int
        Index of a class that is not gone.
    """
    while classes.table[c]["parent"] != c:
        entry = classes.table[c]
        entry["parent"] = classes.table[entry["parent"]]["parent"]
        c = entry["parent"]
    return c


@compiled
def squared_distance(classes: Classes, x: int, y: int) -> float:
    """Return the squared Euclidean distance between the centroids of two classes.

    Parameters
    ----------
    classes : Classes
        The classes.
    x, y : int
        Two of them.

    Returns
    -------
    float
        At least 0.
    """
    total = 0.0
    for i in range(classes.dimensions):
        difference = classes.features[x, i] - classes.features[y, i]
        total += difference * difference
    return total


@compiled
def missed_together(classes: Classes, rules: Rules, x: int, y: int) -> float:
    """Return what the union of two classes would miss.

    Parameters
    ----------
    classes : Classes
        The classes; the spare room is written.
    rules : Rules
        The thresholds.
    x, y : int
        Two different classes.

    Returns
    -------
    float
        At least 0, at most what the two miss now (but for rounding).
    """
    spare, size = classes.spare, classes.table[x]["size"] + classes.table[y]["size"]
    missed = 0.0
    for a in range(classes.runs.shape[1]):
        end = _unite(classes, x, y, a, spare, 0)
        missed += rule_violation(spare[0, :end], spare[1, :end], size, rules, a)
    return missed


@compiled
def join(classes: Classes, rules: Rules, x: int, y: int) -> int:
    """Merge two classes and return the index of the union, the lower of the two.

    Parameters
    ----------
    classes : Classes
        The classes, changed in place.
    rules : Rules
        The thresholds.
    x, y : int
        Two different classes, neither gone.

    Returns
    -------
    int
        The lower of x and y; the other is gone.
    """
    kept, gone = min(x, y), max(x, y)
    runs, left, right = classes.runs, classes.table[kept], classes.table[gone]
    needed = classes.used[0]
    for a in range(runs.shape[1]):
        needed += runs[kept, a, 1] + runs[gone, a, 1]
    if needed > classes.pool.shape[1]:
        _compact(classes)
    for a in range(runs.shape[1]):
        place = classes.used[0]
        runs[kept, a, 1] = _unite(classes, kept, gone, a, classes.pool, place)
        runs[kept, a, 0], runs[gone, a, 1] = place, 0
        classes.used[0] += runs[kept, a, 1]
    size = left["size"] + right["size"]
    for i in range(classes.features.shape[1]):
        total = classes.features[kept, i] * left["size"] + classes.features[gone, i] * right["size"]
        classes.features[kept, i] = total / size
    left["size"] = size
    right["parent"], right["missed"], right["urgency"] = kept, 0.0, -1.0
    _judge(classes, rules, kept)
    return kept


@compiled
def _unite(classes: Classes, x: int, y: int, a: int, target: NDArray[np.int64], place: int) -> int:
    """Write the united histogram of two classes to the target and return its length."""
    pool, runs, start = classes.pool, classes.runs, place
    i, j = runs[x, a, 0], runs[y, a, 0]
    i_end, j_end = i + runs[x, a, 1], j + runs[y, a, 1]
    while i < i_end or j < j_end:
        from_x = j == j_end or (i < i_end and pool[0, i] <= pool[0, j])
        from_y = i == i_end or (j < j_end and pool[0, j] <= pool[0, i])
        target[0, place] = pool[0, i] if from_x else pool[0, j]
        target[1, place] = 0
        if from_x:
            target[1, place] += pool[1, i]
            i += 1
        if from_y:
            target[1, place] += pool[1, j]
            j += 1
        place += 1
    return place - start


@compiled
def _compact(classes: Classes) -> None:
    """Move the histograms of the classes that are not gone to the front of the pool."""
    pool, spare, used = classes.pool, classes.spare, 0
    for c in range(classes.runs.shape[0]):
        for a in range(classes.runs.shape[1]):
            first = classes.runs[c, a, 0]
            classes.runs[c, a, 0] = used
            for i in range(first, first + classes.runs[c, a, 1]):
                spare[0, used], spare[1, used] = pool[0, i], pool[1, i]
                used += 1
    for i in range(used):
        pool[0, i], pool[1, i] = spare[0, i], spare[1, i]
    classes.used[0] = used
