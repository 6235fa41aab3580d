"""The ledger of exchanges: what it says of any swap or move equals Fractions of the class after it."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duckanon.kernels.closeness.reference import LISTED_CLASS_MAX_RECORDS, Distance, reference
from duckanon.kernels.closeness.shares import share_bounds
from duckanon.kernels.closeness.threshold import Rules, Threshold, rules_of
from duckanon.kernels.exchange.ledger import (
    class_violation,
    fill_ledger,
    fill_moves,
    prepare_swaps,
    violation_after_swap,
    violation_with,
)
from duckanon.kernels.exchange.ledger_path import (
    BEYOND_BITS,
    PATH_MAX_POSITIONS,
    WORD,
    fill_windows,
    kept_swaps,
    path_prices,
)
from duckanon.kernels.exchange.ledger_state import WINDOWS_MAX_RECORDS, Ledger, ledger_of
from tests import oracle
from tests.examples import examples

pytestmark = pytest.mark.slow

Function = TypeVar("Function")
Whole = NDArray[np.int64]

FIRST: Any = np.int64(0)

BRANCHES = ((0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 1, 0), (4, 2, 1), (5, 2, 1))
"""Inner nodes above the value v, of level 1 to 3, are those of entry v modulo 6; height 4 with the root."""

DISTANCES: tuple[Distance, ...] = ("ordered", "equal", "hierarchical")
STEP = Fraction(1, 10**12)


class Attribute(NamedTuple):
    """A sensitive attribute of a table: dense codes, their tree if they have one, the threshold."""

    codes: Whole
    tree: list[list[int]] | None
    threshold: Threshold


def attribute_of(values: Any, distance: Distance, **wanted: Any) -> Attribute:
    """Return the attribute of some values 0, 1, ... with a threshold on it; shares as `share_bounds` takes them."""
    present, codes = np.unique(values, return_inverse=True)
    tree = None
    if distance == "hierarchical":
        tree = [[code, *BRANCHES[value % 6], 0] for code, value in enumerate(present.tolist())]
    known = reference(np.bincount(codes), distance, tree)
    if "shares" in wanted:
        wanted["shares"] = share_bounds(known.counts, **wanted["shares"])
    return Attribute(codes.astype(np.int64), tree, Threshold(known, **wanted))


def emd_of(attribute: Attribute, members: Any) -> Fraction:
    """Return the EMD of some records by the oracle."""
    part, whole = (
        Counter((0, int(v)) for v in codes) for codes in (attribute.codes[members], attribute.codes)
    )
    return oracle.emd(part, whole, attribute.threshold.reference.distance, attribute.tree)


def meets(attribute: Attribute, members: Any) -> bool:
    """Tell by the oracle whether a class of some records satisfies a threshold."""
    asked = attribute.threshold
    if asked.t is not None and emd_of(attribute, members) > Fraction(asked.t):
        return False
    if asked.shares is not None and beyond(attribute, members) > 0:
        return False
    if asked.l is None:
        return True
    values = Counter((0, int(v)) for v in attribute.codes[members])
    return oracle.reaches_l(
        values, Fraction(asked.l), asked.l_kind, None if asked.c is None else Fraction(asked.c)
    )


def beyond(attribute: Attribute, members: Any) -> Fraction:
    """Return the records of a class beyond the bounds of shares, which tests/kernels/test_shares.py checks."""
    bounds, size = attribute.threshold.shares, len(members)
    assert bounds is not None
    held, missed = Counter(attribute.codes[members].tolist()), Fraction(0)
    for value, (high, over, low, under) in enumerate(np.vstack([bounds.most, bounds.least]).T.tolist()):
        missed += max(Fraction(0), held[value] - Fraction(high, over) * size)
        missed += max(Fraction(0), Fraction(low, under) * size - held[value])
    return missed


def violation(attribute: Attribute, members: Any) -> float:
    """Return by how much a class misses a threshold: the definitions that `violation` documents.

    With t alone the ledger counts from the last edge sum within t, a whole number: up to 1 / whole more.
    """
    asked, size = attribute.threshold, len(members)
    total = 0.0 if asked.shares is None else float(beyond(attribute, members))
    if asked.t is not None:
        allowed, whole = size * Fraction(asked.t), asked.reference.total * asked.reference.scale
        alone = asked.l is None and asked.shares is None
        allowed = Fraction(math.floor(allowed * whole), whole) if alone else allowed
        total += float(max(Fraction(0), size * emd_of(attribute, members) - allowed))
    counts = sorted(Counter(attribute.codes[members].tolist()).values(), reverse=True)
    if asked.l is None or meets(attribute._replace(threshold=_without_t(asked)), members):
        return total
    least = float(asked.l)
    if asked.l_kind == "distinct":
        return total + size * (math.ceil(asked.l) - len(counts)) / math.ceil(asked.l)
    if asked.l_kind == "entropy":
        entropy = -sum(x / size * math.log(x / size) for x in counts)
        return total + size * (math.log(least) - entropy) / math.log(least)
    assert asked.c is not None
    return total + 1.0 + float(counts[0] - Fraction(asked.c) * sum(counts[int(least) - 1 :]))


def _without_t(asked: Threshold) -> Threshold:
    return Threshold(asked.reference, None, asked.l, asked.l_kind, asked.c)


def uncached(function: Function) -> Function:
    """Return the function, compiled anew in every run: numba's files would not notice a changed ledger."""
    return cast("Function", numba.njit(function))


@uncached
def every_exchange(
    ledger: Ledger, rules: Rules, codes: Whole, one: Whole, two: Whole
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return what both sides miss after each swap (2, one, two), without and with each record; prices at 2."""
    most = max(len(one), len(two))
    swaps, leave, join = np.zeros((2, len(one), len(two))), np.zeros((2, most)), np.zeros((2, most))
    for side in range(2):
        fill_ledger(ledger, rules, codes, side, two if side else one)
    prepare_swaps(ledger, rules, FIRST, len(one), FIRST + 1, len(two))
    prices = np.zeros((len(one), len(two)))
    for i in range(len(one)):
        path_prices(ledger, rules, 2.0, FIRST, FIRST + 1, i, len(two), prices[i])
    for side in range(2):
        own, others = (two, one) if side else (one, two)
        for x in range(len(own)):
            for y in range(len(others)):
                i, j = (y, x) if side else (x, y)
                for a in range(len(codes)):
                    swaps[side, i, j] += violation_after_swap(
                        ledger, rules, a, side, len(own), x, codes[a, others[y]], 1 - side, y
                    )
        fill_moves(ledger, rules, codes, side, own)
        for x in range(len(own)):
            leave[side, x] = ledger.leave[own[x]]
        for y in range(len(others)):
            join[side, y] = violation_with(ledger, rules, codes, side, len(own), others[y])
    return swaps, leave, join, prices


@uncached
def swaps_left(ledger: Ledger, rules: Rules, codes: Whole, one: Whole, two: Whole) -> tuple[Whole, Whole]:
    """Return the places in both classes of the members whose swap the windows leave."""
    for side in range(2):
        own = two if side else one
        fill_ledger(ledger, rules, codes, side, own)
        fill_windows(ledger, rules, side, len(own))
    count = kept_swaps(ledger, FIRST, len(one), FIRST + 1, len(two))
    return ledger.swaps[:count] // WINDOWS_MAX_RECORDS, ledger.swaps[:count] % WINDOWS_MAX_RECORDS


@uncached
def whole_class(ledger: Ledger, rules: Rules, codes: Whole, members: Whole) -> float:
    fill_ledger(ledger, rules, codes, FIRST, members)
    return class_violation(ledger, rules, FIRST, len(members))


class Prepared(NamedTuple):
    """What the kernel takes."""

    ledger: Ledger
    rules: Rules
    codes: Whole


def prepared(attributes: list[Attribute], most: int) -> Prepared:
    """Return a ledger for some attributes and their positions."""
    rules = rules_of([a.threshold for a in attributes])
    codes = np.array([a.threshold.reference.positions(a.codes) for a in attributes])
    return Prepared(ledger_of(rules, codes.shape[1], 2, most), rules, codes)


def check(attributes: list[Attribute], members: Whole, said: float, own: Prepared) -> None:
    """Assert that the kernel's word on a class is the oracle's, and exactly that on the class as a whole."""
    assert (said == 0.0) == all(meets(a, members) for a in attributes)
    # Shares count parts of 2^-30 of a record for each value.
    rounded = 1e-7 if any(a.threshold.shares is not None for a in attributes) else 1e-11
    assert said == pytest.approx(sum(violation(a, members) for a in attributes), rel=1e-9, abs=rounded)
    assert whole_class(own.ledger, own.rules, own.codes, members) == said


def check_exchanges(
    attributes: list[Attribute], one: Whole, two: Whole, pairs: list[tuple[int, int]]
) -> None:
    """Assert that swaps of some pairs of members, and their moves, have the violation that the oracle gives them."""
    most = max(len(one), len(two))
    own = prepared(attributes, most + 1)
    swaps, leave, join, prices = every_exchange(*prepared(attributes, most), one, two)
    for i, j in sorted(set(pairs)):
        after = np.append(np.delete(one, i), two[j]), np.append(np.delete(two, j), one[i])
        check(attributes, after[0], swaps[0, i, j], own)
        check(attributes, after[1], swaps[1, i, j], own)
        paths = [a for a in attributes if a.threshold.l is None and a.threshold.shares is None]
        paths = [a for a in paths if a.threshold.reference.distance == "ordered"]
        price = 2 * sum(violation(a, members) for a in paths for members in after)
        assert prices[i, j] == pytest.approx(price, rel=1e-9, abs=1e-11)
    for side, (members, others) in enumerate([(one, two), (two, one)]):
        for i in sorted({pair[side] for pair in pairs}) if len(members) > 1 else ():
            check(attributes, np.delete(members, i), leave[side, i], own)
        for j in sorted({pair[1 - side] for pair in pairs}):
            check(attributes, np.append(members, others[j]), join[side, j], own)


@st.composite
def thresholds(draw: st.DrawFn, values: list[int], distance: Distance, members: Whole) -> dict[str, Any]:
    """Draw a threshold: t alone, often at the EMD of a class or a step beside it, or others with or without t."""
    asks: dict[str, Any] = {}
    kind = draw(st.sampled_from(["t", "t", "shares", "shares", "distinct", "entropy", "recursive"]))
    if kind == "t" or draw(st.booleans()):
        reached = emd_of(attribute_of(values, distance), members)
        near = [
            t for t in (reached, reached - STEP, reached + STEP) if 0 <= t <= 1 and t.denominator <= 10**12
        ]
        asks["t"] = draw(st.sampled_from([*near, Fraction(0), Fraction(1), Fraction(1, 10), Fraction(3, 7)]))
    if kind == "shares" or draw(st.integers(0, 4)) == 0:
        models = draw(st.sets(st.sampled_from(["alpha", "delta", "beta", "enhanced_beta"]), min_size=1))
        numbers = st.sampled_from(["0.25", "0.5", "0.7", "1"]).map(Decimal)
        asks["shares"] = {name: draw(numbers) for name in sorted(models)}
    if kind not in ("t", "shares"):
        steps = ["1", "1.5", "2", "3"] if kind == "entropy" else ["1", "2", "3", "4"]
        asks |= {"l": Decimal(draw(st.sampled_from(steps))), "l_kind": kind}
    if kind == "recursive":
        asks["c"] = Decimal(draw(st.sampled_from(["0.5", "1", "1.5", "3"])))
    return asks


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[list[Attribute], Whole, Whole]:
    """Draw one or two attributes full of ties, and two classes of their table."""
    one_size, two_size = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    n = one_size + two_size + draw(st.integers(0, 5))
    order = np.array(draw(st.permutations(range(n))))
    one, two = order[:one_size], order[one_size : one_size + two_size]
    attributes = []
    for _ in range(draw(st.integers(1, 2))):
        highest = draw(st.sampled_from([0, 1, 5, 17]))
        values = draw(st.lists(st.integers(0, highest), min_size=n, max_size=n))
        distance = draw(st.sampled_from(DISTANCES))
        swapped = np.append(one[1:], two[0])
        asks = draw(thresholds(values, distance, draw(st.sampled_from([one, two, swapped]))))
        attributes.append(attribute_of(values, distance, **asks))
    return attributes, one, two


@settings(max_examples=examples(60, 8))
@given(exchanges())
def test_every_swap_and_move_has_the_violation_that_fractions_give(
    case: tuple[list[Attribute], Whole, Whole],
) -> None:
    """Source: tests/oracle.py on the class after the exchange; zero exactly if it satisfies the thresholds."""
    attributes, one, two = case
    # A diagonal of the pairs: every member takes part, hypothesis sees to the order.
    check_exchanges(attributes, one, two, [(i % len(one), i % len(two)) for i in range(6)])


@st.composite
def kept_classes(draw: st.DrawFn) -> tuple[list[Attribute], Whole, Whole]:
    """Draw one or two ordered attributes and two classes, at a t that both just meet or a step above."""
    sizes = draw(st.sampled_from([(1, 1), (2, 5), (5, 5), (5, 6), (9, 4), (17, 16), (40, 30)]))
    random, n = np.random.default_rng(draw(st.integers(0, 2**20))), sum(sizes) + draw(st.integers(0, 40))
    order, attributes = random.permutation(n), []
    one, two = order[: sizes[0]], order[sizes[0] : sum(sizes)]
    for _ in range(draw(st.integers(1, 2))):
        highest = draw(st.sampled_from([2, 9, 200]))
        values = np.minimum(random.geometric(draw(st.sampled_from([0.02, 0.2])), n), highest)
        plain = attribute_of(values, "ordered")
        reached = max(emd_of(plain, one), emd_of(plain, two))
        # Rounded up to the digits that a threshold has.
        t = Fraction(math.ceil(reached * 10**9), 10**9) + draw(st.sampled_from([0, 0, STEP, Fraction(1, 50)]))
        attributes.append(attribute_of(values, "ordered", t=min(t, Fraction(1))))
    return attributes, one, two


@settings(max_examples=examples(200, 25))
@given(kept_classes())
def test_windows_leave_every_swap_that_keeps_t(case: tuple[list[Attribute], Whole, Whole]) -> None:
    """Source: tests/oracle.py on both classes after each swap; in the order of the places."""
    attributes, one, two = case
    pairs = list(zip(*(x.tolist() for x in swaps_left(*prepared(attributes, 64), one, two)), strict=True))
    assert pairs == sorted(set(pairs))
    for i, j in {(i, j) for i in range(len(one)) for j in range(len(two))} - set(pairs):
        after = np.append(np.delete(one, i), two[j]), np.append(np.delete(two, j), one[i])
        assert not all(meets(a, members) for a in attributes for members in after)


def test_windows_by_hand() -> None:
    """Ten values, one record each; two classes of two, {2, 7} and {3, 6}.

    With c members up to value v a class has ``|10 c - 2 (v + 1)|`` at the edge after it, and an EMD of the sum
    over v = 0..8 by 180. {2, 7}: 2 + 4 + 4 + 2 + 0 + 2 + 4 + 4 + 2 = 24. {3, 6}: 2 + 4 + 6 + 2 + 0 + 2 + 6 + 4 + 2
    = 28. {3, 7} and {2, 6}: 26. {2, 3}: 2 + 4 + 4 + 12 + 10 + 8 + 6 + 4 + 2 = 52, and so {6, 7}. At t = 28 / 180,
    rounded up, 2 and 3 may change places, and 7 and 6. {4, 7}: 2 + 4 + 6 + 8 + 0 + 2 + 4 + 4 + 2 = 32 is the first
    that breaks t, so 6 is outside the window of 2 by more than the position that windows are wider.
    """
    values = list(range(10))
    attribute = attribute_of(values, "ordered", t=Fraction(156, 1000))
    left = swaps_left(*prepared([attribute], 2), np.array([2, 7]), np.array([3, 6]))
    assert [x.tolist() for x in left] == [[0, 1], [0, 1]]


@given(
    st.tuples(
        *[
            st.integers(0, PATH_MAX_POSITIONS)
            | st.sampled_from([0, 1, PATH_MAX_POSITIONS - 1, PATH_MAX_POSITIONS])
        ]
        * 3
    )
)
def test_a_word_holds_both_ends_of_a_window(numbers: tuple[int, int, int]) -> None:
    """A position is in a window if it is neither below its least nor above its greatest one: the definition.

    With numbers of 64 bits, of which none may overflow; a window without positions is from the end to -1.
    """
    least, greatest, x = map(np.int64, numbers)
    word = np.int64(WORD)
    with np.errstate(over="raise"):
        for first, last in ((least, greatest), (np.int64(PATH_MAX_POSITIONS), np.int64(-1))):
            beyond = (last * word - first) - (x * word - x)
            assert bool(beyond & np.int64(BEYOND_BITS) == 0) == bool(first <= x <= last)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("sizes", [(1, 300), (127, 128), (128, 129), (129, 2), (300, 150)])
def test_classes_on_both_sides_of_the_listed_sizes(distance: Distance, sizes: tuple[int, int]) -> None:
    """Crossings are listed up to 128 records and searched beyond; t is an EMD that occurs, so some are at it."""
    assert LISTED_CLASS_MAX_RECORDS == 128
    draw = np.random.default_rng([*sizes, len(distance)])
    n = sum(sizes) + 40
    values = np.minimum(draw.geometric(0.08, n), 30)
    one, two = draw.permutation(n)[: sum(sizes)][: sizes[0]], np.zeros(0, dtype=np.int64)
    two = np.setdiff1d(np.arange(n), one)[: sizes[1]]
    t = emd_of(attribute_of(values, distance), np.append(one[1:], two[0]))
    attribute = attribute_of(values, distance, t=t)
    pairs = [(0, 0), *((int(draw.integers(sizes[0])), int(draw.integers(sizes[1]))) for _ in range(12))]
    check_exchanges([attribute], one, two, pairs)


def test_a_threshold_on_large_classes_of_l_values() -> None:
    """All three kinds of l, beside t, on classes of more than 128 records."""
    draw = np.random.default_rng(3)
    values = np.concatenate([np.zeros(300, dtype=np.int64), draw.integers(0, 4, 60)])
    wanted: list[dict[str, Any]] = [
        {"l": Decimal(4), "l_kind": "distinct", "t": Fraction(1, 10)},
        {"l": Decimal("1.9"), "l_kind": "entropy"},
        {"l": Decimal(2), "l_kind": "recursive", "c": Decimal("7.5")},
    ]
    attributes = [attribute_of(values, "equal", **one) for one in wanted]
    order = draw.permutation(360)
    pairs = [(int(draw.integers(150)), int(draw.integers(140))) for _ in range(12)]
    check_exchanges(attributes, order[:150], order[150:290], pairs)


def test_sums_beyond_a_machine_word_are_taken_from_the_histogram() -> None:
    """2^20 values of 2^10 records each: for room of 2^12 records the sums pass 2^61, so the path is not quick.

    With equally frequent values the EMD is sum_i |m below(i) - s (i + 1)| / (s m (m - 1)), by integers.
    """
    m, size = 2**20, 4
    known = reference(np.full(m, 2**10), "ordered")
    positions = np.array([5, 70_000, 400_000, 900_000, 3, 1_000_000])
    one, two = np.arange(4), np.array([4, 5])

    def exact(members: Whole) -> Fraction:
        below = np.searchsorted(np.sort(positions[members]), np.arange(m), side="right")
        crossing = np.abs(m * below - size * np.arange(1, m + 1))
        return Fraction(int(crossing.sum()), size * m * (m - 1))

    after = {(i, j): exact(np.append(np.delete(one, i), two[j])) for i in range(4) for j in range(2)}
    t = Fraction(math.ceil(after[1, 0] * 10**12), 10**12)
    rules = rules_of([Threshold(known, t=t)])
    ledger = ledger_of(rules, len(positions), 2, 2**12)
    assert not ledger.quick.any()
    swaps, *_ = every_exchange(ledger, rules, positions[None, :], one, two)
    for (i, j), reached in after.items():
        assert (swaps[0, i, j] == 0.0) == (reached <= t)
        assert swaps[0, i, j] == pytest.approx(float(max(Fraction(0), size * (reached - t))), abs=1e-9)
    assert swaps[0, 1, 0] == 0.0
    assert (swaps[0] > 0.0).any()


def test_nothing_is_asked_nothing_is_violated() -> None:
    """By definition: t = 1 and one value are always met, also for one record against one."""
    attributes = [attribute_of([0, 0, 0, 0], d, t=Fraction(0)) for d in DISTANCES]
    attributes += [attribute_of([0, 1, 2, 3], d, t=Fraction(1)) for d in DISTANCES]
    own = prepared(attributes, 2)
    swaps, leave, join, prices = every_exchange(*own, np.array([2]), np.array([0, 3]))
    assert not prices.any()
    assert not swaps.any()
    assert not leave.any()
    assert not join.any()
