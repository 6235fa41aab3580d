"""Exact earth mover's distance between classes and the whole table, for the three ground distances.

Every ground distance is a tree metric (see `reference`), so the EMD is a sum over edges (`edge_sum`). On a
path, the class's distribution function is constant between two neighbouring values of the class, and the
table's is monotone. So each gap has one crossing and is closed by two prefix sums: O(s log m) for s records.
In a tree of height H it takes O(s H).

Source: Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007, section 5. The salaries of the paper:

>>> emd_ordered([3, 4, 5], [3, 4, 5, 6, 7, 8, 9, 10, 11])
0.375
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.reference import (
    LISTED_CLASS_MAX_RECORDS,
    Edges,
    Histograms,
    Reference,
    checked_offsets,
    class_histograms,
    reference,
)
from duckanon.kernels.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def emd_fraction(reference: Reference, codes: ArrayLike) -> tuple[int, int]:
    """Return the EMD of a class with codes (s,), as numerator and denominator s n `reference.scale`."""
    # Exact, whatever the size; not reduced. ValueError if the class is empty or a code is not one of the
    # reference.
    size = np.asarray(codes).size
    if size == 0:
        raise ValueError("an empty class has no EMD")
    values, weights = np.unique(reference.positions(codes), return_counts=True)
    low, high = edge_sum(values, weights.astype(np.int64), size, reference.edges)
    wraps = round((high - float(low)) / 2.0**64)
    return int(low) + wraps * 2**64, size * reference.total * reference.scale


def emd(reference: Reference, codes: ArrayLike) -> float:
    """Return the EMD of one class, 0 to 1: the float64 nearest to `emd_fraction`."""
    numerator, denominator = emd_fraction(reference, codes)
    return numerator / denominator


def emd_per_class(reference: Reference, codes: ArrayLike, offsets: ArrayLike) -> NDArray[np.float64]:
    """Return the EMD (m,), 0 to 1, of each class c, which holds the records offsets[c]:offsets[c + 1]."""
    # Correctly rounded while numerator and denominator stay below 2^53. O(n log n + n log m), in a tree O(n
    # log n + n H). Deterministic. ValueError if a class is empty, or the offsets or codes do not fit.
    checked = checked_offsets(offsets, np.size(codes))
    histograms = class_histograms(reference.positions(codes), checked)
    return _emd_per_class(histograms, np.diff(checked), reference.scale, reference.edges)


def emd_ordered(class_values: ArrayLike, population_values: ArrayLike) -> float:
    """Return the ordered EMD, 0 to 1, between class and population; 0.0 if the population is one value."""
    # The distinct values of the population are the domain; NaN is one value, the last. ValueError if there is
    # no value, or a class value does not occur in the population.
    members = np.asarray(class_values, dtype=np.float64).ravel()
    population = np.asarray(population_values, dtype=np.float64).ravel()
    if population.size == 0 or members.size == 0:
        raise ValueError(f"the {'class' if population.size else 'population'} has no values")
    domain, counts = np.unique(population, return_counts=True)
    codes = np.minimum(np.searchsorted(domain, members), len(domain) - 1)
    matched = domain[codes]
    missing = (matched != members) & ~(np.isnan(matched) & np.isnan(members))
    if missing.any():
        raise ValueError(f"class value {members[np.argmax(missing)]} does not occur in the population")
    return emd(reference(counts, "ordered"), codes)


@compiled
def edge_sum(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, edges: Edges
) -> tuple[int, float]:
    """Return the sum over edges e of |n P(below e) - s Q(below e)|, P and Q counted in records."""
    # The class of s = `size` records has `weights` at the ascending positions `values`. The sum is returned
    # modulo 2^64, as int64, and rounded. The two together give the exact sum up to 2^90.
    if len(edges.nodes) > 0:
        return _tree_sum(values, weights, size, edges)
    return _path_sum(values, weights, size, edges)


@compiled
def _path_sum(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, edges: Edges
) -> tuple[int, float]:
    """Return `edge_sum` of a path: every gap between class values has one crossing and two prefix sums."""
    prefix, m = edges.prefix, len(edges.cumulative)
    listed = size * (size + 1) // 2 - 1 if size <= LISTED_CLASS_MAX_RECORDS else -1
    low, high = 0, 0.0
    below, start = 0, 0
    for j in range(len(values) + 1):
        end = int(values[j]) if j < len(values) else m
        if end > start:
            level = edges.total * below
            if listed >= 0:
                cross = min(max(edges.quantiles[listed + below], start), end)
            else:
                cross = crossing(edges.cumulative, start, end, level, size)
            excess = 2 * cross - start - end
            mass = int(prefix[start] + prefix[end] - 2 * prefix[cross])
            low += level * excess + size * mass
            high += float(level) * float(excess) + float(size) * float(mass)
        if j < len(values):
            below += int(weights[j])
        start = end
    return low, high


@compiled
def crossing(cumulative: NDArray[np.int64], start: int, end: int, level: int, size: int) -> int:
    """Return the first index in start..end whose cumulative count times size exceeds the level."""
    while start < end:
        middle = (start + end) // 2
        if cumulative[middle] * size > level:
            end = middle
        else:
            start = middle + 1
    return start


@compiled
def _tree_sum(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, edges: Edges
) -> tuple[int, float]:
    """Return `edge_sum` of a tree: all edges for an empty class, corrected where the class has records."""
    nodes, m = edges.nodes, len(edges.cumulative)
    height = len(nodes) // m
    low = edges.total * size * height
    high = float(edges.total) * float(size) * float(height)
    for level in range(height):
        inside = 0
        for j in range(len(values)):
            place = level * m + values[j]
            inside += int(weights[j])
            if j + 1 == len(values) or nodes[place] != nodes[level * m + values[j + 1]]:
                untouched = size * int(edges.below[place])
                change = abs(edges.total * inside - untouched) - untouched
                low += change
                high += float(change)
                inside = 0
    return low, high


@compiled
def _emd_per_class(
    histograms: Histograms, sizes: NDArray[np.int64], scale: int, edges: Edges
) -> NDArray[np.float64]:
    """Return the EMD of each class."""
    result = np.empty(len(sizes))
    for c in range(len(sizes)):
        first, last = histograms.starts[c], histograms.starts[c + 1]
        low, high = edge_sum(histograms.values[first:last], histograms.weights[first:last], sizes[c], edges)
        numerator = float(low) if high < 2.0**62 else high
        result[c] = numerator / (float(sizes[c]) * (float(edges.total) * float(scale)))
    return result
