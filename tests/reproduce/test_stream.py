"""Microaggregation of a stream on an array at once: the oracle, the figures by hand, and Proposition 2."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

from reproduce.stream import microaggregate_stream, no_reordering_weight
from tests.examples import examples
from tests.kernels.test_stream import streams
from tests.oracle_stream import expected

if TYPE_CHECKING:
    from tests.oracle_stream import Stream


@given(streams())
@settings(max_examples=examples(200), deadline=None)
def test_it_is_the_slow_reference(stream: Stream) -> None:
    n = len(stream.points)
    classes = microaggregate_stream(
        np.reshape(stream.points, (n, len(stream.points[0]) if n else 2)), stream.k, delay=stream.delay,
        order_weight=stream.weight, subjects=stream.subjects, cluster="grow" if stream.grow else "nearest",
        flush=stream.flush,
    )  # fmt: skip
    right = expected(stream)
    assert classes.positions.reshape(-1, stream.k).tolist() == right.classes
    assert classes.labels.tolist() == [i // stream.k for i in range(len(classes.positions))]
    assert (classes.dropped.tolist(), classes.held.tolist()) == (right.dropped, right.held)


def test_a_class_that_grows_follows_its_centroid() -> None:
    """Source: hand calculation, k = 3: from 0, 1.0 comes first; the centroid 0.5 then prefers 1.9 to -1.2."""
    points = [[0.0], [1.0], [-1.2], [1.9]]
    assert microaggregate_stream(points, 3, delay=3).positions.tolist() == [0, 1, 2]
    assert microaggregate_stream(points, 3, delay=3, cluster="grow").positions.tolist() == [0, 1, 3]


def test_the_position_is_an_attribute() -> None:
    """Source: Algorithm 3, by hand, k = 2, delay = 2: 0 is at 2 from 1 and at 1 from 2; with weight 2 these
    are 4 + 4 and 1 + 16.
    """
    points = [[0.0], [2.0], [1.0]]
    assert microaggregate_stream(points, 2, delay=2).positions.tolist() == [0, 2]
    assert microaggregate_stream(points, 2, delay=2, order_weight=2.0).positions.tolist() == [0, 1]


def test_what_is_in_the_buffer_at_the_end_is_held_or_put_out() -> None:
    """Source: Algorithm 2, by hand, k = 2, delay = 3: 0 takes 1, 2 and 3 are left."""
    points = [[0.0], [0.0], [5.0], [9.0]]
    assert microaggregate_stream(points, 2, delay=3).held.tolist() == [2, 3]
    flushed = microaggregate_stream(points, 2, delay=3, flush=True)
    assert (flushed.positions.tolist(), flushed.labels.tolist()) == ([0, 1, 2, 3], [0, 0, 1, 1])
    assert flushed.held.tolist() == []


def test_order_is_kept_beyond_the_weight_of_proposition_2() -> None:
    points = np.random.default_rng(5).random((100, 2))
    weight = no_reordering_weight(4, 2)
    classes = microaggregate_stream(points, 4, delay=20, order_weight=weight)
    assert classes.positions.tolist() == list(range(len(classes.positions)))
    assert microaggregate_stream(points, 4, delay=20).positions.tolist() != classes.positions.tolist()


@pytest.mark.parametrize(("k", "m"), [(2, 1), (2, 3), (5, 1), (10, 2), (3, 5), (7, 0), (1, 4), (1000, 37)])
def test_the_weight_is_the_least_float_above_the_bound(k: int, m: int) -> None:
    """Source: Proposition 2, squared: w^2 (2k - 1) > (k - 1)^2 m."""
    weight = no_reordering_weight(k, m)
    assert Fraction(weight) ** 2 * (2 * k - 1) > (k - 1) ** 2 * m
    assert Fraction(nextafter(weight, -inf)) ** 2 * (2 * k - 1) <= (k - 1) ** 2 * m


@pytest.mark.parametrize(
    ("points", "asked", "message"),
    [
        ([1.0, 2.0], {}, "a matrix with one row a tuple, not of shape \\(2,\\)"),
        ([[np.nan]], {}, "points hold nan"),
        ([[1.0]], {"k": 0}, "k must be at least 1"),
        ([[1.0]], {"delay": 0}, "delay must be at least k - 1 = 1"),
        ([[1.0]], {"order_weight": -1.0}, "order_weight must be"),
        ([[1.0]], {"cluster": "farthest"}, "unknown cluster 'farthest': use 'nearest' or 'grow'"),
        ([[1.0]], {"subjects": ["a"]}, "number them"),
    ],
)
def test_errors_say_what_is_wrong(points: Any, asked: dict[str, Any], message: str) -> None:
    arguments = {"k": 2, "delay": 3, **asked}
    with pytest.raises(ValueError, match=message):
        microaggregate_stream(points, arguments.pop("k"), **arguments)


@pytest.mark.parametrize(("k", "m", "message"), [(0, 1, "k must be"), (2, -1, "attributes must be")])
def test_there_is_no_weight_for_what_is_no_number_of_things(k: int, m: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        no_reordering_weight(k, m)
