"""How many records of a class can be kept: every part of it by the oracle, by hand, and in large numbers."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.rollup import DistinctRows, Generalized, asked_of, kept_records, values_of
from tests.examples import examples
from tests.oracle import emd

if TYPE_CHECKING:
    from collections.abc import Sequence

TREE = [(0, "x", "*"), (1, "y", "*"), (2, "x", "*"), (3, "y", "*"), (4, "z", "*")]
PATHS = np.array([[0, 0, 0], [1, 1, 0], [2, 0, 0], [3, 1, 0], [4, 2, 0]])


def kept(whole: Sequence[int], part: Sequence[int], distance: Any, t: Fraction) -> int:
    """Return how many records of a class can be kept; the records of each value are given."""
    paths = PATHS[: len(whole)] if distance == "hierarchical" else None
    threshold = Threshold(reference(np.array(whole), distance, paths), t=t)
    codes = np.arange(len(whole))
    values = values_of(np.zeros(len(whole), np.int64), codes, 1)
    held = np.array(part, dtype=np.int64)
    values = values._replace(
        starts=np.array([0, (held > 0).sum()]), codes=codes[held > 0], records=held[held > 0]
    )
    one = Generalized(np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64), 1)
    rows = DistinctRows(np.zeros((1, 1), np.int32), held.sum(keepdims=True), (one,), (values,))
    return int(kept_records(rows, 0, asked_of(threshold, codes), np.zeros(1, bool))[0])


def by_parts(whole: Sequence[int], part: Sequence[int], distance: Any, t: Fraction) -> int:
    """Return the most records of all parts of a class that meet t."""
    found = 0
    for counts in product(*(range(one + 1) for one in part)):
        held = Counter({(0, value): count for value, count in enumerate(counts) if count})
        table = Counter({(0, value): count for value, count in enumerate(whole)})
        if held and emd(held, table, distance, TREE[: len(whole)]) <= t:
            found = max(found, sum(counts))
    return found


@st.composite
def classes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Draw the records of each value in a table, and in a class of it, at least one."""
    whole = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    part = [draw(st.integers(0, min(one, 4))) for one in whole]
    return whole, part if any(part) else [1, *part[1:]]


@settings(max_examples=examples(1000), deadline=None)
@given(
    drawn=classes(),
    distance=st.sampled_from(["ordered", "equal", "hierarchical"]),
    t=st.integers(0, 20).map(lambda t: Fraction(t, 20)),
)
def test_no_part_of_a_class_keeps_more(
    drawn: tuple[list[int], list[int]], distance: Any, t: Fraction
) -> None:
    """Source: all parts, by the oracle."""
    assert kept(*drawn, distance, t) >= by_parts(*drawn, distance, t)


@pytest.mark.parametrize(
    ("whole", "part", "distance", "t", "most"),
    [
        # (4, 2) of 6 is 1/6 from halves; (5, 2) of 7 is 3/14 = .214.
        ([10, 10], [8, 2], "equal", Fraction(1, 5), 6),
        # (3, 0, 1) is (5/12 + 1/12) / 2 = .25 from thirds, (4, 0, 1) is (7/15 + 2/15) / 2 = .3.
        ([10, 10, 10], [5, 0, 1], "ordered", Fraction(1, 4), 4),
        # No part of what has the least value only is nearer than (2/3 + 1/3) / 2.
        ([10, 10, 10], [6, 0, 0], "ordered", Fraction(1, 4), 0),
        ([10, 10, 10], [6, 0, 0], "ordered", Fraction(1, 2), 6),
        # x has values 0 and 2: (2, 0, 0) lacks half of its records below y, and half of those of x in value 2.
        ([2, 4, 2], [2, 0, 0], "hierarchical", Fraction(5, 8), 2),
        ([2, 4, 2], [2, 0, 0], "hierarchical", Fraction(3, 5), 0),
        # (1, 1, 0) is 1/4 from the table on the level of the values, and the same as the table above them.
        ([2, 4, 2], [2, 1, 0], "hierarchical", Fraction(1, 8), 2),
    ],
)
def test_by_hand(whole: list[int], part: list[int], distance: str, t: Fraction, most: int) -> None:
    assert kept(whole, part, distance, t) == most


def lacking(whole: Sequence[int], part: Sequence[int], distance: str, m: int) -> Fraction:
    """Return the EMD that a part of m records has at least, as the sum of what it lacks in each set of values."""
    codes = range(len(whole))
    sets: list[set[int]] = [{value} for value in codes]
    if distance == "ordered":
        sets = [set(codes[:i]) for i in codes[1:]] + [set(codes[i:]) for i in codes[1:]]
    if distance == "hierarchical":
        sets += [{value for value in codes if PATHS[value, 1] == node} for node in range(3)]
    share = [Fraction(sum(whole[value] for value in one), sum(whole)) for one in sets]
    lacks = sum(max(m * q - sum(part[v] for v in one), 0) for q, one in zip(share, sets, strict=True))
    return lacks / m / {"ordered": len(whole) - 1, "equal": 1, "hierarchical": 2}[distance]


@settings(max_examples=examples(400), deadline=None)
@given(data=st.data(), distance=st.sampled_from(["ordered", "equal", "hierarchical"]))
def test_large_numbers_are_exact(data: st.DataObject, distance: Any) -> None:
    """Source: the sum of `most_kept` in fractions, at the last number of records that it allows and the next."""
    whole = data.draw(st.lists(st.integers(1, 4 * 10**8), min_size=2, max_size=5))
    part = [data.draw(st.integers(0, one)) for one in whole]
    part[0] = max(part[0], 1)
    t = Fraction(data.draw(st.integers(0, 10**12)), 10**12)
    most = kept(whole, part, distance, t)
    assert most == 0 or lacking(whole, part, distance, most) <= t
    assert most == sum(part) or lacking(whole, part, distance, most + 1) > t
