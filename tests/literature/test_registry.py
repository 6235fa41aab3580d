"""Every published method through `partition`: its kernel on z-scores, its options, and what it cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from duckanon.errors import PolicyError
from duckanon.kernels.first.mdav import mdav, mdav1
from duckanon.kernels.points import zscore
from duckanon.literature.fixed_size import cbfs, vmdav
from duckanon.literature.mhm import mhm
from duckanon.literature.partitions import partition
from duckanon.literature.sorting import multidsort_ps
from duckanon.literature.steered import steered_tcloseness

Labels = NDArray[np.int64]

DRAW = np.random.default_rng(3)
POINTS = DRAW.normal(size=(90, 3)) * [1.0, 10.0, 1000.0]
SALARY = DRAW.permutation(90)


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
