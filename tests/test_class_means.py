"""Means of classes against exact fractions; the same bits whatever order the rows come in."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon import engine
from duckanon.stages import means
from duckanon.stages.means import class_means

if TYPE_CHECKING:
    import duckdb

finite = st.floats(allow_nan=False, allow_infinity=False)
records = st.lists(st.tuples(st.integers(-1, 4), finite | st.just(math.nan)), min_size=1, max_size=40)


@given(records, st.sampled_from([1, 3, 131_072]))
def test_a_mean_is_that_of_exact_fractions(given_records: list[tuple[int, float]], chunk: int) -> None:
    """Oracle: fractions.Fraction adds and divides without rounding."""
    labels = np.array([label for label, _ in given_records], dtype=np.int64)
    values = np.array([value for _, value in given_records])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(means, "CHUNK", chunk)
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
        # One rounding of the result, and that of the correction; values below 2^-1010 lose digits at a 2^64th.
        assert abs(mean - exact) <= largest * Fraction(1, 2**52) + Fraction(1, 2**1000)


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
