"""The nearest of few centroids are those that a tree finds, whichever of the two is asked."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from duckanon.kernels.neighbours.centroids import CLEAR, _among_few

if TYPE_CHECKING:
    from numpy.typing import NDArray


@st.composite
def searches(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Draw points, others or the same to search from, with ties or without, and the ranks that are asked."""
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    m, n, d = draw(st.integers(1, 60)), draw(st.integers(1, 60)), draw(st.integers(1, 13))
    points = random.normal(size=(m + n, d)) * draw(st.sampled_from([1.0, 1e-160, 1e140, 1e160]))
    points += draw(st.sampled_from([0.0, 1e6]))
    if draw(st.booleans()):
        points = random.integers(0, 30, (m + n, d)) * 0.1
    queries = points[:m] if draw(st.booleans()) else points[m:]
    return points[:m], queries, np.arange(draw(st.integers(1, min(2, m))), min(m, 9) + 1)


@given(searches())
def test_what_is_found_among_few_is_what_a_tree_finds(search: Any) -> None:
    points, queries, ranks = search
    found = _among_few(points, queries, ranks)
    if found is not None:
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, cKDTree(points).query(queries, ranks)[1])


def test_distances_that_differ_by_rounding_are_left_to_the_tree() -> None:
    ranks = np.array([1])
    origin, near = np.zeros((1, 2)), np.array([[0.0, 0.1], [0.3, 0.0]])
    found = _among_few(near, origin, ranks)
    assert found is not None
    assert found.tolist() == [[0]]
    for length in (0.1, 0.1 + CLEAR / 9):
        assert _among_few(np.vstack([near, [[length, 0.0]]]), origin, ranks) is None
    assert _among_few(near * 1e-165, origin, ranks) is None, "squares are 0"


def test_the_only_point_is_left_to_the_tree_where_its_square_is_too_large() -> None:
    far = np.array([[1.3e159]])
    assert _among_few(far, -far, np.array([1])) is None
    near = _among_few(np.array([[1e150]]), np.array([[-1e150]]), np.array([1]))
    assert near is not None
    assert near.tolist() == [[0]]


@pytest.mark.parametrize("tied", [False, True])
def test_the_library_is_loaded_for_ties_only(tied: bool) -> None:
    program = f"""
import sys
import numpy as np
from duckanon.kernels.neighbours.centroids import nearest
points = np.array([[0.0], [1.0], [{2.0 if tied else 2.5}]])
print(nearest(points, points, np.array([2])).ravel().tolist()[::2], "scipy.spatial" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"[1, 1] {tied}\n"
