"""Repair by merging: every result meets its thresholds, Algorithm 1 is literal, the other loses less."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels import merge as module
from duckanon.kernels.closeness.reference import class_histograms, reference
from duckanon.kernels.closeness.shares import share_bounds
from duckanon.kernels.closeness.threshold import Threshold, rules_of, violations_per_class
from duckanon.kernels.merge import EMD_BOUND_BINS, _binned, class_members, merge_classes
from duckanon.kernels.merge_state import least_violation, merge_state_of
from tests.examples import examples
from tests.kernels.distances import slow_emd, slow_meets
from tests.kernels.test_threshold import THRESHOLDS
from tests.oracle_shares import MODELS

PARTNERS = ("nearest", "efficient")
PATHS = [[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 1, 0], [4, 2, 0], [5, 2, 0]]


def means(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.array([points[labels == c].mean(axis=0) for c in range(labels.max() + 1)])


def spread(points: np.ndarray, labels: np.ndarray) -> float:
    """SSE by its definition."""
    return float(np.sum((points - means(points, labels)[labels]) ** 2))


def merged(points, labels, codes, thresholds, partner):
    """Merge and give the new class of each record."""
    offsets, members = class_members(labels, codes)
    new = merge_classes(means(points, labels), members, offsets, thresholds, partner=partner)
    assert new.dtype == np.int64
    assert new.shape == (len(offsets) - 1,)
    assert sorted(set(new.tolist())) == list(range(new.max() + 1))
    return new[labels]


@st.composite
def partitions(draw: st.DrawFn):
    """Draw points, labels, codes of one or two attributes, their thresholds and trees."""
    m = draw(st.integers(1, 10))
    sizes = draw(st.lists(st.integers(1, 4), min_size=m, max_size=m))
    labels = np.array(draw(st.permutations(np.repeat(np.arange(m), sizes).tolist())))
    n = len(labels)
    points = np.array(
        draw(st.lists(st.tuples(*[st.integers(-3, 3)] * 2), min_size=n, max_size=n)), dtype=float
    )
    codes, thresholds, trees = [], [], []
    for _ in range(draw(st.integers(1, 2))):
        drawn = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
        present, own = np.unique(drawn, return_inverse=True)
        distance = draw(st.sampled_from(["ordered", "equal", "hierarchical"]))
        paths = [PATHS[v] for v in present] if distance == "hierarchical" else None
        known = reference(np.bincount(own), distance, paths)
        codes.append(own)
        trees.append(paths)
        wanted = {} if draw(st.booleans()) else draw(THRESHOLDS)
        if not wanted or draw(st.integers(0, 4)) == 0:
            wanted["shares"] = share_bounds(known.counts, **{draw(st.sampled_from(MODELS)): Decimal("0.6")})
        thresholds.append(Threshold(known, **wanted))
    return points, labels, codes, thresholds, trees


@settings(max_examples=examples(250), deadline=None)
@given(partitions(), st.sampled_from(PARTNERS))
def test_every_class_meets_every_threshold_or_one_is_left(case, partner) -> None:
    """Brute force over the merged classes; classes are only merged, so that no class gets smaller."""
    points, labels, codes, thresholds, trees = case
    new = merged(points, labels, codes, thresholds, partner)
    for c in range(labels.max() + 1):
        assert len(set(new[labels == c])) == 1
    if new.max() > 0:
        for c in range(new.max() + 1):
            for own, threshold, paths in zip(codes, thresholds, trees, strict=True):
                assert slow_meets(threshold, own[new == c], paths)


@settings(max_examples=examples(100), deadline=None)
@given(partitions(), st.sampled_from(PARTNERS))
def test_satisfied_classes_stay_as_they_are(case, partner) -> None:
    """Where brute force finds no violation, nothing is merged."""
    points, labels, codes, thresholds, trees = case
    met = all(
        slow_meets(threshold, own[labels == c], paths)
        for own, threshold, paths in zip(codes, thresholds, trees, strict=True)
        for c in range(labels.max() + 1)
    )
    if met:
        assert merged(points, labels, codes, thresholds, partner).tolist() == labels.tolist()
    assert merged(points, labels, [], [], partner).tolist() == labels.tolist()


def literal_algorithm_1(centroids, sizes, classes, known, t):
    """Soria-Comas 2015, Algorithm 1, the while loop line by line; the EMD in Fractions."""
    alive = {c: (list(map(float, centroids[c])), int(sizes[c]), list(own)) for c, own in enumerate(classes)}
    holder = list(range(len(classes)))
    while True:
        reached = {c: slow_emd(x[2], known.counts, known.distance) for c, x in alive.items()}
        if max(reached.values()) <= t or len(alive) == 1:
            break
        worst = max(alive, key=lambda c: (reached[c], -c))
        others = [c for c in alive if c != worst]
        far = {
            c: sum((a - b) ** 2 for a, b in zip(alive[worst][0], alive[c][0], strict=True)) for c in others
        }
        nearest = min(others, key=lambda c: (far[c], c))
        kept, gone = min(worst, nearest), max(worst, nearest)
        (x, s, own), (y, r, other) = alive[kept], alive.pop(gone)
        mean = [(a * s + b * r) / (s + r) for a, b in zip(x, y, strict=True)]
        alive[kept] = (mean, s + r, own + other)
        holder = [kept if c == gone else c for c in holder]
    return [sorted(alive).index(c) for c in holder]


@pytest.mark.parametrize("distance", ["ordered", "equal"])
@pytest.mark.parametrize("seed", range(12))
def test_nearest_is_algorithm_1(distance: str, seed: int) -> None:
    """Soria-Comas 2015, section 5, written out slowly; few coordinates and values, so that ties occur."""
    rng = np.random.default_rng(seed)
    m, size = 25, 3
    codes = np.unique(rng.integers(0, 8, size=m * size), return_inverse=True)[1]
    centroids = rng.integers(0, 6, size=(m, 2)).astype(float)
    known = reference(np.bincount(codes), distance)
    offsets = np.arange(0, m * size + 1, size)
    for t in (Fraction(1, 20), Fraction(3, 20), Fraction(1, 4)):
        got = merge_classes(centroids, [codes], offsets, [Threshold(known, t=t)], partner="nearest")
        classes = [codes[i : i + size] for i in offsets[:-1]]
        assert got.tolist() == literal_algorithm_1(centroids, np.full(m, size), classes, known, t)


def slow_efficient(centroids, sizes, classes, known, t, power):
    """Merge the most violating class with the partner of the least score, every union looked at, in Fractions."""
    alive = {c: (np.array(centroids[c]), int(sizes[c]), list(own)) for c, own in enumerate(classes)}
    holder = list(range(len(classes)))

    def violated(own) -> Fraction:
        return len(own) * max(slow_emd(own, known.counts, known.distance) - t, Fraction(0))

    def score(x: int, y: int) -> float:
        (a, s, own), (b, r, other) = alive[x], alive[y]
        removed = violated(own) + violated(other) - violated(own + other)
        lost = float(np.sum((a - b) ** 2)) * s * r / (s + r)
        return lost / float(removed) ** power if removed > 0 else np.inf

    while len(alive) > 1:
        worst = max(alive, key=lambda c: (violated(alive[c][2]), -c))
        if not violated(alive[worst][2]):
            break
        others = [c for c in alive if c != worst]
        least, partner = min((score(worst, c), c) for c in others)
        if least == np.inf:
            partner = min(others, key=lambda c: float(np.sum((alive[worst][0] - alive[c][0]) ** 2)))
        kept, gone = min(worst, partner), max(worst, partner)
        (a, s, own), (b, r, other) = alive[kept], alive.pop(gone)
        alive[kept] = ((a * s + b * r) / (s + r), s + r, own + other)
        holder = [kept if c == gone else c for c in holder]
    return [sorted(alive).index(c) for c in holder]


@pytest.mark.sampled
@pytest.mark.parametrize("distance", ["ordered", "equal"])
@pytest.mark.parametrize("seed", range(4))
def test_efficient_is_the_search_of_all_unions(distance: str, seed: int) -> None:
    """Both weightings by the slow search, of which the one with less SSE is returned; no score is tied."""
    rng = np.random.default_rng(seed)
    m, size = 20, 3
    points = rng.normal(size=(m, 2)).repeat(size, axis=0)
    labels = np.arange(m).repeat(size)
    # Near classes have near values, so that some unions remove much, some little, and some nothing.
    codes = np.unique(np.round(3 * points[:, 0] + rng.normal(size=m * size)), return_inverse=True)[1]
    known = reference(np.bincount(codes), distance)
    for t in (Fraction(1, 20), Fraction(3, 20), Fraction(3, 10)):
        got = merged(points, labels, [codes], [Threshold(known, t=t)], "efficient")
        classes = codes.reshape(m, size).tolist()
        slow = [
            np.array(slow_efficient(points[::size], [size] * m, classes, known, t, power))[labels]
            for power in (1.0, 2.0)
        ]
        assert got.tolist() == min(slow, key=lambda own: spread(points, own)).tolist()


@settings(max_examples=examples(250), deadline=None)
@given(partitions())
def test_the_bound_of_a_union_is_what_it_violates_where_each_value_is_a_part(case) -> None:
    """Each pair of classes: s (EMD - t) of the union in Fractions, for the attributes that have an order.

    There are six values at most, so that each is a part of its own, and the bound is that number.
    """
    points, labels, codes, thresholds, trees = case
    offsets, members = class_members(labels, codes)
    given = zip(thresholds, members, strict=True)
    binned = [_binned(x.reference, x.reference.positions(own), offsets) for x, own in given]
    state = merge_state_of(
        np.hstack([means(points, labels), *binned]),
        np.diff(offsets),
        [
            class_histograms(x.reference.positions(o), offsets)
            for x, o in zip(thresholds, members, strict=True)
        ],
        dimensions=points.shape[1],
        bins=EMD_BOUND_BINS,
        violations=np.zeros(len(offsets) - 1),
    )
    rules = rules_of(thresholds)
    for x, y in combinations(range(len(offsets) - 1), 2):
        exact = Fraction(0)
        for own, threshold, paths in zip(codes, thresholds, trees, strict=True):
            both = own[(labels == x) | (labels == y)]
            if threshold.t is not None and threshold.reference.distance == "ordered":
                emd = slow_emd(both, threshold.reference.counts, "ordered", paths)
                exact += len(both) * max(emd - Fraction(threshold.t), Fraction(0))
        bound = least_violation.py_func(state, rules, x, y)
        assert bound == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


def test_sums_by_parts_are_those_of_all_positions() -> None:
    """Forty values, sixteen parts: |sum of n P - s Q over a part|, P and Q counted one by one, is the least
    that a part adds; together never more than the EMD in Fractions, and more than none of it."""
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 4, size=40)
    known, n = reference(counts, "ordered"), int(counts.sum())
    codes = np.sort(rng.choice(40, size=12))
    sums = _binned(known, codes, np.array([0, 12]))[0] * 12
    ends = [40 * b // EMD_BOUND_BINS for b in range(EMD_BOUND_BINS + 1)]
    for b in range(EMD_BOUND_BINS):
        by_hand = sum(
            n * int(np.sum(codes <= i)) - 12 * int(counts[: i + 1].sum()) for i in range(ends[b], ends[b + 1])
        )
        assert sums[b] == pytest.approx(by_hand)
    bound, emd = np.abs(sums).sum() / (12 * n * 39), float(slow_emd(codes, counts, "ordered"))
    assert 0.5 * emd < bound <= emd * (1 + 1e-12)


@pytest.mark.parametrize("full", [4_000_000, pytest.param(1_000, marks=pytest.mark.slow)])
def test_all_is_merged_where_the_loss_overflows(monkeypatch: pytest.MonkeyPatch, full: int) -> None:
    """The largest coordinates that there are: the SSE of a few merges is beyond all doubles, and t is kept."""
    monkeypatch.setattr(module, "ALL_CANDIDATES_MAX_PAIRS", full)
    rng, m, size = np.random.default_rng(1), 100, 3000
    centroids = rng.uniform(-1.0, 1.0, size=(m, 4000)) * 1e150
    codes = np.sort(rng.integers(0, 9, size=m * size))
    threshold = Threshold(reference(np.bincount(codes), "ordered"), t=Fraction(1, 5))
    offsets = np.arange(0, m * size + 1, size)
    new = merge_classes(centroids, [codes], offsets, [threshold])
    merged_offsets, members = class_members(new.repeat(size), [codes])
    assert 1 < len(merged_offsets) - 1 < m
    assert not violations_per_class([threshold], members, merged_offsets).any()


def random_case(seed: int, m: int, size: int, values: int):
    """Give blocks of neighbours on a line through correlated data: what a partition on QIs looks like."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(m * size, 3))
    share = rng.uniform(0.0, 0.8)
    hidden = share * points[:, 0] + np.sqrt(1 - share**2) * rng.normal(size=len(points))
    codes = np.argsort(np.argsort(hidden)) * values // len(points)
    strip = np.argsort(np.argsort(points[:, 1])) * 8 // len(points)
    labels = np.empty(len(points), dtype=np.int64)
    labels[np.lexsort([points[:, 0], strip])] = np.arange(len(points)) // size
    return points, labels, codes


def test_efficient_loses_less_than_nearest() -> None:
    """SSE over forty seeded cases: never more in the mean (geometric), and less in nearly every case."""
    ratios = []
    for seed in range(40):
        points, labels, codes = random_case(seed, 80, 5, 30)
        t = Decimal(("0.08", "0.12", "0.16", "0.20")[seed % 4])
        thresholds = [Threshold(reference(np.bincount(codes), ("ordered", "equal")[seed // 20]), t=t)]
        nearest, efficient = (
            spread(points, merged(points, labels, [codes], thresholds, partner)) for partner in PARTNERS
        )
        ratios.append(efficient / nearest)
    assert np.exp(np.mean(np.log(ratios))) < 0.9
    assert np.mean(np.array(ratios) <= 1.0) > 0.85


def test_complementary_classes_are_found() -> None:
    """By hand: classes low, low, high, high on a line, low beside low; pairs of low and high are enough."""
    centroids = [[0.0], [1.0], [2.0], [3.0]]
    thresholds = [Threshold(reference([4, 4], "ordered"), t=Decimal(0))]
    codes = [[0, 0, 0, 0, 1, 1, 1, 1]]
    got = merge_classes(centroids, codes, [0, 2, 4, 6, 8], thresholds)
    assert sorted(np.bincount(got).tolist()) == [2, 2]
    assert got[0] != got[1]


@pytest.mark.parametrize("partner", PARTNERS)
def test_one_class_is_always_reachable(partner) -> None:
    """All values differ, so that only the whole table has EMD 0; 120 unions, the pool is compacted."""
    rng = np.random.default_rng(3)
    codes = rng.permutation(360)
    thresholds = [Threshold(reference(np.ones(360, dtype=np.int64), "ordered"), t=Decimal(0))]
    labels = np.arange(360) // 3
    assert merged(rng.normal(size=(360, 2)), labels, [codes], thresholds, partner).tolist() == [0] * 360


@pytest.mark.parametrize("partner", PARTNERS)
@pytest.mark.parametrize(("t", "classes"), [("0.499", 1), ("0.5", 2)])
def test_two_halves_of_different_values_are_at_half(partner, t: str, classes: int) -> None:
    # Of 8 values that occur once a class holds 4: EMD is 1 - 4/8.
    points, labels = np.arange(8.0)[:, None], np.repeat([0, 1], 4)
    thresholds = [Threshold(reference([1] * 8, "equal"), t=Decimal(t))]
    assert len(set(merged(points, labels, [np.arange(8)], thresholds, partner).tolist())) == classes


def test_different_values_end_in_one_class_without_a_search() -> None:
    # 20,000 classes of 5, each searched for its partner step by step: that took minutes.
    n = 100_000
    thresholds = [Threshold(reference(np.ones(n, dtype=np.int64), "equal"), t=Decimal("0.2"))]
    joined = merge_classes(np.arange(n / 5)[:, None], [np.arange(n)], np.arange(0, n + 1, 5), thresholds)
    assert not joined.any()


@pytest.mark.parametrize("partner", PARTNERS)
def test_an_unreachable_l_ends_in_one_class(partner) -> None:
    """Three values never make four; the loop ends all the same."""
    thresholds = [Threshold(reference([4, 4, 4], "equal"), l=Decimal(4))]
    got = merge_classes(np.zeros((4, 1)), [[0, 1, 2] * 4], [0, 3, 6, 9, 12], thresholds, partner=partner)
    assert got.tolist() == [0, 0, 0, 0]


@pytest.mark.slow
def test_many_classes_are_merged_in_rounds() -> None:
    """More than 2000 violating classes take the kd-trees: all thresholds met, less loss than Algorithm 1."""
    points, labels, codes = random_case(1, 2600, 3, 60)
    known = reference(np.bincount(codes), "ordered")
    other = np.random.default_rng(2).integers(0, 4, size=len(codes))
    tree = reference(np.bincount(other), "hierarchical", PATHS[:4])
    thresholds = [Threshold(known, t=Decimal("0.1")), Threshold(tree, t=Decimal("0.4"), l=Decimal(2))]
    offsets, members = class_members(labels, [codes, other])
    args = (means(points, labels), members, offsets, thresholds)
    first = merge_classes(*args)
    assert np.array_equal(first, merge_classes(*args))
    new = first[labels]
    for c in range(new.max() + 1):
        assert slow_meets(thresholds[0], codes[new == c])
        assert slow_meets(thresholds[1], other[new == c], PATHS[:4])
    assert spread(points, new) < 0.9 * spread(points, merge_classes(*args, partner="nearest")[labels])


def test_equal_centroids_are_told_apart_by_what_they_remove() -> None:
    """Records that share their QIs cost nothing to merge: the complementary one is chosen, by hand."""
    centroids = np.zeros((4, 2))
    thresholds = [Threshold(reference([4, 4], "equal"), t=Decimal(0))]
    got = merge_classes(centroids, [[0, 0, 0, 0, 1, 1, 1, 1]], [0, 2, 4, 6, 8], thresholds)
    assert sorted(np.bincount(got).tolist()) == [2, 2]


def test_class_members_keep_the_order_of_the_records() -> None:
    """By hand."""
    offsets, members = class_members([2, 0, 1, 0], [[5, 6, 7, 8], [1, 2, 3, 4]])
    assert offsets.tolist() == [0, 2, 3, 4]
    assert members.tolist() == [[6, 8, 7, 5], [2, 4, 3, 1]]


@pytest.mark.parametrize(
    ("labels", "codes", "message"),
    [
        ([0, 2], [[1, 1]], "no class empty"),
        ([0, -1], [[1, 1]], "labels must be"),
        ([0.0, 1.0], [[1, 1]], "labels must be"),
        ([0, 1], [[1, 1, 1]], "2 labels for 3 records"),
    ],
)
def test_class_members_refuses(labels, codes, message) -> None:
    with pytest.raises(ValueError, match=message):
        class_members(labels, codes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partner": "far"}, "unknown partner 'far'"),
        ({"centroids": [[0.0]]}, "do not speak of the same classes"),
        ({"centroids": [[0.0], [np.nan]]}, "points hold nan"),
        ({"members": [[0, 1, 0]]}, "one code a record"),
        ({"members": []}, "1 thresholds for 0 attributes"),
        ({"members": [[0, 1, 0, 9]]}, "within 0..1"),
    ],
)
def test_merge_refuses(change, message) -> None:
    good = {
        "centroids": [[0.0], [1.0]],
        "members": [[0, 1, 0, 1]],
        "offsets": [0, 2, 4],
        "thresholds": [Threshold(reference([2, 2], "equal"), t=Decimal(0))],
    }
    with pytest.raises(ValueError, match=message):
        merge_classes(**{**good, **change})
