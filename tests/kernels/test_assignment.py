"""The cheapest assignment: against scipy's, and by trying all where there are few."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from duckanon.kernels.assignment import assignment

if TYPE_CHECKING:
    from numpy.typing import NDArray


@given(st.integers(0, 2**20), st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_no_assignment_is_cheaper(seed: int, n: int, m: int, tied: bool) -> None:
    random = np.random.default_rng(seed)
    costs = random.integers(-2, 3, (n, m)).astype(float) if tied else random.normal(size=(n, m))
    rows, columns = assignment(costs)
    few, many = min(n, m), max(n, m)
    assert len(rows) == len(columns) == len(set(rows.tolist())) == len(set(columns.tolist())) == few
    wide = costs if n <= m else costs.T
    least = min(sum(wide[i, j] for i, j in enumerate(order)) for order in permutations(range(many), few))
    np.testing.assert_allclose(costs[rows, columns].sum(), least, atol=1e-9)


@given(st.integers(0, 2**20), st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_the_assignment_is_that_of_scipy_where_several_are_cheapest_too(
    seed: int, n: int, m: int, tied: bool
) -> None:
    random = np.random.default_rng(seed)
    costs = random.integers(0, 4, (n, m)).astype(float) if tied else -np.log(random.random((n, m)) + 1e-300)
    found, expected = assignment(costs), linear_sum_assignment(costs)
    assert pairs_of(*found) == pairs_of(*expected)


def pairs_of(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> set[tuple[int, int]]:
    return set(zip(rows.tolist(), columns.tolist(), strict=True))
