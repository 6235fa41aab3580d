"""Bounds on the ordered EMD between the whole table and a class of k records.

Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, "t-Closeness through Microaggregation: Strict Privacy with
Enhanced Utility Preservation", IEEE TKDE 27(11), 2015, section 7, Propositions 1 and 2. The class size that
follows from Proposition 2, Eq. 3 with Eq. 4, is `duckanon.kernels.first.tcloseness_first.class_size`.

Both propositions are about the EMD over the n records in their order: the distance of two records is the
difference of their ranks over n - 1. Where all sensitive values differ, this is the ordered EMD of the
values. With equal values neither proposition need hold:

- Proposition 1: two values of n / 2 records each allow EMD 0 with two records.
- Proposition 2: the EMD over distinct values can exceed the bound where values are tied. The EMD over records
  may exceed it where k does not divide n. The paper itself calls it an approximation in these cases.

The paper calls Proposition 1 tight where k divides n. It is tight where n / k is odd. Where n / k is even, no
record lies in the middle of n / k records, and the least EMD is n / (4 (n - 1) k), a little more.
"""

from __future__ import annotations

from fractions import Fraction

from duckanon.kernels.points import check_class_size


def emd_lower_bound(n: int, k: int) -> Fraction:
    """Return the lower bound of Proposition 1 on the EMD of a class of k of n records.

    Parameters
    ----------
    n, k : int
        Records of the table, and of the class; 1 <= k <= n, else ValueError.

    Returns
    -------
    Fraction
        (n + k)(n - k) / (4 n (n - 1) k), exactly; 0 for n = 1. No class of k records meets a smaller t.

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
    n, k : int
        Records of the table, and strata, which are the records of the class; 1 <= k <= n, else ValueError.

    Returns
    -------
    Fraction
        (n - k) / (2 (n - 1) k), exactly; 0 for n = 1. Proven, and reached, where k divides n and all
        sensitive values differ. At most t for every k from n / (2 (n - 1) t + 1) on (Eq. 3).

    Examples
    --------
    >>> emd_upper_bound(9, 3)
    Fraction(1, 8)
    """
    check_class_size(n, k)
    return Fraction(n - k, 2 * (n - 1) * k) if n > 1 else Fraction(0)
