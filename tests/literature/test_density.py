"""DBA-1 and DBA-2: published information losses, hand calculation, and a slow line-by-line reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duckanon.kernels.loss import information_loss
from duckanon.literature.dissolve import dba1, dba2
from tests.examples import examples
from tests.kernels.test_mdav import by_leaves, dataset, free_points, nasty_sets, squared, tied_points
from tests.literature.test_fixed_size import Slow

Points = NDArray[np.float64]
Labels = NDArray[np.int64]
Method = Callable[[Points, int], Labels]

# Information loss 100 SSE/SST of z-scored data at k = 3, 4, 5, 10 in Kabir et al., Tables VI to VIII, who quote
# Lin et al. 2010.
PUBLISHED: dict[tuple[Method, str], tuple[str, ...]] = {
    (dba1, "tarragona"): ("20.69948803", "23.82761456", "26.00129826", "35.39295837"),
    (dba1, "census"): ("6.144855154", "9.127883805", "10.84218735", "15.78549732"),
    (dba1, "eia"): ("1.090194828", "0.84346907", "1.895536919", "4.265801303"),
    (dba2, "tarragona"): ("16.15265063", "22.67107728", "25.45039236", "34.80675148"),
    (dba2, "census"): ("5.581605762", "7.591307664", "9.046162117", "13.52140518"),
    (dba2, "eia"): ("0.421048322", "0.559755523", "0.81849828", "2.080980825"),
}


@pytest.mark.sampled
@pytest.mark.parametrize(("method", "name"), PUBLISHED)
def test_information_losses_are_the_published_ones(method: Method, name: str) -> None:
    """Source: see PUBLISHED; every printed digit."""
    points = dataset(name)
    for k, printed in zip((3, 4, 5, 10), PUBLISHED[method, name], strict=True):
        decimals = len(printed.split(".")[1])
        assert f"{information_loss(points, method(points, k)):.{decimals}f}" == printed


def slow_dba1(points: Points, k: int) -> Labels:
    """DBA-1 as Kabir et al., section IV, describe it: all densities anew for each class."""
    slow = Slow(points)
    ranked = [np.argsort(squared(points, point), kind="stable").tolist() for point in points]
    known: dict[tuple[int, ...], float] = {}

    def spread(record: int) -> float:
        others = [r for r in ranked[record] if r != record and slow.labels[r] < 0]
        hood = tuple(sorted([record, *others[: k - 1]]))
        if hood not in known:
            total = 0.0
            for column in points.T:
                centre = sum(column[list(hood)].tolist()) / k
                for value in column[list(hood)].tolist():
                    total += (value - centre) ** 2
            known[hood] = total
        return known[hood]

    while len(slow.left) >= k:
        slow.form(min(slow.left, key=lambda record: (spread(record), record)), k)
    return slow.finished()


@settings(max_examples=examples(120), deadline=None)
@given(case=st.one_of(tied_points(), free_points()), leaf=st.sampled_from([1, 2, 5, 99]))
def test_labels_are_those_of_the_slow_reference(case: tuple[Points, int], leaf: int) -> None:
    points, k = case
    expected = slow_dba1(points, k)
    assert np.array_equal(by_leaves(leaf, dba1, points, k), expected)
    assert np.array_equal(dba1(points, k), expected)


@pytest.mark.parametrize("name", nasty_sets())
def test_pruning_does_not_change_the_result(name: str) -> None:
    points = nasty_sets()[name]
    expected = by_leaves(len(points), dba1, points, 5)
    for leaf in (1, 7, 32):
        assert np.array_equal(by_leaves(leaf, dba1, points, 5), expected)


def test_density_is_about_the_centroid_by_hand() -> None:
    """On a line, k = 3: 10, 13, 13 has 4 + 1 + 1 = 6 about its mean 12, and 0, 2, 4 has 8 about its mean 2.

    By sums to the record itself 2 would come first: 4 + 4 = 8, against 9 from a record 13 and 18 from 10.
    """
    points = np.array([[0.0], [2.0], [4.0], [13.0], [10.0], [13.0]])
    assert dba1(points, 3).tolist() == [1, 1, 1, 0, 0, 0]


def test_densities_follow_the_records_left_by_hand() -> None:
    """On a line, k = 2: 10 and 11 (sum of squares 0.5) come first.

    Before, 12.5 has 1.125 with 11, and 8 has 2 with 10. Afterwards 12.5 has 6.125 with 16, and 8 has 4.5 with
    5, so 5 and 8 come second. With the densities of the beginning 12.5 and 16 would.
    """
    points = np.array([[5.0], [8.0], [10.0], [11.0], [12.5], [16.0]])
    assert dba1(points, 2).tolist() == [1, 1, 0, 0, 2, 2]


def test_the_last_record_joins_the_nearest_class_by_hand() -> None:
    """On a line, k = 2: 10, 11 first, then 0, 2; 5 is 4 from the mean 1 and 5.5 from 10.5."""
    assert dba1([[0.0], [2.0], [5.0], [10.0], [11.0]], 2).tolist() == [1, 1, 1, 0, 0]


def test_dba2_dissolves_the_least_dense_class_by_hand() -> None:
    """On a line, k = 2: 9.8 and 9.9; 0 and 0.2; then 0.5 and 10.5, each of which is nearer to the others."""
    points = np.array([[0.0], [0.2], [0.5], [9.8], [9.9], [10.5]])
    assert dba1(points, 2).tolist() == [1, 1, 2, 0, 0, 2]
    assert dba2(points, 2).tolist() == [1, 1, 1, 0, 0, 0]
