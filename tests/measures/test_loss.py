"""Information loss, normalised SSE, MSE and MAE: hand calculation, published data, exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import duckanon
from duckanon import measures
from tests.measures.slow import classes_of, partitions
from tests.oracle import il
from tests.reference import reference_points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.points import Scale

POINTS = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 7.0], [6.0, 3.0], [8.0, 5.0]])
LABELS = [1, 1, 0, 0, 0]


def test_by_hand() -> None:
    """Means (1, 1) and (6, 5); errors 1, 1 | (2, 2), (0, 2), (2, 0): SSE 2 + 16, SST 40 + 27.2."""
    assert measures.sse(POINTS, LABELS, "none") == 18.0
    assert measures.sst(POINTS, "none") == pytest.approx(67.2)
    assert measures.information_loss(POINTS, LABELS, "none") == pytest.approx(1800 / 67.2)
    assert measures.mse(POINTS, LABELS, "none") == pytest.approx(18 / 5)
    assert measures.mae(POINTS, LABELS, "none") == pytest.approx((1 + 1 + sqrt(8) + 2 + 2) / 5)


def test_normalised_by_hand() -> None:
    """Ranges 8 and 6: ((1 + 1 + 4 + 0 + 4) / 64 + (0 + 0 + 4 + 4 + 0) / 36) / (2 * 5)."""
    expected = (10 / 64 + 8 / 36) / 10
    assert measures.normalized_sse(POINTS, LABELS) == pytest.approx(expected)
    assert measures.mse(POINTS, LABELS) == pytest.approx(2 * expected)
    constant = np.column_stack([POINTS, np.full(5, 7.0)])
    assert measures.normalized_sse(constant, LABELS) == pytest.approx(expected * 2 / 3)


def test_census_in_one_class() -> None:
    """Soria-Comas 2015, equation (5), for TAXINC and POTHVAL of Census, worked independently: .03629."""
    _, points = reference_points("census.csv", ["TAXINC", "POTHVAL"])
    assert len(points) == 1080
    assert measures.normalized_sse(points, np.zeros(1080, dtype=int)) == pytest.approx(0.03629, abs=5e-6)


def test_mse_of_perfectly_correlated_data_scales_as_the_paper_says() -> None:
    """Domingo-Ferrer 2017, section VI-C: i = 0..1000 on 0..1; of the original MSE is 1000^2 as large, MAE 1000."""
    points = np.arange(1001.0)[:, None]
    labels = np.minimum(np.arange(1001) // 10, 99)
    for measure, power in ((measures.mse, 2), (measures.mae, 1)):
        assert measure(points, labels, "none") == pytest.approx(1000**power * measure(points, labels))


@given(case=partitions(), scale=st.sampled_from(["zscore", "minmax", "none"]))
def test_il_is_that_of_the_oracle_and_of_the_package(
    case: tuple[NDArray[np.float64], NDArray[np.int64]], scale: Scale
) -> None:
    points, labels = case
    found = measures.information_loss(points, labels, scale)
    assert found == pytest.approx(il(points.tolist(), labels.tolist(), scale), rel=1e-7, abs=1e-9)
    assert found == duckanon.information_loss(points, labels, scale)
    total = measures.sst(points, scale)
    assert measures.sse(points, labels, scale) == pytest.approx(found / 100 * total, rel=1e-12, abs=1e-12)


@given(case=partitions())
def test_errors_agree_with_exact_fractions(case: tuple[NDArray[np.float64], NDArray[np.int64]]) -> None:
    points, labels = case
    n, d = points.shape
    exact = [[Fraction(x) for x in row] for row in points.tolist()]
    ranges = [max(column) - min(column) or Fraction(1) for column in zip(*exact, strict=True)]
    squares = []
    for members in classes_of(labels):
        mean = [sum(exact[i][j] for i in members) / len(members) for j in range(d)]
        squares += [
            [((exact[i][j] - mean[j]) / ranges[j]) ** 2 for j in range(d)] for i in members
        ]  # fmt: skip
    whole = [sum(row) for row in squares]
    assert measures.normalized_sse(points, labels) == pytest.approx(float(sum(whole) / (n * d)), abs=1e-12)
    assert measures.mse(points, labels) == pytest.approx(float(sum(whole) / n), abs=1e-12)
    assert measures.mae(points, labels) == pytest.approx(sum(sqrt(x) for x in whole) / n, abs=1e-7)
    assert measures.mae(points, labels) <= sqrt(measures.mse(points, labels)) + 1e-12
    assert measures.normalized_sse(points, labels) <= 0.25 + 1e-12


def test_equal_records_lose_nothing() -> None:
    points = np.full((3, 2), 0.1)
    for measure in (
        measures.sse,
        measures.information_loss,
        measures.normalized_sse,
        measures.mse,
        measures.mae,
    ):
        assert measure(points, [0, 0, 0]) == 0.0
    assert measures.sst(points) == 0.0
    assert measures.normalized_sse(np.zeros((2, 0)), [0, 0]) == 0.0


@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        ([], [], "one row a record"),
        (np.zeros((0, 2)), [], "one row a record"),
        ([[0.0], [np.nan]], [0, 0], "nan in record 1"),
        ([[0.0], [np.inf]], [0, 0], "inf in record 1"),
        ([["a"]], [0], "could not convert"),
        ([[0.0], [1.0]], [0], "1 labels for 2 records"),
        ([[0.0], [1.0]], [0, 2], "no class empty"),
    ],
)
@pytest.mark.parametrize("name", ["sse", "information_loss", "normalized_sse", "mse", "mae"])
def test_refusals_are_one_line(name: str, points: Any, labels: list[int], message: str) -> None:
    with pytest.raises(duckanon.PolicyError, match=message) as caught:
        getattr(measures, name)(points, labels)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_unknown_scale_and_overflow_are_refused() -> None:
    with pytest.raises(duckanon.PolicyError, match="unknown scale 'robust'"):
        measures.mse([[0.0]], [0], "robust")  # type: ignore[arg-type]
    with pytest.raises(duckanon.PolicyError, match="scale them first"):
        measures.sst([[0.0], [1e200]], "none")


@given(points=arrays(np.float64, (6, 2), elements=st.floats(-9, 9)), shuffle=st.permutations(range(6)))
def test_the_order_of_the_records_does_not_matter(points: NDArray[np.float64], shuffle: list[int]) -> None:
    labels = np.array([0, 0, 1, 1, 1, 0])
    for measure in (measures.normalized_sse, measures.mse, measures.mae):
        assert measure(points[shuffle], labels[shuffle]) == pytest.approx(measure(points, labels), abs=1e-12)
