"""Every published method through `partition`: its kernel on z-scores, its options, and what it cannot do."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from duckanon.errors import PolicyError
from duckanon.kernels.first.mdav import mdav, mdav1
from duckanon.kernels.points import zscore
from duckanon.literature.fixed_size import cbfs
from duckanon.literature.mhm import mhm
from duckanon.literature.partitions import methods, partition
from duckanon.literature.registry import PUBLISHED
from duckanon.literature.sorting import multidsort_ps
from duckanon.literature.steered import steered_tcloseness
from duckanon.literature.vmdav import vmdav
from tests.oracle import class_emds

Labels = NDArray[np.int64]

DRAW = np.random.default_rng(3)
POINTS = DRAW.normal(size=(90, 3)) * [1.0, 10.0, 1000.0]
SALARY = DRAW.permutation(90)
ON_POINTS = [name for name, entry in PUBLISHED.items() if not entry.needs_t and name != "univariate"]
WITH_T = [name for name, entry in PUBLISHED.items() if entry.needs_t]


def ordered_emds(labels: Labels, values: Labels) -> list[Fraction]:
    """Exact EMD of each class by the brute-force auditor of the tests."""
    rows = [{"c": int(c), "s": int(s)} for c, s in zip(labels, values, strict=True)]
    return class_emds(rows, ["c"], "s", distance="ordered")


@pytest.mark.parametrize("name", ON_POINTS)
@pytest.mark.parametrize("k", [2, 5, 90])
def test_every_method_on_points_keeps_k(name: str, k: int) -> None:
    labels = partition(POINTS, k, name)
    assert labels.shape == (90,)
    assert np.bincount(labels).min() >= k
    assert np.array_equal(labels, partition(POINTS, k, name))
    # z-scores: another unit of a column changes nothing.
    assert np.array_equal(labels, partition(POINTS * [2.0, 4.0, 0.5], k, name))


@pytest.mark.parametrize("name", WITH_T)
@pytest.mark.parametrize("t", ["0.1", "0.25"])
def test_every_method_with_t_keeps_k(name: str, t: str) -> None:
    """Those that guarantee t keep it, as the oracle sees it; no values are equal here."""
    labels = partition(POINTS, 3, name, sensitive=SALARY, t=t)
    assert np.bincount(labels).min() >= 3
    if "and t" in PUBLISHED[name].method.guarantees:
        assert max(ordered_emds(labels, SALARY)) <= Fraction(Decimal(t))


@pytest.mark.parametrize("name", [*ON_POINTS, "univariate"])
def test_k_of_one_leaves_every_record_alone(name: str) -> None:
    """With k = 1 all methods lose nothing: all records differ, and a class of one is allowed."""
    labels = partition(POINTS[:20, :1], 1, name)
    assert np.bincount(labels).min() >= 1
    if PUBLISHED[name].method.guarantees.startswith("k; classes of k..2k-1"):
        assert sorted(labels.tolist()) == list(range(20))


@pytest.mark.parametrize("name", [method.name for method in methods()])
def test_a_method_lists_guarantee_cost_and_source(name: str) -> None:
    entry = next(method for method in methods() if method.name == name)
    assert entry.guarantees.startswith("k")
    assert entry.cost.startswith("O(n")
    assert entry.source


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("vmdav", {"gamma": 1.1}, lambda points: vmdav(points, 5, gamma=1.1)),
        ("mhm", {"order": "cbfs"}, lambda points: mhm(points, 5, order="cbfs")),
        ("multidsort_ps", {"resort": True}, lambda points: multidsort_ps(points, 5, resort=True)),
    ],
)
def test_options_reach_the_kernel(name: str, options: dict[str, Any], expected: Any) -> None:
    assert np.array_equal(partition(POINTS, 5, name, **options), expected(zscore(POINTS)))
    assert not np.array_equal(partition(POINTS, 5, name), expected(zscore(POINTS)))


def test_merging_and_steering_take_any_base() -> None:
    """With t = 1 Algorithm 1 merges nothing; steering hands the base the class size."""
    for base, kernel in (("cbfs", cbfs), ("mdav1", mdav1), ("mdav", mdav)):
        merged = partition(POINTS, 4, "tcloseness_merge", sensitive=SALARY, t=1, base=base)
        assert np.array_equal(merged, kernel(zscore(POINTS), 4))
        steered = partition(POINTS, 4, "steered", sensitive=SALARY, t="0.2", base=base, weight=3.0)
        expected = steered_tcloseness(zscore(POINTS), SALARY, 4, t="0.2", base=kernel, weight=3.0)
        assert np.array_equal(steered, expected)
    of_six = partition(POINTS, 4, "steered", sensitive=SALARY, t="0.2", buckets=6)
    assert np.bincount(of_six).tolist() == [6] * 15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "univariate"}, "univariate takes one column, not 3: use 'mhm' or 'mdav' for several"),
        ({"method": "vmdav", "gamma": -1.0}, "method 'vmdav': gamma must be a finite number of at least 0"),
        ({"method": "mhm", "order": "random"}, "method 'mhm': .*order"),
        ({"method": "cbfs", "gamma": 1.0}, "method 'cbfs' has no option 'gamma': it has none"),
        (
            {"method": "steered", "sensitive": SALARY, "t": 0.1, "base": "sabre"},
            "base 'sabre' is no method on",
        ),
        (
            {"method": "cbfs", "sensitive": SALARY, "t": 0.1},
            "knows nothing of t: use one of auto, kanonymity",
        ),
        ({"method": "sabre"}, "method 'sabre' needs t and sensitive"),
        (
            {"method": "sabre", "sensitive": np.column_stack([SALARY, SALARY]), "t": 0.1},
            "method 'sabre' takes one sensitive column, not 2: use 'auto'",
        ),
        (
            {"method": "steered", "sensitive": SALARY, "t": 0.1, "distance": "equal"},
            "method 'steered' ranks one 'ordered' column, not 'equal': use 'auto'",
        ),
    ],
)
def test_what_a_method_cannot_do_is_said_with_those_that_can(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message) as raised:
        partition(POINTS, 3, **arguments)
    assert len(str(raised.value).splitlines()) <= 2
