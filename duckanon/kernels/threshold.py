"""What every class must satisfy for a sensitive attribute, and by how much a class misses it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.histograms import Histograms, checked_offsets, class_histograms
from duckanon.kernels.rules import Rules, rule_violation, rules_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.reference import Reference

LKind = Literal["distinct", "entropy", "recursive"]

LARGEST_C = 10**6
"""c in steps of 10^-12 fits in 62 bits below this."""


@dataclass(frozen=True, eq=False)
class Threshold:
    """What every class must satisfy for one sensitive attribute.

    Parameters
    ----------
    reference : Reference
        Distribution of the attribute in the released table.
    t : Decimal or Fraction, optional
        Largest EMD, 0 to 1, compared exactly; what is finer than 10^-12 is cut off, which is stricter.
    l : Decimal, optional
        Least diversity, at least 1.
    l_kind : {'distinct', 'entropy', 'recursive'}
        l distinct values; exp(entropy) of at least l, where the values are not equally frequent by a margin
        of 2e-9 of its logarithm, since logarithms are rounded; r_1 < c (r_l + ... + r_m) for the counts
        r_1 >= r_2 >= ... of the values in the class. NULL is a value.
    c : Decimal, optional
        For 'recursive' only, above 0.

    Raises
    ------
    ValueError
        If a threshold is out of range, or c is missing or superfluous.

    Notes
    -----
    Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007; Machanavajjhala et al., "l-Diversity", ACM TKDD
    1(1), 2007, definitions 4.1 and 4.3.
    """

    reference: Reference
    t: Decimal | Fraction | None = None
    l: Decimal | None = None  # noqa: E741 - l-diversity has this name everywhere
    l_kind: LKind = "distinct"
    c: Decimal | None = None

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
        if self.c is not None and not (self.c.is_finite() and 0 < self.c < LARGEST_C):
            raise ValueError(f"c must be above 0 and below {LARGEST_C}, not {self.c}")


def violation(threshold: Threshold, codes: ArrayLike) -> float:
    """Return by how much a class misses a threshold, weighted by its size.

    Parameters
    ----------
    threshold : Threshold
        What the class must satisfy.
    codes : array_like of shape (s,), int
        Value code of each record of the class.

    Returns
    -------
    float
        At least 0, and 0.0 exactly if the class satisfies the threshold. For t: s (EMD - t); for l distinct
        s (l - distinct) / l; for entropy s (ln l - H) / ln l; for recursive 1 + r_1 - c (r_l + ... + r_m).
        What two classes miss together, apart or merged, never grows by merging them.

    Raises
    ------
    ValueError
        If the class is empty or a code is not one of the reference.

    Notes
    -----
    The verdict on t, distinct l and recursive c is exact integer arithmetic. O(s log s + s log m) time.
    """
    return float(violations_per_class([threshold], [codes], [0, np.asarray(codes).size])[0, 0])


def violations_per_class(
    thresholds: Sequence[Threshold], codes: NDArray[np.int64] | Sequence[ArrayLike], offsets: ArrayLike
) -> NDArray[np.float64]:
    """Return by how much each class misses each threshold.

    Parameters
    ----------
    thresholds : sequence of Threshold
        One for each of S sensitive attributes.
    codes : ndarray of shape (S, n), int, or sequence of S array_like
        Value codes of the records, the records of a class together.
    offsets : array_like of shape (m + 1,), int
        Class c holds the records ``offsets[c]:offsets[c + 1]``.

    Returns
    -------
    ndarray of shape (S, m), float64
        `violation` of each threshold by each class.

    Raises
    ------
    ValueError
        If the shapes do not fit, a class is empty or a code is not one of its reference.
    """
    if len(thresholds) != len(codes):
        raise ValueError(f"there are {len(thresholds)} thresholds for {len(codes)} attributes")
    result = np.zeros((len(thresholds), np.size(offsets) - 1))
    for row, (threshold, own) in enumerate(zip(thresholds, codes, strict=True)):
        checked = checked_offsets(offsets, np.size(own))
        histograms = class_histograms(threshold.reference.positions(own), checked)
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
