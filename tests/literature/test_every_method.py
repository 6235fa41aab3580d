"""What every registered method keeps, on every shape of table: a method that is added is tried without a line here.

Figures of papers, hand calculation and what one method alone promises stand in the files of the methods.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duckanon.errors import PolicyError
from duckanon.literature.partitions import methods, partition
from duckanon.literature.registry import PUBLISHED, Task, with_thresholds
from duckanon.policy.methods import BY_NAME
from tests.examples import examples
from tests.kernels.test_mdav import free_points, tied_points
from tests.oracle import class_emds

Points = NDArray[np.float64]
Labels = NDArray[np.int64]

T = "0.2"
"""Binds on most of the tables here."""

WAYS = [(name, False) for name in ("auto", *PUBLISHED) if name == "auto" or not PUBLISHED[name].needs_t]
WAYS += [(name, True) for name in ("auto", *PUBLISHED) if name == "auto" or PUBLISHED[name].keeps != "k"]
"""Every method as it is called: without t or with it; those that keep what is asked for both ways."""

ONE_COLUMN = {"univariate"}
OWN_SCALE = {"steered"}
"""Methods that bring the points to a scale themselves, so that no square overflows."""

OVERFLOW = "scale them first"

DRAW = np.random.default_rng(3)
SHAPES: dict[str, tuple[Points, int]] = {
    "one record": (np.array([[3.0, 1.0]]), 1),
    "k = 1": (DRAW.normal(size=(20, 2)), 1),
    "k = n": (DRAW.normal(size=(9, 2)), 9),
    "n = 2k - 1": (DRAW.normal(size=(9, 2)), 5),
    "n = 2k": (DRAW.normal(size=(10, 2)), 5),
    "equal records": (np.full((22, 3), 0.1), 5),
    "no columns": (np.zeros((22, 0)), 5),
    "two values": (np.repeat([[0.0, 1.0], [1.0, 0.0]], 13, axis=0), 4),
    "lattice": (np.array(np.meshgrid(range(7), range(7))).reshape(2, -1).T.astype(float), 3),
    "constant column": (np.column_stack([DRAW.normal(size=50), np.full(50, 0.1)]), 3),
    "many columns": (DRAW.normal(size=(40, 30)), 4),
    "outliers": (np.vstack([DRAW.normal(size=(40, 2)), DRAW.normal(size=(5, 2)) * 1e6]), 4),
    "tiny": (DRAW.normal(size=(40, 2)) * 1e-200, 3),
    "huge": (np.clip(DRAW.normal(size=(40, 2)), -9, 9) * 1e149, 3),
    "integers": (DRAW.integers(-9, 9, (60, 3)), 5),
}
"""Points and k."""


def fitting(name: str, points: Points) -> Points:
    """Return the columns that a method can take."""
    return points[:, :1] if name in ONE_COLUMN else points


def limits(sensitive: Labels, *, with_t: bool) -> dict[str, Any]:
    """Return the arguments that ask for t-closeness."""
    return {"sensitive": sensitive, "t": T} if with_t else {}


def classes(name: str, points: Points, k: int, sensitive: Labels, *, with_t: bool) -> Labels:
    """Return the classes of a method on points as they are."""
    return partition(fitting(name, points), k, name, scale="none", **limits(sensitive, with_t=with_t))


def largest_class(name: str, k: int) -> int | None:
    """Return the size that no class exceeds by the guarantee of a method, if it names one."""
    promise = re.search(r"; classes of k\.\.(\d)k-(\d)", BY_NAME[name].guarantees)
    return int(promise[1]) * k - int(promise[2]) if promise else None


def greatest_emd(labels: Labels, sensitive: Labels) -> Fraction:
    """Return the exact EMD of the class that is farthest from the table, by the oracle."""
    rows = [{"c": c, "s": s} for c, s in zip(labels.tolist(), sensitive.tolist(), strict=True)]
    return max(class_emds(rows, ["c"], "s", distance="ordered"))


def check(name: str, points: Points, k: int, sensitive: Labels, *, with_t: bool) -> None:
    """Assert that the classes are a partition, of the sizes and with the t promised, and the same once more."""
    before = points.copy()
    labels = classes(name, points, k, sensitive, with_t=with_t)
    sizes, largest = np.bincount(labels), largest_class(name, k)
    assert labels.dtype == np.int64
    assert labels.shape == (len(points),)
    assert sizes.min() >= k
    assert largest is None or sizes.max() <= largest
    if with_t and re.search(r"\bt( where given: always)?$", BY_NAME[name].guarantees):
        assert greatest_emd(labels, sensitive) <= Fraction(Decimal(T))
    assert np.array_equal(labels, classes(name, points, k, sensitive, with_t=with_t))
    assert np.array_equal(points, before)


@pytest.mark.parametrize("name", ["auto", *PUBLISHED])
def test_a_method_says_guarantee_cost_and_source(name: str) -> None:
    """What `check` reads from a guarantee is said in one way."""
    (method,) = (method for method in methods() if method.name == name)
    own = r"|; t where [^;]+|; classes of k\.\.\dk-\d(, the least loss of all)?| and t|, and t where given: always"
    assert re.fullmatch(f"k({own})", method.guarantees)
    assert method.cost.startswith("O(n")
    assert method.source


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "with_t"), WAYS)
def test_a_method_keeps_its_promise_on_every_shape(name: str, *, with_t: bool) -> None:
    for points, k in SHAPES.values():
        sensitive = np.random.default_rng(len(points)).permutation(len(points))
        check(name, points, k, sensitive, with_t=with_t)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "with_t"), WAYS)
@settings(max_examples=examples(40), deadline=None)
@given(
    case=st.one_of(tied_points(), free_points()),
    values=st.sampled_from([1, 2, 5, 1000]),
    seed=st.integers(0, 99),
)
def test_a_method_keeps_its_promise_on_any_points(
    name: str, case: tuple[Points, int], values: int, seed: int, *, with_t: bool
) -> None:
    points, k = case
    check(name, points, k, np.random.default_rng(seed).integers(0, values, len(points)), with_t=with_t)


FOLLOWS_RECORDS = {"k_ward", "m_d", "mu_approx", "steered"}
"""Methods whose paper takes the records in turn, or lets the lower of the two most distant choose first."""


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "with_t"), [way for way in WAYS if way[0] not in FOLLOWS_RECORDS])
@pytest.mark.parametrize("k", [2, 7])
def test_the_order_of_records_does_not_matter_where_none_are_tied(name: str, k: int, *, with_t: bool) -> None:
    draw = np.random.default_rng(5)
    points, sensitive, order = draw.normal(size=(95, 3)), draw.permutation(95), draw.permutation(95)
    labels = classes(name, points, k, sensitive, with_t=with_t)[order]
    shuffled = classes(name, points[order], k, sensitive[order], with_t=with_t)
    pairs = set(zip(labels.tolist(), shuffled.tolist(), strict=True))
    assert len(pairs) == labels.max() + 1 == shuffled.max() + 1


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "with_t"), [way for way in WAYS if way[0] not in ONE_COLUMN])
def test_the_order_of_columns_does_not_matter_where_no_records_are_tied(name: str, *, with_t: bool) -> None:
    draw = np.random.default_rng(6)
    points, sensitive = draw.normal(size=(95, 4)), draw.permutation(95)
    labels = classes(name, points, 4, sensitive, with_t=with_t)
    assert np.array_equal(classes(name, points[:, [2, 0, 3, 1]], 4, sensitive, with_t=with_t), labels)


@pytest.mark.parametrize(("name", "with_t"), WAYS)
def test_the_unit_of_a_column_does_not_matter_to_z_scores(name: str, *, with_t: bool) -> None:
    draw = np.random.default_rng(7)
    points, given = (
        draw.normal(size=(90, 3)) * [1.0, 10.0, 1000.0],
        limits(draw.permutation(90), with_t=with_t),
    )
    labels = partition(fitting(name, points), 4, name, **given)
    assert np.array_equal(partition(fitting(name, points * [2.0, 4.0, 0.5]), 4, name, **given), labels)


BY_NUMBER = (
    *(
        "auto",
        "blocks",
        "cbfs",
        "dba1",
        "dba2",
        "maximum_distance",
        "mdav",
        "mdav1",
        "mdav2",
        "tfrp1",
        "tfrp2",
    ),
    "vmdav",
)
"""Methods that form classes of k one after the other, and let fewer than k records left join the nearest."""


@pytest.mark.parametrize("name", BY_NUMBER)
@pytest.mark.parametrize("points", [np.zeros((22, 3)), np.full((22, 1), 0.5), np.zeros((22, 0))])
def test_equal_records_are_taken_by_number(name: str, points: Points) -> None:
    """By hand: all are tied, so 0..4, 5..9, 10..14, 15..19; the last two join the first class.

    In one column, or none, `auto` is `univariate`, which decides ties by its cuts.
    """
    if name == "auto" and points.shape[1] < 2:
        optimal = partition(points, 5, "univariate", scale="none")
        assert np.array_equal(partition(points, 5, name, scale="none"), optimal)
        return
    labels = partition(points, 5, name, scale="none")
    assert labels.tolist() == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5 + [0] * 2


BAD = [
    (np.zeros((4, 1)), 5, "k = 5 needs at least 5 records, there are 4"),
    (np.zeros((4, 1)), 0, "k must be at least 1, not 0"),
    (np.zeros((4, 1)), -1, "k must be at least 1, not -1"),
    (np.array([[0.0, 1.0], [np.nan, 2.0]]), 2, "nan in record 1, column 0"),
    (np.array([[-np.inf, 1.0], [0.0, 2.0]]), 2, "-inf in record 0, column 0"),
    (np.array([[1e200], [1.0]]), 2, OVERFLOW),
    (np.zeros((0, 2)), 1, "must be a matrix"),
    (np.zeros(4), 2, "must be a matrix"),
    (np.zeros((4, 1, 1)), 2, "must be a matrix"),
]


@pytest.mark.parametrize(("name", "with_t"), WAYS)
def test_unusable_input_is_refused(name: str, *, with_t: bool) -> None:
    """By `partition`, and by the function behind it, which users of the kernels call."""
    for points, k, message in BAD:
        fit = fitting(name, points) if points.ndim > 1 else points
        with pytest.raises(PolicyError, match=message):
            partition(fit, k, name, scale="none", **limits(np.arange(len(points)), with_t=with_t))
        if name != "auto" and not (name in OWN_SCALE and message == OVERFLOW):
            with pytest.raises(ValueError, match=message):
                PUBLISHED[name].run(task(fit, k, with_t=with_t), {})


def task(points: Points, k: int, *, with_t: bool) -> Task:
    """Return what a method works on, whatever the points are."""
    if not with_t:
        return Task(points, k)
    records = max(len(points), 1)
    known = with_thresholds(Task(np.zeros((records, 1)), 1), range(records), t=T, distance="ordered")
    return replace(known, points=points, k=k)
