"""Classes of equal records: by hand, and what they must be on random tables with many ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from duckanon.kernels.first.mdav import repeated

Points = NDArray[np.float64]


@pytest.mark.parametrize(
    ("values", "k", "labels"),
    [
        ([5, 1, 9, 5], 2, [0, 1, 1, 0]),  # two equal, and two that are left over
        ([3, 3, 3], 2, [0, 0, 0]),  # nothing is left
        ([3, 3, 1, 1], 2, [1, 1, 0, 0]),
        ([3, 3, 1], 2, None),  # one is left over
        ([1, 2, 3, 4], 2, None),  # none are equal
        ([0.0, -0.0, 7, 8], 2, [0, 0, 1, 1]),  # zeros of both signs are one value
    ],
)
def test_by_hand(values: list[float], k: int, labels: list[int] | None) -> None:
    found = repeated(np.array(values, dtype=np.float64)[:, None], k)
    assert (found if found is None else found.tolist()) == labels


@given(
    points=arrays(
        np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.integers(0, 2).map(float)
    ),
    k=st.integers(1, 5),
)
def test_k_equal_records_are_a_class_and_the_rest_keeps_k(points: Points, k: int) -> None:
    labels = repeated(points, k)
    rows = [tuple(row) for row in points.tolist()]
    often = {row for row in rows if rows.count(row) >= k}
    rest = sum(row not in often for row in rows)
    if labels is None:
        assert not often or 0 < rest < k
        return
    assert np.bincount(labels).min() >= k
    for row in often:
        members = {int(label) for label, each in zip(labels, rows, strict=True) if each == row}
        assert len(members) == 1
        assert [each for label, each in zip(labels, rows, strict=True) if label in members] == [
            row
        ] * rows.count(row)
