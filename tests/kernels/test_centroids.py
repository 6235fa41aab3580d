"""The nearest of centroids: those of all distances, the lower index first where two are equally near."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.kernels.neighbours import centroids
from duckanon.kernels.neighbours.centroids import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray


def by_all_distances(
    points: NDArray[np.float64], queries: NDArray[np.float64], ranks: NDArray[np.int64]
) -> list[list[int]]:
    """Sort all points for each query by (squared distance, index), in Python's own numbers."""
    found = []
    for query in queries.tolist():
        order = sorted(
            range(len(points)),
            key=lambda i: (sum((x - y) * (x - y) for x, y in zip(points[i].tolist(), query, strict=True)), i),
        )
        found.append([order[rank - 1] for rank in ranks.tolist()])
    return found


@st.composite
def searches(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Draw points, others or the same to search from, with ties or without, and the ranks that are asked."""
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    m, n, d = draw(st.integers(1, 90)), draw(st.integers(1, 60)), draw(st.integers(1, 13))
    points = random.normal(size=(m + n, d)) * draw(st.sampled_from([1.0, 1e-165, 1e140, 1e160]))
    points += draw(st.sampled_from([0.0, 1e6]))
    if draw(st.booleans()):
        points = random.integers(0, draw(st.sampled_from([2, 30])), (m + n, d)) * 0.1
    queries = points[:m] if draw(st.booleans()) else points[m:]
    return points[:m], queries, np.arange(draw(st.integers(1, min(2, m))), min(m, 9) + 1)


@pytest.mark.parametrize(("pairs", "parallel"), [(0, False), (0, True), (10**9, False)])
@given(search=searches())
def test_the_nearest_are_those_of_all_distances(search: Any, pairs: int, parallel: bool) -> None:
    """By the tree, in one thread or several, and for few pairs without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(centroids, "BRUTE_FORCE_PAIRS", pairs)
        patch.setattr(centroids, "THREAD_QUERIES", 16)
        found = nearest(*search, parallel=parallel)
    assert found.dtype == np.int64
    assert found.tolist() == by_all_distances(*search)


def test_equally_near_points_stand_in_the_order_of_their_indices() -> None:
    """By hand: 3 and 1 are one away from 2, and there are two of each."""
    points = np.array([[3.0], [1.0], [9.0], [1.0], [3.0]])
    assert nearest(points, np.array([[2.0]]), np.arange(1, 6)).tolist() == [[0, 1, 3, 4, 2]]
