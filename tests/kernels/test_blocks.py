"""MDAV in kd blocks: a slow recursive kd split in fractions, and `mdav` on each block, as oracles."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from duckanon.kernels.first.blocks import blocks
from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.loss import information_loss
from duckanon.kernels.neighbours.kd import kd_blocks
from duckanon.kernels.points import distance_points
from tests.examples import examples, slowly

Points = NDArray[np.float64]
Labels = NDArray[np.int64]


def spread(values: list[Fraction]) -> Fraction:
    """Return the sum of squared deviations from the mean, exact."""
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction(0))


def slow_kd(points: list[list[Fraction]], records: list[int], unit: int, largest: int) -> list[list[int]]:
    """Halve a node as the docstring of `kd_blocks` says, one node after the other, by sorting."""
    if len(records) <= largest:
        return [sorted(records)]
    spreads = [spread([points[record][j] for record in records]) for j in range(len(points[0]))]
    widest = next(j for j, value in enumerate(spreads) if value >= max(spreads) * (1 - Fraction(1, 10**9)))
    ascending = sorted(records, key=lambda record: (points[record][widest], record))
    left = len(records) // unit // 2 * unit
    return [
        *slow_kd(points, ascending[:left], unit, largest),
        *slow_kd(points, ascending[left:], unit, largest),
    ]


@st.composite
def cases(draw: st.DrawFn, most: int = 40) -> tuple[Points, int, int]:
    """Draw points, with ties or without, a unit and a block size that is at least twice the unit."""
    n, d = draw(st.integers(1, most)), draw(st.integers(1, 4))
    highest = draw(st.sampled_from([0, 1, 3, 1000]))
    points = draw(arrays(np.float64, (n, d), elements=st.integers(-highest, highest).map(float)))
    unit = draw(st.integers(1, min(n, 6)))
    return points, unit, draw(st.integers(2 * unit, 2 * unit + 10))


@settings(max_examples=examples(120))
@given(case=cases())
def test_order_is_that_of_a_recursive_split_in_fractions(case: tuple[Points, int, int]) -> None:
    points, unit, largest = case
    order, offsets = kd_blocks(points, unit, largest)
    exact = [[Fraction(value) for value in row] for row in points.tolist()]
    expected = slow_kd(exact, list(range(len(points))), unit, largest)
    assert [order[first:last].tolist() for first, last in pairwise(offsets)] == expected


@pytest.mark.parametrize("highest", [0, 2, 10**6])
@pytest.mark.parametrize(
    ("n", "unit", "largest"), slowly([(2000, 7, 14), (1999, 5, 64), (1024, 1, 2), (1023, 8, 17)], one_of=3)
)
def test_order_of_many_levels_is_that_of_the_recursive_split(
    n: int, unit: int, largest: int, highest: int
) -> None:
    """Deep enough for stacks of nodes of both sizes and the node with the remainder on every level."""
    points = np.random.default_rng(n).integers(0, highest, (n, 2), endpoint=True).astype(float)
    order, offsets = kd_blocks(points, unit, largest)
    exact = [[Fraction(value) for value in row] for row in points.tolist()]
    expected = slow_kd(exact, list(range(n)), unit, largest)
    assert [order[first:last].tolist() for first, last in pairwise(offsets)] == expected


def test_order_by_hand() -> None:
    """Units of 2, so 8 records and one over are cut 4 : 5, and the 5 again 2 : 3.

    The second column is the wider one. Its values 0, 0, 1, 1, 1, 1, 2, 9, 9 are cut after the fourth: of the
    four records at 1 the first two go left. In records 4, 6, 7, 8, 3 to the right it is still the wider.
    """
    second = [1.0, 0.0, 1.0, 9.0, 1.0, 0.0, 1.0, 2.0, 9.0]
    order, offsets = kd_blocks(np.column_stack([np.zeros(9), second]), 2, 4)
    assert order.tolist() == [0, 1, 2, 5, 4, 6, 3, 7, 8]
    assert offsets.tolist() == [0, 4, 6, 9]


@settings(max_examples=examples(50))
@given(case=cases(most=80))
def test_blocks_cover_all_records_in_whole_units(case: tuple[Points, int, int]) -> None:
    points, unit, largest = case
    before = points.copy()
    order, offsets = kd_blocks(points, unit, largest)
    sizes = np.diff(offsets)
    assert order.dtype == offsets.dtype == np.int64
    assert sorted(order.tolist()) == list(range(len(points)))
    assert (offsets[0], offsets[-1]) == (0, len(points))
    assert unit <= sizes.min()
    assert sizes.max() <= largest
    assert (sizes[:-1] % unit == 0).all()
    assert sizes[-1] % unit == len(points) % unit
    assert np.array_equal(points, before)


@pytest.mark.parametrize("d", [1, 50])
def test_order_of_one_and_of_many_columns(d: int) -> None:
    """In 50 columns only the last varies much; then both orders are that of the values."""
    draw = np.random.default_rng(d)
    points = np.column_stack([draw.normal(0.0, 1e-9, (640, d - 1)), draw.normal(size=640)])
    order, offsets = kd_blocks(points, 5, 10)
    assert offsets.tolist() == list(range(0, 641, 10))
    assert np.array_equal(order.reshape(64, 10), np.sort(np.argsort(points[:, -1]).reshape(64, 10), axis=1))


@pytest.mark.parametrize(
    ("n", "unit", "largest", "message"),
    [
        (4, 5, 10, "units of 5 need at least as many records, and there are 4"),
        (4, 0, 10, "units of 0"),
        (9, 3, 5, "largest = 5 leaves no room for two units of 3: use 6 or more"),
    ],
)
def test_impossible_sizes_are_refused(n: int, unit: int, largest: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kd_blocks(np.zeros((n, 1)), unit, largest)


def check_against_mdav(points: Points, k: int, largest: int, labels: Labels) -> None:
    """Assert that the classes of each block are those of `mdav` on its records, numbered on and on."""
    # On the scale of `blocks`, since variances of tiny numbers vanish and would not tell the widest coordinate.
    order, offsets = kd_blocks(distance_points(points), k, max(largest, 2 * k))
    expected, next_label = np.full(len(points), -1), 0
    for first, last in pairwise(offsets):
        records = order[first:last]
        expected[records] = mdav(points[records], k) + next_label
        next_label = expected[records].max() + 1
    assert np.array_equal(labels, expected)


@st.composite
def free_cases(draw: st.DrawFn) -> tuple[Points, int, int]:
    """Draw finite points within +-1e6, or all of them so small that squares vanish.

    Some that are 10^300 times smaller than others are equal in a block of the whole, and not on their own.
    """
    n, d = draw(st.integers(1, 60)), draw(st.integers(1, 4))
    elements = st.floats(-1e6, 1e6).map(lambda x: x if abs(x) >= 1e-6 else 0.0)
    points = draw(arrays(np.float64, (n, d), elements=elements)) * draw(st.sampled_from([1.0, 1e-310]))
    return points, draw(st.integers(1, n)), draw(st.integers(0, 70))


@settings(max_examples=examples(100))
@example(case=(np.array([[0.0, 0.0]] * 17 + [[0.0, 1e-310]] + [[0.0, 0.0]] * 2), 1, 0), threads=1)
@given(case=st.one_of(cases(most=60), free_cases()), threads=st.sampled_from([1, 2]))
def test_classes_are_those_of_mdav_in_each_block(case: tuple[Points, int, int], threads: int) -> None:
    points, k, largest = case
    before = points.copy()
    labels = blocks(points, k, largest, threads)
    check_against_mdav(points, k, largest, labels)
    sizes = np.bincount(labels)
    assert labels.dtype == np.int64
    assert k <= sizes.min()
    assert sizes.max() <= 2 * k - 1
    assert np.array_equal(points, before)


@pytest.mark.parametrize("k", [1, 2, 5, 30, 700])
@pytest.mark.parametrize("kind", ["normal", "few values", "equal", "50 columns"])
def test_classes_of_larger_blocks_are_those_of_mdav(kind: str, k: int) -> None:
    draw = np.random.default_rng(k)
    points = {
        "normal": draw.normal(size=(4003, 3)),
        "few values": draw.integers(0, 3, (2500, 4)).astype(float),
        "equal": np.full((1900, 2), 0.1),
        "50 columns": draw.normal(size=(1501, 50)),
    }[kind]
    check_against_mdav(points, k, 500, blocks(points, k, 500))


def test_result_does_not_depend_on_the_number_of_threads() -> None:
    points = np.random.default_rng(3).normal(size=(20_011, 4)).round(1)
    one, two, three, default = (blocks(points, 5, 100, threads) for threads in (1, 2, 3, None))
    assert np.array_equal(one, two)
    assert np.array_equal(one, three)
    assert np.array_equal(one, default)


def test_one_block_is_mdav() -> None:
    points = np.random.default_rng(5).normal(size=(1000, 3))
    assert np.array_equal(blocks(points, 7), mdav(points, 7))
    assert blocks(points[:1], 1).tolist() == [0]
    assert blocks(np.zeros((5, 0)), 2).tolist() == [0, 0, 1, 1, 0]


@pytest.mark.parametrize(("k", "largest"), [(2, 1024), (4, 1024), (5, 1280), (20, 5120)])
def test_default_size_of_a_block_grows_with_k(k: int, largest: int) -> None:
    """256 k, but at least 1024: one record more than that makes two blocks."""
    points = np.random.default_rng(6).normal(size=(largest + 1, 2))
    assert np.array_equal(blocks(points[:-1], k), mdav(points[:-1], k))
    check_against_mdav(points, k, largest, blocks(points, k))
    assert not np.array_equal(blocks(points, k), mdav(points, k))


def test_loss_is_near_that_of_mdav() -> None:
    """Blocks of 1024 cost 11 % at 100,000 x 5 and blocks of 64 about 30 % (kd_var in the measurements)."""
    points = np.random.default_rng(8).normal(size=(6000, 3))
    exact = information_loss(points, mdav(points, 5))
    coarse, fine = (information_loss(points, blocks(points, 5, largest)) for largest in (1024, 64))
    assert coarse < 1.15 * exact
    assert coarse < fine < 1.5 * exact
