"""`auto` loses no more than any published method with the same guarantee, and less or the same with a higher effort."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duckanon.kernels.compose import EFFORTS, compose, merged
from duckanon.kernels.loss import sse
from duckanon.kernels.recipes import MDAV_MAX_RECORDS, Recipe, recipes
from duckanon.literature.partitions import information_loss, partition
from duckanon.literature.registry import PUBLISHED
from tests.examples import examples
from tests.kernels.test_ledger import attribute_of, meets

if TYPE_CHECKING:
    from collections.abc import Sequence

Points = NDArray[np.float64]

ROUNDING = 1 + 1e-9
ON_POINTS = [name for name, entry in PUBLISHED.items() if not entry.needs_t]
WITH_T = ("tcloseness_merge", "kanonymity_first", "tcloseness_first", "sabre")


def clusters(n: int, d: int) -> Points:
    """Give tight clusters of about seventeen, between which MDAV forms classes."""
    random = np.random.default_rng([n, d])
    return np.asarray(
        (random.normal(size=(max(2, n // 17), d)) * 10)[random.integers(0, max(2, n // 17), n)]
        + random.normal(size=(n, d)) / 10
    )


TABLES: dict[str, tuple[Points, int]] = {
    "gauss": (np.random.default_rng(1).normal(size=(60, 4)), 3),
    "clusters": (clusters(60, 2), 3),
    "many clusters": (clusters(300, 5), 5),
    "heavy tails": (np.random.default_rng(2).standard_cauchy(size=(120, 3)), 5),
    "categories": (np.random.default_rng(3).integers(0, 4, (150, 3)).astype(float), 5),
    "ties in one column": (np.floor(np.random.default_rng(4).normal(size=(200, 1)) * 20), 5),
    "two values": (np.repeat([[0.0, 1.0], [1.0, 0.0]], 13, axis=0), 4),
    "two values in each column": (np.random.default_rng(6).integers(0, 2, (46, 3)).astype(float), 4),
    "equal records": (np.random.default_rng(7).normal(size=(40, 2))[np.arange(127) * 7 % 40], 5),
}
"""Points and k."""


@pytest.mark.parametrize("name", TABLES)
def test_with_k_alone_no_published_method_loses_less(name: str) -> None:
    points, k = TABLES[name]
    able = [m for m in ON_POINTS if m != "univariate" or points.shape[1] == 1]
    least = min(information_loss(points, partition(points, k, method)) for method in able)
    assert information_loss(points, partition(points, k, refine=True)) <= least * ROUNDING
    assert (
        information_loss(points, partition(points, k, refine=True, effort="fast")) <= 1.05 * least * ROUNDING
    )


@pytest.mark.parametrize("effort", EFFORTS[:2])
@pytest.mark.parametrize("n", [727, 1500])
def test_where_one_column_varies_its_best_cut_is_found(effort: Any, n: int) -> None:
    """Columns beside it that say nothing change nothing: in one column the cut of `univariate` loses least."""
    column = np.random.default_rng(8).normal(size=(n, 1))
    points = np.hstack([np.full((n, 1), 3.0), column])
    least = sse(column, partition(column, 9, "univariate"))
    assert sse(points, partition(points, 9, refine=True, effort=effort)) <= least * ROUNDING


@pytest.mark.parametrize("name", ["gauss", "clusters", "categories", "two values"])
def test_with_t_no_published_method_loses_less(name: str) -> None:
    points, k = TABLES[name]
    sensitive = np.round(points[:, 0] * 2 + np.random.default_rng(9).normal(size=len(points)))
    asked: dict[str, Any] = {"sensitive": sensitive, "t": "0.25"}
    kept = [
        labels
        for labels in (partition(points, k, method, **asked) for method in WITH_T)
        if all(
            meets(attribute_of(sensitive.astype(int) + 99, "ordered", t=Decimal("0.25")), own)
            for own in (np.flatnonzero(labels == c) for c in range(int(labels.max()) + 1))
        )
    ]
    least = min(information_loss(points, labels) for labels in kept)
    assert information_loss(points, partition(points, k, refine=True, **asked)) <= least * ROUNDING


@pytest.mark.parametrize("effort", EFFORTS[:2])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equal_records_that_are_like_the_table_are_a_class_and_lose_nothing(effort: Any, seed: int) -> None:
    """Four groups of equal records, each within t of the table: by hand, to make classes of them loses nothing.

    Classes that begin with near records of the table's whole order cut the groups, and never came together.
    """
    random = np.random.default_rng(seed)
    points, sensitive = random.integers(0, 2, (880, 2)).astype(float), random.integers(0, 12, 880)
    attribute = attribute_of(sensitive, "ordered", t=Decimal("0.1"))
    group = (points @ [2.0, 1.0]).astype(int)
    assert all(meets(attribute, np.flatnonzero(group == c)) for c in range(4))
    labels = partition(points, 6, sensitive=sensitive, t="0.1", refine=True, effort=effort)
    assert information_loss(points, labels) == 0.0


@pytest.mark.parametrize("effort", EFFORTS[:2])
@pytest.mark.parametrize(("k", "values"), [(7, 3), (3, 2), (10, 4)])
def test_in_one_column_the_best_cut_merged_for_l_loses_no_less(effort: Any, k: int, values: int) -> None:
    """Of k alone the cut loses least (Hansen and Mukherjee 2003); Algorithm 1 merges it until l is kept."""
    points = clusters(250, 1)
    codes = np.random.default_rng(k).integers(0, 6, 250)
    threshold = attribute_of(codes, "equal", l=Decimal(values)).threshold
    cut = merged(points, [codes], [threshold], partition(points, k, "univariate", scale="none"), "nearest")
    tried = recipes(250, k, [threshold], effort, largest=250, columns=1)
    found = [compose(points, [codes], k, [threshold], recipe) for recipe in tried]
    least = min(information_loss(points, labels) for labels in found)
    assert least <= information_loss(points, cut) * (1.05 if effort == "fast" else 1.0) * ROUNDING


def falls(losses: Sequence[float]) -> bool:
    """Tell whether no loss is above the one before, but for rounding."""
    return all(after <= before * ROUNDING + 1e-300 for before, after in pairwise(losses))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clusters", "categories", "ties in one column"])
@pytest.mark.parametrize("limit", [None, "0.1"])
def test_a_higher_effort_never_loses_more(name: str, limit: str | None) -> None:
    """Categories, and ties in one column under t, lost more with 'best' than with 'balanced'."""
    points, k = TABLES[name]
    asked: dict[str, Any] = {"sensitive": np.arange(len(points)) % 23, "t": limit} if limit else {}
    labels = [partition(points, k, refine=True, effort=effort, **asked) for effort in EFFORTS]
    assert falls([information_loss(points, found) for found in labels])


@settings(max_examples=examples(24, 6))
@given(st.integers(0, 2**20), st.integers(2, 4), st.sampled_from(["k", "t", "l"]), st.integers(8, 40))
def test_a_higher_effort_never_loses_more_on_random_tables(seed: int, k: int, keeps: str, n: int) -> None:
    random = np.random.default_rng(seed)
    points = random.integers(0, 9, (n, 2)) / 3 if seed % 2 else random.normal(size=(n, 2))
    wanted: dict[str, Any] = {"t": Fraction(1, 4)} if keeps == "t" else {"l": Decimal(2)}
    attributes = [attribute_of(np.arange(n) % 5, "ordered", **wanted)] if keeps != "k" else []
    codes, thresholds = [a.codes for a in attributes], [a.threshold for a in attributes]
    found = [
        compose(points, codes, k, thresholds, Recipe("mdav", k, "efficient", effort), share=0.05, seed=seed)
        for effort in (None, *EFFORTS)
    ]
    for labels in found:
        assert np.bincount(labels).min() >= k
        assert all(
            meets(a, np.flatnonzero(labels == c)) for a in attributes for c in range(int(labels.max()) + 1)
        )
    assert falls([sse(points, labels) for labels in found[1 if thresholds else 0 :]])


def test_clusters_are_found_in_large_tables_too() -> None:
    """Beyond `MDAV_MAX_RECORDS` records trees are made in blocks; M-d looks at the whole table."""
    points = clusters(MDAV_MAX_RECORDS + 808, 5)
    least = information_loss(points, partition(points, 5, "m_d"))
    assert information_loss(points, partition(points, 5, refine=True, effort="fast")) <= 1.05 * least


def test_time_that_is_up_leaves_the_first_partition() -> None:
    points = TABLES["many clusters"][0]
    for effort in EFFORTS:
        labels = compose(points, [], 5, [], Recipe("mdav", 5, "efficient", effort), stop=lambda: True)
        assert np.bincount(labels).min() >= 5
        assert (
            information_loss(points, labels)
            <= information_loss(points, partition(points, 5, "mdav")) * ROUNDING
        )
