"""Thresholds as exact fractions: what their decimal notation means, not the nearest float.

>>> fraction(0.1), fraction("1/3"), fraction("1/0")
(Fraction(1, 10), Fraction(1, 3), None)
"""

from __future__ import annotations

from fractions import Fraction


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
