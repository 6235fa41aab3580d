"""MultiDSort and Meansort with P-S: worked example, published information losses, a line-by-line reference."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from duckanon.kernels.loss import information_loss
from duckanon.literature import sorting as module
from duckanon.literature.sorting import meansort_order, meansort_ps, multidsort_order, multidsort_ps
from tests.examples import examples
from tests.kernels.test_mdav import by_leaves
from tests.reference import EIA_COLUMNS, reference_points

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Points = NDArray[np.float64]
Labels = NDArray[np.int64]

TABLE_I = np.array([[5.0, 6.0], [3.0, 10.0], [1.0, 3.0], [2.0, 1.0], [4.0, 2.0]])
TABLE_III = [[2.0, 1.0], [1.0, 3.0], [4.0, 2.0], [3.0, 10.0], [5.0, 6.0]]
TABLE_V = [[2.0, 1.0], [1.0, 3.0], [4.0, 2.0], [5.0, 6.0], [3.0, 10.0]]
SORTING_FUNCTION = [3.6, 5.6, -3.4, -4.4, -1.4]
"""Table IV, third column."""

# Kabir et al., Tables VI to VIII: 100 SSE/SST at k = 3, 4, 5, 10. On data that are not normalised; the eleven
# attributes of EIA are MONTH and the ten revenue and sales columns.
PRINTED_MULTIDSORT = {
    "tarragona": ("9.86", "12.17", "18.52", "32.23"),
    "census": ("2.10", "3.63", "3.46", "6.85"),
    "eia": ("0.41", "0.71", "0.85", "1.38"),
}
PRINTED_MEANSORT = {
    "tarragona": ("5.49", "8.34", "10.89", "17.00"),
    "census": ("1.92", "2.28", "2.72", "4.61"),
    "eia": ("0.21", "0.31", "0.43", "1.04"),
}


def raw(name: str) -> Points:
    """Return a reference data set as it is."""
    columns = ("MONTH", *EIA_COLUMNS[1:]) if name == "eia" else None
    return reference_points(f"{name}.csv", columns)[1]


def test_multidsort_sorts_the_worked_example() -> None:
    """Source: Tables I to III."""
    assert TABLE_I[multidsort_order(TABLE_I)].tolist() == TABLE_III


def test_meansort_sorts_the_worked_example() -> None:
    """Source: Tables IV and V."""
    assert module._deviations(TABLE_I) == pytest.approx(SORTING_FUNCTION, rel=1e-12)
    assert TABLE_I[meansort_order(TABLE_I)].tolist() == TABLE_V


@pytest.mark.parametrize("name", PRINTED_MULTIDSORT)
def test_multidsort_gives_the_printed_information_losses(name: str) -> None:
    """Source: the last but one rows of Tables VI to VIII, to the digits printed."""
    points = raw(name)
    losses = [information_loss(points, multidsort_ps(points, k)) for k in (3, 4, 5, 10)]
    assert tuple(f"{loss:.2f}" for loss in losses) == PRINTED_MULTIDSORT[name]


@pytest.mark.parametrize("name", PRINTED_MEANSORT)
def test_meansort_gives_the_printed_information_losses(name: str) -> None:
    """Source: the last rows of Tables VI to VIII, to the digits printed."""
    points = raw(name)
    losses = [information_loss(points, meansort_ps(points, k)) for k in (3, 4, 5, 10)]
    assert tuple(f"{loss:.2f}" for loss in losses) == PRINTED_MEANSORT[name]


def exact_sse(members: Sequence[Sequence[int]]) -> Fraction:
    """Return the sum of squared errors of a class, in fractions."""
    total = Fraction(0)
    for column in zip(*members, strict=True):
        mean = Fraction(sum(column), len(column))
        total += sum((value - mean) ** 2 for value in column)
    return total


def sorted_by_ranks(points: Sequence[Sequence[int]], left: list[int]) -> list[int]:
    """Algorithm 1 on the records left."""
    sums = dict.fromkeys(left, 0)
    for column in range(len(points[0])):
        for rank, record in enumerate(sorted(left, key=lambda r: (points[r][column], r))):
            sums[record] += rank
    return sorted(left, key=lambda r: (sums[r], r))


def sorted_by_sums(points: Sequence[Sequence[int]], left: list[int]) -> list[int]:
    """Equation 5 on the records left: the means move all sums alike."""
    return sorted(left, key=lambda r: (sum(points[r]), r))


def slow_ps(
    points: Sequence[Sequence[int]],
    k: int,
    order: Callable[[Sequence[Sequence[int]], list[int]], list[int]],
    *,
    resort: bool,
) -> list[int]:
    """Algorithm 2 with exact sums of squared errors."""
    labels, left = [-1] * len(points), order(points, list(range(len(points))))
    groups = 0

    def grow(seed: int, kept: int) -> None:
        nonlocal groups
        members = [seed]
        left.remove(seed)
        while len(members) < k:
            others = [record for record in left if record != kept]
            members.append(
                min(others, key=lambda r: (exact_sse([points[m] for m in members] + [points[r]]), r))
            )
            left.remove(members[-1])
        for record in members:
            labels[record] = groups
        groups += 1

    while len(left) >= 2 * k:
        if resort:
            left[:] = order(points, sorted(left))
        pair = len(left) >= 3 * k
        first, last = left[0], left[-1]
        grow(first, last)
        if pair:
            grow(last, -1)
    for record in left:
        labels[record] = groups
    return labels


@st.composite
def exact_points(draw: st.DrawFn) -> tuple[Points, int]:
    """Draw multiples of 12 full of ties, and k to 5: means of up to four records are then exact."""
    n, d = draw(st.integers(1, 30)), draw(st.integers(1, 4))
    highest = draw(st.sampled_from([0, 1, 3, 40]))
    points = 12.0 * draw(arrays(np.float64, (n, d), elements=st.integers(0, highest).map(float)))
    return points, draw(st.integers(1, min(n, 5)))


@settings(max_examples=examples(100))
@given(case=exact_points(), resort=st.booleans())
def test_multidsort_labels_are_those_of_the_slow_reference(case: tuple[Points, int], *, resort: bool) -> None:
    points, k = case
    rows = points.astype(int).tolist()
    assert multidsort_order(points).tolist() == sorted_by_ranks(rows, list(range(len(rows))))
    expected = slow_ps(rows, k, sorted_by_ranks, resort=resort)
    assert multidsort_ps(points, k, resort=resort).tolist() == expected


@settings(max_examples=examples(100))
@given(case=exact_points())
def test_meansort_labels_are_those_of_the_slow_reference(case: tuple[Points, int]) -> None:
    """A zero mean in every column keeps the sums of equation 5 exact; mirrored records give it."""
    half, k = case
    points = np.vstack([half, -half])
    rows = points.astype(int).tolist()
    assert meansort_order(points).tolist() == sorted_by_sums(rows, list(range(len(rows))))
    assert meansort_ps(points, k).tolist() == slow_ps(rows, k, sorted_by_sums, resort=False)


@st.composite
def free_points(draw: st.DrawFn) -> tuple[Points, int]:
    """Draw any finite points within +-1e6 and a k."""
    n, d = draw(st.integers(1, 30)), draw(st.integers(1, 4))
    points = draw(arrays(np.float64, (n, d), elements=st.floats(-1e6, 1e6)))
    return points, draw(st.integers(1, n))


def multidsort_resorted(points: Points, k: int) -> Labels:
    """Return the labels of the literal step 2.2."""
    return multidsort_ps(points, k, resort=True)


METHODS = [meansort_ps, multidsort_ps, multidsort_resorted]


@settings(max_examples=examples(100))
@given(case=st.one_of(exact_points(), free_points()), method=st.sampled_from(METHODS))
def test_every_class_has_k_records_but_the_last(
    case: tuple[Points, int], method: Callable[[Points, int], Labels]
) -> None:
    points, k = case
    *fixed, last = np.bincount(method(points, k)).tolist()
    assert set(fixed) <= {k}
    assert k <= last <= 2 * k - 1


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_distinct_records_does_not_matter(method: Callable[[Points, int], Labels]) -> None:
    """On a rising curve no two sums of ranks are equal, whichever records leave; nor are two distances."""
    draw = np.random.default_rng(3)
    points = np.cumsum(draw.exponential(size=(40, 3)), axis=0)
    shuffle = draw.permutation(len(points))
    assert method(points[shuffle], 3).tolist() == method(points, 3)[shuffle].tolist()


@pytest.mark.parametrize("ranked", [0, 2])
def test_tree_and_scan_agree(ranked: int) -> None:
    """The scan has no boxes to prune by."""
    points = np.random.default_rng(8).integers(0, 30, (900, 2)).astype(float)
    ascending = module._ascending(points)
    key = module._rank_sums(ascending)
    tree, scan = (
        by_leaves(size, module._pairwise_systematic, points, 7, key.copy(), ascending[:ranked])
        for size in (4, 900)
    )
    assert np.array_equal(tree, scan)


@pytest.mark.parametrize("points", [np.zeros((17, 3)), np.full((17, 1), 0.1), np.zeros((17, 0))])
@pytest.mark.parametrize("method", METHODS)
def test_equal_records_are_taken_by_number(method: Callable[[Points, int], Labels], points: Points) -> None:
    """By hand, k = 5: 0 takes 1 to 4, 16 takes 5 to 8; the seven left are one class."""
    assert method(points, 5).tolist() == [0] * 5 + [1] * 4 + [2] * 7 + [1]


@pytest.mark.parametrize("method", METHODS)
def test_the_class_of_the_first_record_cannot_take_the_last(method: Callable[[Points, int], Labels]) -> None:
    """By hand, k = 2: (0, 0) comes first and (1, 1) last, in both orders, and they are nearest to each other.

    With six records, (0, 0) takes (-50, 51), then (1, 1) takes (-51, 52). With the first four, (0, 0) takes
    (-50, 51) again, and (1, 1) is left for the last class.
    """
    points = np.array([[0.0, 0.0], [1.0, 1.0], [-50.0, 51.0], [60.0, -59.0], [-51.0, 52.0], [61.0, -60.0]])
    assert method(points, 2).tolist() == [0, 1, 0, 2, 1, 2]
    assert method(points[:4], 2).tolist() == [0, 1, 0, 1]


def test_nan_cannot_be_sorted() -> None:
    with pytest.raises(ValueError, match="points hold nan in record 1, column 0"):
        multidsort_order([[0.0], [np.nan]])
