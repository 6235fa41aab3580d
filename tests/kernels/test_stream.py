"""Streams: tuples in, classes out within the delay, against a slow reference in fractions."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.numpy_stream import plain_stream, whole_pass_stream
from duckanon.kernels.steered.stream import TUPLES_READ, Buffer, StreamOutput, finish, held, open_buffer, push
from reproduce.stream import no_reordering_weight
from tests.examples import examples
from tests.oracle_stream import Expected, Stream, expected

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

WEIGHTS = (0.0, 0.125, 0.5, 2.0)
"""Fractions of which squares and sums are exact: the oracle takes no other."""


@st.composite
def streams(draw: st.DrawFn, most: int = 45) -> Stream:
    """Streams full of ties: few values, duplicates, constant columns, some with few subjects."""
    n, d, k = draw(st.integers(0, most)), draw(st.integers(0, 3)), draw(st.integers(1, 5))
    values = st.integers(0, draw(st.integers(0, 6))).map(lambda number: number / 4)
    subjects = st.integers(0, draw(st.integers(0, 9))).map([-(2**63), -1, *range(7), 2**63 - 1].__getitem__)
    return Stream(
        points=draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n)),
        k=k,
        delay=k - 1 + draw(st.integers(0, 12)),
        weight=draw(st.sampled_from(WEIGHTS)),
        subjects=draw(st.none() | st.lists(subjects, min_size=n, max_size=n)),
        grow=draw(st.booleans()),
        flush=draw(st.booleans()),
    )


def opened(stream: Stream) -> Buffer:
    """An empty buffer for a stream."""
    d = len(stream.points[0]) if len(stream.points) else 1
    return open_buffer(
        d, stream.k, delay=stream.delay, order_weight=stream.weight, grow=stream.grow,
        by_subject=stream.subjects is not None,
    )  # fmt: skip


def pushed(buffer: Buffer, stream: Stream, first: int, last: int) -> StreamOutput:
    """What leaves while some tuples of a stream come."""
    points = np.reshape(stream.points[first:last], (last - first, len(buffer.waiting.columns)))
    return push(buffer, points, None if stream.subjects is None else stream.subjects[first:last])


def joined(parts: list[StreamOutput]) -> StreamOutput:
    """What several calls wrote."""
    return StreamOutput(*map(np.concatenate, zip(*parts, strict=True)))


def run(stream: Stream, cuts: list[int] | None = None) -> tuple[StreamOutput, NDArray[np.int64]]:
    """All that is written of a stream that comes in batches, and what is held at its end."""
    buffer = opened(stream)
    ends = [0, *sorted(cut % (len(stream.points) + 1) for cut in cuts or []), len(stream.points)]
    parts = [pushed(buffer, stream, first, last) for first, last in pairwise(ends)]
    if stream.flush:
        parts.append(finish(buffer))
    return joined(parts), held(buffer)


def as_expected(written: StreamOutput, left: NDArray[np.int64], k: int) -> Expected:
    """The same as the oracle says it; classes are numbered from 0 in the order of output."""
    assert written.classes.tolist() == [i // k for i in range(len(written.positions))]
    assert not written.apart.any()
    return Expected(written.positions.reshape(-1, k).tolist(), written.dropped.tolist(), left.tolist(), [])


@given(streams(), st.lists(st.integers(0, 10**6), max_size=8))
@settings(max_examples=examples(800), deadline=None)
def test_it_is_the_slow_reference_however_the_stream_is_cut(stream: Stream, cuts: list[int]) -> None:
    assert as_expected(*run(stream, cuts), stream.k) == expected(stream)


@pytest.mark.sampled
@pytest.mark.parametrize("grow", [False, True])
@pytest.mark.parametrize(
    ("k", "delay", "weight"), [(4, 30, 0.0), (10, 100, 0.03125), (3, 70, 0.25), (20, 140, 0.0)]
)
def test_it_is_the_slow_reference_on_numbers_of_any_digits(
    k: int, delay: int, weight: float, grow: bool
) -> None:
    """More tuples are held than a scan takes at a time."""
    random = np.random.default_rng(k)
    stream = Stream(
        random.random((350, 3)).tolist(), k, delay, weight, random.integers(0, 80, 350).tolist(), grow, True
    )
    assert as_expected(*run(stream), k) == expected(stream)


@given(streams(), st.integers(0, 2**32))
@settings(max_examples=examples(200), deadline=None)
def test_what_is_promised_of_every_stream(stream: Stream, seed: int) -> None:
    """Definitions 4 and 5: delay, and k subjects a class; and no tuple is lost or put out twice."""
    random = np.random.default_rng(seed)
    stream = stream._replace(points=random.normal(size=np.shape(stream.points)).tolist())
    buffer, parts = opened(stream), []
    for i in range(len(stream.points)):
        parts.append(pushed(buffer, stream, i, i + 1))
        assert held(buffer).min(initial=i + 1) > i - stream.delay
    parts.append(finish(buffer))
    written, left = joined(parts), held(buffer)
    everything = np.concatenate([written.positions, written.dropped, left])
    assert sorted(everything.tolist()) == list(range(len(stream.points)))
    whose = np.arange(len(stream.points)) if stream.subjects is None else np.array(stream.subjects, np.int64)
    for members in written.positions.reshape(-1, stream.k):
        assert len(set(whose[members].tolist())) == stream.k
        assert (np.diff(members) > 0).all()
        assert members[-1] - members[0] <= stream.delay
    assert len(set(whose[left].tolist())) < stream.k


@given(
    st.integers(1, 6), st.integers(0, 4), st.integers(0, 20), st.integers(0, 60), st.booleans(),
    st.integers(0, 2**32), st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(200), deadline=None)
def test_beyond_its_weight_the_order_is_kept(
    k: int, d: int, more: int, n: int, grow: bool, seed: int, corners: bool
) -> None:
    """Proposition 2, with attributes anywhere in 0..1, or at the ends, where the bound is reached for k = 2."""
    random = np.random.default_rng(seed)
    points = random.integers(0, 2, (n, d)).astype(float) if corners else random.random((n, d))
    buffer = open_buffer(d, k, delay=k - 1 + more, order_weight=no_reordering_weight(k, d), grow=grow)
    written = joined([push(buffer, points), finish(buffer)])
    assert written.positions.tolist() == list(range(n - n % k))


def test_the_bound_of_the_proposition_is_sharp_for_k_2() -> None:
    """Hand calculation: from 0 to 1 at distance w and to 0 at 2 w: 1 + w^2 < 4 w^2 from w = sqrt(1/3) on."""
    weight = no_reordering_weight(2, 1)
    found = []
    for w in (np.nextafter(np.nextafter(np.nextafter(weight, 0), 0), 0), weight):
        buffer = open_buffer(1, 2, delay=2, order_weight=float(w))
        found.append(push(buffer, [[0.0], [1.0], [0.0]]).positions.tolist())
    assert found == [[0, 2], [0, 1]]


def test_delay_by_hand() -> None:
    """Hand calculation of Algorithm 2, k = 2, delay = 2.

    When 2 is read, 0 expires and takes 2, which is nearer than 1. When 3 is read, 1 expires and takes 3 as the
    only one left. When 6 is read, 4 expires and 5, at distance 1, is nearer than 6.
    """
    buffer = open_buffer(1, 2, delay=2)
    written = push(buffer, [[0.0], [5.0], [1.0], [9.0], [3.0], [4.0], [8.0]])
    assert written.positions.tolist() == [0, 2, 1, 3, 4, 5]
    assert written.classes.tolist() == [0, 0, 1, 1, 2, 2]
    assert held(buffer).tolist() == [6]


def test_a_tuple_that_finds_no_class_is_dropped_and_the_stream_goes_on() -> None:
    """Hand calculation of the last line of Algorithm 2, k = 3, delay = 3.

    0 expires with 3 and takes 1 and 2 of the other subjects; 3 expires with 6, when the buffer has 3 to 6 of
    the subjects 8 and 9 alone: dropped; 4 with 7, when there are 4 to 7 of 8, 9 and 7.
    """
    buffer = open_buffer(1, 3, delay=3, by_subject=True)
    written = push(buffer, np.zeros((8, 1)), [1, 2, 3, 9, 8, 8, 9, 7])
    assert written.positions.tolist() == [0, 1, 2, 4, 6, 7]
    assert written.dropped.tolist() == [3]
    assert held(buffer).tolist() == [5]


def test_small_delays_do_not_stop_the_stream() -> None:
    """k = 10, delay = 30: a loop that never drops the expiring tuple stops after 130 tuples."""
    points = np.random.default_rng(1).random((2000, 2))
    buffer = open_buffer(2, 10, delay=30)
    written = push(buffer, points)
    assert len(written.positions) + len(written.dropped) >= 2000 - 30
    assert len(written.dropped) > 0


def test_of_a_subject_the_nearest_tuple_is_taken() -> None:
    """Hand calculation, k = 3: from 0 the distances are 3, 1, 2, 2, 9; 1 and 2 are of one subject."""
    buffer = open_buffer(1, 3, delay=5, by_subject=True)
    written = push(buffer, [[0.0], [3.0], [1.0], [2.0], [-2.0], [9.0]], [0, 5, 5, 5, 6, 0])
    assert written.positions.tolist() == [0, 2, 4]


def test_distances_tie_to_the_earliest_tuple() -> None:
    """Hand calculation, k = 3: 1 to 5 are all at distance 1, in two columns."""
    buffer = open_buffer(2, 3, delay=5)
    written = push(buffer, [[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0], [0, 1]])
    assert written.positions.tolist() == [0, 1, 2]


def test_a_class_that_grows_takes_the_earliest_of_equal_distances_from_its_centroid() -> None:
    """Hand calculation, k = 4. From (0, 0) to (1, 0), then (0, 1). The centroid (1/3, 1/3), which no float
    holds, is at 1/9 + 25/9 = 26/9 from (2, 0), and at 26/9 from (0, 2), which comes first.
    """
    buffer = open_buffer(2, 4, delay=4, grow=True)
    written = push(buffer, [[0, 0], [1, 0], [0, 1], [0, 2], [2, 0]])
    assert written.positions.tolist() == [0, 1, 2, 3]


def test_k_1_puts_every_tuple_out_when_it_expires() -> None:
    """Algorithm 2 with classes of one."""
    buffer = open_buffer(1, 1, delay=2)
    written = push(buffer, [[5.0], [1.0], [3.0], [4.0]])
    assert (written.positions.tolist(), written.classes.tolist()) == ([0, 1], [0, 1])
    assert held(buffer).tolist() == [2, 3]
    at_once = open_buffer(1, 1, delay=0, grow=True)
    assert push(at_once, [[5.0], [1.0]]).positions.tolist() == [0, 1]
    assert held(at_once).tolist() == []


def test_the_least_delay_takes_tuples_as_they_come() -> None:
    """delay = k - 1: when the oldest expires there are k, and none to choose from."""
    buffer = open_buffer(1, 3, delay=2)
    points = np.random.default_rng(2).random((8, 1))
    assert push(buffer, points).positions.tolist() == [0, 1, 2, 3, 4, 5]
    assert finish(buffer).positions.tolist() == []
    assert held(buffer).tolist() == [6, 7]


def test_one_tuple_and_none() -> None:
    buffer = open_buffer(2, 2, delay=3)
    for points in (np.empty((0, 2)), [[1.0, 2.0]]):
        for written in (push(buffer, points), finish(buffer)):
            assert [len(part) for part in written] == [0, 0, 0, 0]
            assert [part.dtype.kind for part in written] == ["i", "i", "i", "b"]
    assert held(buffer).tolist() == [0]


def test_all_of_one_subject_are_dropped_or_held() -> None:
    buffer = open_buffer(1, 2, delay=3, by_subject=True)
    written = push(buffer, np.zeros((9, 1)), [4] * 9)
    assert written.positions.tolist() == []
    assert written.dropped.tolist() == [0, 1, 2, 3, 4, 5]
    assert finish(buffer).positions.tolist() == []
    assert held(buffer).tolist() == [6, 7, 8]


@pytest.mark.parametrize("grow", [False, True])
def test_a_long_stream_loses_no_digit_of_the_position(grow: bool) -> None:
    """After 10^15 tuples the same classes leave as at the beginning."""
    points = np.random.default_rng(3).random((200, 2))
    found = []
    for begun in (0, 10**15):
        buffer = open_buffer(2, 4, delay=20, order_weight=0.01, grow=grow)
        buffer.counts[TUPLES_READ] = begun
        found.append((push(buffer, points).positions - begun).tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("grow", [False, True])
def test_the_largest_numbers_are_compared_as_they_are(grow: bool) -> None:
    """Hand calculation, k = 2: of a, -a, a / 2 and 0 the first takes a / 2, and -a takes 0."""
    largest = 1e150 / (2 if grow else 1)
    buffer = open_buffer(1, 2, delay=3, grow=grow)
    written = joined([push(buffer, np.array([[1.0], [-1.0], [0.5], [0.0]]) * largest), finish(buffer)])
    assert written.positions.tolist() == [0, 2, 1, 3]
    with pytest.raises(ValueError, match="row 1, column 0"):
        push(buffer, [[0.0], [np.nextafter(largest, np.inf)]])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"attributes": -1}, "attributes must be at least 0"),
        ({"k": 0}, "k must be at least 1, not 0"),
        ({"delay": 1}, "delay must be at least k - 1 = 2 for classes of 3 tuples, not 1"),
        ({"order_weight": -0.5}, "order_weight must be a finite number of at least 0, not -0.5"),
        ({"order_weight": np.nan}, "order_weight must be a finite number"),
        ({"order_weight": np.inf}, "order_weight must be a finite number"),
        ({"order_weight": 1e150}, "order_weight exceeds 2.5e\\+149"),
        ({"order_weight": 1e149, "grow": True}, "order_weight exceeds 8.33"),
    ],
)
def test_a_buffer_says_what_it_cannot_be(asked: dict[str, Any], message: str) -> None:
    arguments = {"attributes": 2, "k": 3, "delay": 3, **asked}
    with pytest.raises(ValueError, match=message):
        open_buffer(arguments.pop("attributes"), arguments.pop("k"), **arguments)


@pytest.mark.parametrize(
    ("points", "subjects", "message"),
    [
        ([1.0, 2.0], [1, 2], "a matrix of 2 columns"),
        ([[1.0]], [1], "a matrix of 2 columns, one row a tuple, not \\(1, 1\\)"),
        ([[0.0, 1.0], [0.0, np.nan]], [1, 2], "points hold nan in row 1, column 1"),
        ([[-np.inf, 1.0]], [1], "points hold -inf in row 0, column 0"),
        ([[1.0, 2.0]], None, "subjects must be given"),
        ([[1.0, 2.0]], [1, 2], "one a tuple, of shape \\(1,\\), not \\(2,\\)"),
        ([[1.0, 2.0]], [0.5], "whole numbers of 64 bits, not float64"),
        ([[1.0, 2.0]], np.array([2**63], np.uint64), "whole numbers of 64 bits, not uint64"),
    ],
)
def test_what_cannot_be_read_leaves_the_buffer_as_it_is(points: Any, subjects: Any, message: str) -> None:
    buffer = open_buffer(2, 2, delay=3, by_subject=True)
    push(buffer, [[0.0, 1.0]], [7])
    with pytest.raises(ValueError, match=message):
        push(buffer, points, subjects)
    assert held(buffer).tolist() == [0]
    with pytest.raises(ValueError, match="only then"):
        push(open_buffer(1, 2, delay=3), [[1.0]], [1])


def test_no_argument_is_changed_and_read_only_ones_will_do() -> None:
    points, subjects = np.random.default_rng(5).random((40, 2)), np.arange(40) % 7
    for array in (points, subjects):
        array.flags.writeable = False
    buffer = open_buffer(2, 3, delay=9, by_subject=True)
    assert len(push(buffer, points, subjects).positions) > 0


@pytest.mark.parametrize("delay", [30, 100])
@pytest.mark.parametrize("loop", [plain_stream, whole_pass_stream])
def test_the_yardsticks_of_the_benchmark_do_the_same(
    loop: Callable[..., NDArray[np.int64]], delay: int
) -> None:
    """With a delay of 30 some tuples are dropped."""
    points = np.random.default_rng(1).random((2000, 2))
    assert (
        loop(points, 10, delay).tolist() == push(open_buffer(2, 10, delay=delay), points).positions.tolist()
    )
