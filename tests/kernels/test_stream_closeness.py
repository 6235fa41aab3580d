"""Classes of a stream that keep l values, and t to what was read: against the slow reference in fractions."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.compiled import compiled
from duckanon.kernels.steered import stream as kernel
from duckanon.kernels.steered.closeness import excess, look_ahead
from duckanon.kernels.steered.diversity import at_most
from duckanon.kernels.steered.seen import T_DENOMINATOR, Seen, plain, renumbered, seen_of
from duckanon.kernels.steered.stream import (
    AttributeLimit,
    Buffer,
    Known,
    StreamOutput,
    finish,
    held,
    open_buffer,
    push,
    renumber,
)
from tests import oracle_stream
from tests.examples import examples
from tests.oracle_stream import Expected, Stream, emd, expected

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = [Fraction(1, 10), Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(1)]


VALUES = 8
"""Most values of an attribute."""

PATHS = [(v, VALUES + v // 2, 2 * VALUES + v // 4, 3 * VALUES) for v in range(VALUES)]
"""A tree of halves above the values."""


@st.composite
def limits(draw: st.DrawFn) -> oracle_stream.Asked:
    """What is asked of an attribute: t under any ground distance, distinct or recursive l, largest shares."""
    t, least = draw(st.none() | st.sampled_from(T)), draw(st.integers(1, 3))
    asked = oracle_stream.Asked(draw(st.booleans()), t, least)
    kind = draw(st.sampled_from(["plain", "plain", "tree", "recursive", "shares"]))
    if kind == "tree":
        return asked._replace(ordered=False, paths=PATHS)
    if kind == "recursive":
        return asked._replace(c=draw(st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(5, 2)])))
    if kind == "shares":
        named = st.dictionaries(st.integers(0, VALUES - 1), st.sampled_from(T), max_size=VALUES)
        every = st.sampled_from(T).map(lambda share: dict.fromkeys(range(VALUES), share))
        return asked._replace(shares=draw(named | every))
    return asked


def limit_of(asked: oracle_stream.Asked) -> AttributeLimit:
    """The same for the kernel."""
    return AttributeLimit(
        asked.ordered, asked.t, asked.l, "distinct" if asked.c is None else "recursive", asked.c,
        0 if asked.paths is None else len(asked.paths[0]) - 1, asked.shares is not None,
    )  # fmt: skip


def known_of(asked: oracle_stream.Asked, values: NDArray[np.int64]) -> Known:
    """What the kernel is told of the values that are known."""
    paths = np.zeros((len(values), 1), np.int64) if asked.paths is None else np.array(asked.paths)[values]
    shares = [(asked.shares or {}).get(value, Fraction(0)) for value in values.tolist()]
    told = [(one.numerator, one.denominator if one else 0) for one in shares]
    return Known(paths[:, :-1].T, np.array(told, np.int64).reshape(len(values), 2))


@st.composite
def streams(draw: st.DrawFn, most: int = 40) -> Stream:
    """Streams with one or two sensitive attributes of few values."""
    n, d, k = draw(st.integers(1, most)), draw(st.integers(0, 2)), draw(st.integers(1, 4))
    delay = k - 1 + draw(st.integers(0, 12))
    quarters = st.integers(0, draw(st.integers(0, 6))).map(lambda number: number / 4)
    values, asked = [], []
    for _ in range(draw(st.integers(1, 2))):
        codes = st.integers(0, draw(st.integers(0, VALUES - 1)))
        values.append(draw(st.lists(codes, min_size=n, max_size=n)))
        asked.append(draw(limits()))
    return Stream(
        points=draw(st.lists(st.lists(quarters, min_size=d, max_size=d), min_size=n, max_size=n)),
        k=k,
        delay=delay,
        weight=draw(st.sampled_from((0.0, 0.125, 0.5))),
        subjects=draw(st.none() | st.lists(st.integers(0, 9), min_size=n, max_size=n)),
        grow=draw(st.booleans()),
        flush=draw(st.booleans()),
        values=values,
        asked=asked,
        window=draw(st.sampled_from([0, 0, delay + 1, delay + 7])),
    )


class Feed:
    """A buffer that learns values as they come, and forgets some that no longer count."""

    def __init__(self, stream: Stream, *, all_known: bool) -> None:
        self.stream = stream
        self.buffer: Buffer = open_buffer(
            len(stream.points[0]), stream.k, delay=stream.delay, order_weight=stream.weight, grow=stream.grow,
            by_subject=stream.subjects is not None, asked=[limit_of(one) for one in stream.asked],
            window=stream.window,
        )  # fmt: skip
        self.known: list[NDArray[np.int64]] = [np.zeros(0, np.int64) for _ in stream.values]
        if all_known:
            self.learn(np.array(stream.values))

    def learn(self, codes: NDArray[np.int64]) -> None:
        """Number the values that come."""
        places, counts = [], self.buffer.seen.counts
        for s, (known, new) in enumerate(zip(self.known, codes, strict=True)):
            stay = known[counts[s, : len(known)] > 0] if self.stream.window else known
            now = np.union1d(stay, new)
            places.append(np.where(np.isin(known, now), np.searchsorted(now, known), -1))
            self.known[s] = now
        told = [known_of(*each) for each in zip(self.stream.asked, self.known, strict=True)]
        self.buffer = renumber(self.buffer, places, [len(now) for now in self.known], told)

    def push(self, first: int, last: int, *, learn: bool = True) -> StreamOutput:
        """What leaves while some tuples come."""
        stream = self.stream
        codes = np.array([values[first:last] for values in stream.values], np.int64)
        if learn:
            self.learn(codes)
        numbered = [np.searchsorted(known, new) for known, new in zip(self.known, codes, strict=True)]
        points = np.reshape(stream.points[first:last], (last - first, len(self.buffer.waiting.columns)))
        subjects = None if stream.subjects is None else stream.subjects[first:last]
        return push(self.buffer, points, subjects, np.array(numbered, np.int64))


def as_expected(parts: list[StreamOutput], left: NDArray[np.int64]) -> Expected:
    """The same as the oracle says it."""
    written = StreamOutput(*map(np.concatenate, zip(*parts, strict=True)))
    ends = np.flatnonzero(np.diff(written.classes, append=-1)) + 1
    assert written.classes[ends - 1].tolist() == list(range(len(ends)))
    classes = [part.tolist() for part in np.split(written.positions, ends)[:-1]]
    apart = written.dropped[written.apart].tolist()
    return Expected(classes, written.dropped.tolist(), left.tolist(), apart)


@given(streams(), st.lists(st.integers(0, 10**6), max_size=8))
@settings(max_examples=examples(800, 80), deadline=None)
def test_it_is_the_slow_reference_however_the_stream_is_cut(stream: Stream, cuts: list[int]) -> None:
    feed = Feed(stream, all_known=False)
    ends = [0, *sorted(cut % (len(stream.points) + 1) for cut in cuts), len(stream.points)]
    parts = [feed.push(first, last) for first, last in pairwise(ends)]
    if stream.flush:
        parts.append(finish(feed.buffer))
    assert as_expected(parts, held(feed.buffer)) == expected(stream)


@compiled
def looked(seen: Seen, size: int, tuples: int) -> None:
    """Look ahead, for a call from Python."""
    look_ahead(seen, size, tuples)


@compiled
def violated(seen: Seen, size: int, tuples: int) -> float:
    """Return the excess, for a call from Python."""
    return excess(seen, size, tuples)


@given(limits(), st.lists(st.integers(0, VALUES - 1), min_size=1, max_size=12), st.integers(0, 99))
@settings(max_examples=examples(300, 25), deadline=None)
def test_one_more_member_is_looked_at_as_the_class_with_it(
    asked: oracle_stream.Asked, members: list[int], seed: int
) -> None:
    """`look_ahead` of each value is `excess` of the class that has one more of it, and both are 0 together.

    Beside the oracle's limits, entropy l, of which the oracle in fractions knows nothing.
    """
    population = [*range(VALUES), *members, *np.random.default_rng(seed).integers(0, VALUES, 40).tolist()]
    entropy = AttributeLimit(asked.ordered, None, 2.5, "entropy")
    for limit, told in ((limit_of(asked), known_of(asked, np.arange(VALUES))), (entropy, plain(VALUES))):
        seen = renumbered(seen_of([limit], 0), [np.zeros(0, np.int64)], [VALUES], [told])
        seen.counts[0] += np.bincount(population, minlength=VALUES)
        seen.members[0] += np.bincount(members, minlength=VALUES)
        looked(seen, len(members), len(population))
        for v in range(VALUES):
            ahead = float(seen.excess[0, v])
            seen.members[0, v] += 1
            then = violated(seen, len(members) + 1, len(population))
            seen.members[0, v] -= 1
            assert (ahead == 0) == (then == 0)
            assert ahead == pytest.approx(then, abs=1e-12)
            if limit is entropy:
                counts = Counter([*members, v])
                shares = [count / (len(members) + 1) for count in counts.values()]
                assert (then == 0) == (-sum(share * math.log(share) for share in shares) > math.log(2.5))


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 60), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_what_is_promised_of_every_stream(seed: int, k: int, more: int, ordered: bool) -> None:
    """Numbers of many digits, where all that is above t is rounded: delay, k, l, t, and no tuple is lost."""
    random = np.random.default_rng(seed)
    n, delay = 200, k - 1 + more
    values = random.integers(0, random.integers(1, 40), n)
    t, least = Fraction(int(random.integers(1, 10**12)), 10**12), int(random.integers(1, 4))
    stream = Stream(
        random.normal(size=(n, 3)).tolist(), k, delay, 0.01, None, False, True,
        [values.tolist()], [oracle_stream.Asked(ordered, t, least)],
    )  # fmt: skip
    feed = Feed(stream, all_known=True)
    parts = [feed.push(0, n, learn=False), finish(feed.buffer)]
    found = as_expected(parts, held(feed.buffer))
    assert sorted([*chain(*found.classes), *found.dropped, *found.held]) == list(range(n))
    for members in found.classes:
        read = min(n, members[0] + delay + 1)
        assert len(members) >= k
        assert members[-1] < read
        assert len(set(values[members].tolist())) >= least
        assert emd(values[members].tolist(), values[:read].tolist(), ordered) <= t


def fed(
    values: list[int], points: list[float], k: int, delay: int, asked: AttributeLimit, **options: int
) -> Expected:
    """What becomes of a stream with one quasi-identifier and one sensitive attribute."""
    buffer = open_buffer(1, k, delay=delay, asked=[asked], **options)
    buffer = renumber(buffer, [np.zeros(0, np.int64)], [max(values) + 1])
    written = push(buffer, np.array(points)[:, None], None, [values])
    return as_expected([written], held(buffer))


def test_l_by_hand() -> None:
    """k = 2, delay = 3: 0 takes 1, both of value 0; 2 is the nearest of the other value, 3 is farther."""
    found = fed([0, 0, 1, 1], [0.0, 1.0, 2.0, 9.0], 2, 3, AttributeLimit(ordered=False, l=2))
    assert found == Expected([[0, 1, 2]], [], [3], [])


def test_t_with_equal_distance_by_hand() -> None:
    """Half of those read have each value, so EMD of two of value 0 is 1/2; with 2 it is 2/3 - 1/2 = 1/6."""
    values, points = [0, 0, 1, 1], [0.0, 1.0, 2.0, 9.0]
    assert fed(values, points, 2, 3, AttributeLimit(False, Fraction(1, 2))).classes == [[0, 1]]
    assert fed(values, points, 2, 3, AttributeLimit(False, Fraction(499, 1000))).classes == [[0, 1, 2]]
    assert fed(values, points, 2, 3, AttributeLimit(False, Fraction(1, 6))).classes == [[0, 1, 2]]
    assert fed(values, points, 2, 3, AttributeLimit(False, Fraction(1, 7))).classes == [[0, 1, 2, 3]]


def test_t_with_ordered_distance_by_hand() -> None:
    """Values 0 1 2 3, k = 2: 0 and 1 are at (|1/2 - 1/4| + |1 - 1/2| + |1 - 3/4|) / 3 = 1/3 from all.

    One more of value 2 leaves (1/12 + 1/6 + 1/4) / 3 = 1/6, one of value 3 (1/12 + 1/6 + 1/12) / 3 = 1/9: with
    t = 1/5 both keep it, and the nearer is taken; with t = 1/8 it is 3, far as it is.
    """
    values, points = [0, 1, 2, 3], [0.0, 1.0, 2.0, 9.0]
    assert fed(values, points, 2, 3, AttributeLimit(True, Fraction(1, 3))).classes == [[0, 1]]
    assert fed(values, points, 2, 3, AttributeLimit(True, Fraction(1, 5))).classes == [[0, 1, 2]]
    assert fed(values, points, 2, 3, AttributeLimit(True, Fraction(1, 8))).classes == [[0, 1, 3]]


def test_a_tuple_whose_class_no_other_helps_is_dropped_and_the_others_wait_on() -> None:
    """k = 2, delay = 2, l = 2: when 0 expires all that is held has value 0; so it is with 1.

    Then 2 expires, with 3 and 4 held, and 3 has value 1.
    """
    found = fed([0, 0, 0, 1, 0], [0.0, 0.0, 0.0, 0.0, 0.0], 2, 2, AttributeLimit(ordered=False, l=2))
    assert found == Expected([[1, 2, 3]], [0], [4], [0])


def test_with_a_window_only_the_last_tuples_count() -> None:
    """Ten of value 1, then four of value 0, delay = 1, k = 2: at t = 1/4 two of value 0 are as far as 10/12
    from all, and 0 from a window of two.
    """
    values, points = [1] * 10 + [0] * 4, [0.0] * 14
    assert fed(values, points, 2, 1, AttributeLimit(False, Fraction(1, 4))).dropped == [10, 11, 12]
    assert fed(values, points, 2, 1, AttributeLimit(False, Fraction(1, 4)), window=2).dropped == []


@given(*(st.integers(0, 2**61) for _ in range(2)), *(st.integers(1, 2**61) for _ in range(2)))
def test_fractions_are_compared_exactly(a: int, c: int, b: int, d: int) -> None:
    for top, bottom, other, under in ((a, b, c, d), (a, b, a, b), (a, b, a + 1, b), (a, b, a, b + 1)):
        found = at_most.py_func(top, bottom, other, under)  # type: ignore[attr-defined]
        assert found == (Fraction(top, bottom) <= Fraction(other, under))


@pytest.mark.parametrize(
    ("asked", "window", "message"),
    [
        (AttributeLimit(True, Fraction(0)), 0, "t must be above 0"),
        (AttributeLimit(True, Fraction(3, 2)), 0, "at most 1"),
        (AttributeLimit(True, Fraction(1, T_DENOMINATOR + 1)), 0, "twelve decimals"),
        (AttributeLimit(True, None, 0), 0, "l must be at least 1, not 0"),
        (
            AttributeLimit(True, Fraction(1)),
            3,
            "window must be at least delay \\+ 1 = 4, or 0 for all, not 3",
        ),
    ],
)
def test_a_buffer_says_what_it_cannot_be(asked: AttributeLimit, window: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_buffer(1, 2, delay=3, asked=[asked], window=window)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (None, "codes must be given"),
        ([[0]], "of shape \\(1, 2\\), not \\(1, 1\\)"),
        ([[0, 2]], "numbers from 0 to 1"),
        ([[-1, 0]], "numbers from 0 to 1"),
    ],
)
def test_what_cannot_be_read_leaves_the_buffer_as_it_is(codes: list[list[int]] | None, message: str) -> None:
    buffer = open_buffer(1, 2, delay=3, asked=[AttributeLimit(True, Fraction(1, 2))])
    buffer = renumber(buffer, [np.zeros(0, np.int64)], [2])
    with pytest.raises(ValueError, match=message):
        push(buffer, [[0.0], [1.0]], None, codes)
    assert held(buffer).tolist() == []
    assert buffer.seen.counts.tolist() == [[0, 0]]


def test_sums_that_would_not_be_exact_are_refused() -> None:
    """4 values x 2^59 tuples x 4 of a class reach 2^62, and half of them do not."""
    buffer = open_buffer(1, 2, delay=3, asked=[AttributeLimit(True, Fraction(1, 2))])
    buffer = renumber(buffer, [np.zeros(0, np.int64)], [4])
    for read, fits in ((2**57, True), (2**58, False)):
        buffer.counts[kernel.TUPLES_READ] = read - 1
        if fits:
            push(buffer, [[0.0]], None, [[0]])
        else:
            with pytest.raises(
                ValueError, match="4 sensitive values of 288230376151711744 tuples are too many"
            ):
                push(buffer, [[0.0]], None, [[0]])
