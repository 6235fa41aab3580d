"""(n, t)-closeness: hand calculation, a slow check of the definition, and the groups it is given."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon import PolicyError, measures
from duckanon.measures import closeness
from tests.measures.slow import classes_of, tables

PATIENTS = [("476 2*", 300, 300), ("479 4*", 200, 1800), ("476 3*", 200, 200)]
"""Class, records with cancer, records with flu: 3000 records, 700 of them with cancer."""


def patients() -> tuple[list[int], list[str]]:
    """Give the classes and the diseases of `PATIENTS`."""
    labels, diseases = [], []
    for label, (_, cancer, flu) in enumerate(PATIENTS):
        labels += [label] * (cancer + flu)
        diseases += ["cancer"] * cancer + ["flu"] * flu
    return labels, diseases


def test_by_hand() -> None:
    """Against 7/30: 1/2 - 7/30, 7/30 - 1/10. The second class has 1000 records itself, the others share ZIP 476**."""
    labels, diseases = patients()
    whole = [8 / 30, 4 / 30, 8 / 30]
    assert measures.emd(labels, diseases, "equal").tolist() == whole
    by_zip = np.array([0, 1, 0])[labels]
    call = {"distance": "equal"}
    assert measures.nt_closeness(labels, diseases, 1000, by_zip, **call).tolist() == [0.0, 0.0, 0.0]
    assert measures.nt_closeness(labels, diseases, 1000, **call).tolist() == [whole[0], 0.0, whole[2]]
    assert measures.nt_closeness(labels, diseases, 1001, by_zip, **call).tolist() == [whole[0], 0.0, whole[2]]
    assert measures.nt_closeness(labels, diseases, 2001, by_zip, **call).tolist() == whole
    assert measures.nt_closeness(labels, diseases, 3001, by_zip, **call).tolist() == [math.inf] * 3
    by_age = np.array([0, 1, 1])[labels]
    assert measures.nt_closeness(labels, diseases, 1000, by_age, **call)[2] == pytest.approx(8 / 30)
    both = np.column_stack([by_age, by_zip])
    assert measures.nt_closeness(labels, diseases, 1000, both, **call).tolist() == [0.0, 0.0, 0.0]


def slow_emd(own: list[Any], around: list[Any], domain: list[Any], distance: str, tree: Any) -> Fraction:
    """Give the EMD between two lists of values on the domain of the whole table, by the dense formulas."""
    p, q = Counter(own), Counter(around)
    extra = [Fraction(p[v], len(own)) - Fraction(q[v], len(around)) for v in domain]
    if distance == "ordered":
        return sum((abs(sum(extra[: i + 1])) for i in range(len(domain))), Fraction(0)) / max(
            len(domain) - 1, 1
        )
    if distance == "equal":
        return sum((abs(x) for x in extra), Fraction(0)) / 2
    total, height = Fraction(0), len(tree[0]) - 1
    for level in range(height):
        for node in {row[level] for row in tree}:
            total += abs(sum(x for x, row in zip(extra, tree, strict=True) if row[level] == node))
    return total / (2 * height)


@given(case=tables(), data=st.data(), n=st.integers(1, 26))
def test_agrees_with_the_definition(case: tuple[Any, list[Any]], data: st.DataObject, n: int) -> None:
    """The least exact EMD over the class itself, its groups and the table, as far as they hold n records."""
    labels, given_values = case
    values = np.unique([str(value) for value in given_values], return_inverse=True)[1].tolist()
    m, domain = int(labels.max()) + 1, sorted(set(values))
    sides = data.draw(st.lists(st.integers(0, 1), min_size=len(domain), max_size=len(domain)))
    tree = [[v, side, 0] for v, side in zip(domain, sides, strict=True)]
    unions = data.draw(st.lists(st.lists(st.integers(0, 2), min_size=m, max_size=m), min_size=1, max_size=3))
    groups = np.array(unions).T[labels]
    members = classes_of(labels)
    for distance, paths in (("ordered", None), ("equal", None), ("hierarchical", tree)):
        expected = []
        for label, own in enumerate(members):
            supersets = [own, list(range(len(values)))]
            supersets += [
                [i for i in range(len(values)) if union[labels[i]] == union[label]] for union in unions
            ]
            expected.append(
                min(
                    (
                        float(
                            slow_emd(
                                [values[i] for i in own], [values[i] for i in around], domain, distance, tree
                            )
                        )
                        for around in supersets
                        if len(around) >= n
                    ),
                    default=math.inf,
                )
            )
        found = measures.nt_closeness(labels, values, n, groups, distance=distance, paths=paths)
        assert found.tolist() == expected


@given(case=tables())
def test_with_the_whole_table_it_is_t_closeness(case: tuple[Any, list[Any]]) -> None:
    """n = N: only the table is large enough, unless the class is the table."""
    labels, values = case
    found = measures.nt_closeness(labels, values, len(values))
    assert found.tolist() == measures.emd(labels, values).tolist()
    assert measures.nt_closeness(labels, values, 1).tolist() == [0.0] * len(found)


@given(case=tables())
def test_sums_beyond_64_bits_are_rounded_only(case: tuple[Any, list[Any]]) -> None:
    """Where whole numbers of 64 bits might overflow, floats give the same but for rounding: exact EMD."""
    labels, values = case
    with mock.patch.object(closeness, "LARGEST_SUM", 0):
        found = measures.nt_closeness(labels, values, len(values))
    assert found == pytest.approx(measures.emd(labels, values), abs=1e-14)


@pytest.mark.slow
def test_a_class_of_two_million_records_fits() -> None:
    """By hand: halves of 0..n-1 are n / 4 of n - 1 steps apart from the whole; 4 s n m is near 2^64, as floats."""
    half = 2**20
    values = np.arange(2 * half)
    found = measures.nt_closeness(values // half, values, 2 * half)
    assert found == pytest.approx([half / 2 / (2 * half - 1)] * 2, rel=1e-12)


def test_nested_groups_are_nested_unions_of_classes_up_to_the_table() -> None:
    draw = np.random.default_rng(4)
    points = draw.normal(size=(600, 2))
    labels = np.argsort(np.argsort(points[:, 0])) // 6
    groups = measures.nested_groups(points, labels, 20)
    assert len(groups) == 600
    assert not groups[:, -1].any()
    first = np.unique(labels, return_index=True)[1]
    for fine, coarse in zip(groups.T[:-1], groups.T[1:], strict=True):
        assert len({*zip(fine.tolist(), coarse.tolist(), strict=True)}) == len(set(fine.tolist()))
        assert len(set(fine.tolist())) == 2 * len(set(coarse.tolist()))
    for group in groups.T:
        assert (group == group[first][labels]).all()
        assert np.bincount(group).max() >= 20
    # The next halving would have groups of three or four classes, 18 or 24 records: 600 / 32 = 18.75.
    assert groups.shape[1] == 1 + 5


def test_nested_groups_are_neighbours() -> None:
    """By hand: the widest coordinate is the second, halves are {0, 1} and {8, 9}; a constant column does no harm."""
    points = [[0.0, 9.0, 3.0], [0.1, 0.0, 3.0], [0.0, 8.0, 3.0], [0.1, 1.0, 3.0]]
    found = measures.nested_groups(points, [0, 1, 2, 3], 2, scale="none")
    assert found.T.tolist() == [[1, 0, 1, 0], [0, 0, 0, 0]]
    assert measures.nested_groups(points, [0, 0, 0, 0], 2).T.tolist() == [[0, 0, 0, 0]]


def test_close_to_the_neighbours_but_not_to_the_table() -> None:
    """Sensitive values that follow the quasi-identifiers: supersets near the class are closer than the table."""
    draw = np.random.default_rng(6)
    points = np.sort(draw.uniform(0, 1, 1000))[:, None]
    labels = np.arange(1000) // 5
    values = np.round(points[:, 0] * 20 + draw.normal(size=1000))
    groups = measures.nested_groups(points, labels, 100)
    near, far = measures.nt_closeness(labels, values, 100, groups), measures.emd(labels, values)
    assert (near <= far).all()
    assert near.max() < far.max() / 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measures.nt_closeness([0], [1], 0), "n must be at least 1"),
        (lambda: measures.nt_closeness([0], [1], 1.0), "n must be an integer"),
        (lambda: measures.nt_closeness([], [], 1), "at least one record"),
        (lambda: measures.nt_closeness([0, 1, 1], [1, 2, 3], 2, [0, 0, 1]), "class 1 lies in two groups"),
        (lambda: measures.nt_closeness([0, 1], [1, 2], 2, [0]), "one row for each of the 2"),
        (lambda: measures.nt_closeness([0, 1], [1, 2], 2, [0.0, 1.0]), "groups must be integers"),
        (lambda: measures.nt_closeness([0, 1], [1, 2], 2, distance="hierarchical"), "needs paths"),
        (lambda: measures.nested_groups([[0.0]], [0, 0], 1), "2 labels for 1 records"),
        (lambda: measures.nested_groups([[0.0]], [0], 0), "n must be at least 1"),
    ],
)
def test_arguments_are_checked(call: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
