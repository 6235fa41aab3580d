"""Dealing: what a record gets is what a look at each bound of a sorted sample gives; ties are cut by chance, evenly.

The oracle sorts pairs of a number and a chance in plain Python; chances are those of splitmix64, written out from
its publication (Steele, Lea and Flood, OOPSLA 2014, figure 17) with Python's integers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.kernels.dealing import BoundsLevel, bounds_of, chances, dealt

if TYPE_CHECKING:
    from numpy.typing import NDArray

MASK = 2**64 - 1


def chance(number: int, which: int) -> float:
    """Return a random number of another: the 53 highest bits of that of a counter."""
    z = (number * 16 + which) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return ((z ^ (z >> 31)) >> 11) / 2**53


def ties(record_id: NDArray[np.int64], columns: int) -> list[NDArray[np.float64]]:
    """Return what tells records apart that are equal in a column."""
    return [chances(record_id, depth) for depth in range(columns)]


def cut(
    record_id: NDArray[np.int64], columns: list[NDArray[np.float64]], parts: list[int], every: int = 1
) -> tuple[BoundsLevel, ...]:
    """Return the bounds of one in so many records."""
    held = record_id % every == 0
    return bounds_of([column[held] for column in columns], ties(record_id[held], len(columns)), parts)


def slowly(
    sample: list[int], records: list[int], columns: dict[int, list[float]], parts: list[int]
) -> list[int]:
    """Return the part of each record, as `dealt` does."""
    part = dict.fromkeys({*sample, *records}, 0)
    for depth, count in enumerate(parts):
        place = {
            one: (math.inf if math.isnan(columns[one][depth]) else columns[one][depth], chance(one, depth))
            for one in part
        }
        ordered: dict[int, list[tuple[float, float]]] = {}
        for one in sample:
            ordered.setdefault(part[one], []).append(place[one])
        after = {}
        for one, here in part.items():
            held = sorted(ordered.get(here, []))
            bounds = [held[j * len(held) // count] for j in range(1, count)] if held else []
            after[one] = here * count + sum(bound <= place[one] for bound in bounds)
        part = after
    return [part[one] for one in records]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int], list[int], dict[int, list[float]], list[int]]:
    """Draw record numbers of a sample and of a table, their columns with ties and NaN, and numbers of parts."""
    parts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    records = draw(st.lists(st.integers(1, 2**40), unique=True, max_size=40))
    number = st.sampled_from([-1.5, 0.0, 2.0, 2.0**60, math.nan]) | st.floats(-9, 9)
    columns = {one: [draw(number) for _ in parts] for one in records}
    return [one for one in records if draw(st.booleans())], records, columns, parts


@given(tables())
def test_a_record_gets_the_part_of_a_look_at_each_bound(
    table: tuple[list[int], list[int], dict[int, list[float]], list[int]],
) -> None:
    sample, records, columns, parts = table

    def arrays(chosen: list[int]) -> list[NDArray[np.float64]]:
        return [np.array([columns[one][depth] for one in chosen], float) for depth in range(len(parts))]

    levels = bounds_of(arrays(sample), ties(np.array(sample, np.int64), len(parts)), parts)
    found = dealt(arrays(records), ties(np.array(records, np.int64), len(parts)), levels)
    assert found.tolist() == slowly(sample, records, columns, parts)


@pytest.mark.parametrize("values", [1, 2, 7, 10_000])
def test_a_sample_is_cut_into_equal_parts_ties_or_not(values: int) -> None:
    draw = np.random.default_rng(3)
    record_id = np.arange(1, 10_001)
    columns = [draw.integers(0, values, 10_000).astype(float) for _ in range(2)]
    levels = cut(record_id, columns, [4, 5])
    sizes = np.bincount(dealt(columns, ties(record_id, 2), levels), minlength=20)
    # Of n records in b parts each has n // b or one more; 10,000 in 20 parts are 500 each.
    assert sizes.tolist() == [500] * 20


@pytest.mark.parametrize("values", [1, 2, 1_000_000])
def test_a_table_is_cut_into_nearly_equal_parts(values: int) -> None:
    draw, n = np.random.default_rng(4), 400_000
    record_id = np.arange(1, n + 1)
    columns = [draw.integers(0, values, n).astype(float) for _ in range(3)]
    levels = cut(record_id, columns, [2, 5, 10], every=10)
    sizes = np.bincount(dealt(columns, ties(record_id, 3), levels), minlength=100)
    # Of 4,000 records 400 are in the sample: each of three cuts is off by 1 / sqrt(400) at most, five of them.
    assert len(sizes) == 100
    assert abs(sizes - 4_000).max() < 5 * math.sqrt(3) * 4_000 / math.sqrt(400)


def test_what_a_record_gets_does_not_depend_on_others() -> None:
    draw, n = np.random.default_rng(5), 3_000
    record_id, columns = np.arange(1, n + 1), [draw.integers(0, 4, n).astype(float) for _ in range(2)]
    levels = cut(record_id, columns, [3, 4], every=3)
    whole, order = dealt(columns, ties(record_id, 2), levels), draw.permutation(n)
    halves = [
        dealt([column[part] for column in columns], ties(record_id[part], 2), levels)
        for part in np.array_split(order, 2)
    ]
    assert np.concatenate(halves).tolist() == whole[order].tolist()
