"""Means of classes against exact fractions; the same bits whatever order the rows come in."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.database import engine
from duckanon.release.stages import classes
from duckanon.release.stages.classes import class_means

if TYPE_CHECKING:
    import duckdb

finite = st.floats(allow_nan=False, allow_infinity=False)
extreme = st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.3e-308, 1e300, -1e300, 1.7e308, -1.7e308, 0.1])
numbers = finite | extreme | st.just(math.nan)
records = st.lists(st.tuples(st.integers(-1, 4), numbers), min_size=1, max_size=40)


@given(records, st.sampled_from([1, 3, 131_072]))
def test_a_mean_is_that_of_exact_fractions(given_records: list[tuple[int, float]], chunk: int) -> None:
    """Oracle: fractions.Fraction adds and divides without rounding."""
    labels = np.array([label for label, _ in given_records], dtype=np.int64)
    values = np.array([value for _, value in given_records])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "CHUNK_RECORDS", chunk)
        found = class_means(values.copy(), labels, 5)
    for label in range(5):
        own = [Fraction(float(v)) for v in values[labels == label] if not math.isnan(v)]
        if not own:
            assert math.isnan(found[label])
            continue
        exact, largest = sum(own, Fraction(0)) / len(own), max(abs(v) for v in own)
        mean = Fraction(float(found[label]))
        assert min(own) <= mean
        assert mean <= max(own)
        # One rounding of the result, and that of the correction; the least of all numbers is 2^-1074.
        assert abs(mean - exact) <= largest * Fraction(1, 2**52) + Fraction(1, 2**1074)
        assert math.copysign(1.0, found[label]) > 0 or found[label] < 0


def test_a_huge_record_of_another_class_changes_no_mean() -> None:
    """By hand: the mean of equal numbers is that number, also of the least normal and the least of all."""
    values = np.array([2.3e-308, 2.3e-308, 1e300, 1e300, 5e-324, 5e-324, 1.7e308, 1.7e308])
    found = class_means(values, np.arange(8) // 2, 4)
    assert found.tolist() == [2.3e-308, 1e300, 5e-324, 1.7e308]


def test_a_large_class_is_as_exact_as_a_small_one() -> None:
    """A plain sum of a million 0.1 is off by 1.3e-6; math.fsum rounds once."""
    values = np.full(1_000_000, 0.1)
    values[::2] += 1e-3
    found = class_means(values.copy(), np.zeros(len(values), dtype=np.int64), 1)
    assert found[0] == pytest.approx(math.fsum(values) / len(values), rel=3e-16, abs=0)


def test_a_column_is_in_the_order_of_record_id_and_null_is_nan(fresh_db: duckdb.DuckDBPyConnection) -> None:
    query = (
        "SELECT i AS record_id, CASE WHEN i % 3 > 0 THEN CAST(i AS DOUBLE) / 2 END AS value "
        "FROM range(1, 300001) AS numbers(i) ORDER BY hash(i)"
    )
    expected = [i / 2 if i % 3 else math.nan for i in range(1, 300_001)]
    np.testing.assert_array_equal(engine.column(fresh_db, query, "test", 300_000), expected)
