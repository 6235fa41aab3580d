"""Anatomize among near records: the paper's patients, cases by hand, a slow reference, shares of random tables."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import THRESHOLD_DENOMINATOR, Threshold, most_of_one
from duckanon.kernels.compose import ANATOMIZE_NARROW_RECORDS, compose, first_partition
from duckanon.kernels.first.anatomy import anatomize
from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.loss import information_loss
from duckanon.kernels.points import zscore
from duckanon.kernels.recipes import MDAV_MAX_RECORDS, Recipe, recipes, stratum_size, tile_strata
from duckanon.policy import audit_policy
from tests.examples import examples
from tests.kernels.distances import violation

Points = NDArray[np.float64]
Labels = NDArray[np.int64]

# Xiao and Tao 2006, Table 1: age, sex, zip code and disease of eight patients.
PATIENTS = [
    (23, 0, 11000, "pneumonia"),
    (27, 0, 13000, "dyspepsia"),
    (35, 0, 59000, "dyspepsia"),
    (59, 0, 12000, "pneumonia"),
    (61, 1, 54000, "flu"),
    (65, 1, 25000, "gastritis"),
    (65, 1, 25000, "flu"),
    (70, 1, 30000, "bronchitis"),
]


def share_of(l: int) -> Fraction:  # noqa: E741 - l-diversity has this name everywhere
    """Give the c that a policy asks for where no value may have more than 1 / l."""
    return Fraction(audit_policy.share_of(l)["c"])


def patients() -> tuple[Points, Labels]:
    points = zscore([row[:3] for row in PATIENTS])
    return points, np.unique([row[3] for row in PATIENTS], return_inverse=True)[1].astype(np.int64)


def classes_of(labels: Labels) -> list[list[int]]:
    return [np.flatnonzero(labels == c).tolist() for c in range(int(labels.max()) + 1)]


def keeps(codes: Labels, labels: Labels, c: Fraction) -> bool:
    """Tell whether r_1 < c s in every class, in fractions."""
    return all(
        int(np.bincount(codes[labels == label]).max()) < c * int((labels == label).sum())
        for label in range(int(labels.max()) + 1)
    )


def test_patients_of_the_paper() -> None:
    """Source: Table 1; its 2-diverse groups are the first and the last four patients.

    The most frequent diseases have two of eight records: classes of 1/2, 1/3 and 1/4 there are, of 1/5 not.
    """
    points, codes = patients()
    assert keeps(codes, np.repeat([0, 1], 4), share_of(2))
    fours = anatomize(points, codes, 4, share_of(2))
    assert np.bincount(fours).tolist() == [4, 4]
    assert keeps(codes, fours, share_of(2))
    pairs = anatomize(points, codes, 2, share_of(2))
    assert np.bincount(pairs).tolist() == [2, 2, 2, 2]
    assert keeps(codes, pairs, share_of(2))
    for divisor in (3, 4):
        assert len(np.unique(anatomize(points, codes, 2, share_of(divisor)))) == 2
        assert keeps(codes, anatomize(points, codes, 2, share_of(divisor)), share_of(divisor))
    assert not keeps(codes, anatomize(points, codes, 2, share_of(5)), share_of(5))


def test_near_records_while_others_do_not_need_them() -> None:
    """By hand, l = 2. Values a a b b c c at 0, 1, 2, 10, 11, 13: the centroid is 37/6, farthest is 13 (c).

    Its nearest of another value is 10 (b). Left: a 0, a 1, b 2, c 11, of which a has half: the seed is 0,
    farthest from the last seed, its nearest of another value 2. Then 1 and 11.
    """
    points = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [13.0]])
    labels = anatomize(points, [0, 0, 1, 1, 2, 2], 2, share_of(2))
    assert labels.tolist() == [1, 2, 1, 0, 2, 0]


def test_a_frequent_value_is_taken_from_afar() -> None:
    """By hand, l = 3: a has 2 of 6 records, so each class takes one, though b, c, d lie together."""
    points = np.array([[0.0], [1.0], [100.0], [101.0], [102.0], [104.0]])
    labels = anatomize(points, [0, 0, 1, 2, 3, 1], 3, share_of(3))
    assert labels[0] != labels[1]
    assert np.bincount(labels).tolist() == [3, 3]


def test_a_record_left_joins_the_nearest_class_without_its_value() -> None:
    """By hand, l = 2, a b a b a b c at 0 1, 10 11, 20 21 and 12: c is left when all others are taken in pairs.

    The first seed is 0 (a, farthest from 75/7), with 1; then 20, farthest from 0, with 21. Of the last three,
    one each, the seed is 10 or 12 (equally far from their centroid 11, the lowest): 10 with 11; 12 is left,
    and joins them at 10.5, which is nearer than 20.5.
    """
    points = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0], [12.0]])
    labels = anatomize(points, [0, 1, 0, 1, 0, 1, 2], 2, share_of(2))
    assert labels.tolist() == [0, 0, 2, 2, 1, 1, 2]


@pytest.mark.parametrize("l", [1, 2, 3, 5, 7, 11, 64, 999_983])
def test_share_of_l_is_exact(l: int) -> None:  # noqa: E741
    """r < c s where r l <= s, up to l s = 10^12, by whole numbers around the bound; beyond, c s is too much."""
    c = share_of(l)
    last = THRESHOLD_DENOMINATOR // l
    for s in [*range(1, 50), last - 1, last]:
        for r in range(max(0, s // l - 1), s // l + 3):
            assert (r < c * s) == (r * l <= s)
    assert most_of_one(40, c).tolist() == [s // l for s in range(41)]


@pytest.mark.parametrize("c", ["0.4", "0.5", "0.333", "1", "2.5", "0.0000000000019"])
def test_most_of_one_is_the_most_that_meets_the_threshold(c: str) -> None:
    """Against fractions, c cut off at twelve decimals; and against the threshold itself."""
    cut = Fraction(int(Fraction(c) * THRESHOLD_DENOMINATOR), THRESHOLD_DENOMINATOR)
    found = most_of_one(30, Decimal(c))
    assert found.tolist() == [max([0, *(r for r in range(100) if r < cut * s)]) for s in range(31)]
    only = Threshold(reference([100, 100], "equal"), l=Decimal(1), l_kind="recursive", c=Decimal(c))
    for s in range(1, 31):
        for r in range((s + 1) // 2, s + 1):
            assert (violation(only, [0] * r + [1] * (s - r)) == 0.0) == (r <= found[s])


def slow(points: Points, codes: Labels, k: int, c: Fraction) -> list[int]:
    """The rule in plain Python, for one part."""
    n = len(codes)

    def cap(s: int) -> int:
        return max([0, *(r for r in range(n + 1) if r < c * s)])

    def far(record: int, query: list[float]) -> float:
        return sum((x - q) ** 2 for x, q in zip(points[record].tolist(), query, strict=True))

    values = sorted(set(codes.tolist()))
    size = max([k, *[next((s for s in range(n + 1) if cap(s)), n + 1)]])
    if size > n:
        return [0] * n
    count = {v: int((codes == v).sum()) for v in values}
    keep = max(
        m for m in range(n + 1)
        if m == 0 or (m <= max(count.values()) and (s := sum(min(m, x) for x in count.values())) >= size and m <= cap(s))
    )  # fmt: skip
    labels, here = [-1] * n, list(range(n))
    quota = {v: min(keep, count[v]) for v in values}
    seed = label = -1
    while sum(quota.values()) >= size:
        left, label = sum(quota.values()), label + 1

        def fits(s: int, stay: int, quota: dict[int, int] = quota) -> bool:
            lowest = {v: max(0, quota[v] - stay) for v in values}
            highest = {v: min(cap(s), quota[v]) for v in values}
            inside = sum(lowest.values()) <= s <= sum(highest.values())
            return inside and all(lowest[v] <= highest[v] for v in values)

        further = [s for s in range(size, left - size + 1) if fits(s, cap(left - s))]
        s = further[0] if further else next(s for s in range(size, left + 1) if fits(s, left))
        stay = cap(left - s) if further else left
        centre = [sum(points[i, j] for i in here) / len(here) for j in range(points.shape[1])]
        query = points[seed].tolist() if label % 2 else centre
        fullest = [i for i in here if quota[int(codes[i])] == max(quota.values())]
        seed = min(fullest, key=lambda i, query=query: (-far(i, query), i))  # type: ignore[misc]
        about = points[seed].tolist()
        lowest = {v: max(0, quota[v] - stay) for v in values}
        free, members, taken = s - sum(lowest.values()), [], dict.fromkeys(values, 0)
        for i in sorted(here, key=lambda i, about=about, seed=seed: (i != seed, far(i, about), i)):  # type: ignore[misc]
            v = int(codes[i])
            if len(members) < s and taken[v] < min(cap(s), quota[v]) and (taken[v] < lowest[v] or free > 0):
                free -= taken[v] >= lowest[v]
                taken[v] += 1
                members.append(i)
        for i in members:
            labels[i] = label
            quota[int(codes[i])] -= 1
            here.remove(i)
        if not further:
            break
    return _ended(points, codes, labels, size, cap, eligible=keep == max(count.values()))


def _ended(
    points: Points, codes: Labels, labels: list[int], size: int, cap: Any, *, eligible: bool
) -> list[int]:
    """Place what is left over."""
    left, last = [i for i, label in enumerate(labels) if label < 0], max(labels)
    if not eligible and len(left) >= size:
        for i, label in zip(left, mdav(points[left], size).tolist(), strict=True):
            labels[i] = last + 1 + label
        return labels
    means = [points[np.array(labels) == label].sum(axis=0) for label in range(last + 1)]
    means = [total / labels.count(label) for label, total in enumerate(means)]
    placed = list(labels)
    for i in left:
        able = [
            x for x in range(last + 1)
            if sum(placed[j] == x and codes[j] == codes[i] for j in range(len(labels))) < cap(placed.count(x) + 1)
        ]  # fmt: skip
        if not able and eligible:
            return [last if label < 0 else label for label in labels]
        placed[i] = min(
            able or range(last + 1), key=lambda x, i=i: (float(np.sum((means[x] - points[i]) ** 2)), x)
        )
    return placed


@st.composite
def tables(draw: st.DrawFn, most: int = 24) -> tuple[Points, Labels, int, Fraction]:
    """Draw records, many of them equal, k and c, as 1 / l or any other."""
    n = draw(st.integers(1, most))
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    points = random.integers(0, draw(st.sampled_from([1, 3, 1000])), (n, draw(st.integers(1, 2)))).astype(
        float
    )
    weights = random.dirichlet(np.full(draw(st.integers(1, 8)), draw(st.sampled_from([0.5, 50.0]))))
    codes = random.choice(len(weights), n, p=weights).astype(np.int64)
    c = draw(
        st.sampled_from([*map(share_of, (1, 2, 3, 4, 5)), Fraction("0.4"), Fraction("0.5"), Fraction("0.75")])
    )
    return points, codes, draw(st.integers(1, min(6, n))), c


@settings(max_examples=examples(300), deadline=None)
@given(tables())
def test_same_as_slow_reference(case: tuple[Points, Labels, int, Fraction]) -> None:
    points, codes, k, c = case
    labels = anatomize(points, codes, k, c)
    assert labels.tolist() == slow(points, codes, k, c)


@settings(max_examples=examples(300), deadline=None)
@given(tables(most=150), st.sampled_from([1, 10, 40, 1000]))
def test_every_class_keeps_c_if_all_records_together_do(
    case: tuple[Points, Labels, int, Fraction], largest: int
) -> None:
    """Whatever the parts; a table with too many of a value is partitioned, too; equal input, equal output."""
    points, codes, k, c = case
    labels = anatomize(points, codes, k, c, largest)
    assert np.bincount(labels).min() >= k
    if keeps(codes, np.zeros_like(codes), c):
        assert keeps(codes, labels, c)
    assert np.array_equal(labels, anatomize(points, codes * 3 - 7, k, c, largest))


@settings(max_examples=examples(150), deadline=None)
@given(
    st.integers(2, 5),
    st.integers(1, 30),
    st.integers(0, 4),
    st.integers(0, 2**20),
    st.sampled_from([20, 1000]),
)
def test_sizes_are_l_or_a_little_more(l: int, times: int, over: int, seed: int, largest: int) -> None:  # noqa: E741
    """With values 1 / l of the records at most sizes are l, but for at most l - 1 records over in each part.

    A table without slack: as many values as l, all equally frequent, and up to l - 1 records of other values.
    """
    random = np.random.default_rng(seed)
    codes = random.permutation([*np.tile(np.arange(l), times), *(l + np.arange(min(over, l - 1)))])
    points = random.normal(size=(len(codes), 2))
    labels = anatomize(points, codes, 2, share_of(l), largest)
    assert len(np.unique(labels)) == times
    assert max(np.bincount(codes[labels == c]).max() for c in range(times)) == 1


def test_constant_points_and_no_columns_are_partitioned_by_number() -> None:
    """Equal distances go to the lowest record: 0 with the first of the other value, and so on."""
    codes = [0, 0, 0, 1, 1, 1]
    for points in (np.ones((6, 2)), np.zeros((6, 0))):
        assert anatomize(points, codes, 2, share_of(2)).tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("codes", "k", "c", "text"),
    [
        ([0, 1, 0], 2, Fraction(1, 2), r"shape \(4,\)"),
        ([0.0, 1.0, 0.0, 1.0], 2, Fraction(1, 2), "integer"),
        ([0, 1, 0, 1], 5, Fraction(1, 2), "k = 5"),
        ([0, 1, 0, 1], 0, Fraction(1, 2), "k must"),
        ([0, 1, 0, 1], 2, Fraction(0), "c must be above 0"),
    ],
)
def test_what_cannot_be_used_is_refused(codes: Any, k: int, c: Fraction, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        anatomize(np.zeros((4, 1)), codes, k, c)


def share(codes: Labels, c: Decimal | Fraction, **more: Any) -> Threshold:
    """Return the threshold of a share below c."""
    counts = np.bincount(codes)
    return Threshold(
        reference(counts, "equal"), l=Decimal(1), l_kind="recursive", c=Decimal(c.numerator) / c.denominator, **more
    )  # fmt: skip


def test_auto_tries_it_where_a_share_is_all_that_is_asked() -> None:
    """Of one attribute, without t; for tables of any size. Nothing changes elsewhere."""
    codes = np.repeat(np.arange(5), 20)
    half = share(codes, share_of(2))

    def starts(thresholds: list[Threshold], n: int = 100) -> list[str]:
        return [r.start for r in recipes(n, 2, thresholds, "fast", largest=50, columns=2)]

    assert starts([half])[-1] == "anatomy"
    assert "anatomy" in starts([half], MDAV_MAX_RECORDS + 1)
    for others in (
        [],
        [half, half],
        [share(codes, Fraction(1))],
        [share(codes, share_of(2), t=Decimal("0.5"))],
        [Threshold(half.reference, l=Decimal(2))],
        [Threshold(half.reference, l=Decimal(2), l_kind="recursive", c=Decimal("0.5"))],
    ):
        assert "anatomy" not in starts(others)
    with pytest.raises(ValueError, match="needs one threshold"):
        first_partition(np.zeros((9, 1)), [], Recipe("anatomy", 3))


@pytest.mark.sampled
@pytest.mark.parametrize("effort", [None, "fast", "balanced"])
@pytest.mark.parametrize("seed", [1, 2])
def test_it_loses_less_than_other_starts(seed: int, effort: Any) -> None:
    """600 records, twice as many as a narrow part holds and more, a sensitive value that follows them."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(600, 2))
    codes = np.clip(np.round(points[:, 0] + random.normal(size=600)).astype(np.int64) + 2, 0, 4)
    asks = [share(codes, share_of(3))]
    assert len(points) > 2 * ANATOMIZE_NARROW_RECORDS
    lost = {}
    for recipe in recipes(600, 2, asks, effort, largest=600, columns=2):
        labels = compose(points, codes[None], 2, asks, recipe)
        assert keeps(codes, labels, share_of(3))
        lost[recipe.start, recipe.size] = information_loss(points, labels)
    assert min(lost, key=lambda which: lost[which]) == ("anatomy", 2)


def test_what_no_merging_repairs_is_left_to_other_tiles() -> None:
    """Two of three records have one value, 1/2 is allowed: few classes violate, and stay."""
    random = np.random.default_rng(3)
    points, codes = random.normal(size=(90, 2)), np.array([0, 0, 1] * 30)
    asks = [share(codes, share_of(2))]
    labels = compose(points, codes[None], 2, asks, Recipe("anatomy", 2, "efficient", None))
    most = [np.bincount(codes[labels == c]).max() * 2 <= (labels == c).sum() for c in range(labels.max() + 1)]
    assert sum(most) == 30


def test_tiles_get_their_share_of_more_parts_the_less_slack_there_is() -> None:
    """By hand: 20 of 100 records have the most frequent value. 2 / (1/2 - 1/5) = 6.67, 2 / (1/4 - 1/5) = 40."""
    codes = np.repeat(np.arange(5), 20)
    for divisor, parts in ((2, 7), (4, 40)):
        asks = [share(codes, share_of(divisor))]
        assert tile_strata(100, 2, asks, largest=1024) == parts
        assert tile_strata(100, 2, asks, largest=6) == 6
    assert tile_strata(100, 9, [share(codes, share_of(2))], largest=1024) == 9
    assert tile_strata(100, 2, [share(codes, Fraction(1, 5))], largest=1024) == 1024
    others = [Threshold(reference(np.bincount(codes), "equal"), t=Decimal("0.1"))]
    assert tile_strata(100, 2, others, largest=99) == stratum_size(100, 2, others, largest=99)
