"""CASTLE: tuples in, ranges out within the delay, against the paper's algorithms once more in fractions and sets."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.castle.clusters import open_clusters
from duckanon.kernels.castle.stream import CastleOutput, finish, held, public, push
from tests.examples import examples
from tests.oracle_castle import Stream, expected

if TYPE_CHECKING:
    from numpy.typing import NDArray


@st.composite
def streams(draw: st.DrawFn, most: int = 60) -> Stream:
    """Streams full of ties: eighths, of which sums are exact; few clusters, few subjects, and little to use again."""
    n, d, k = draw(st.integers(0, most)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    values = st.integers(0, draw(st.integers(0, 30))).map(lambda number: number / 8)
    subjects = st.integers(0, draw(st.integers(0, 9)))
    return Stream(
        points=draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n)),
        k=k,
        delay=k - 1 + draw(st.integers(0, 18)),
        clusters=draw(st.integers(1, 8)),
        recent=draw(st.integers(1, 5)),
        reusable=draw(st.integers(1, 4)),
        subjects=draw(st.none() | st.lists(subjects, min_size=n, max_size=n)),
    )


def opened(stream: Stream) -> Any:
    d = len(stream.points[0]) if len(stream.points) else 1
    return open_clusters(
        d, stream.k, delay=stream.delay, clusters=stream.clusters, recent=stream.recent,
        reusable=stream.reusable, by_subject=stream.subjects is not None,
    )  # fmt: skip


def pushed(castle: Any, stream: Stream, first: int, last: int) -> CastleOutput:
    points = np.reshape(stream.points[first:last], (last - first, castle.points.shape[1]))
    return push(castle, points, None if stream.subjects is None else stream.subjects[first:last])


def joined(parts: list[CastleOutput]) -> CastleOutput:
    return CastleOutput(*map(np.concatenate, zip(*parts, strict=True)))


def run(stream: Stream, cuts: list[int] | None = None) -> tuple[CastleOutput, NDArray[np.int64]]:
    """All that is written of a stream that comes in batches and ends, and what is held then."""
    castle = opened(stream)
    ends = [0, *sorted(cut % (len(stream.points) + 1) for cut in cuts or []), len(stream.points)]
    parts = [pushed(castle, stream, first, last) for first, last in pairwise(ends)]
    return joined([*parts, finish(castle)]), held(castle)


def same(found: CastleOutput, left: NDArray[np.int64], stream: Stream) -> None:
    """The same tuples in the same order, with the same times, classes and ranges."""
    wanted = expected(stream)
    rows = [
        (time, number, alone, member, *(float(end) for ends in box for end in ends))
        for time, number, alone, box, members in wanted.left
        for member in members
    ]
    ranges = np.stack([found.lows, found.highs], axis=2).reshape(len(found.lows), 2 * found.lows.shape[1])
    columns = (found.times, found.classes, found.alone, found.positions, *ranges.T)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == rows
    assert (found.dropped.tolist(), left.tolist()) == (wanted.dropped, wanted.held)


@given(streams(), st.lists(st.integers(0, 10**6), max_size=6))
@settings(max_examples=examples(800, 60), deadline=None)
def test_it_is_the_slow_reference_however_the_stream_is_cut(stream: Stream, cuts: list[int]) -> None:
    same(*run(stream, cuts), stream)


@pytest.mark.parametrize(
    ("k", "delay", "clusters", "recent"), [(3, 40, 5, 4), (5, 70, 20, 10), (10, 60, 1, 3)]
)
def test_it_is_the_slow_reference_on_numbers_of_any_digits(
    k: int, delay: int, clusters: int, recent: int
) -> None:
    random = np.random.default_rng(k)
    points, subjects = random.random((250, 2)).tolist(), random.integers(0, 60, 250).tolist()
    for whose in (None, subjects):
        stream = Stream(points, k, delay, clusters, recent, 8, whose)
        same(*run(stream), stream)


@given(streams(), st.integers(0, 2**32))
@settings(max_examples=examples(200, 60), deadline=None)
def test_what_is_promised_of_every_stream(stream: Stream, seed: int) -> None:
    """No tuple is lost or comes twice or late; and whatever left so far, every class of it has k subjects."""
    random = np.random.default_rng(seed)
    stream = stream._replace(points=random.normal(size=np.shape(stream.points)).tolist())
    castle, parts = opened(stream), []
    whose = range(len(stream.points)) if stream.subjects is None else stream.subjects
    seen: dict[tuple[float, ...], set[int]] = defaultdict(set)
    for i in range(len(stream.points) + 1):
        part = finish(castle) if i == len(stream.points) else pushed(castle, stream, i, i + 1)
        parts.append(part)
        assert held(castle).min(initial=i + 1) > min(i, len(stream.points) - 1) - stream.delay
        assert np.all(part.times == min(i, len(stream.points) - 1))
        assert len(public(castle)) <= stream.reusable
        # Tuple by tuple, but for those of a class that leaves as one.
        for place, (position, alone) in enumerate(zip(part.positions, part.alone, strict=True)):
            lows, highs = part.lows[place], part.highs[place]
            assert np.all((lows <= stream.points[position]) & (highs >= stream.points[position]))
            box = (*lows.tolist(), *highs.tolist())
            assert not alone or len(seen[box]) >= stream.k
            seen[box].add(whose[position])
        assert all(len(subjects) >= stream.k for subjects in seen.values())
    written, left = joined(parts), held(castle)
    assert np.all(written.times - written.positions <= stream.delay)
    everything = np.concatenate([written.positions, written.dropped, left])
    assert sorted(everything.tolist()) == list(range(len(stream.points)))
    for number in np.unique(written.classes):
        ranges = np.hstack([written.lows, written.highs])[written.classes == number]
        assert len(np.unique(ranges, axis=0)) == 1


# --- by hand ------------------------------------------------------------------------------------------------


def left(stream: Stream) -> list[tuple[int, list[int], float, float]]:
    """Class, positions and range of what left together, of one column."""
    found, _ = run(stream)
    runs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, time in enumerate(found.times.tolist()):
        runs[time, int(found.classes[place])].append(place)
    return [
        (
            number,
            found.positions[places].tolist(),
            float(found.lows[places[0], 0]),
            float(found.highs[places[0], 0]),
        )
        for (_, number), places in runs.items()
    ]


def test_a_stream_by_hand() -> None:
    """k = 2, delay = 2, two clusters, tau of two classes.

    0 and 8 are a cluster each; 1 joins 0, for no third may be made, and 9 joins 8: classes 0 and 1 of loss 1,
    which is tau. 2 and 2 make class 2 of loss 0: below tau = 1/2, it may be used again; 5 and 9 class 3 of loss
    4; 2 and 3 class 4 of loss 1, below 5/2. The second 3 finds none like it in time, and leaves alone with
    class 4, for class 2 is from 2 to 2.
    """
    values = [0, 8, 1, 9, 2, 2, 5, 2, 9, 3, 3, 9, 20]
    stream = Stream([[value] for value in values], 2, 2, 2, 2, 9)
    assert left(stream) == [
        (0, [0, 2], 0, 1),
        (1, [1, 3], 8, 9),
        (2, [4, 5], 2, 2),
        (3, [6, 8], 5, 9),
        (4, [7, 9], 2, 3),
        (4, [10], 2, 3),
        (5, [11, 12], 9, 20),
    ]


def test_a_cluster_of_twice_k_is_split() -> None:
    """The first with the nearest to it, the next with its nearest; 3 goes where it widens less, by 2 and not by 6."""
    stream = Stream([[0], [1], [9], [10], [3]], 2, 4, 1, 5, 9)
    assert left(stream) == [(0, [0, 1, 4], 0, 3), (1, [2, 3], 9, 10)]


def test_an_outlier_is_dropped_and_the_last_one_is_held() -> None:
    """Both other clusters have more tuples than that of 0, and no class is public; 99 comes last and finds no other."""
    stream = Stream([[0], [50], [50], [70], [70], [50], [70], [99]], 2, 4, 3, 5, 9)
    found, rest = run(stream)
    assert found.dropped.tolist() == [0]
    assert sorted(found.positions.tolist()) == [1, 2, 3, 4, 5, 6]
    assert rest.tolist() == [7]


def test_two_tuples_of_a_subject_are_one() -> None:
    """Three tuples of one person are no class of 2; the fourth tuple, of another, makes it one."""
    stream = Stream([[0], [0], [0], [1]], 2, 2, 1, 5, 9, subjects=[7, 7, 7, 8])
    found, rest = run(stream)
    assert (found.dropped.tolist(), found.positions.tolist(), rest.tolist()) == ([0], [1, 2, 3], [])


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attributes", "k", "delay", "clusters", "recent", "reusable"])
def test_numbers_out_of_range_are_refused(name: str) -> None:
    asked = {"attributes": 1, "k": 3, "delay": 5, "clusters": 1, "recent": 1, "reusable": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        open_clusters(asked.pop("attributes"), asked.pop("k"), **asked)


@pytest.mark.parametrize(
    ("points", "subjects", "words"),
    [
        ([1.0], None, "points must be of shape"),
        ([[1.0, 2.0]], None, "points must be of shape"),
        ([[np.nan]], None, "finite numbers"),
        ([[1e200]], None, "finite numbers"),
        ([[1.0]], [1], "subjects must be given if"),
    ],
)
def test_bad_tuples_are_refused_and_nothing_is_read(points: Any, subjects: Any, words: str) -> None:
    castle = open_clusters(1, 2, delay=5, clusters=2, recent=2, reusable=2)
    with pytest.raises(ValueError, match=words):
        push(castle, points, subjects)
    assert castle.counts.tolist() == [0] * 6


@pytest.mark.parametrize("subjects", [None, [1, 2], [0.5]])
def test_bad_subjects_are_refused(subjects: Any) -> None:
    castle = open_clusters(1, 2, delay=5, clusters=2, recent=2, reusable=2, by_subject=True)
    with pytest.raises(ValueError, match="subjects must be"):
        push(castle, [[1.0]], subjects)
