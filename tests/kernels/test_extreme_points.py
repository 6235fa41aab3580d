"""Every method ends with valid classes wherever its points lie, and sees no unit that is a power of two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from duckanon import information_loss, methods, partition
from duckanon.kernels.exchange.refine import refine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Points = NDArray[np.float64]

WITH_T = {"kanonymity_first", "sabre", "steered", "tcloseness_first", "tcloseness_merge"}


def extreme(base: Points) -> Iterator[tuple[str, Points]]:
    """Points of the same shape whose squares vanish or nearly overflow, or whose columns lie far apart."""
    for unit in (1e-160, 1e-308, 4e-323, 1e149):
        with np.errstate(under="ignore"):
            yield f"unit {unit}", base * unit
    yield "equal records", np.full(base.shape, 0.1)
    yield "equal large records", np.full(base.shape, 1e149 / 3)
    yield "one tiny column beside constants", np.where(np.arange(base.shape[1]) == 0, base * 1e-160, 0.1)
    yield "one tiny column beside huge ones", np.where(np.arange(base.shape[1]) == 0, 1e-160, 1e100) * base
    yield "two records far from tiny ones", np.where(np.arange(len(base))[:, None] < 2, 1.0, base * 1e-170)
    yield "far from zero", 1.0 + base * 2.0**-50


def runs(random: np.random.Generator, n: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every method, with and without refinement, and with t where it takes that."""
    sensitive = random.integers(0, 4, n)
    for method in methods():
        if method.name == "full_domain":
            # Points have no hierarchies.
            continue
        wanted: dict[str, Any] = {"sensitive": sensitive, "t": 0.3}
        for limits in [{}] * (method.name not in WITH_T) + [wanted] * (method.name in WITH_T | {"auto"}):
            for refined in (False, True):
                yield method.name, {**limits, "refine": refined, "effort": "fast"}


def drawn(random: np.random.Generator) -> Points:
    """Random points, with ties or without."""
    shape = (int(random.integers(8, 40)), int(random.integers(1, 15)))
    return random.normal(size=shape) if random.integers(2) else random.integers(0, 4, shape).astype(float)


def check(seed: int) -> None:
    random = np.random.default_rng(seed)
    base = drawn(random)
    k = int(random.integers(2, 5))
    for name, points in extreme(base):
        for method, how in runs(random, len(base)):
            own = points[:, :1] if method == "univariate" else points
            labels = partition(own, k, method, scale="none", **how)
            sizes = np.bincount(labels)
            assert len(labels) == len(own), (method, name)
            assert sizes.min() >= k, (method, name, how["refine"])


def test_every_method_ends_with_valid_classes_on_extreme_points() -> None:
    check(1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 32))
def test_every_method_ends_with_valid_classes_on_many_extreme_points(seed: int) -> None:
    check(seed)


def test_refinement_ends_where_all_squares_vanish() -> None:
    """The least gain that counts was a share of a sum of squares, 0 here: a gain of 5e-324 came for ever."""
    points = np.random.default_rng(3).normal(size=(60, 2)) * 1e-162
    labels = refine(points, np.arange(60) % 12, 5)
    assert np.bincount(labels).min() >= 5
    assert information_loss(points, labels, "none") < 50.0


def check_units(seed: int) -> None:
    random = np.random.default_rng(seed)
    base = drawn(random)
    k = int(random.integers(2, 5))
    for method, how in runs(random, len(base)):
        own = base[:, :1] if method == "univariate" else base
        expected = partition(own, k, method, scale="none", **how)
        for exponent in (-1000, -500, -60, 90, 400):
            scaled = np.ldexp(own, exponent)
            labels = partition(scaled, k, method, scale="none", **how)
            assert np.array_equal(labels, expected), (method, exponent, how["refine"])
            assert information_loss(scaled, labels, "none") == information_loss(own, expected, "none")


def test_a_power_of_two_changes_no_label() -> None:
    check_units(5)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_a_power_of_two_changes_no_label_of_many_tables(seed: int) -> None:
    check_units(seed)
