"""Boxes: natural supersets of n records, and their bounds in released values."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from duckanon.policy.policy import Policy
from duckanon.release.stages.bucket import stream
from duckanon.release.stages.embed import embed
from duckanon.release.stages.limit import limit
from duckanon.release.stages.partition.boxes import bounds_of, box_tiles, without_t
from duckanon.release.stages.stage import stage

BOTH = np.array([[0, 0, 1, 2, 3], [0, 1, 1, 0, 2]])
"""Ranks from 0 of five classes in two columns, the last of which is NULL in the last class."""

NULLS = np.array([[False] * 5, [False] * 4 + [True]])


def inside(*classes: int) -> np.ndarray:
    return np.isin(np.arange(5), classes)


def test_bounds_by_hand() -> None:
    """By hand: bounds begin at 1, and a column that keeps nobody out has none."""
    bounds, held = bounds_of(BOTH, NULLS, inside(0, 1, 2), [False, False])
    assert (bounds, np.flatnonzero(held).tolist()) == ([(1, 1, 2)], [0, 1, 2])
    # Class 3 has rank 2 of the first column alone and rank 0 of the second with class 0.
    bounds, held = bounds_of(BOTH, NULLS, inside(0), [False, False])
    assert (bounds, np.flatnonzero(held).tolist()) == ([(1, 1, 1), (2, 1, 1)], [0])
    # Every interval that holds the first and the fourth class holds the second and the third, too.
    bounds, held = bounds_of(BOTH, NULLS, inside(0, 1, 2, 3), [False, False])
    assert (bounds, held.sum()) == ([(2, 1, 2)], 4)
    bounds, held = bounds_of(BOTH, NULLS, inside(*range(5)), [False, False])
    assert (bounds, held.tolist()) == ([], [True] * 5)


def test_texts_are_listed_and_null_is_no_end_of_an_interval() -> None:
    """By hand: the values 0 and 2 without the 1 between them; NULL beside the interval of numbers."""
    bounds, held = bounds_of(BOTH, NULLS, inside(0, 1, 3), [True, False])
    assert (bounds, np.flatnonzero(held).tolist()) == ([(1, 1, 1), (1, 3, 3)], [0, 1, 3])
    bounds, held = bounds_of(BOTH, NULLS, inside(3, 4), [False, False])
    assert (bounds, np.flatnonzero(held).tolist()) == ([(1, 3, 4)], [3, 4])
    one = np.array([[0, 1, 2, 3]])
    bounds, held = bounds_of(one, one == 3, np.array([True, False, False, True]), [False])
    assert (bounds, held.tolist()) == ([(1, 4, 4), (1, 1, 1)], [True, False, False, True])


@pytest.mark.parametrize("n", [6, 7, 20, 33])
def test_every_record_is_in_a_box_of_n_records_that_keeps_l(n: int) -> None:
    """By the definition: no cut at a value leaves fewer records, or fewer than two diagnoses, on a side."""
    con, draw = duckdb.connect(), np.random.default_rng(n)
    con.execute("CREATE TABLE people (age INTEGER, sex VARCHAR, diagnosis VARCHAR)")
    rows = [
        (int(age), "fm"[age % 2], "flu" if age < 12 else ["flu", "cold"][age % 3 % 2])
        for age in draw.integers(0, 30, 200)
    ]
    con.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    policy = Policy(quasi_identifiers=("age", "sex"), sensitive="diagnosis", k=5, t=0.1, n=n, l=2)
    staged = stage(con, "FROM people", policy, "w")
    embedded = embed(con, staged, policy)
    limits = limit(con, staged, embedded, policy)
    tiles = box_tiles(con, staged, embedded, limits, policy)
    found = list(stream(con, embedded, limits, tiles))
    assert len(found) == tiles.count > 1
    assert sorted(np.concatenate([box.record_id for box in found])) == list(range(1, 201))
    for box in found:
        assert len(box.record_id) >= n
        assert len(np.unique(box.codes[0])) == 2
    assert [one.t for one in without_t(limits).thresholds] == [None]
    assert without_t(limits).codes == limits.codes
