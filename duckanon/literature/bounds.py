"""How near to the whole table a class of k records can be, and at worst is, in ordered EMD.

Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, "t-Closeness through Microaggregation: Strict Privacy with
Enhanced Utility Preservation", IEEE TKDE 27(11), 2015, section 7, Propositions 1 and 2. The class size that
follows from the second, Eq. 3 with Eq. 4, is `duckanon.kernels.first.tcloseness_first.class_size`.

Both propositions speak of EMD over the n records in their order, the distance of two records being the
difference of their ranks over n - 1. Where all sensitive values differ that is the ordered EMD of the values.
"""

from __future__ import annotations

from fractions import Fraction

from duckanon.kernels.points import check_class_size


def emd_lower_bound(n: int, k: int) -> Fraction:
    """Return a bound that the EMD of no class of k of n records undercuts (Proposition 1).

    Parameters
    ----------
    n : int
        Records of the table, at least 1.
    k : int
        Records of the class, 1..n.

    Returns
    -------
    Fraction
        (n + k)(n - k) / (4 n (n - 1) k), exactly; 0 for n = 1.

    Raises
    ------
    ValueError
        If k < 1 or k > n.

    Notes
    -----
    The paper calls the bound tight where k divides n. It is so where n / k is odd; where n / k is even the
    least EMD is n / (4 (n - 1) k), a little more, since no record lies in the middle of n / k records.
    Smaller t cannot be had with classes of k. With equal sensitive values the bound need not hold: two values
    of n / 2 records each allow EMD 0 with two records.

    Examples
    --------
    >>> emd_lower_bound(9, 3)
    Fraction(1, 12)
    """
    check_class_size(n, k)
    return Fraction((n + k) * (n - k), 4 * n * (n - 1) * k) if n > 1 else Fraction(0)


def emd_upper_bound(n: int, k: int) -> Fraction:
    """Return the greatest EMD of a class with one record from each of k equal strata (Proposition 2).

    Parameters
    ----------
    n : int
        Records of the table, at least 1.
    k : int
        Strata, and records of the class, 1..n.

    Returns
    -------
    Fraction
        (n - k) / (2 (n - 1) k), exactly; 0 for n = 1.

    Raises
    ------
    ValueError
        If k < 1 or k > n.

    Notes
    -----
    Proven, and reached, where k divides n and all sensitive values differ. Otherwise, as the paper says, an
    approximation: EMD over distinct values exceeds it where values are tied, EMD over records may exceed it
    where k does not divide n. It is at most t from k = n / (2 (n - 1) t + 1) on (Eq. 3).

    Examples
    --------
    >>> emd_upper_bound(9, 3)
    Fraction(1, 8)
    """
    check_class_size(n, k)
    return Fraction(n - k, 2 * (n - 1) * k) if n > 1 else Fraction(0)
