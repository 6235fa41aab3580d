"""Thresholds as arrays, and the compiled verdict on a class."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.emd import edge_sum
from duckanon.kernels.logarithm import logarithm
from duckanon.kernels.reference import LARGEST_LISTED, Edges

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from numpy.typing import NDArray

    from duckanon.kernels.threshold import Threshold

STEPS = 10**12
"""Finest denominator of t and c: the audits compare with DECIMAL(18, 12)."""

ENTROPY_MARGIN = 2e-9
"""By how much the entropy of unequal counts must exceed log l, which is rounded; the audit asks for 1e-9."""

LISTED = LARGEST_LISTED * (LARGEST_LISTED + 3) // 2
"""Entries of the list of quantiles of a path."""

DISTINCT, ENTROPY, RECURSIVE = 1, 2, 3


RULE = np.dtype(
    [(name, np.int64) for name in ("total", "values", "height", "start", "step", "rest", "parts")]
    + [("l_kind", np.int64), ("c", np.int64), ("l", np.float64), ("t", np.float64), ("whole", np.float64)]
)
"""One threshold: the table (records n, values m, tree height H, start of its arrays), then t, l and c.

A class of s records meets t if its `edge_sum` is at most ``s * step + floor(s * rest / parts)``; ``whole``
is n times the scale of the distance. t is -1 and l_kind 0 where there is none; c counts steps of 10^-12.
"""


class Rules(NamedTuple):
    """Thresholds as the compiled functions take them; made by `rules_of`."""

    table: NDArray[np.void]
    arrays: NDArray[np.int64]


def rules_of(thresholds: Sequence[Threshold]) -> Rules:
    """Return the thresholds as arrays for compiled code.

    Parameters
    ----------
    thresholds : sequence of Threshold
        One for each sensitive attribute.

    Returns
    -------
    Rules
        One entry of `RULE` a threshold; O(sum of m H) memory.
    """
    table = np.zeros(len(thresholds), dtype=RULE)
    arrays: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    start = 0
    for entry, threshold in zip(table, thresholds, strict=True):
        edges = threshold.reference.edges
        own = [edges.cumulative, edges.prefix, edges.nodes, edges.below, edges.quantiles]
        entry["total"], entry["values"] = edges.total, len(edges.cumulative)
        entry["height"], entry["start"] = len(edges.nodes) // len(edges.cumulative), start
        _enter(entry, threshold)
        arrays += own
        start += sum(len(array) for array in own)
    return Rules(table, np.concatenate(arrays))


def _enter(entry: np.void, threshold: Threshold) -> None:
    """Enter t, l and c of a threshold."""
    whole = threshold.reference.total * threshold.reference.scale
    t = _steps(threshold.t if threshold.t is not None else Fraction(1))
    entry["step"], entry["rest"] = divmod(t.numerator * whole, t.denominator)
    entry["parts"], entry["whole"] = t.denominator, float(whole)
    entry["t"] = float(t) if threshold.t is not None else -1.0
    kinds = {"distinct": DISTINCT, "entropy": ENTROPY, "recursive": RECURSIVE}
    entry["l_kind"] = kinds[threshold.l_kind] if threshold.l is not None else 0
    entry["l"] = _least(threshold)
    entry["c"] = math.floor(Fraction(threshold.c or 0) * STEPS)


def _steps(t: Decimal | Fraction) -> Fraction:
    """Return t exactly if its denominator allows, else cut off after twelve decimals."""
    exact = Fraction(t)
    return exact if exact.denominator <= STEPS else Fraction(math.floor(exact * STEPS), STEPS)


def _least(threshold: Threshold) -> float:
    """Return l as it is compared: counts are whole numbers, an entropy is not."""
    if threshold.l is None:
        return 0.0
    return float(threshold.l) if threshold.l_kind == "entropy" else float(math.ceil(threshold.l))


@compiled
def rule_violation(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, rules: Rules, which: int
) -> float:
    """Return by how much a class misses one threshold; see `violation`.

    Parameters
    ----------
    values, weights : ndarray of shape (d,), int64
        Ascending positions of the class and the records at each.
    size : int
        Records of the class.
    rules : Rules
        The thresholds.
    which : int
        Index of the threshold.

    Returns
    -------
    float
        At least 0, 0.0 exactly if the threshold is met.
    """
    rule = rules.table[which]
    kind, least = rule["l_kind"], rule["l"]
    missed = 0.0
    if rule["t"] >= 0.0:
        missed += _t_violation(edge_sum(values, weights, size, rule_edges(rules, which)), size, rule)
    if kind == DISTINCT and len(values) < least:
        missed += size * (least - len(values)) / least
    elif kind == ENTROPY:
        missed += _entropy_violation(weights, size, least)
    elif kind == RECURSIVE:
        missed += _recursive_violation(weights, size, int(least), rule["c"])
    return missed


@compiled
def rule_edges(rules: Rules, which: int) -> Edges:
    """Return the table's distribution for one threshold.

    Parameters
    ----------
    rules : Rules
        The thresholds.
    which : int
        Index of the threshold.

    Returns
    -------
    Edges
        Views.
    """
    rule = rules.table[which]
    m, height = rule["values"], rule["height"]
    a = rule["start"]
    b = a + m
    c = b + m + 1
    d = c + m * height
    e = d + m * height
    f = e if height > 0 else e + LISTED
    arrays = rules.arrays
    return Edges(rule["total"], arrays[a:b], arrays[b:c], arrays[c:d], arrays[d:e], arrays[e:f])


@compiled
def _t_violation(total: tuple[int, float], size: int, rule: np.void) -> float:
    """Return s (EMD - t) from the edge sum, or 0.0 if that is within the bound.

    The exact difference of sum and bound is known modulo 2^64: where the rounded difference is below 2^62
    it is that number, elsewhere the rounded one has the right sign.
    """
    low, high = total
    bound = size * rule["step"] + _scaled(size, rule["rest"], rule["parts"], 0)
    allowed = rule["t"] * (float(size) * rule["whole"])
    rounded = (float(low) if high < 2.0**62 else high) - allowed
    violated = low - bound > 0 if abs(rounded) < 2.0**62 else rounded > 0.0
    return max(rounded, 1.0 / STEPS) / rule["whole"] if violated else 0.0


@compiled
def _scaled(size: int, rest: int, parts: int, extra: int) -> int:
    """Return floor((size * rest + extra) / parts) for size below 2^31 and the others up to 10^12."""
    carried = (size >> 16) * rest
    return (carried // parts << 16) + ((carried % parts << 16) + (size & 0xFFFF) * rest + extra) // parts


@compiled
def _entropy_violation(weights: NDArray[np.int64], size: int, least: float) -> float:
    """Return s (ln l - H) / ln l, or 0.0 if exp(H) reaches l; equal counts have exp(H) = their number."""
    if least <= 1.0 or size == 0:
        return 0.0
    if weights.min() == weights.max() and len(weights) >= least:
        return 0.0
    entropy = 0.0
    for weight in weights:
        entropy -= weight / size * logarithm(weight / size)
    missed = logarithm(least) - entropy
    if missed <= -ENTROPY_MARGIN:
        return 0.0
    return size * max(missed, ENTROPY_MARGIN) / logarithm(least)


@compiled
def _recursive_violation(weights: NDArray[np.int64], size: int, place: int, steps: int) -> float:
    """Return 1 + r_1 - c (r_l + ... + r_m) with c in steps of 10^-12, or 0.0 if r_1 is below."""
    most, tail, left = 0, size, place - 1
    for weight in weights:
        most = max(most, weight)
    largest = most
    while left > 0 and tail > 0:
        times, lower = 0, 0
        for weight in weights:
            times += weight == largest
            if lower < weight < largest:
                lower = weight
        tail -= min(times, left) * largest
        left -= times
        largest = lower
    reach = tail * (steps // STEPS) + _scaled(tail, steps % STEPS, STEPS, STEPS - 1)
    return 1.0 + max(float(most) - float(steps) / STEPS * float(tail), 0.0) if most >= reach else 0.0
