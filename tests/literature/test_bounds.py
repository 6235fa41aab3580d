"""Bounds on EMD: Propositions 1 and 2 against all classes of small tables, with EMD as a transport problem."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.literature.bounds import emd_lower_bound, emd_upper_bound
from tests.kernels.distances import slow_emd, transport_emd


def least_emd(n: int, k: int) -> Fraction:
    """The least EMD of all classes of k of the records 0..n-1, all values different."""
    return min(slow_emd(members, [1] * n, "ordered") for members in combinations(range(n), k))


@pytest.mark.parametrize("n", range(2, 11))
def test_no_class_undercuts_proposition_1(n: int) -> None:
    """Source: Proposition 1, all classes; it is tight where k divides n with an odd quotient.

    With an even quotient q the middle is missed by half a record, and k classes of cost q^2 / 4 give
    n / (4 (n - 1) k): worked by hand from the sum in the paper's proof.
    """
    for k in range(1, n + 1):
        least = least_emd(n, k)
        assert emd_lower_bound(n, k) <= least
        if n % k == 0:
            tight = (n // k) % 2 == 1
            assert least == (emd_lower_bound(n, k) if tight else Fraction(n, 4 * (n - 1) * k))


@pytest.mark.parametrize("n", [4, 6, 8, 9, 10, 12])
def test_proposition_2_is_the_greatest_emd_of_one_record_a_stratum(n: int) -> None:
    """Source: Proposition 2, all classes with one record of each of the k strata."""
    for k in (k for k in range(1, n + 1) if n % k == 0):
        strata = [range(i * n // k, (i + 1) * n // k) for i in range(k)]
        greatest = max(slow_emd(members, [1] * n, "ordered") for members in product(*strata))
        assert greatest == emd_upper_bound(n, k)


def test_the_extreme_classes_of_the_proofs_as_a_transport_problem() -> None:
    """Source: Figures 1 and 2: medians and minima of 3 subsets of 3; by linear programming."""
    assert transport_emd([1, 4, 7], [1] * 9, "ordered") == pytest.approx(float(emd_lower_bound(9, 3)))
    assert transport_emd([0, 3, 6], [1] * 9, "ordered") == pytest.approx(float(emd_upper_bound(9, 3)))


def test_bounds_by_hand() -> None:
    """(9 + 3)(9 - 3) / (4 9 8 3) = 72 / 864; (9 - 3) / (2 8 3) = 6 / 48; the paper's .25 for k = 2 of 1080."""
    assert emd_lower_bound(9, 3) == Fraction(1, 12)
    assert emd_upper_bound(9, 3) == Fraction(1, 8)
    assert round(emd_upper_bound(1080, 2), 3) == Fraction(1, 4)
    for bound in (emd_lower_bound, emd_upper_bound):
        assert bound(1, 1) == bound(7, 7) == 0


@given(n=st.integers(2, 10**6), k=st.integers(1, 10**6), t=st.fractions(0, 1, max_denominator=1000))
def test_eq_3_is_proposition_2_solved_for_k(n: int, k: int, t: Fraction) -> None:
    """Source: Eq. 3: the upper bound is at most t from k = n / (2 (n - 1) t + 1) on, not before."""
    k = min(k, n)
    assert (emd_upper_bound(n, k) <= t) == (k >= n / (2 * (n - 1) * t + 1))
    assert emd_lower_bound(n, k) <= emd_upper_bound(n, k)
    assert emd_upper_bound(n, min(n, ceil(n / (2 * (n - 1) * t + 1)))) <= t


@pytest.mark.parametrize("bound", [emd_lower_bound, emd_upper_bound])
def test_sizes_out_of_range_are_refused(bound) -> None:
    with pytest.raises(ValueError, match="k must be at least 1"):
        bound(4, 0)
    with pytest.raises(ValueError, match="k = 5 needs at least 5 records"):
        bound(4, 5)
