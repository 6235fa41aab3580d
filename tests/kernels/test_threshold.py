"""Verdicts on t and l: exact at the boundary, equal to brute force elsewhere."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold, least_records, violations_per_class
from tests.examples import examples
from tests.kernels.distances import slow_emd, slow_meets, violation
from tests.kernels.test_emd import tables

STEP = Decimal("0.000000000001")
SALARY = reference(np.ones(9, dtype=np.int64), "ordered")
SKEWED = reference([8, 1, 1], "equal")
EIGHT_ONE_ONE = [0] * 8 + [1, 2]


@pytest.mark.parametrize(
    ("t", "passes"),
    [
        (Decimal("0.375"), True),
        (Fraction(3, 8), True),
        (Decimal("0.375") - STEP, False),
        (Decimal("0.375") + STEP, True),
        (Fraction(3, 8) - Fraction(1, 10**12), False),
        (Decimal(1), True),
        (Decimal(0), False),
    ],
)
def test_a_class_exactly_at_t_passes(t: Decimal | Fraction, passes: bool) -> None:
    """Li 2007, section 5.3: salaries {3, 4, 5} have EMD 3/8; one step of 10^-12 below fails."""
    missed = violation(Threshold(SALARY, t=t), [0, 1, 2])
    assert (missed == 0.0) == passes
    assert missed == pytest.approx(3 * max(0.0, 0.375 - float(t)), abs=1e-11)


def test_a_third_is_compared_exactly() -> None:
    """Salaries {6, 8, 11} have EMD 1/6: no decimal; 0.166666666666 is below, 0.166666666667 above."""
    for t, passes in [("0.166666666666", False), ("0.166666666667", True)]:
        assert (violation(Threshold(SALARY, t=Decimal(t)), [3, 5, 8]) == 0.0) == passes
    assert violation(Threshold(SALARY, t=Fraction(1, 6)), [3, 5, 8]) == 0.0


def test_what_is_finer_than_a_step_is_cut_off() -> None:
    """A t of 1/6 written with 15 decimals rounds down to 12, so that a class at 1/6 fails."""
    assert violation(Threshold(SALARY, t=Decimal("0.166666666666999")), [3, 5, 8]) > 0.0


@pytest.mark.parametrize(
    ("counts", "size", "largest"),
    [
        (np.full(2**14, 2**16), 2**21, 2**65),
        (np.full(2**10, 2**20), 2**20, 2**60),
        (np.ones(2**10), 3, 2**22),
    ],
)
def test_exact_at_half_for_any_size(counts: np.ndarray, size: int, largest: int) -> None:
    """All records at the first of m equally frequent values: EMD 1/2 by hand; s n m as given."""
    known = reference(counts.astype(np.int64), "ordered")
    assert size * known.total * len(counts) <= largest
    codes = np.zeros(size, dtype=np.int64)
    assert violation(Threshold(known, t=Decimal("0.5")), codes) == 0.0
    assert violation(Threshold(known, t=Decimal("0.5") - STEP), codes) > 0.0
    assert violation(Threshold(known, t=Decimal("0.5") + STEP), codes) == 0.0


@pytest.mark.parametrize(("t", "passes"), [("0.125", False), ("0.3", False), ("0.9", True), ("1", True)])
def test_right_where_the_difference_exceeds_64_bits(t: str, passes: bool) -> None:
    """As above, EMD 1/2 and s n m = 2^65: s n (m - 1) |EMD - t| is up to 2^64, more than 64 bits hold."""
    known = reference(np.full(2**14, 2**16), "ordered")
    missed = violation(Threshold(known, t=Decimal(t)), np.zeros(2**21, dtype=np.int64))
    assert (missed == 0.0) == passes
    assert missed == pytest.approx(2**21 * max(0.0, 0.5 - float(t)), rel=1e-12)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_verdict_on_t_equals_fractions(data: st.DataObject) -> None:
    """At the class's own EMD, one step around it and anywhere: dense Fractions say the same."""
    counts, distance, paths = data.draw(tables(12))
    codes = data.draw(st.lists(st.integers(0, len(counts) - 1), min_size=1, max_size=12))
    known = reference(counts, distance, paths)
    reached = slow_emd(codes, counts, distance, paths)
    step = Fraction(1, 10**12)
    drawn = Fraction(data.draw(st.integers(0, 1000)), 1000)
    for t in (reached, reached - step, reached + step, drawn):
        if 0 <= t <= 1:
            # What is finer than a step is cut off before it is compared.
            cut = t if t.denominator <= 10**12 else Fraction(t * 10**12 // 1, 10**12)
            missed = violation(Threshold(known, t=t), codes)
            assert (missed == 0.0) == (reached <= cut)
            assert missed == pytest.approx(len(codes) * max(0.0, float(reached - cut)), abs=1e-11)


@pytest.mark.parametrize(
    ("kind", "l", "c", "passes"),
    [
        ("distinct", "3", None, True),
        ("distinct", "3.000000000001", None, False),
        ("recursive", "3", "8", False),
        ("recursive", "3", "8.000000000001", True),
        ("recursive", "2", "4", False),
        ("recursive", "2", "4.000000000001", True),
        ("recursive", "1", "0.8", False),
        ("recursive", "1", "0.800000000001", True),
        ("recursive", "4", "999999", False),
        ("entropy", "1.89", None, True),
        ("entropy", "1.9", None, False),
        ("entropy", "1", None, True),
    ],
)
def test_diversity_of_counts_8_1_1(kind, l, c, passes) -> None:  # noqa: E741
    """By hand: 8 < c 1 for l = 3, 8 < c 2 for l = 2, 8 < c 10 for l = 1; exp(H) = 10 / 8^0.8 = 1.8946."""
    threshold = Threshold(SKEWED, l=Decimal(l), l_kind=kind, c=Decimal(c) if c else None)
    assert (violation(threshold, EIGHT_ONE_ONE) == 0.0) == passes


@pytest.mark.parametrize(("c", "passes"), [("2", False), ("2.000000000001", True)])
def test_recursive_diversity_takes_ties_apart(c: str, passes: bool) -> None:
    """By hand: counts 2, 2, 1, 1 with l = 4 leave r_4 = 1, so that 2 < c 1."""
    known = reference([2, 2, 1, 1], "equal")
    threshold = Threshold(known, l=Decimal(4), l_kind="recursive", c=Decimal(c))
    assert (violation(threshold, [0, 0, 1, 1, 2, 3]) == 0.0) == passes


def test_entropy_of_equal_counts_is_their_number() -> None:
    """exp(H) of q equally frequent values is q, which floating point may miss by a rounding."""
    known = reference([5] * 30, "equal")
    for q in range(1, 31):
        codes = np.repeat(np.arange(q), 3)
        assert violation(Threshold(known, l=Decimal(q), l_kind="entropy"), codes) == 0.0
        assert violation(Threshold(known, l=Decimal(q) + Decimal("0.001"), l_kind="entropy"), codes) > 0.0


THRESHOLDS = st.one_of(
    st.builds(lambda x: {"t": Decimal(x) / 100}, st.integers(0, 60)),
    st.builds(lambda x: {"l": Decimal(x) / 2}, st.integers(2, 12)),
    st.builds(lambda x: {"l": Decimal(x) / 8, "l_kind": "entropy"}, st.integers(8, 40)),
    st.builds(
        lambda x, c: {"l": Decimal(x), "l_kind": "recursive", "c": Decimal(c) / 4},
        st.integers(1, 6),
        st.integers(1, 20),
    ),
    st.builds(lambda x, y: {"t": Decimal(x) / 100, "l": Decimal(y)}, st.integers(0, 60), st.integers(1, 5)),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_verdicts_equal_brute_force_and_merging_never_adds(data: st.DataObject) -> None:
    """Definitions by brute force; and what two classes miss never grows by merging them (convexity)."""
    counts, distance, paths = data.draw(tables(8))
    code = st.integers(0, len(counts) - 1)
    one, other = (data.draw(st.lists(code, min_size=1, max_size=15)) for _ in range(2))
    threshold = Threshold(reference(counts, distance, paths), **data.draw(THRESHOLDS))
    missed = [violation(threshold, codes) for codes in (one, other, one + other)]
    for codes, value in zip((one, other, one + other), missed, strict=True):
        assert (value == 0.0) == slow_meets(threshold, codes, paths)
    assert missed[2] <= missed[0] + missed[1] + 1e-9
    per_class = violations_per_class(
        [threshold, threshold], [one + other] * 2, [0, len(one), len(one + other)]
    )
    assert per_class.tolist() == [missed[:2], missed[:2]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t": Decimal("1.01")}, "t must be within 0..1"),
        ({"t": Decimal("-0.1")}, "t must be within 0..1"),
        ({"t": Decimal("NaN")}, "t must be within 0..1"),
        ({"l": Decimal("0.5")}, "l must be a number of at least 1"),
        ({"l": Decimal("Infinity")}, "l must be a number of at least 1"),
        ({"l": Decimal(2), "l_kind": "near"}, "unknown l_kind 'near'"),
        ({"l": Decimal(2), "l_kind": "recursive"}, "needs c"),
        ({"l": Decimal(2), "c": Decimal(2)}, "takes no c"),
        ({"l": Decimal("2.5"), "l_kind": "recursive", "c": Decimal(2)}, "l must be an integer"),
        ({"l": Decimal(2), "l_kind": "recursive", "c": Decimal(0)}, "c must be above 0"),
    ],
)
def test_threshold_refuses(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        Threshold(SALARY, **options)


def test_thresholds_and_attributes_must_pair() -> None:
    with pytest.raises(ValueError, match="1 thresholds for 2 attributes"):
        violations_per_class([Threshold(SALARY, t=Decimal(1))], [[0], [0]], [0, 1])


@pytest.mark.parametrize(
    ("counts", "distance", "t", "least"),
    [
        ([1] * 10, "equal", "0.2", 8),  # s of ten different values: EMD is 1 - s / 10
        ([1] * 10, "equal", "0.25", 8),
        ([1] * 10, "equal", "1", 1),
        ([6, 2, 1, 1], "equal", "0.4", 1),  # the most frequent value alone: 1 - 6/10
        ([6, 2, 1, 1], "equal", "0.399", 2),
        ([6, 2, 1, 1], "equal", "0", 4),
        ([1] * 10, "ordered", "0.01", 1),
    ],
)
def test_fewer_records_than_the_least_never_satisfy_t(counts, distance, t: str, least: int) -> None:
    assert least_records(Threshold(reference(counts, distance), t=Decimal(t))) == least


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=12),
    st.sampled_from(["ordered", "equal", "hierarchical"]),
    st.fractions(0, 1, max_denominator=60),
    st.data(),
)
def test_a_class_that_satisfies_t_has_the_least_records(drawn, distance: str, t, data: st.DataObject) -> None:
    present, codes = np.unique(drawn, return_inverse=True)
    paths = [[v, v // 2, 0] for v in present] if distance == "hierarchical" else None
    threshold = Threshold(reference(np.bincount(codes), distance, paths), t=t)
    some = data.draw(st.lists(st.integers(0, len(present) - 1), min_size=1, max_size=14))
    assert violation(threshold, some) > 0.0 or len(some) >= least_records(threshold)
