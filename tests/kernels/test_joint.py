"""The EMD of joint values: an exact transport, beside the linear program of the definition by HiGHS."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import identity, kron, vstack

from duckanon.kernels.closeness.emd import emd_fraction
from duckanon.kernels.closeness.joint import (
    JointDistance,
    distances,
    joint_distance,
    potentials_of,
    transport,
)
from duckanon.kernels.closeness.reference import reference
from tests.examples import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

JOINT_MAX_VALUES = 40


def random_table(rng: np.random.Generator) -> tuple[list[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Places of two or three columns, records of the table and of a class, by joint value."""
    sizes = rng.integers(1, 8, rng.integers(2, 4))
    cells = int(np.prod(sizes))
    m = int(rng.integers(1, min(JOINT_MAX_VALUES, cells) + 1))
    chosen = np.unravel_index(rng.choice(cells, m, replace=False), sizes)
    places = [np.unique(part, return_inverse=True)[1] for part in chosen]
    counts = rng.integers(1, 6, m)
    members = rng.integers(0, counts + 1)
    members[0] = max(members[0], 1)
    return places, counts, members


def pairs(distance: JointDistance) -> NDArray[np.int64]:
    every = np.arange(distance.places.shape[1])
    return distances(distance, every, every)


def by_program(costs: NDArray[np.int64], supply: NDArray[np.int64], demand: NDArray[np.int64]) -> int:
    """Least cost of the definition: all mass may move, as in Li 2007; proved by the program's own duals."""
    m = len(supply)
    ones = np.ones((1, m))
    sums = vstack([kron(identity(m), ones), kron(ones, identity(m))]).tocsr()
    found = linprog(costs.ravel(), A_eq=sums, b_eq=np.concatenate([supply, demand]), method="highs")
    duals = np.rint(found.eqlin.marginals).astype(np.int64)
    # Integers have integral optima (the matrix is totally unimodular), so rounded duals are exact.
    assert (duals[:m, None] + duals[None, m:] <= costs).all()
    dual = int((duals[:m] * supply).sum() + (duals[m:] * demand).sum())
    assert dual == round(found.fun)
    return dual


@pytest.mark.parametrize("largest", [True, False])
def test_the_emd_is_that_of_the_linear_program_to_the_last_fraction(*, largest: bool) -> None:
    rng = np.random.default_rng(7 + largest)
    for _ in range(examples(150)):
        places, counts, members = random_table(rng)
        ordered = rng.integers(0, 2, len(places)).astype(bool).tolist()
        distance = joint_distance(places, ordered, largest=largest)
        found = transport(distance, counts, members)
        n, s = int(counts.sum()), int(members.sum())
        assert found.numerator == by_program(pairs(distance), n * members, s * counts)
        assert found.mass == n * s
        assert 0 <= found.fraction(distance) <= 1


def test_flows_and_potentials_prove_each_other() -> None:
    rng = np.random.default_rng(3)
    for _ in range(examples(300)):
        places, counts, members = random_table(rng)
        ordered = rng.integers(0, 2, len(places)).astype(bool).tolist()
        distance = joint_distance(places, ordered, largest=bool(rng.integers(0, 2)))
        found = transport(distance, counts, members)
        costs = pairs(distance)
        surplus = counts.sum() * members - members.sum() * counts
        left = surplus.copy()
        np.subtract.at(left, found.source, found.moved)
        np.add.at(left, found.target, found.moved)
        assert (found.moved > 0).all()
        assert not left.any()
        potentials = potentials_of(distance, found)
        assert (potentials[:, None] - potentials[None, :] <= costs).all()
        assert (potentials * surplus).sum() == found.numerator
        assert (found.moved * costs[found.source, found.target]).sum() == found.numerator


def test_one_column_beside_a_constant_one_has_its_own_distance() -> None:
    # The greatest distance of a column and of a constant column is that of the column; half of it is the
    # mean. The kernel of single columns gives it in closed form.
    counts, members = [4, 3, 2, 1, 5], [2, 0, 0, 1, 0]
    codes = np.repeat(np.arange(5), members)
    for kind in ("ordered", "equal"):
        alone = Fraction(*emd_fraction(reference(counts, kind), codes))
        for largest, share in ((True, 1), (False, 2)):
            distance = joint_distance([range(5), [0] * 5], [kind == "ordered", True], largest=largest)
            assert transport(distance, counts, members).fraction(distance) == alone / share


def test_the_greatest_distance_bounds_that_of_every_column() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        places, counts, members = random_table(rng)
        distance = joint_distance(places, [True] * len(places), largest=True)
        together = transport(distance, counts, members).fraction(distance)
        for place in places:
            table = np.bincount(place, weights=counts).astype(np.int64)
            codes = np.repeat(place, members)
            assert Fraction(*emd_fraction(reference(table, "ordered"), codes)) <= together


def test_the_example_by_hand() -> None:
    # Salaries 3, 4, 5 and two diseases, one record of each pair; the class holds (3, flu) and (3, cold).
    # Of each disease a third stays, a third moves by 1/2 and a third by 1: EMD 1/3 (1/2 + 1) = 1/2 by the
    # greatest distance. The disease never changes, so the mean of both distances is half of that.
    places = [[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]]
    for largest, emd in ((True, Fraction(1, 2)), (False, Fraction(1, 4))):
        distance = joint_distance(places, [True, False], largest=largest)
        assert transport(distance, [1] * 6, [1, 1, 0, 0, 0, 0]).fraction(distance) == emd


def test_a_class_like_its_table_moves_nothing() -> None:
    distance = joint_distance([[0, 1], [0, 1]], [True, True], largest=True)
    found = transport(distance, [2, 4], [1, 2])
    assert found.numerator == 0
    assert not len(found.moved)
    assert not potentials_of(distance, found).any()


@pytest.mark.parametrize(
    ("counts", "members"), [([1, 1], [0, 0]), ([1, 1], [2, 0]), ([1, 1], [1]), ([1, 1], [-1, 1])]
)
def test_a_class_that_is_no_part_of_its_table_is_refused(counts: list[int], members: list[int]) -> None:
    distance = joint_distance([[0, 1], [0, 1]], [True, True], largest=True)
    with pytest.raises(ValueError, match=r"class|one integer"):
        transport(distance, counts, members)


def test_places_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="places"):
        joint_distance([[0, 1]], [True, True], largest=True)
    with pytest.raises(ValueError, match="common denominator"):
        joint_distance([[0, step] for step in (999_983, 999_979, 999_961)], [True] * 3, largest=True)
