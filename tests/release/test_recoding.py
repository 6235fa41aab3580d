"""Means of the classes that leave together: by hand, where classes lie side by side and where they do not."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from duckanon.policy.bind import bind
from duckanon.policy.policy import Policy
from duckanon.release.recoding import Members, Recoder, fields_of, means_between

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
    found = means_between(numbers, np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64))
    np.testing.assert_array_equal(found, means)
    np.testing.assert_array_equal(numbers, kept)


@pytest.mark.parametrize(("least", "expected"), [(1, (2, 20)), (2, (None, 20)), (3, (None, None))])
def test_values_of_one_subject_count_once(least: int, expected: tuple[int | None, int | None]) -> None:
    """Of two classes the first has values of subject 0 only, the second of subjects 3 and 4."""
    tuples = pa.table({"x": pa.array([1, 3, None, None, 10, 30, None], pa.int32())})
    whose, classes = np.array([0, 0, 1, 2, 3, 4, 5]), np.array([0, 0, 0, 0, 1, 1, 1])
    members = Members(classes, np.array([0, 4]), np.zeros(7, np.bool_))
    fields = fields_of(bind(Policy(quasi_identifiers="x", k=3), [("x", "INTEGER")]))
    recoder = Recoder(fields, {"x": pa.int32()}, 3, least)
    with duckdb.connect() as con:
        made, _, _ = recoder.written(con, tuples, members, None, whose)
    assert made.column("x").to_pylist() == [expected[0]] * 4 + [expected[1]] * 3
