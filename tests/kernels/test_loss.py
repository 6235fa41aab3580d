"""Information loss: hand calculation and a slow reference in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from duckanon.kernels.loss import class_means, information_loss, sse, sst
from tests.examples import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 7.0], [6.0, 3.0], [8.0, 5.0]])
LABELS = np.array([1, 1, 0, 0, 0])


def test_by_hand() -> None:
    """Means (1, 1) and (6, 5): SSE = 2 + (4+4 + 0+4 + 4+0) = 18; overall mean (4, 3.4): SST = 40 + 27.2."""
    assert class_means(POINTS, LABELS).tolist() == [[6.0, 5.0], [1.0, 1.0]]
    assert sse(POINTS, LABELS) == 18.0
    assert sst(POINTS) == pytest.approx(67.2, rel=1e-15)
    assert information_loss(POINTS, LABELS) == pytest.approx(100 * 18 / 67.2, rel=1e-15)


def test_one_class_loses_everything_and_single_records_lose_nothing() -> None:
    assert information_loss(POINTS, np.zeros(5, dtype=int)) == 100.0
    assert information_loss(POINTS, np.arange(5)) == 0.0


@pytest.mark.parametrize("points", [np.full((3, 2), 0.1), np.zeros((3, 0)), np.zeros((3, 1))])
def test_equal_records_lose_nothing(points: NDArray[np.float64]) -> None:
    """0.1 + 0.1 + 0.1 rounds, so that the mean is not 0.1: SST is 0.0 all the same."""
    assert sst(points) == 0.0
    assert information_loss(points, [0, 0, 0]) == 0.0


@st.composite
def partitions(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw points and a partition of them into classes, none empty."""
    n = draw(st.integers(1, 20))
    points = draw(arrays(np.float64, (n, draw(st.integers(1, 3))), elements=st.floats(-100, 100)))
    return points, np.unique(draw(arrays(np.int64, n, elements=st.integers(0, 4))), return_inverse=True)[1]


@settings(max_examples=examples(60))
@given(case=partitions())
def test_sse_agrees_with_exact_fractions(case: tuple[NDArray[np.float64], NDArray[np.int64]]) -> None:
    points, labels = case
    exact = Fraction(0)
    for label in set(labels.tolist()):
        for column in points[labels == label].T:
            values = [Fraction(float(value)) for value in column]
            mean = sum(values, Fraction(0)) / len(values)
            exact += sum((value - mean) ** 2 for value in values)
    assert sse(points, labels) == pytest.approx(float(exact), rel=1e-9, abs=1e-20)
    assert 0.0 <= information_loss(points, labels) <= 100.0 + 1e-9


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 0, 1, 1], r"of shape \(5,\), not \(4,\)"),
        ([0, 0, 2, 2, 2], "no class empty"),
        ([-1, 0, 0, 0, 0], "0..m-1"),
        ([0, 0, 0, 0, 10**15], "0..m-1"),
        ([0.0, 0.0, 1.0, 1.0, 1.0], "must be integers"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        information_loss(POINTS, labels)


@pytest.mark.parametrize(
    "values", [[0.1] * 3, [1.7e308] * 3, [5e-324, 5e-324, 0.0], [-1.7e308, 1.7e308, 1e-300]]
)
def test_a_mean_lies_within_the_values_of_its_class(values: list[float]) -> None:
    """Three times 0.1 are 0.30000000000000004, and a third of that is above 0.1."""
    points = np.array([[value, 1e308] for value in [*values, 1e308, 1e308]])
    means = class_means(points, [0, 0, 0, 1, 1])
    assert min(values) <= means[0, 0] <= max(values)
    assert means[:, 1].tolist() == [1e308, 1e308]
    assert means[1, 0] == 1e308


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**-1022, 2.0**900])
def test_information_loss_has_no_unit(unit: float) -> None:
    assert information_loss(POINTS * unit, LABELS) == information_loss(POINTS, LABELS)
