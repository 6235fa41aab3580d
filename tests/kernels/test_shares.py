"""Bounds on shares: verdicts equal the definitions in Fractions, and merging never adds a violation."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.shares import (
    BOUND_GAP,
    at_most,
    exponential,
    share_bounds,
    surprise,
)
from duckanon.kernels.closeness.threshold import Threshold, least_records, violations_per_class
from tests import oracle_shares
from tests.examples import examples
from tests.kernels.distances import violation


def threshold_of(table: list[int], asked: dict[str, Any], distance: Any = "equal") -> Threshold:
    """Return the threshold of values 0, 1, ... that all occur in the table."""
    counts = np.bincount(table).astype(np.int64)
    return Threshold(reference(counts, distance), shares=share_bounds(counts, **asked))


asked_for = st.dictionaries(
    st.sampled_from(oracle_shares.MODELS),
    st.sampled_from(["0.2", "0.25", "0.333333333333", "0.5", "0.6931", "0.75", "1", "1.5", "3"]),
    min_size=1,
).map(
    lambda asked: {name: min(Decimal(x), Decimal(1 if name == "alpha" else 9)) for name, x in asked.items()}
)


@st.composite
def tables(draw: st.DrawFn, classes: int) -> tuple[list[int], list[list[int]]]:
    """Draw the values 0, 1, ... of a table, and some disjoint classes of it."""
    drawn = draw(st.lists(st.integers(0, 4), min_size=2 * classes, max_size=24))
    table = np.unique(drawn, return_inverse=True)[1].tolist()
    cuts = sorted(draw(st.sets(st.integers(1, len(table)), min_size=classes, max_size=classes)))
    return table, [table[first:last] for first, last in zip([0, *cuts], cuts, strict=False)]


@settings(max_examples=examples(300, 100), deadline=None)
@given(tables(1), asked_for, st.booleans())
def test_verdicts_equal_the_definitions(case: Any, asked: dict[str, Any], named: bool) -> None:
    """Source: tests/oracle_shares.py; alpha for all values or for two named ones."""
    table, (members,) = case
    if named and "alpha" in asked:
        asked = {
            **asked,
            "alpha": {0: asked["alpha"], 1: Decimal("0.4")} if max(table) else {0: asked["alpha"]},
        }
    threshold = threshold_of(table, asked)
    kept = oracle_shares.keeps(members, table, asked)
    assert (violation(threshold, members) == 0.0) == kept
    assert not kept or len(members) >= least_records(threshold)


@settings(max_examples=examples(300, 100), deadline=None)
@given(tables(2), asked_for)
def test_a_union_violates_at_most_as_much_as_its_parts(case: Any, asked: dict[str, Any]) -> None:
    """The proof is in docs/exact.md; amounts are rounded to 2^-30 of a record."""
    table, (one, two) = case
    threshold = threshold_of(table, asked)
    parts = violation(threshold, one) + violation(threshold, two)
    assert violation(threshold, one + two) <= parts + len(table) * 2.0**-30
    assert parts > 0.0 or violation(threshold, one + two) == 0.0


@settings(max_examples=examples(200, 60), deadline=None)
@given(tables(1), asked_for)
def test_the_violation_counts_the_records_beyond_the_bounds(case: Any, asked: dict[str, Any]) -> None:
    """Each bound by brute force: the nearest fraction within it that a class of the table can have."""
    table, (members,) = case
    n, size, missed = len(table), len(members), Fraction(0)
    for value in range(max(table) + 1):
        q, most, least = Fraction(table.count(value), n), Fraction(1), Fraction(0)
        most = min(most, Fraction(asked.get("alpha", 1)))
        if "delta" in asked:
            grown = exponential(asked["delta"])
            most, least = min(most, q * grown), q / grown
        if "beta" in asked:
            most = min(most, q + q * Fraction(asked["beta"]))
        if "enhanced_beta" in asked:
            most = min(most, q + q * min(Fraction(asked["enhanced_beta"]), surprise(q)))
        most = max(Fraction(math.floor(most * d), d) for d in range(1, n + 1))
        least = min(Fraction(math.ceil(least * d), d) for d in range(1, n + 1))
        held = members.count(value)
        missed += max(0, held - most * size) + max(0, least * size - held)
    assert violation(threshold_of(table, asked), members) == pytest.approx(float(missed), abs=size * 2.0**-27)


@given(st.fractions(0, 2), st.integers(1, 200))
def test_the_nearest_fraction_below(x: Fraction, most: int) -> None:
    """By brute force over all denominators."""
    assert at_most(x, most) == max(Fraction(math.floor(x * d), d) for d in range(1, most + 1))


@pytest.mark.parametrize(
    ("asked", "kept", "missed"),
    [
        # q is 1/2, 1/4 and 1/4 of eight records.
        ({"alpha": "0.5"}, [0, 0, 1, 2], [0, 0, 0, 1, 2]),
        ({"alpha": "1"}, [0], None),
        # p <= 2 q: both 1/2 and 1 pass, three of five are more than 1/2.
        ({"beta": "1"}, [1, 1, 0, 0], [1, 1, 1, 0, 0]),
        # -ln 1/2 = 0.693 and -ln 1/4 = 1.386: at most 0.8466 and 0.5966.
        ({"enhanced_beta": "9"}, [0, 0, 0, 0, 1], [0]),
        ({"enhanced_beta": "9"}, [1, 0], [1, 1, 0]),
        ({"enhanced_beta": "0.5"}, [1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 0, 0]),
        # exp(0.7) = 2.0138: half and twice the share pass; the value 2 is missing.
        ({"delta": "0.7"}, [0, 0, 0, 0, 0, 1, 1, 2], [0, 0, 1, 1]),
        # ln 2 = 0.693147...: one step below, twice the share fails.
        ({"delta": "0.693147180560"}, [0, 0, 1, 2], None),
        ({"delta": "0.693147180559"}, [0, 0, 1, 2], [1, 1, 0, 2]),
    ],
)
def test_by_hand(asked: dict[str, str], kept: list[int], missed: list[int] | None) -> None:
    """Four, two and two records have the values 0, 1 and 2."""
    threshold = threshold_of([0, 0, 0, 0, 1, 1, 2, 2], {name: Decimal(x) for name, x in asked.items()})
    assert violation(threshold, kept) == 0.0
    assert missed is None or violation(threshold, missed) > 0.0


def test_named_values() -> None:
    """At most a fifth may have the value 1: one of five, not one of four; the value 0 is free."""
    threshold = threshold_of([0] * 5 + [1] * 5, {"alpha": {1: Decimal("0.2")}})
    assert violation(threshold, [0, 0, 0, 0, 1]) == violation(threshold, [0]) == 0.0
    # One of four is beyond a fifth of four by a fifth of a record.
    assert violation(threshold, [0, 0, 0, 1]) == pytest.approx(0.2)


@pytest.mark.parametrize("delta", ["0.000000000001", "0.5", "21", "500000"])
def test_the_table_keeps_every_bound_against_itself(delta: str) -> None:
    """p = q has no gain and no loss, however small or large the threshold; so merging always ends."""
    counts = np.array([1, 2**20, 2**30, 7], dtype=np.int64)
    bounds = share_bounds(counts, delta=Decimal(delta), beta=Decimal(delta), enhanced_beta=Decimal(delta))
    threshold = Threshold(reference(counts, "equal"), shares=bounds)
    assert bounds is not None
    assert bounds.floors == 4
    assert least_records(threshold) <= counts.sum()
    parts = counts[:, None] * bounds.most[1][:, None] <= counts.sum() * bounds.most[0][:, None]
    assert parts.all()


def test_exact_for_two_thousand_million_records() -> None:
    """Half of 2^31 - 2 records at alpha = 0.5: one record more is beyond it, by half a record."""
    counts = np.array([2**30, 2**30 - 2], dtype=np.int64)
    known = reference(counts, "equal")
    threshold = Threshold(known, shares=share_bounds(counts, alpha=Decimal("0.5")))
    codes = np.array([0] * 1001 + [1] * 1000)
    assert violation(threshold, codes[1:]) == 0.0
    assert violation(threshold, codes) == pytest.approx(0.5)


def test_bounds_are_below_the_true_numbers() -> None:
    """By a relative 2e-12: exp(1) and -ln(1/e^...) to 30 digits from tables."""
    e = Fraction("2.718281828459045235360287471352")
    assert e * (1 - 2 * BOUND_GAP) < exponential(Decimal(1)) < e
    two = Fraction("0.693147180559945309417232121458")
    assert two * (1 - 2 * BOUND_GAP) < surprise(Fraction(1, 2)) < two
    assert exponential(Decimal("1e-12")) == 1
    assert surprise(Fraction(1)) == 0


def test_shares_and_other_thresholds_add_up() -> None:
    """A class that breaks t and alpha by known amounts breaks both together by their sum."""
    counts = np.array([4, 4], dtype=np.int64)
    known = reference(counts, "equal")
    bounds = share_bounds(counts, alpha=Decimal("0.75"))
    both = Threshold(known, t=Decimal("0.25"), shares=bounds)
    # All four records have the value 0: EMD 1/2, and one record beyond three quarters of four.
    assert violation(both, [0, 0, 0, 0]) == pytest.approx(4 * 0.25 + 1.0)
    missed = violations_per_class([both], [np.array([0, 1, 0, 0])], [0, 2, 4])
    assert missed.tolist() == [[0.0, pytest.approx(2 * 0.25 + 0.5)]]
