"""Recipes and what they make: class sizes by Proposition 1 and Eq. 3, thresholds kept, refinement in `partition`."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duckanon.errors import PolicyError
from duckanon.kernels import compose as module
from duckanon.kernels.closeness.reference import Distance, reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.compose import compose, first_partition, merged
from duckanon.kernels.exchange.refine import Effort, reduce_violations, refine
from duckanon.kernels.first.mdav import mdav, mdav1, repeated
from duckanon.kernels.loss import sse
from duckanon.kernels.recipes import (
    MDAV_MAX_RECORDS,
    Recipe,
    choice,
    recipes,
    smallest_size,
    stratum_size,
)
from duckanon.literature.partitions import information_loss, partition
from tests.examples import examples
from tests.kernels.test_ledger import DISTANCES, Attribute, attribute_of, emd_of, meets
from tests.oracle_shares import MODELS

Points = NDArray[np.float64]
Labels = NDArray[np.int64]


def distinct(n: int, t: str | Fraction | None = None, **wanted: Any) -> Threshold:
    """Return a threshold on an attribute of n records without ties, of ordered distance."""
    return Threshold(
        reference(np.ones(n, dtype=np.int64), "ordered"), Decimal(t) if isinstance(t, str) else t, **wanted
    )


def satisfied(attributes: list[Attribute], labels: Labels) -> bool:
    """Tell by the oracle whether every class satisfies every threshold."""
    return all(
        meets(a, np.flatnonzero(labels == c)) for a in attributes for c in range(int(labels.max()) + 1)
    )


@pytest.mark.parametrize("t", ["0.001", "0.01", "0.05", "0.1", "0.25", "0.4", "1"])
def test_smallest_size_is_that_of_proposition_1(t: str) -> None:
    """Soria-Comas 2015, Proposition 1, in Fractions: the first s with (n + s)(n - s) / (4 n (n - 1) s) <= t."""
    for n in (2, 3, 7, 10, 33, 176, 1080):
        wanted = next(
            s for s in range(1, n + 1) if Fraction((n + s) * (n - s), 4 * n * (n - 1) * s) <= Fraction(t)
        )
        for k in (1, 3):
            assert smallest_size(n, k, [distinct(n, t)], largest=n) == max(k, wanted)
            assert smallest_size(n, k, [distinct(n, t)], largest=5) == max(k, min(wanted, 5))


def test_no_smaller_class_is_within_t() -> None:
    """All classes of up to the smallest size of tables of 4 to 8 records without ties, by the oracle."""
    for n in range(4, 9):
        attribute = attribute_of(np.arange(n), "ordered")
        reached = {
            s: min(emd_of(attribute, np.array(own)) for own in combinations(range(n), s))
            for s in range(1, n + 1)
        }
        for t in ("0.05", "0.1", "0.15", "0.2", "0.3"):
            size = smallest_size(n, 1, [distinct(n, t)], largest=n)
            assert all(reached[s] > Fraction(t) for s in range(1, size))


def test_a_class_needs_a_record_for_each_of_l_values() -> None:
    """By definition; t of another distance says nothing of a size, and the strictest t counts."""
    equal = Threshold(reference([50, 50], "equal"), t=Decimal("0.01"))
    assert smallest_size(100, 2, [equal], largest=100) == 2
    assert smallest_size(100, 2, [equal, distinct(100, l=Decimal(5))], largest=100) == 5
    assert smallest_size(100, 2, [distinct(100, "0.3"), distinct(100, "0.01")], largest=100) == smallest_size(
        100, 2, [distinct(100, "0.01")], largest=100
    )
    assert stratum_size(100, 2, [distinct(100, l=Decimal(5))], largest=100) == 5
    assert stratum_size(100, 2, [distinct(100, l=Decimal(5))], largest=4) == 4
    assert stratum_size(100, 6, [distinct(100, l=Decimal(5))], largest=4) == 6
    assert stratum_size(100, 3, [], largest=100) == 3


def test_four_and_a_half_values_are_five() -> None:
    """By definition: a whole number of values reaches 4.5 from 5 on."""
    for size in (smallest_size, stratum_size):
        assert size(100, 2, [distinct(100, l=Decimal("4.5"))], largest=100) == 5


@pytest.mark.parametrize(
    ("t", "sizes"),
    [("0.01", (49, 49)), ("0.05", (10, 10)), ("0.09", (6, 6)), ("0.13", (4, 5)), ("0.25", (2, 5))],
)
def test_stratum_size_is_that_of_equations_3_and_4(t: str, sizes: tuple[int, int]) -> None:
    """By hand for n = 1080, k = 2 and 5: ceil(1080 / (2158 t + 1)) is 48, 10, 6, 4, 2; 1080 = 22 * 48 + 24.

    The first is the 49 of Soria-Comas 2015, Table 3, t = 0.01.
    """
    for k, size in zip((2, 5), sizes, strict=True):
        assert stratum_size(1080, k, [distinct(1080, t)], largest=1080) == size
        assert stratum_size(1080, k, [distinct(1080, t)], largest=7) == min(size, 7)


def test_the_plain_recipe_comes_first() -> None:
    """Without thresholds it is alone; beyond `MDAV_MAX_RECORDS` records MDAV runs in blocks; no size above the largest."""
    assert recipes(MDAV_MAX_RECORDS, 4, [], None, largest=99, columns=2) == (
        Recipe("mdav", 4, "efficient", None),
    )
    assert recipes(MDAV_MAX_RECORDS + 1, 4, [], "fast", largest=99, columns=2) == (
        Recipe("blocks", 4, "efficient", "fast"),
    )
    assert recipes(9, 4, [], "best", largest=99, columns=1) == (Recipe("univariate", 4, "efficient", None),)
    asks = [distinct(1080, "0.01")]
    plain, *others = recipes(1080, 2, asks, None, largest=150, columns=2)
    assert plain == Recipe("mdav", 2, "efficient", None)
    assert [(r.start, r.size) for r in others] == [("tcloseness_first", size) for size in (49, 98, 150)]
    # Proposition 1 at n = 1080, t = 0.01: (1080 + s)(1080 - s) <= 46612.8 s from s = 26 on.
    assert [r.size for r in recipes(1080, 2, asks, "best", largest=1080, columns=2)] == [26, 2, 49, 98, 196]
    found = recipes(MDAV_MAX_RECORDS + 1, 2, asks, "best", largest=150, columns=2)
    assert {(r.start, r.effort) for r in found} == {
        ("tcloseness_first", "best"), ("k_alone", "best"), ("blocks", None),
    }  # fmt: skip
    # Proposition 1 at n = 10,000, t = 0.01: (n + s)(n - s) <= 3,999,600 s from s = 26 on; 8 times 26 is 208.
    unrefined = recipes(10_000, 2, [distinct(10_000, "0.01")], None, largest=150, columns=2)
    assert [r.size for r in unrefined if r.start == "blocks"] == [26, 52, 104, 150]
    refined = recipes(10_000, 2, [distinct(10_000, "0.01")], "fast", largest=150, columns=2)
    assert [r for r in refined if r.start == "blocks"] == [Recipe("blocks", 52)]


def test_where_no_class_of_the_largest_size_is_enough_all_begin_with_it() -> None:
    """Ten thousand values, equally far apart: within 0.3 of them are 7,000 or more, within 0.995 are 50."""
    values = reference(np.ones(10_000, dtype=np.int64), "equal")
    for t, sizes in [("0.3", {150}), ("0.995", {4, 8, 16, 32})]:
        tried = recipes(10_000, 4, [Threshold(values, t=Decimal(t))], None, largest=150, columns=2)
        assert {recipe.size for recipe in tried} == sizes


def test_of_blocks_the_largest_classes_are_taken_that_lose_little_more() -> None:
    """By hand, 1.3 times the least: 13 of 10, not 13.1; where another start loses little more, or all are refined, that."""
    spread, *classes = (Recipe("tcloseness_first", 5), *(Recipe("blocks", size) for size in (5, 10, 20)))
    for losses, size in [((10, 12, 13.1), 10), ((10, 12, 13), 20), ((13, 10, 14), 10), ((0, 0, 1), 10)]:
        place = choice([spread, *classes], [50.0, *losses])
        assert ([spread, *classes][place].start, [spread, *classes][place].size) == ("blocks", size)
    assert choice([*classes, spread], [10.0, 9.0, 9.0, 10.0]) == 3, "a tenth less is not enough"
    assert choice([spread, *classes], [10.0, 10.0, 10.0, 10.0]) == 0
    assert choice([spread, *classes], [10.0, 7.0, 8.0, 8.1]) == 2, "four fifths of the other start, not more"
    assert choice([spread, replace(spread, size=9), *classes], [10.0, 9.0, 7.3, 7.3, 7.3]) == 1
    assert choice(classes, [10.0, 12.0, 13.1]) == 1
    assert choice([spread, *classes], [0.0, 0.0, 0.0, 0.0]) == 0
    assert choice([spread, *classes], [np.inf, np.inf, np.inf, 9.0]) == 3
    assert choice([spread, *classes], [np.inf] * 4) == 0
    refined = replace(spread, effort="fast")
    assert choice([refined, *classes], [10.0, 9.9, 9.8, 9.9]) == 2, "beside what is refined the least counts"


@pytest.mark.parametrize("start", ["mdav", "mdav1", "blocks", "tcloseness_first"])
def test_a_first_partition_has_classes_of_its_size(start: Any) -> None:
    points = np.random.default_rng(1).normal(size=(50, 2))
    codes = [np.arange(50)]
    for size in (3, 7, 50, 80):
        labels = first_partition(points, codes, Recipe(start, size))
        assert np.bincount(labels).min() >= min(size, 50)
        if start in ("mdav", "mdav1"):
            method = mdav if start == "mdav" else mdav1
            assert np.array_equal(labels, method(points, min(size, 50)))


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Points, list[Attribute], int, Recipe]:
    """Draw a table, thresholds that the table as a whole satisfies, and a recipe."""
    n, k = draw(st.integers(1, 30)), draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    points = random.integers(0, draw(st.sampled_from([1, 3, 1000])), (n, 2)) / 10
    attributes = []
    for _ in range(draw(st.integers(1, 2))):
        values = random.integers(0, draw(st.sampled_from([2, 5, 40])), n)
        wanted: list[dict[str, Any]] = [
            {"t": Decimal(draw(st.sampled_from(["0.02", "0.1", "0.25", "0.5"])))},
            {"l": Decimal(2), "l_kind": "distinct"},
            {"l": Decimal("1.4"), "l_kind": "entropy", "t": Decimal("0.3")},
            {"shares": {draw(st.sampled_from(MODELS)): Decimal("0.7")}},
            {"shares": {"alpha": Decimal("0.6"), "enhanced_beta": Decimal(1)}, "t": Decimal("0.3")},
        ]
        attribute = attribute_of(values, draw(st.sampled_from(DISTANCES)), **draw(st.sampled_from(wanted)))
        if meets(attribute, np.arange(n)):
            attributes.append(attribute)
    attributes.sort(key=lambda a: a.threshold.reference.distance != "ordered")
    start: Any = draw(st.sampled_from(["mdav", "tcloseness_first"] if attributes else ["mdav", "blocks"]))
    partner: Any = draw(st.sampled_from(["efficient", "nearest"]))
    effort: Any = draw(st.sampled_from([None, "fast", "balanced"]))
    return points, attributes, k, Recipe(start, k + draw(st.integers(0, 3)), partner, effort)


@settings(max_examples=examples(40))
@given(tasks())
def test_what_is_composed_keeps_k_and_every_threshold(
    case: tuple[Points, list[Attribute], int, Recipe],
) -> None:
    """Verdicts by tests/oracle.py; a table of fewer than k records is one class."""
    points, attributes, k, recipe = case
    codes, thresholds = [a.codes for a in attributes], [a.threshold for a in attributes]
    labels = compose(points, codes, k, thresholds, recipe, share=0.004)
    assert np.bincount(labels).min() >= min(k, len(points))
    assert satisfied(attributes, labels)
    assert np.array_equal(labels, compose(points, codes, k, thresholds, recipe, share=0.004))


def limited(seed: int, t: str) -> tuple[Points, NDArray[np.int64], list[Threshold]]:
    """Return 60 records whose sensitive values, without ties, go with the first coordinate."""
    draw, n = np.random.default_rng(seed), 60
    points = draw.normal(size=(n, 2))
    codes = np.argsort(np.argsort(points[:, 0] + 0.5 * draw.normal(size=n)))
    return points, codes[None, :].astype(np.int64), [distinct(n, t)]


def test_the_steps_of_each_effort_are_refined_and_the_best_is_kept() -> None:
    """The reference takes the steps one by one; which of the two ends better depends on the table."""
    recipe, better = Recipe("mdav", 3, "efficient", "balanced"), set()
    for seed in range(8):
        points, codes, thresholds = limited(seed, "0.15")
        start, ends = first_partition(points, codes, recipe), []
        efforts: tuple[Effort, ...] = ("fast", "balanced")
        for effort in efforts:
            labels = reduce_violations(points, start, 3, codes=codes, thresholds=thresholds, effort=effort)
            labels = merged(points, codes, thresholds, labels, "efficient")
            ends.append(refine(points, labels, 3, codes=codes, thresholds=thresholds))
        best = min((0, 1), key=lambda i: sse(points, ends[i]))
        better.add(best)
        assert np.array_equal(compose(points, codes, 3, thresholds, recipe), ends[best])
    assert better == {0, 1}


@pytest.mark.parametrize(("t", "refinements"), [("0.9", 1), ("0.15", 2)])
def test_equal_starts_are_refined_once(monkeypatch: pytest.MonkeyPatch, t: str, refinements: int) -> None:
    """Within t = 0.9 no class of MDAV violates, so that no steps are taken; within 0.15 some do."""
    done = []

    def counted(*arguments: Any, **options: Any) -> Labels:
        done.append(1)
        return refine(*arguments, **options)

    monkeypatch.setattr(module, "refine", counted)
    compose(*limited(0, t)[:2], 3, limited(0, t)[2], Recipe("mdav", 3, "efficient", "balanced"))
    assert len(done) == refinements


def test_without_a_partner_the_first_partition_stays() -> None:
    """Also under thresholds that it misses, which `merged` then repairs."""
    points = np.random.default_rng(2).normal(size=(40, 2))
    attribute = attribute_of(np.argsort(np.argsort(points[:, 0])), "ordered", t=Decimal("0.1"))
    codes, asks = [attribute.codes], [attribute.threshold]
    labels = compose(points, codes, 3, asks, Recipe("mdav", 3, None, "fast"))
    assert np.array_equal(labels, mdav(points, 3))
    assert not satisfied([attribute], labels)
    joined = merged(points, codes, asks, labels, "efficient")
    assert satisfied([attribute], joined)
    assert all(len(set(joined[labels == c])) == 1 for c in range(int(labels.max()) + 1))


@pytest.mark.parametrize(("limits", "effort"), [(("0.1", "0.5"), "fast"), (("0.3", "0.15"), "balanced")])
def test_auto_with_refinement_keeps_k_and_t(effort: Any, limits: tuple[str, str]) -> None:
    """Two sensitive columns, one ordered and following the points, one of few values; verdicts by the oracle."""
    random = np.random.default_rng(5)
    points = random.normal(size=(80, 3)) * [1.0, 10.0, 1000.0]
    salary, charge = np.round(points[:, 0] * 20).astype(int), random.integers(0, 3, 80)
    distances: tuple[Distance, ...] = ("ordered", "equal")
    labels = partition(
        points, 4, sensitive=np.column_stack([salary, charge]), t=list(limits), distance=distances, refine=True, effort=effort
    )  # fmt: skip
    assert np.bincount(labels).min() >= 4
    assert labels.max() > 0
    attributes = [
        attribute_of(values, distance, t=Decimal(t))
        for values, distance, t in zip((salary, charge), distances, limits, strict=True)
    ]
    assert satisfied(attributes, labels)


@pytest.mark.parametrize("method", ["mdav", "mdav1", "auto"])
def test_refinement_never_loses_more(method: str) -> None:
    """Against the same method without it, on the same scale; on random points it loses less."""
    for seed in range(3):
        points = np.random.default_rng(seed).normal(size=(90, 3)) * [1.0, 10.0, 1000.0]
        plain = partition(points, 5, method)
        labels = partition(points, 5, method, refine=True, effort="fast")
        assert np.bincount(labels).min() >= 5
        assert np.bincount(labels).max() <= 9
        assert information_loss(points, labels) < information_loss(points, plain)
    for points in (np.ones((12, 2)), np.repeat([[0.0], [1.0]], 6, axis=0)):
        assert information_loss(points, partition(points, 3, method, refine=True)) == 0.0


@pytest.mark.parametrize("effort", ["slow", "", "FAST", None, 1])
@pytest.mark.parametrize("refine", [False, True])
def test_effort_is_one_of_three_words(effort: Any, refine: bool) -> None:
    with pytest.raises(PolicyError, match="effort must be 'fast', 'balanced' or 'best'"):
        partition(np.zeros((6, 1)), 3, refine=refine, effort=effort)


@pytest.mark.parametrize("seed", range(6))
def test_with_equal_records_no_start_alone_loses_less(seed: int) -> None:
    """Sixteen places and sixty records: classes of equal ones, and MDAV, each exchanged as 'fast' does."""
    points = np.random.default_rng(seed).integers(0, 4, (60, 2)).astype(np.float64)
    equal = repeated(points, 4)
    assert equal is not None
    starts = (equal, mdav(points, 4))
    least = min(sse(points, refine(points, labels, 4, effort="fast")) for labels in starts)
    found = compose(points, [], 4, [], Recipe("mdav", 4, "efficient", "fast"))
    assert sse(points, found) <= least * (1 + 1e-9)
