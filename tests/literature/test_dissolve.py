"""The second stage of DBA-2, MDAV-2 and TFRP-2: published losses, hand calculation, and slow references."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duckanon.kernels.first.mdav import mdav1, partitioned
from duckanon.kernels.loss import class_means, information_loss, sse
from duckanon.literature import dissolve as module
from duckanon.literature.dissolve import dba1, dba2, dissolved, least_homogeneous_first, mdav2, tfrp1, tfrp2
from tests.examples import examples
from tests.kernels.test_mdav import dataset, free_points, squared, tied_points

Points = NDArray[np.float64]
Labels = NDArray[np.int64]
Method = Callable[[Points, int], Labels]

# Information loss 100 SSE/SST of z-scored data at k = 3, 4, 5, 10 in Kabir et al., Tables VI to VIII, who quote
# Lin et al. 2010. Tarragona at k = 3 is printed as 16.38261429: all digits but one, so taken for a misprint.
PUBLISHED_MDAV2 = {
    "tarragona": ("16.68261429", "19.01314997", "22.07965363", "33.17932950"),
    "census": ("5.656049371", "7.409645342", "9.012389597", "13.94411775"),
    "eia": ("0.411101515", "0.587381756", "0.946263963", "3.16085577"),
}


@pytest.mark.parametrize("name", PUBLISHED_MDAV2)
def test_mdav2_gives_the_published_information_losses(name: str) -> None:
    """Source: see PUBLISHED_MDAV2; every printed digit."""
    points = dataset(name)
    for k, printed in zip((3, 4, 5, 10), PUBLISHED_MDAV2[name], strict=True):
        decimals = len(printed.split(".")[1])
        assert f"{information_loss(points, mdav2(points, k)):.{decimals}f}" == printed


def slow_trial(
    points: Points, sums: dict[int, Points], sizes: dict[int, int], members: list[int], own: int, limit: int
) -> list[int]:
    """Return the nearest other class of each member, centroids as they are; empty if one finds none."""
    targets: list[int] = []
    for record in members:
        near = [
            (float(squared((sums[c] / sizes[c])[None], points[record])[0]), c)
            for c in sums
            if c != own and sizes[c] + targets.count(c) <= limit
        ]
        if not near:
            return []
        targets.append(min(near)[1])
    return targets


def slow_dissolved(points: Points, labels: Labels, order: list[int], limit: int) -> Labels:
    """`dissolved` step by step, with one dictionary of class sums and the same order of additions."""
    labels, m = labels.copy(), int(labels.max()) + 1
    sums = {c: np.zeros(points.shape[1]) for c in range(m)}
    sizes = {c: int(np.sum(labels == c)) for c in range(m)}
    for record, label in enumerate(labels):
        sums[int(label)] += points[record]
    for own in order:
        members = [int(record) for record in np.flatnonzero(labels == own)]
        targets = slow_trial(points, sums, sizes, members, own, limit)
        errors = gain = 0.0
        new_sums, new_sizes = {c: total.copy() for c, total in sums.items()}, dict(sizes)
        for record, target in zip(members, targets, strict=False):
            errors += float(squared((sums[own] / sizes[own])[None], points[record])[0])
            grown = float(squared((new_sums[target] / new_sizes[target])[None], points[record])[0])
            gain -= grown * new_sizes[target] / (new_sizes[target] + 1)
            new_sums[target] += points[record]
            new_sizes[target] += 1
        if errors + gain > 0.0:
            sums, sizes = new_sums, new_sizes
            labels[members] = targets
            del sums[own], sizes[own]
    return np.unique(labels, return_inverse=True)[1]


@st.composite
def partitions(draw: st.DrawFn) -> tuple[Points, Labels, list[int], int]:
    """Draw points, any partition of them, an order of some of its classes, and a limit."""
    points, _ = draw(st.one_of(tied_points(), free_points()))
    m = draw(st.integers(1, len(points)))
    rest = draw(st.lists(st.integers(0, m - 1), min_size=len(points) - m, max_size=len(points) - m))
    labels = np.array(draw(st.permutations([*range(m), *rest])))
    order = draw(st.permutations(range(m)))[: draw(st.integers(0, m))]
    return points, labels, order, draw(st.integers(0, len(points)))


@settings(max_examples=examples(200), deadline=None)
@given(case=partitions())
def test_dissolved_is_the_slow_reference(case: tuple[Points, Labels, list[int], int]) -> None:
    points, labels, order, limit = case
    before = labels.copy()
    found = dissolved(points, labels, np.array(order, dtype=np.int64), limit)
    assert np.array_equal(found, slow_dissolved(points, labels, order, limit))
    assert np.array_equal(labels, before)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 5))
def test_every_decision_follows_the_sse_of_the_whole_partition(seed: int, k: int) -> None:
    """Independent: SSE and means of whole partitions from scratch, on points without ties."""
    draw = np.random.default_rng(seed)
    points = draw.standard_t(3, size=(60, 2))
    start = mdav1(points, k)
    order = draw.permutation(start.max() + 1)
    current = start
    for own in order:
        names, compact = np.unique(current, return_inverse=True)
        means = class_means(points, compact)
        trial = current.copy()
        for record in np.flatnonzero(current == own):
            distances = np.where(names == own, np.inf, ((means - points[record]) ** 2).sum(axis=1))
            trial[record] = names[np.argmin(distances)]
        if len(names) > 1 and sse(points, np.unique(trial, return_inverse=True)[1]) < sse(points, compact):
            current = trial
    expected = np.unique(current, return_inverse=True)[1]
    assert np.array_equal(dissolved(points, start, order), expected)


def line(*values: float) -> Points:
    """Return points in one column."""
    return np.array(values)[:, None]


def test_a_class_is_dissolved_where_that_loses_less_by_hand() -> None:
    """3 and 9 have 18 about 6; 3 adds 4 * 3/4 = 3 to the class of mean 1, 9 adds 2.25 * 2/3 to that of 10.5."""
    points, labels = line(0, 1, 2, 3, 9, 10, 11), np.array([0, 0, 0, 1, 1, 2, 2])
    assert dissolved(points, labels, np.array([1])).tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert dissolved(points, labels, np.array([0, 2])).tolist() == labels.tolist()


def test_an_equal_sse_keeps_the_class_by_hand() -> None:
    """0 and 2 have 2 about 1; each adds 2 * 1/2 = 1 to a single record at distance sqrt 2: 2 against 2."""
    points = np.array([[0.0, 0.0], [2.0, 0.0], [-1.0, 1.0], [3.0, 1.0]])
    assert dissolved(points, np.array([0, 0, 1, 2]), np.array([0])).tolist() == [0, 0, 1, 2]


def test_centroids_stay_during_a_trial_by_hand() -> None:
    """4 joins 0, 0. Their mean would then be 4/3, nearer to 5.2 than 10 is; but 5.2 joins 10, 10 as it was.

    40 joins 40, 40, which makes the trial worth while.
    """
    points, labels = line(0, 0, 4, 5.2, 40, 10, 10, 40, 40), np.array([0, 0, 1, 1, 1, 2, 2, 3, 3])
    assert dissolved(points, labels, np.array([1])).tolist() == [0, 0, 0, 1, 2, 1, 1, 2, 2]


def test_a_dissolved_class_takes_no_records_by_hand() -> None:
    """First 1 and 9 go to 0, 0 and 10, 10; then 0, 0, 1 must not go back, and 20 is too far to gain."""
    points, labels = line(0, 0, 1, 9, 10, 10, 20, 20), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    assert dissolved(points, labels, np.array([1, 0, 2, 3])).tolist() == [0, 0, 0, 1, 1, 1, 2, 2]


def test_the_limit_closes_large_classes_by_hand() -> None:
    """1 and 30 have 420.5 about 15.5. With limit 3 record 1 joins 0, 0, 0; with limit 2 it must join 10, 10.

    30 joins 31, 31. With limit 1 no class is open, and all stay.
    """
    points, labels = line(0, 0, 0, 1, 30, 10, 10, 31, 31), np.array([0, 0, 0, 1, 1, 2, 2, 3, 3])
    assert dissolved(points, labels, np.array([1]), 3).tolist() == [0, 0, 0, 0, 2, 1, 1, 2, 2]
    assert dissolved(points, labels, np.array([1]), 2).tolist() == [0, 0, 0, 1, 2, 1, 1, 2, 2]
    assert dissolved(points, labels, np.array([1]), 1).tolist() == labels.tolist()


def test_the_limit_counts_the_records_on_trial_by_hand() -> None:
    """2, 3, 60: with limit 2 the first joins 0, 0, which then has 3 records and is closed to the second."""
    points, labels = line(0, 0, 2, 3, 60, 20, 20, 60, 60), np.array([0, 0, 1, 1, 1, 2, 2, 3, 3])
    assert dissolved(points, labels, np.array([1]), 2).tolist() == [0, 0, 0, 1, 2, 1, 1, 2, 2]
    assert dissolved(points, labels, np.array([1])).tolist() == [0, 0, 0, 0, 2, 1, 1, 2, 2]


def test_least_homogeneous_first_by_hand() -> None:
    """Squared errors 0.5, 8, 8, 2."""
    points, labels = line(0, 1, 10, 14, 20, 24, 30, 32), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    assert least_homogeneous_first(points, labels).tolist() == [1, 2, 3, 0]


def test_partitioned_by_hand() -> None:
    """Class 0 (0, 1, 10, 11) falls into 0, 1 and 11, 10, class 1 (three records) stays, class 2 into two."""
    points, labels = line(0, 1, 10, 11, 5, 5, 5, 7, 7, 90, 90), np.array([0] * 4 + [1] * 3 + [2] * 4)
    assert partitioned(points, labels, 2, mdav1).tolist() == [0, 0, 3, 3, 1, 1, 1, 2, 2, 4, 4]


def test_mdav2_by_hand() -> None:
    """MDAV-1, k = 2: 0 and 0.1, 10 and 9.9, then 0.2 and 9.8, which are dissolved: 46 against 0.03."""
    points = line(0, 0.1, 0.2, 9.8, 9.9, 10)
    assert mdav1(points, 2).tolist() == [0, 0, 2, 2, 1, 1]
    assert mdav2(points, 2).tolist() == [0, 0, 0, 1, 1, 1]


STAGES: list[tuple[Method, Method, Method]] = [
    (mdav1, mdav2, mdav1),
    (dba1, dba2, mdav1),
    (tfrp1, tfrp2, tfrp1),
]


def slow_stages(points: Points, k: int, stages: tuple[Method, Method, Method]) -> Labels:
    """First stage, slow dissolving, then parts of at least k, one large class at a time."""
    first, method, parts = stages
    labels = first(points, k)
    order = least_homogeneous_first(points, labels).tolist()
    if method is dba2:
        order = list(range(labels.max(), -1, -1))
    labels = slow_dissolved(points, labels, order, 4 * k - 1 if method is tfrp2 else len(points))
    for c in range(labels.max() + 1):
        members = np.flatnonzero(labels == c)
        if len(members) >= 2 * k:
            within = parts(points[members], k)
            for part in range(1, within.max() + 1):
                labels[members[within == part]] = labels.max() + 1
    return labels


@settings(max_examples=examples(100), deadline=None)
@given(case=st.one_of(tied_points(), free_points()), stages=st.sampled_from(STAGES))
def test_the_methods_are_their_stages(
    case: tuple[Points, int], stages: tuple[Method, Method, Method]
) -> None:
    points, k = case
    assert np.array_equal(stages[1](points, k), slow_stages(points, k, stages))


@pytest.mark.parametrize("stages", STAGES, ids=lambda stages: stages[1].__name__)
def test_the_methods_are_their_stages_where_the_order_matters(stages: tuple[Method, Method, Method]) -> None:
    """Long tails: many classes are dissolved, and in another order others would be."""
    points = np.random.default_rng(20).standard_t(1.2, size=(260, 2))
    labels = stages[0](points, 3)
    formed, worst = np.arange(labels.max() + 1), least_homogeneous_first(points, labels)
    forwards, backwards, by_loss = (
        dissolved(points, labels, o).tobytes() for o in (formed, formed[::-1], worst)
    )
    assert forwards not in (backwards, by_loss)
    assert np.array_equal(stages[1](points, 3), slow_stages(points, 3, stages))


def test_tfrp2_dissolves_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Source: Kabir et al., section VI; no data at hand let a class grow so far, so the call is watched."""
    limits = []

    def watched(points: Points, labels: Labels, order: Labels, limit: int | None = None) -> Labels:
        limits.append(limit)
        return dissolved(points, labels, order, limit)

    monkeypatch.setattr(module, "dissolved", watched)
    tfrp2(np.random.default_rng(0).normal(size=(50, 2)), 3)
    assert limits == [11]
