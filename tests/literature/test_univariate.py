"""Optimal univariate microaggregation: exhaustive search and exact fractions on small cases."""

from __future__ import annotations

import time
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duckanon.kernels.first.univariate import split, univariate
from duckanon.kernels.loss import sse
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Points = NDArray[np.float64]

ROUNDING = 1e-13


def exact_sse(rows: Sequence[Sequence[float]]) -> Fraction:
    """Return the sum of squared errors of one class."""
    total = Fraction(0)
    for column in zip(*rows, strict=True):
        values = [Fraction(value) for value in column]
        mean = sum(values, Fraction(0)) / len(values)
        total += sum(((value - mean) ** 2 for value in values), Fraction(0))
    return total


def exact_loss(points: Points, labels: NDArray[np.int64]) -> Fraction:
    """Return the sum of squared errors of a partition."""
    return sum((exact_sse(points[labels == c].tolist()) for c in range(labels.max() + 1)), Fraction(0))


def best_cut(points: Points, k: int) -> Fraction:
    """Return the least sum of squared errors of stretches of at least k rows, without a largest size."""
    rows = points.tolist()

    @cache
    def best(end: int) -> Fraction | None:
        totals = [exact_sse(rows[:end])] if end >= k else []
        for start in range(k, end - k + 1):
            before = best(start)
            if before is not None:
                totals.append(before + exact_sse(rows[start:end]))
        return min(totals, default=None)

    found = best(len(rows))
    assert found is not None
    return found


def partitions(records: list[int], k: int) -> Iterator[list[list[int]]]:
    """Give every partition of the records into sets of at least k."""
    if not records:
        yield []
        return
    first, *rest = records
    for chosen in range(1 << len(rest)):
        members = [first] + [r for bit, r in enumerate(rest) if chosen >> bit & 1]
        if len(members) >= k:
            others = [r for bit, r in enumerate(rest) if not chosen >> bit & 1]
            for more in partitions(others, k):
                yield [members, *more]


@settings(max_examples=examples(60), deadline=None)
@given(values=st.lists(st.integers(-20, 20), min_size=1, max_size=8), data=st.data())
def test_no_partition_at_all_is_better(values: list[int], data: st.DataObject) -> None:
    """Exhaustive: every partition into sets of at least k, stretches of the sorted values or not."""
    k = data.draw(st.integers(1, len(values)))
    points = np.array(values, dtype=float)[:, None]
    best = min(
        sum((exact_sse(points[members].tolist()) for members in groups), Fraction(0))
        for groups in partitions(list(range(len(values))), k)
    )
    assert exact_loss(points, univariate(points, k)) == best


spread = st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float) | st.floats(-1e-3, 1e-3)


@st.composite
def columns(draw: st.DrawFn) -> tuple[Points, int]:
    """Draw values at up to three distant places: an offset that does not cancel by centring on the mean."""
    places = draw(st.lists(st.sampled_from([0.0, 1e9, -1e9, 1e15, 3.5]), min_size=1, max_size=3))
    values = draw(st.lists(st.tuples(st.sampled_from(places), spread), min_size=1, max_size=32))
    points = np.array([place + value for place, value in values])[:, None]
    return points, draw(st.integers(1, len(points)))


@settings(max_examples=examples(80), deadline=None)
@given(case=columns())
def test_the_loss_is_the_least_in_exact_fractions(case: tuple[Points, int]) -> None:
    """Oracle: the same path by trying all edges in fractions, also those longer than 2k-1 records."""
    points, k = case
    best = best_cut(np.sort(points, axis=0), k)
    assert exact_loss(points, univariate(points, k)) <= best * Fraction(1 + ROUNDING) + Fraction(1e-290)


@settings(max_examples=examples(200))
@given(case=columns())
def test_classes_are_stretches_of_the_values(case: tuple[Points, int]) -> None:
    points, k = case
    labels = univariate(points, k)
    assert np.all(np.diff(labels[np.argsort(points[:, 0], kind="stable")]) >= 0)


def test_hand_example() -> None:
    """By hand: 0, 1, 2 cost 2, and 10, 11 and 12, 13 cost 1/2 each; any other cut costs more."""
    points = np.array([[12.0], [0.0], [10.0], [2.0], [13.0], [1.0], [11.0]])
    assert univariate(points, 2).tolist() == [2, 0, 1, 0, 2, 0, 1]


@pytest.mark.parametrize("k", [2, 5, 19])
def test_an_exact_offset_changes_nothing(k: int) -> None:
    """Multiples of 2**-20 keep their differences at 1e9; centred squares of 1e9 would lose them all."""
    values = np.random.default_rng(k).integers(0, 2**16, (60, 1)).astype(float) / 2.0**20
    moved = univariate(values + 1e9, k)
    assert moved.tolist() == univariate(values, k).tolist()
    assert exact_loss(values, moved) <= best_cut(np.sort(values, axis=0), k) * Fraction(1 + ROUNDING)


@pytest.mark.parametrize("k", [2, 3, 10, 100, 700, 1500])
def test_halving_finds_what_trying_all_sizes_finds(k: int) -> None:
    """Heavy tails and ties, 3,000 records, beyond what fractions can do."""
    draw = np.random.default_rng(k)
    for values in (
        draw.standard_cauchy(3000),
        draw.integers(0, 90, 3000).astype(float),
        draw.normal(size=3000),
    ):
        points = values[:, None]
        halved, tried = univariate(points, k), split(points, np.argsort(values, kind="stable"), k)
        assert sse(points, halved) == pytest.approx(sse(points, tried), rel=1e-11)


@pytest.mark.parametrize("points", [np.zeros((22, 1)), np.full((22, 1), 0.1), np.zeros((22, 0))])
def test_of_equal_cuts_the_last_classes_are_smallest(points: Points) -> None:
    """By hand: every cut costs 0, so the last three classes have 5 records, and 7 are left for the first."""
    assert univariate(points, 5).tolist() == [0] * 7 + [1] * 5 + [2] * 5 + [3] * 5


def test_the_time_does_not_grow_with_k() -> None:
    """Trying all sizes would compute 1.3e10 costs here, halving about 5e6."""
    points = np.random.default_rng(1).normal(size=(200_000, 1))
    univariate(points[:100], 3)
    start = time.process_time()
    univariate(points, 66_000)
    assert time.process_time() - start < 3


@st.composite
def paths(draw: st.DrawFn) -> tuple[Points, list[int], int]:
    """Draw integer points, an order and a k."""
    n, d = draw(st.integers(1, 14)), draw(st.integers(1, 3))
    values = draw(st.lists(st.integers(-9, 9), min_size=n * d, max_size=n * d))
    order = draw(st.permutations(range(n)))
    return np.array(values, dtype=float).reshape(n, d), list(order), draw(st.integers(1, n))


@settings(max_examples=examples(150), deadline=None)
@given(case=paths())
def test_split_cuts_any_order_best(case: tuple[Points, list[int], int]) -> None:
    points, order, k = case
    labels = split(points, np.array(order), k)
    sizes = np.bincount(labels)
    assert np.all(np.diff(labels[order]) >= 0)
    assert k <= sizes.min()
    assert sizes.max() <= 2 * k - 1
    assert exact_loss(points, labels) <= best_cut(points[order], k) * Fraction(1 + ROUNDING)


def test_a_second_column_is_refused() -> None:
    with pytest.raises(
        ValueError, match="univariate takes one column, not 2: use 'mhm' or 'mdav' for several"
    ):
        univariate([[0.0, 1.0], [1.0, 2.0]], 1)
