"""Scales: hand calculation, extreme magnitudes, and the definition as a property."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from duckanon.kernels.points import Scale, minmax, scaled, zscore
from tests.examples import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray


def test_by_hand() -> None:
    """1, 2, 3, 6: mean 3, squared deviations 4 + 1 + 0 + 9 = 14, standard deviation sqrt(14 / 4)."""
    points = np.array([[1.0], [2.0], [3.0], [6.0]])
    assert zscore(points)[:, 0] == pytest.approx(np.array([-2.0, -1.0, 0.0, 3.0]) / np.sqrt(3.5), rel=1e-15)
    assert minmax(points)[:, 0].tolist() == [0.0, 0.2, 0.4, 1.0]
    assert scaled(points, "none")[:, 0].tolist() == [1.0, 2.0, 3.0, 6.0]
    assert np.array_equal(scaled(points), zscore(points))
    assert np.array_equal(scaled(points, "minmax"), minmax(points))


@pytest.mark.parametrize("unit", [1e308, 1.0, 1e-200, 5e-324])
def test_extreme_magnitudes_neither_overflow_nor_vanish(unit: float) -> None:
    """Two values at equal distance from their mean are -1 and 1, whatever their unit."""
    points = np.array([[-unit], [unit]])
    assert zscore(points)[:, 0].tolist() == [-1.0, 1.0]
    assert minmax(points)[:, 0].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("value", [0.0, 0.1, -1e308, 5e-324])
def test_constant_columns_become_zero(value: float) -> None:
    """The mean of many 0.1 is not 0.1, so a computed deviation would not be 0."""
    points = np.column_stack([np.full(7, value), np.arange(7.0)])
    assert zscore(points)[:, 0].tolist() == [0.0] * 7
    assert minmax(points)[:, 0].tolist() == [0.0] * 7
    assert zscore(points)[:, 1].std() == pytest.approx(1.0, rel=1e-15)


@settings(max_examples=examples(80))
@given(points=arrays(np.float64, (9, 2), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_zscore_has_mean_0_and_deviation_1_and_keeps_the_order(points: NDArray[np.float64]) -> None:
    result = zscore(points)
    assert result.flags.c_contiguous
    for column, given_column in zip(result.T, points.T, strict=True):
        varies = given_column.max() > given_column.min()
        assert column.std() == pytest.approx(1.0 if varies else 0.0, rel=1e-9)
        assert column.mean() == pytest.approx(0.0, abs=1e-9)
        assert (np.diff(column[np.argsort(given_column, kind="stable")]) >= 0).all()


def test_no_columns_and_one_record() -> None:
    assert zscore(np.zeros((3, 0))).shape == (3, 0)
    assert zscore(np.array([[5.0, 1e300]])).tolist() == [[0.0, 0.0]]


def test_unusable_input_is_refused() -> None:
    with pytest.raises(ValueError, match="nan in record 1, column 0"):
        zscore([[1.0], [float("nan")]])
    with pytest.raises(ValueError, match="unknown scale 'z'"):
        scaled(np.zeros((2, 1)), cast("Scale", "z"))
