"""Moments: beside exact fractions, and the same in any order and in any batches."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.release.stages.embed import Moments, mean_and_spread, moments
from tests.examples import examples

if TYPE_CHECKING:
    import random

    import duckdb

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NEAR = st.integers(-50, 50).map(lambda step: 1e9 + step * 2.0**-20)
COLUMNS = st.one_of(
    st.lists(FINITE, min_size=1, max_size=40),
    st.lists(NEAR, min_size=1, max_size=40),
    st.lists(st.sampled_from([0.0, -0.0, 5e-324, 1e-300, -1.7e308, 1.7e308, 0.1]), min_size=1, max_size=40),
)


def exponent_of(values: list[float]) -> int:
    return math.frexp(max(map(abs, values)))[1] + 1


def exact(values: list[float], exponent: int) -> tuple[Fraction, Fraction]:
    """Mean and variance by the definition, in fractions."""
    scaled = [Fraction(value) / Fraction(2) ** exponent for value in values]
    mean = sum(scaled, Fraction(0)) / len(scaled)
    return mean, sum(((x - mean) ** 2 for x in scaled), Fraction(0)) / len(scaled)


@settings(max_examples=examples(500, 100))
@given(COLUMNS, st.randoms(use_true_random=False))
def test_any_order_and_batches_give_the_same_moments(values: list[float], chance: random.Random) -> None:
    """Within the rounding to 55 bits of the definition; a shuffle and other batches change no digit."""
    if not any(values):
        return
    exponent = exponent_of(values)
    center, spread = mean_and_spread([np.array(values)], exponent, len(values))
    mean, variance = exact(values, exponent)
    assert abs(Fraction(center) - mean) <= Fraction(1, 2**53)
    assert abs(spread - math.sqrt(variance)) <= 2.0**-52
    shuffled = list(values)
    chance.shuffle(shuffled)
    cut = len(values) // 3
    parts = [np.array(shuffled[:cut], np.float64), np.array(shuffled[cut:], np.float64)]
    assert mean_and_spread(parts, exponent, len(values)) == (center, spread)


def test_numbers_far_from_zero_keep_their_spread() -> None:
    """By hand: 2^53 - 2 and 2^53, 1 away from their mean; neighbouring doubles are 1 apart there."""
    center, spread = mean_and_spread([np.array([2.0**53 - 2, 2.0**53])], 55, 2)
    assert (center * 2.0**55, spread * 2.0**55) == (2.0**53 - 1, 1.0)


@pytest.mark.parametrize("largest", [1.0, 1.5, 2.0**1000, 5e-324, -1.0])
def test_numbers_next_to_each_other_are_not_one(largest: float) -> None:
    """Below a power of two they are half as far apart as above it, and half of that is their deviation."""
    values = [largest, math.nextafter(largest, 0.0)]
    exponent = exponent_of(values)
    _, spread = mean_and_spread([np.array(values)], exponent, 2)
    assert Fraction(spread) == abs(Fraction(values[0]) - Fraction(values[1])) / Fraction(2) ** exponent / 2


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ("(NULL), (NULL)", Moments(0, 0, 0.0, 0.0)),
        ("(7.5), (NULL), (7.5)", Moments(2, 0, 7.5, 0.0)),
        ("(1.0), (NULL), (3.0)", Moments(2, 3, 0.25, 0.125)),
    ],
)
def test_moments_of_a_column_with_nulls(
    fresh_db: duckdb.DuckDBPyConnection, values: str, found: Moments
) -> None:
    """By hand: 1 and 3 over 2^3 have mean 2 / 8 and deviation 1 / 8."""
    fresh_db.execute(
        f"CREATE TEMP TABLE coded AS SELECT CAST(x AS DOUBLE) AS x_1 FROM (VALUES {values}) AS v(x)"
    )
    assert moments(fresh_db, "coded", "x_1") == found
