"""Means of the classes that leave together: by hand, where classes lie side by side and where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from duckanon.streams.recode import _means_between

NONE = np.nan


@pytest.mark.parametrize(
    ("values", "begins", "ends", "means"),
    [
        ([1, 2, 6, 4, 6, 8], [0, 3], [3, 6], [3, 6]),
        ([1, 2, 6, 100, 4, 6, 8], [0, 4], [3, 7], [3, 6]),  # a tuple between them left alone
        ([100, 1, 2, 6, 4, 6, 8, 100], [1, 4], [4, 7], [3, 6]),
        ([1, 3, 4, 6, 8], [0, 2], [2, 5], [2, 6]),
        ([1, NONE, 5, NONE, NONE, NONE], [0, 3], [3, 6], [3, NONE]),
        ([7, 9], [0], [2], [8]),
        ([], [], [], []),
    ],
    ids=["side by side", "apart", "within others", "of two sizes", "NULL", "one", "none"],
)
def test_each_class_has_its_own_mean(
    values: list[float], begins: list[int], ends: list[int], means: list[float]
) -> None:
    numbers = np.array(values, dtype=np.float64)
    kept = numbers.copy()
    found = _means_between(numbers, np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64))
    np.testing.assert_array_equal(found, means)
    np.testing.assert_array_equal(numbers, kept)
