"""The public functions partition, information_loss and methods."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from duckanon.errors import PolicyError
from duckanon.kernels.first.mdav import mdav, mdav1
from duckanon.kernels.first.tcloseness_first import tcloseness_first
from duckanon.kernels.points import zscore
from duckanon.literature.partitions import information_loss, methods, partition
from duckanon.literature.registry import PUBLISHED
from duckanon.policy.methods import METHODS
from tests.reference import reference_points

DRAW = np.random.default_rng(11)
POINTS = DRAW.normal(size=(60, 3)) * [1.0, 10.0, 1000.0]
SALARY = DRAW.integers(0, 30, 60)
CHARGE = np.array(["assault", "burglary", "theft"])[DRAW.integers(0, 3, 60)]


def ordered_emd(members: list[Any], everyone: list[Any]) -> Fraction:
    """Return the EMD on the distinct values of the table: Li et al. 2007, section 5.1, exact."""
    values = sorted(set(everyone))
    total, below = Fraction(0), Fraction(0)
    for value in values[:-1]:
        below += Fraction(members.count(value), len(members)) - Fraction(everyone.count(value), len(everyone))
        total += abs(below)
    return total / max(len(values) - 1, 1)


def equal_emd(members: list[Any], everyone: list[Any]) -> Fraction:
    """Return half the sum of the differences of the shares: Li et al. 2007, section 5.2, exact."""
    shares = (
        Fraction(members.count(value), len(members)) - Fraction(everyone.count(value), len(everyone))
        for value in set(everyone)
    )
    return sum(map(abs, shares), Fraction(0)) / 2


def check_release(labels: np.ndarray[Any, Any], k: int, limits: list[tuple[Any, Any, Fraction]]) -> None:
    """Assert that every class has k records and keeps each (emd, values, t)."""
    sizes = np.bincount(labels)
    assert sizes.min() >= k
    for label in range(len(sizes)):
        for emd, values, t in limits:
            everyone = values.tolist()
            assert emd([everyone[i] for i in np.flatnonzero(labels == label)], everyone) <= t


def test_methods_are_listed_auto_first() -> None:
    listed = methods()
    auto, *others = (method.name for method in listed)
    assert (auto, *others) == METHODS
    assert auto == "auto"
    # Points have no hierarchies to climb.
    assert others == sorted([*PUBLISHED, "full_domain"])
    with pytest.raises(FrozenInstanceError):
        listed[0].__setattr__("name", "other")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("auto", mdav(zscore(POINTS), 7)),
        ("mdav", mdav(zscore(POINTS), 7)),
        ("mdav1", mdav1(zscore(POINTS), 7)),
    ],
)
def test_a_method_runs_its_kernel_on_z_scores(name: str, expected: np.ndarray[Any, Any]) -> None:
    labels = partition(POINTS, 7, name)
    assert labels.dtype == np.int64
    assert np.array_equal(labels, expected)


def test_scale_changes_distances() -> None:
    """Unscaled, the third column decides alone; on the same scale the methods agree with the kernel."""
    assert np.array_equal(partition(POINTS, 5, "mdav", scale="none"), mdav(POINTS, 5))
    assert not np.array_equal(partition(POINTS, 5, scale="none"), partition(POINTS, 5))


def test_information_loss_is_taken_on_the_named_scale() -> None:
    """By hand: both columns have z-scores -1 and 1, the classes differ in the first: half is lost."""
    points = [[0.0, 0.0], [0.0, 1000.0], [1.0, 0.0], [1.0, 1000.0]]
    assert information_loss(points, [0, 0, 1, 1]) == pytest.approx(50.0, rel=1e-15)
    assert information_loss(points, [0, 0, 1, 1], scale="none") == pytest.approx(100e6 / (1e6 + 1), rel=1e-12)
    with pytest.raises(PolicyError, match="there are 2 labels for 4 records"):
        information_loss(points, [0, 0])


def test_tcloseness_first_is_published_as_it_is() -> None:
    """Algorithm 3 without repair: the kernel's labels, whether or not every class keeps t."""
    labels = partition(POINTS, 3, "tcloseness_first", sensitive=SALARY, t=0.1)
    assert np.array_equal(labels, tcloseness_first(zscore(POINTS), SALARY, 3, 0.1))


@pytest.mark.parametrize("method", ["auto", "tcloseness_merge"])
@pytest.mark.parametrize("t", [0.01, 0.1, 0.25, 0.9, "1"])
def test_repaired_methods_always_keep_k_and_t(method: str, t: float | str) -> None:
    limit = Fraction(str(t))
    labels = partition(POINTS, 3, method, sensitive=SALARY, t=t)
    check_release(labels, 3, [(ordered_emd, SALARY, limit)])
    labels = partition(POINTS, 3, method, sensitive=CHARGE, t=t, distance="equal")
    check_release(labels, 3, [(equal_emd, CHARGE, limit)])


@pytest.mark.parametrize("method", ["auto", "tcloseness_merge"])
def test_several_sensitive_columns(method: str) -> None:
    both = np.column_stack([SALARY.astype(object), CHARGE.astype(object)])
    labels = partition(POINTS, 4, method, sensitive=both, t=[0.15, 0.3], distance=["ordered", "equal"])
    check_release(labels, 4, [(ordered_emd, SALARY, Fraction(15, 100)), (equal_emd, CHARGE, Fraction(3, 10))])
    assert labels.max() > 0


def test_hierarchical_distance_takes_paths() -> None:
    """A tree of height 1 is the equal distance (Li et al. 2007, section 5.2), so the classes are the same."""
    paths = np.array([[0, 9], [1, 9], [2, 9]])
    labels = partition(POINTS, 3, sensitive=CHARGE, t=0.2, distance="hierarchical", paths=paths)
    assert np.array_equal(labels, partition(POINTS, 3, sensitive=CHARGE, t=0.2, distance="equal"))


@pytest.mark.parametrize("sensitive", ["FEDTAX", "FICA"])
def test_auto_loses_no_more_than_repaired_algorithm_1(sensitive: str) -> None:
    """Census, TAXINC and POTHVAL, at k = 2 and t = 0.13 (one of the cells of Soria-Comas et al. 2015)."""
    points = reference_points("census.csv", ["TAXINC", "POTHVAL"])[1]
    values = reference_points("census.csv", [sensitive])[1][:, 0]
    loss = {
        method: information_loss(points, partition(points, 2, method, sensitive=values, t=0.13))
        for method in ("auto", "tcloseness_merge")
    }
    assert loss["auto"] <= loss["tcloseness_merge"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"method": "mdva"},
            "unknown method 'mdva', did you mean 'mdav'\\? Methods: auto, blocks, cbfs, dba1,",
        ),
        ({"method": ""}, "unknown method ''"),
        ({"method": "mdav", "gamma": 1}, "method 'mdav' has no option 'gamma': it has none"),
        ({"gamma": 1}, "method 'auto' has no option 'gamma': it has paths"),
        (
            {"method": "mdav", "sensitive": SALARY, "t": 0.1},
            "knows nothing of t: use one of auto, kanonymity_first, mondrian, mondrian_relaxed, sabre,",
        ),
        ({"sensitive": SALARY}, "sensitive is given without t"),
        ({"t": 0.1}, "t is given without sensitive"),
        ({"method": "tcloseness_first"}, "needs t and sensitive"),
        ({"method": "tcloseness_first", "sensitive": CHARGE, "t": 0.1, "distance": "equal"}, "use 'auto'"),
        ({"sensitive": SALARY, "t": 0}, "t must be a number above 0 and at most 1, not 0"),
        ({"sensitive": SALARY, "t": "1/0"}, "t must be a number above 0 and at most 1, not 1/0"),
        ({"sensitive": SALARY, "t": 1.01}, "t must be"),
        ({"sensitive": SALARY, "t": "much"}, "t must be"),
        ({"sensitive": SALARY, "t": [0.1, 0.2]}, "t has 2 entries for 1 sensitive columns"),
        ({"sensitive": SALARY[:5], "t": 0.1}, r"of shape \(60, s\), not \(5,\)"),
        ({"sensitive": [1, "a"] * 30, "t": 0.1, "distance": "far"}, "unknown distance 'far'"),
        ({"sensitive": SALARY, "t": 0.1, "distance": "hierarchical"}, "needs paths"),
        ({"sensitive": np.array([1, None] * 30), "t": 0.1}, "sensitive values cannot be ordered"),
        ({"refine": True, "effort": "most"}, "effort must be 'fast', 'balanced' or 'best', not 'most'"),
        ({"scale": "log"}, "unknown scale 'log'"),
        ({"k": 61}, "k = 61 needs at least 61 records, there are 60"),
        ({"k": 0}, "k must be at least 1, not 0"),
        ({"k": 2.5}, "k must be an integer, not 2.5"),
        ({"points": [[1.0], [np.nan]]}, "nan in record 1, column 0"),
        ({"points": [[1.0], [-np.inf]]}, "-inf in record 1, column 0"),
        ({"points": [["a"], ["b"]]}, "could not convert"),
        ({"points": [[None], [1.0]]}, "nan in record 0"),
        ({"points": [[{}], [1.0]]}, "must be a string or a real number"),
        ({"points": [[1e200], [1.0]], "scale": "none"}, "scale them first"),
        ({"points": [1.0, 2.0]}, "must be a matrix"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        partition(**{"points": POINTS, "k": 2, **arguments})
