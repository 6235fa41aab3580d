"""MHM: published information losses, slow paths in plain Python, and the groups it starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.loss import information_loss, sse
from duckanon.literature.fixed_size import cbfs
from duckanon.literature.maximum_distance import maximum_distance
from duckanon.literature.mhm import mhm, nearest_point_next, through_groups
from tests.examples import examples
from tests.kernels.test_mdav import dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckanon.literature.mhm import Order

Points = NDArray[np.float64]
Labels = NDArray[np.int64]

# Domingo-Ferrer et al. 2006, quoted in Kabir et al., Tables VI to VIII: 100 SSE/SST at k = 3, 5, 10, z-scored.
PRINTED: dict[tuple[Order, str], tuple[float, float, float]] = {
    ("mdav", "tarragona"): (16.9326, 22.4617, 33.1923),
    ("md", "tarragona"): (16.9829, 22.5269, 33.1834),
    ("cbfs", "tarragona"): (16.9714, 22.8227, 33.2188),
    ("npn", "tarragona"): (17.3949, 27.0213, 40.1831),
    ("mdav", "census"): (5.6523, 9.0870, 14.2239),
    ("md", "census"): (5.69724, 8.98594, 14.3965),
    ("cbfs", "census"): (5.6734, 8.8942, 13.8925),
    ("npn", "census"): (6.3498, 11.3443, 18.7335),
    ("mdav", "eia"): (0.4081, 1.2563, 3.7725),
    ("md", "eia"): (0.4422, 1.2627, 3.6374),
    ("npn", "eia"): (0.5525, 0.9602, 2.3188),
}
# The reading that `mhm` documents is within 1 % of the print, but for these: all four lie below the print.
WIDER = {
    ("npn", "census", 3): 0.012,
    ("mdav", "eia", 3): 0.013,
    ("npn", "eia", 3): 0.08,
    ("npn", "eia", 10): 0.025,
}

BASE: dict[Order, Callable[[Points, int], Labels]] = {"md": maximum_distance, "mdav": mdav, "cbfs": cbfs}


@pytest.mark.parametrize(("order", "name"), PRINTED)
def test_information_losses_are_near_the_printed_ones(order: Order, name: str) -> None:
    """Source: the first four rows of Tables VI to VIII."""
    points = dataset(name)
    for k, printed in zip((3, 5, 10), PRINTED[order, name], strict=True):
        loss = information_loss(points, mhm(points, k, order=order))
        wider = WIDER.get((order, name, k))
        assert loss == pytest.approx(printed, rel=wider or 0.01)
        assert wider is None or loss < printed * 0.99


def squared(first: Points, second: Points) -> float:
    """Return a squared distance, summed column by column."""
    return float(sum((a - b) ** 2 for a, b in zip(first.tolist(), second.tolist(), strict=True)))


def slow_pair(points: Points) -> tuple[int, int]:
    """Return the most distant pair, the lowest of several."""
    pairs = [(i, j) for i in range(len(points)) for j in range(i, len(points))]
    return max(pairs, key=lambda pair: (squared(points[pair[0]], points[pair[1]]), -pair[0], -pair[1]))


def slow_npn(points: Points, start: int) -> list[int]:
    """Go on to the nearest record left, the lowest of several."""
    path, left = [start], [record for record in range(len(points)) if record != start]
    while left:
        path.append(min(left, key=lambda r: (squared(points[r], points[path[-1]]), r)))
        left.remove(path[-1])
    return path


def slow_through(points: Points, labels: Labels) -> list[int]:
    """Go through the groups as the docstring of `mhm` says."""
    groups = [np.flatnonzero(labels == c).tolist() for c in range(labels.max() + 1)]
    centroids = np.array([points[group].sum(axis=0) / len(group) for group in groups])
    mean = points.sum(axis=0) / len(points)
    path: list[int] = []
    for c in slow_npn(centroids, slow_pair(centroids)[1]):
        left = groups[c]
        if not path:
            path = [max(left, key=lambda r: (squared(points[r], mean), -r))]
            left.remove(path[0])
        while left:
            path.append(min(left, key=lambda r: (squared(points[r], points[path[-1]]), r)))
            left.remove(path[-1])
    return path


@st.composite
def tied_points(draw: st.DrawFn) -> tuple[Points, int]:
    """Draw integer points full of ties (few values, constant columns, duplicates) and a k."""
    n, d = draw(st.integers(1, 25)), draw(st.integers(1, 4))
    highest = draw(st.sampled_from([0, 1, 3, 50]))
    points = draw(arrays(np.float64, (n, d), elements=st.integers(0, highest).map(float)))
    return points, draw(st.integers(1, n))


@st.composite
def free_points(draw: st.DrawFn) -> tuple[Points, int]:
    """Draw any finite points within +-1e6 and a k."""
    n, d = draw(st.integers(1, 25)), draw(st.integers(1, 4))
    points = draw(arrays(np.float64, (n, d), elements=st.floats(-1e6, 1e6)))
    return points, draw(st.integers(1, n))


@settings(max_examples=examples(150), deadline=None)
@given(case=tied_points())
def test_nearest_point_next_is_that_of_the_slow_reference(case: tuple[Points, int]) -> None:
    points, _ = case
    assert nearest_point_next(points).tolist() == slow_npn(points, slow_pair(points)[0])


@settings(max_examples=examples(150), deadline=None)
@given(case=tied_points(), order=st.sampled_from(sorted(BASE)))
def test_the_path_through_groups_is_that_of_the_slow_reference(
    case: tuple[Points, int], order: Order
) -> None:
    points, k = case
    labels = BASE[order](points, k)
    assert through_groups(points, labels).tolist() == slow_through(points, labels)


def test_paths_agree_where_the_tree_has_many_leaves() -> None:
    points = np.random.default_rng(2).normal(size=(350, 2)).round(1)
    assert nearest_point_next(points).tolist() == slow_npn(points, slow_pair(points)[0])


@settings(max_examples=examples(150), deadline=None)
@given(case=st.one_of(tied_points(), free_points()), order=st.sampled_from([*sorted(BASE), "npn"]))
def test_classes_are_stretches_of_the_path_of_k_to_2k_minus_1(case: tuple[Points, int], order: Order) -> None:
    points, k = case
    labels = mhm(points, k, order=order)
    path = nearest_point_next(points) if order == "npn" else through_groups(points, BASE[order](points, k))
    sizes = np.bincount(labels)
    assert k <= sizes.min()
    assert sizes.max() <= 2 * k - 1
    assert np.all(np.diff(labels[path]) >= 0)


@settings(max_examples=examples(150), deadline=None)
@given(case=st.one_of(tied_points(), free_points()), order=st.sampled_from(sorted(BASE)))
def test_the_loss_is_at_most_that_of_the_groups(case: tuple[Points, int], order: Order) -> None:
    """The groups are one of the ways to cut the path, which is cut the best way."""
    points, k = case
    groups = sse(points, BASE[order](points, k))
    assert sse(points, mhm(points, k, order=order)) <= groups * (1 + 1e-9) + 1e-9 * np.max(points**2)


@pytest.mark.parametrize("order", [*BASE, "npn"])
@pytest.mark.parametrize("points", [np.zeros((22, 3)), np.full((22, 1), 0.1), np.zeros((22, 0))])
def test_equal_records_make_equal_classes(order: Order, points: Points) -> None:
    """By hand: no cut costs anything, so the last three classes have 5 records and the first has 7."""
    assert np.bincount(mhm(points, 5, order=order)).tolist() == [7, 5, 5, 5]


@pytest.mark.parametrize("order", ["mdav", "cbfs", "npn"])
def test_the_order_of_distinct_records_does_not_matter(order: Order) -> None:
    """But for the ends of 'npn' (and of 'md', not tested): which of the most distant records is the lower."""
    draw = np.random.default_rng(5)
    points = draw.normal(size=(90, 3))
    shuffle = draw.permutation(90)
    ends = np.isin(shuffle, slow_pair(points))
    shuffle[ends] = np.sort(shuffle[ends])
    assert mhm(points[shuffle], 4, order=order).tolist() == mhm(points, 4, order=order)[shuffle].tolist()


def test_nearest_point_next_by_hand() -> None:
    """On a line, from 0, the lower record of 0 and 20: 1, 3, 4, 9, 20.

    For k = 2, {0, 1}, {3, 4} and {9, 20} cost 1/2 + 1/2 + 121/2; two threes cost 14/3 + 134.
    """
    points = np.array([[4.0], [0.0], [9.0], [1.0], [20.0], [3.0]])
    assert nearest_point_next(points).tolist() == [1, 3, 5, 0, 2, 4]
    assert mhm(points, 3, order="npn").tolist() == [1, 0, 1, 0, 1, 0]
    assert mhm(points, 2, order="npn").tolist() == [1, 0, 2, 0, 2, 1]


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown order 'pca': use 'npn', 'md', 'mdav' or 'cbfs'"):
        mhm([[0.0], [1.0]], 1, order="pca")  # type: ignore[arg-type]
