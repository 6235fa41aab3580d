"""Repair among many classes: only those near a violating one are looked at, and every threshold is kept."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.merge import violations_of
from duckanon.policy.policy import Policy
from duckanon.release.stages import repair as stage
from duckanon.release.stages.classes import sums_of
from tests.oracle import class_emds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.release.stages.limit import Limits

M, K = 120, 4
POLICY = Policy(quasi_identifiers="a", k=K)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat 120 classes as many, of which six around each violating one are candidates."""
    monkeypatch.setattr(stage, "ALL_CANDIDATES_MAX_CLASSES", 50)
    monkeypatch.setattr(stage, "NEAR_CANDIDATE_CLASSES", 6)


def whole(values: NDArray[np.int64], limit: str) -> tuple[stage.Whole, Limits]:
    """Classes of four neighbours on a line, whose values are given."""
    points = np.arange(M * K, dtype=np.float64)[:, None]
    labels = np.repeat(np.arange(M), K).astype(np.int64)
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    thresholds = (Threshold(reference(counts, "ordered"), t=Decimal(limit)),)
    codes = codes.astype(np.int64)[None, :]
    violations = violations_of(thresholds, codes, labels)
    limits = cast("Limits", SimpleNamespace(thresholds=thresholds))
    return stage.Whole(labels, codes, sums_of(points, labels), violations), limits


def emds(labels: NDArray[np.int64], values: NDArray[np.int64]) -> list[Fraction]:
    """Give the exact EMD of each class by the brute-force auditor."""
    rows = [{"c": int(c), "s": int(s)} for c, s in zip(labels, values, strict=True)]
    return class_emds(rows, ["c"], "s", distance="ordered")


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("seed", range(5))
def test_classes_far_from_a_violation_stay(seed: int) -> None:
    """Classes 30 and 31 hold one end and the other of the values: the two are one class in the end."""
    values = np.tile([0, 1, 2, 3], M)
    values[30 * K : 31 * K], values[31 * K : 32 * K] = 0, 3
    values[90 * K : 91 * K] = np.random.default_rng(seed).permutation([0, 0, 3, 3])
    before, limits = whole(values, "0.3")
    assert np.flatnonzero(before.violations).tolist() == [30, 31]
    labels, classes = stage.mended(before, limits, "efficient", POLICY)
    assert max(emds(labels, values)) <= Fraction("0.3")
    assert len(classes.sizes) == M - 1
    untouched = [c for c in range(M) if c not in (30, 31)]
    for c in untouched:
        own = labels[c * K : (c + 1) * K]
        assert (labels == own[0]).sum() == K
    assert labels[30 * K] == labels[31 * K]


@pytest.mark.usefixtures("few")
def test_a_neighbourhood_that_cannot_do_it_grows() -> None:
    """A whole half of the line holds one value: its balance is farther away than six classes."""
    values = np.repeat([0, 1], M * K // 2)
    before, limits = whole(values, "0.1")
    assert np.count_nonzero(before.violations) == M
    labels, classes = stage.mended(before, limits, "efficient", POLICY)
    assert max(emds(labels, values)) <= Fraction("0.1")
    assert len(classes.sizes) > 1


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat 51 violating classes as many, which are merged in parts of 30 classes first."""
    monkeypatch.setattr(stage, "MERGED_IN_PARTS_MIN_CLASSES", 50)
    monkeypatch.setattr(stage, "PART_MAX_CLASSES", 30)


@pytest.mark.usefixtures("parts")
def test_many_violating_classes_are_merged_within_parts_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: of two neighbours each has one of two values, .5 from the table; together they are like it."""
    values = np.tile(np.repeat([0, 1], K), M // 2)
    before, limits = whole(values, "0.3")
    assert np.count_nonzero(before.violations) == M
    seen: list[tuple[int, str]] = []
    merge_classes = stage.merge_classes

    def merge(centroids: NDArray[np.float64], *given: Any, partner: Any) -> NDArray[np.int64]:
        seen.append((len(centroids), partner))
        return merge_classes(centroids, *given, partner=partner)

    monkeypatch.setattr(stage, "merge_classes", merge)
    labels, classes = stage.mended(before, limits, "efficient", POLICY)
    assert seen == [(30, "efficient")] * 4
    assert max(emds(labels, values)) <= Fraction("0.3")
    assert len(classes.sizes) == M // 2
    part = np.arange(M * K) // (30 * K)
    assert all(len({*part[labels == c].tolist()}) == 1 for c in range(M // 2))
    assert classes.sizes.tolist() == np.bincount(labels).tolist()


@pytest.mark.usefixtures("parts")
def test_parts_that_cannot_do_it_look_elsewhere() -> None:
    """Two parts hold one value, two the other: any class of all records of a part is dear, and violates."""
    values = np.repeat([0, 1], M * K // 2)
    before, limits = whole(values, "0.1")
    labels, classes = stage.mended(before, limits, "efficient", POLICY)
    assert max(emds(labels, values)) <= Fraction("0.1")
    assert len(classes.sizes) > 4


@pytest.mark.usefixtures("few")
def test_without_violation_nothing_changes() -> None:
    before, limits = whole(np.tile([0, 1, 2, 3], M), "0.3")
    labels, classes = stage.mended(before, limits, "efficient", POLICY)
    assert labels.tolist() == before.labels.tolist()
    assert len(classes.sizes) == M
