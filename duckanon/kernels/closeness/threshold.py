"""What every class must satisfy for a sensitive attribute, and by how much a class violates it.

For the counts r_1 >= r_2 >= ... >= r_m of the values in a class of s records (NULL is a value), a class
satisfies

- t, if EMD <= t, compared exactly; a t finer than 10^-12 is cut off, which is stricter;
- distinct l, if the class has l distinct values;
- entropy l, if exp(entropy) >= l; unequal counts need a margin of `ENTROPY_MARGIN` in the logarithm, because
  logarithms are rounded;
- recursive (c, l), if r_1 < c (r_l + ... + r_m);
- bounds on the share of each value, see `shares`.

The violation is 0.0 exactly if the class satisfies the threshold, and otherwise s (EMD - t) for t, s (l -
distinct) / l for distinct l, s (ln l - H) / ln l for entropy l with the entropy H, 1 + r_1 - c (r_l + ... +
r_m) for recursive (c, l), and the records beyond the bounds of shares. Merging two classes never increases
the sum of their violations. The verdicts on t, distinct l, recursive c and shares are exact integer
arithmetic.

Sources: Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007; Machanavajjhala et al., "l-Diversity", ACM
TKDD 1(1), 2007, definitions 4.1 and 4.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from duckanon.kernels.closeness.emd import edge_sum
from duckanon.kernels.closeness.reference import (
    LISTED_CLASS_MAX_RECORDS,
    Edges,
    Histograms,
    checked_offsets,
    class_histograms,
)
from duckanon.kernels.closeness.shares import UNITS, share_units
from duckanon.kernels.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.reference import Reference
    from duckanon.kernels.closeness.shares import ShareBounds

THRESHOLD_DENOMINATOR = 10**12
"""Finest denominator of t and c: the audits compare with DECIMAL(18, 12)."""

ENTROPY_MARGIN = 2e-9
"""By how much the entropy of unequal counts must exceed log l, which is rounded; the audit asks for 1e-9."""

LISTED_QUANTILES = LISTED_CLASS_MAX_RECORDS * (LISTED_CLASS_MAX_RECORDS + 3) // 2
"""Entries of the list of quantiles of a path, and of the list of turns."""

L_DISTINCT, L_ENTROPY, L_RECURSIVE = 1, 2, 3

RULE = np.dtype(
    [(name, np.int64) for name in ("total", "values", "height", "start", "step", "rest", "parts")]
    + [(name, np.int64) for name in ("shares", "floors", "floor_units")]
    + [("l_kind", np.int64), ("c", np.int64), ("l", np.float64), ("t", np.float64), ("whole", np.float64)]
)
"""One threshold: the table (records n, values m, tree height H, start of its arrays), then t, l and c.

A class of s records meets t if its `edge_sum` is at most ``s * step + floor(s * rest / parts)``; ``whole``
is n times the scale of the distance. t is -1 and l_kind 0 where there is none; c counts steps of 10^-12. The
bounds of shares begin at ``shares``, -1 where there are none; every class must have ``floors`` values.
"""


class Rules(NamedTuple):
    """Thresholds as the compiled functions take them; made by `rules_of`."""

    table: NDArray[np.void]
    arrays: NDArray[np.int64]


def rules_of(thresholds: Sequence[Threshold]) -> Rules:
    """Return the thresholds as arrays for compiled code, one entry of `RULE` each. O(sum of m H) memory."""
    table = np.zeros(len(thresholds), dtype=RULE)
    arrays: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    start = 0
    for entry, threshold in zip(table, thresholds, strict=True):
        edges = threshold.reference.edges
        parts = [edges.cumulative, edges.prefix, edges.nodes, edges.below, edges.quantiles, _turns(edges)]
        entry["total"], entry["values"] = edges.total, len(edges.cumulative)
        entry["height"], entry["start"] = len(edges.nodes) // len(edges.cumulative), start
        _enter(entry, threshold)
        entry["shares"] = -1
        if threshold.shares is not None:
            entry["shares"] = start + sum(len(array) for array in parts)
            parts.append(_enter_shares(entry, threshold.shares, threshold.reference.position))
        arrays += parts
        start += sum(len(array) for array in parts)
    return Rules(table, np.concatenate(arrays))


def _turns(edges: Edges) -> NDArray[np.int64]:
    """Return for each quantile p / s of a path twice ``sum over x < quantile of n p - s cumulative[x]``."""
    if len(edges.quantiles) == 0:
        return np.zeros(0, dtype=np.int64)
    sizes = np.repeat(np.arange(1, LISTED_CLASS_MAX_RECORDS + 1), np.arange(2, LISTED_CLASS_MAX_RECORDS + 2))
    part = np.arange(LISTED_QUANTILES) - (sizes * (sizes + 1) // 2 - 1)
    turns = edges.total * part * edges.quantiles - sizes * edges.prefix[edges.quantiles]
    return np.asarray(2 * turns, dtype=np.int64)


def _enter(entry: np.void, threshold: Threshold) -> None:
    """Enter t, l and c of a threshold."""
    whole = threshold.reference.total * threshold.reference.scale
    t = _steps(threshold.t if threshold.t is not None else Fraction(1))
    entry["step"], entry["rest"] = divmod(t.numerator * whole, t.denominator)
    entry["parts"], entry["whole"] = t.denominator, float(whole)
    entry["t"] = float(t) if threshold.t is not None else -1.0
    kinds = {"distinct": L_DISTINCT, "entropy": L_ENTROPY, "recursive": L_RECURSIVE}
    entry["l_kind"] = kinds[threshold.l_kind] if threshold.l is not None else 0
    entry["l"] = _least(threshold)
    entry["c"] = math.floor(Fraction(threshold.c or 0) * THRESHOLD_DENOMINATOR)


def _enter_shares(entry: np.void, shares: ShareBounds, position: NDArray[np.int64]) -> NDArray[np.int64]:
    """Enter the values that every class must have; return the bounds by position, row after row."""
    table = np.empty_like(shares.table)
    table[:, position] = shares.table
    entry["floors"], entry["floor_units"] = shares.floors, int(table[-1].sum())
    return table.ravel()


def _steps(t: Decimal | Fraction) -> Fraction:
    """Return t exactly if its denominator allows, else cut off after twelve decimals."""
    exact = Fraction(t)
    return (
        exact
        if exact.denominator <= THRESHOLD_DENOMINATOR
        else Fraction(math.floor(exact * THRESHOLD_DENOMINATOR), THRESHOLD_DENOMINATOR)
    )


def _least(threshold: Threshold) -> float:
    """Return l as it is compared: rounded up for counts, as given for entropy."""
    if threshold.l is None:
        return 0.0
    return float(threshold.l) if threshold.l_kind == "entropy" else float(math.ceil(threshold.l))


@compiled
def rule_violation(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, rules: Rules, which: int
) -> float:
    """Return the violation of one threshold by a class: ascending positions, and the records at each."""
    rule = rules.table[which]
    kind, least = rule["l_kind"], rule["l"]
    total = 0.0
    if rule["t"] >= 0.0:
        total += t_violation(edge_sum(values, weights, size, rule_edges(rules, which)), size, rule)
    if kind == L_DISTINCT and len(values) < least:
        total += size * (least - len(values)) / least
    elif kind == L_ENTROPY:
        total += _entropy_violation(weights, size, least)
    elif kind == L_RECURSIVE:
        total += _recursive_violation(weights, size, int(least), rule["c"])
    if rule["shares"] >= 0:
        total += share_units(values, weights, size, rule, rules.arrays) / UNITS
    return total


@compiled
def rule_edges(rules: Rules, which: int) -> Edges:
    """Return the table's distribution for one threshold, as views."""
    rule = rules.table[which]
    m, height = rule["values"], rule["height"]
    a = rule["start"]
    b = a + m
    c = b + m + 1
    d = c + m * height
    e = d + m * height
    f = e if height > 0 else e + LISTED_QUANTILES
    arrays = rules.arrays
    return Edges(rule["total"], arrays[a:b], arrays[b:c], arrays[c:d], arrays[d:e], arrays[e:f])


@compiled
def t_violation(total: tuple[int, float], size: int, rule: np.void) -> float:
    """Return s (EMD - t) from the edge sum, or 0.0 if the edge sum is within the bound."""
    # The difference of sum and bound is known exactly modulo 2^64. Where the rounded difference is below
    # 2^62, the exact number is used. Elsewhere the rounded number has the right sign.
    low, high = total
    bound = size * rule["step"] + _scaled(size, rule["rest"], rule["parts"], 0)
    allowed = rule["t"] * (float(size) * rule["whole"])
    rounded = (float(low) if high < 2.0**62 else high) - allowed
    violated = low - bound > 0 if abs(rounded) < 2.0**62 else rounded > 0.0
    return max(rounded, 1.0 / THRESHOLD_DENOMINATOR) / rule["whole"] if violated else 0.0


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
    entropy, equal = 0.0, True
    for weight in weights:
        equal = equal and weight == weights[0]
    if equal and len(weights) >= least:
        return 0.0
    for weight in weights:
        entropy -= weight / size * logarithm(weight / size)
    shortfall = logarithm(least) - entropy
    if shortfall <= -ENTROPY_MARGIN:
        return 0.0
    return size * max(shortfall, ENTROPY_MARGIN) / logarithm(least)


@compiled
def _recursive_violation(weights: NDArray[np.int64], size: int, place: int, steps: int) -> float:
    """Return 1 + r_1 - c (r_l + ... + r_m) with c in steps of 10^-12, or 0.0 if (c, l) is satisfied."""
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
    reach = tail * (steps // THRESHOLD_DENOMINATOR) + _scaled(
        tail, steps % THRESHOLD_DENOMINATOR, THRESHOLD_DENOMINATOR, THRESHOLD_DENOMINATOR - 1
    )
    return (
        1.0 + max(float(most) - float(steps) / THRESHOLD_DENOMINATOR * float(tail), 0.0)
        if most >= reach
        else 0.0
    )


LKind = Literal["distinct", "entropy", "recursive"]

C_MAX = 10**6
"""c in steps of 10^-12 fits in 62 bits below this."""


@dataclass(frozen=True, eq=False)
class Threshold:
    """What every class must satisfy for one sensitive attribute; ValueError if a number is out of range."""

    reference: Reference  # distribution of the attribute in the released table
    t: Decimal | Fraction | None = None  # largest EMD, 0 to 1
    # least diversity, at least 1
    l: Decimal | None = None  # noqa: E741 - l-diversity has this name everywhere
    l_kind: LKind = "distinct"
    c: Decimal | None = None  # for 'recursive' only, above 0 and below C_MAX
    shares: ShareBounds | None = None  # bounds on the share of each value code

    def __post_init__(self) -> None:
        """Refuse thresholds that are out of range."""
        if self.t is not None and not (math.isfinite(self.t) and 0 <= self.t <= 1):
            raise ValueError(f"t must be within 0..1, not {self.t}")
        if self.l_kind not in get_args(LKind):
            raise ValueError(f"unknown l_kind '{self.l_kind}': use 'distinct', 'entropy' or 'recursive'")
        if self.l is not None and not (self.l.is_finite() and self.l >= 1):
            raise ValueError(f"l must be a number of at least 1, not {self.l}")
        recursive = self.l is not None and self.l_kind == "recursive"
        if self.l is not None and recursive and self.l != self.l.to_integral_value():
            raise ValueError(f"l must be an integer for l_kind 'recursive', not {self.l}")
        if recursive != (self.c is not None):
            raise ValueError(f"l_kind '{self.l_kind}' {'needs c' if recursive else 'takes no c'}")
        if self.c is not None and not (self.c.is_finite() and 0 < self.c < C_MAX):
            raise ValueError(f"c must be above 0 and below {C_MAX}, not {self.c}")
        if self.shares is not None and self.shares.most.shape[1] != len(self.reference.counts):
            raise ValueError(
                f"shares have {self.shares.most.shape[1]} values, the table {len(self.reference.counts)}"
            )


def least_records(threshold: Threshold) -> int:
    """Return a number of records, at least 1, below which no class satisfies t or the bounds of shares."""
    return max(
        _least_records_of_t(threshold), 1 if threshold.shares is None else threshold.shares.least_records
    )


def _least_records_of_t(threshold: Threshold) -> int:
    """Return a number of records, at least 1, below which no class satisfies t; 1 if ordered. O(log m)."""
    # Let A be the sum over the values of the smaller of both shares, in the class and in the table. The edges
    # above the leaves alone make EMD at least (1 - A) / H. A class of s records holds at most s values, so A
    # is at most the share of the s most frequent values of the table. The first call sorts: O(m log m).
    edges = threshold.reference.edges
    if threshold.t is None or len(edges.nodes) == 0:
        return 1
    height = len(edges.nodes) // len(edges.cumulative)
    shared = math.ceil((1 - Fraction(threshold.t) * height) * edges.total)
    return int(np.searchsorted(threshold.reference.most_frequent, shared)) + 1


def most_of_one(n: int, c: Decimal | Fraction) -> NDArray[np.int64]:
    """Return the most records of one value in a class of 0..n records with r_1 < c s. Exact, O(n)."""
    # That is recursive (c, 1). c is above 0 and below `C_MAX`, and cut off after twelve decimals as for a
    # threshold.
    steps = math.floor(Fraction(c) * THRESHOLD_DENOMINATOR)
    return np.array(
        [max(0, (steps * size - 1) // THRESHOLD_DENOMINATOR) for size in range(n + 1)], dtype=np.int64
    )


def violations_per_class(
    thresholds: Sequence[Threshold], codes: NDArray[np.int64] | Sequence[ArrayLike], offsets: ArrayLike
) -> NDArray[np.float64]:
    """Return the violation (S, m) of S thresholds by each of m classes. O(s log s + s log m) a class."""
    # Class c holds the records offsets[c]:offsets[c + 1]. `codes` (S, n), the records of a class together.
    # ValueError if the shapes or codes do not fit, or a class is empty.
    if len(thresholds) != len(codes):
        raise ValueError(f"there are {len(thresholds)} thresholds for {len(codes)} attributes")
    result = np.zeros((len(thresholds), np.size(offsets) - 1))
    for row, (threshold, column) in enumerate(zip(thresholds, codes, strict=True)):
        checked = checked_offsets(offsets, np.size(column))
        histograms = class_histograms(threshold.reference.positions(column), checked)
        result[row] = _violations(histograms, np.diff(checked), rules_of([threshold]))
    return result


@compiled
def _violations(histograms: Histograms, sizes: NDArray[np.int64], rules: Rules) -> NDArray[np.float64]:
    """Return the violation of the first threshold by each class."""
    result = np.empty(len(sizes))
    for i in range(len(sizes)):
        first, last = histograms.starts[i], histograms.starts[i + 1]
        result[i] = rule_violation(
            histograms.values[first:last], histograms.weights[first:last], sizes[i], rules, 0
        )
    return result


LN_2 = 0.6931471805599453
HALF_ROOT = math.sqrt(0.5)
SERIES_TERMS = 12
"""Terms of the series of 2 artanh(f) for |f| < 0.172; the omitted terms are below 1e-19."""


@compiled
def logarithm(x: float) -> float:
    """Return ln x of a finite x above 0, by additions, multiplications and divisions in a fixed order."""
    # The error is about 1e-16 times the larger of 1 and the result.
    share, exponent = math.frexp(x)
    if share < HALF_ROOT:
        share *= 2.0
        exponent -= 1
    f = (share - 1.0) / (share + 1.0)
    square, series = f * f, 0.0
    for term in range(SERIES_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return float(exponent * LN_2 + 2.0 * f * series)


def fraction(number: object) -> Fraction | None:
    """Return the fraction that the decimal notation of a t or c means; None if it is no finite number."""
    try:
        return Fraction(str(number))
    except (ValueError, ZeroDivisionError):
        return None


def exact_t(t: object, *, may_be_zero: bool) -> Fraction:
    """Return t as the fraction that it means; ValueError outside 0..1, or for 0 unless `may_be_zero`."""
    exact = fraction(t)
    if exact is not None and 0 <= exact <= 1 and (exact > 0 or may_be_zero):
        return exact
    within = "within 0..1" if may_be_zero else "above 0 and at most 1"
    raise ValueError(f"t must be a number {within}, not {t}")
