"""Diversity and similarity: Li 2007's tables, hand calculation, the exact oracle, scipy's entropy."""

from __future__ import annotations

import csv
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from duckanon import PolicyError, measures
from tests import oracle
from tests.measures.slow import classes_of, counts_of, tables
from tests.reference import REPOSITORY


def paper_table(number: int) -> tuple[list[int], list[dict[str, str]]]:
    """Give the classes of a table of Li 2007, in the order of their first records, and its rows."""
    with (REPOSITORY / "fixtures" / f"li_2007_table_{number}.csv").open(
        newline="", encoding="utf-8"
    ) as lines:
        rows = list(csv.DictReader(lines))
    keys = [(row["zip_code"], row["age"]) for row in rows]
    order = list(dict.fromkeys(keys))
    return [order.index(key) for key in keys], rows


def disease_tree(diseases: list[str]) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Give the paths of the diseases that occur, ascending, from Figure 1 of Li 2007, and their names."""
    path = REPOSITORY / "fixtures" / "li_2007_disease_hierarchy.csv"
    with path.open(newline="", encoding="utf-8") as lines:
        rows = {row[0]: row for row in csv.reader(lines)}
    names = sorted(set(diseases))
    nodes = sorted({node for row in rows.values() for node in row})
    return np.array([[nodes.index(node) for node in rows[name]] for name in names]), names


def test_table_2_of_li_is_open_to_the_homogeneity_attack() -> None:
    """Example 1: all three records of the first class have heart disease, so it is 1-diverse."""
    labels, rows = paper_table(2)
    disease = [row["disease"] for row in rows]
    assert measures.distinct_l(labels, disease).tolist() == [1, 3, 2]
    assert measures.l_diversity(labels, disease) == 1.0
    tree = [[0, 0], [1, 0], [2, 0]]
    assert measures.similar_classes(labels, disease, tree, level=0).tolist() == [True, False, False]
    assert measures.similarity_attack(labels, disease, tree, level=0) == 3


def test_table_4_of_li_is_distinct_and_entropy_3_diverse_but_open_to_similarity() -> None:
    """Example 3: three different diseases a class, those of the first all of the stomach (Figure 1, level 1)."""
    labels, rows = paper_table(4)
    disease = [row["disease"] for row in rows]
    assert measures.l_diversity(labels, disease) == 3.0
    assert measures.l_diversity(labels, disease, "entropy") == pytest.approx(3.0, rel=1e-15)
    assert measures.p_sensitivity(labels, [[row["salary"], row["disease"]] for row in rows]) == (3, 3)
    tree, _ = disease_tree(disease)
    attacked = [measures.similarity_attack(labels, disease, tree, level) for level in range(4)]
    assert attacked == [0, 3, 3, 9]
    assert measures.similar_classes(labels, disease, tree, 1).tolist() == [True, False, False]


def test_table_5_of_li_prevents_the_similarity_attack() -> None:
    """Section 5.3: of no class can one say that the diseases are of one system."""
    labels, rows = paper_table(5)
    disease = [row["disease"] for row in rows]
    tree, _ = disease_tree(disease)
    assert [measures.similarity_attack(labels, disease, tree, level) for level in (1, 2)] == [0, 0]


def test_the_skewed_classes_of_li() -> None:
    """Section 3: 49 positive and 1 negative record are as diverse as 1 and 49; 25 and 25 have any (c, 2), c > 1."""
    labels = np.repeat([0, 1, 2], 50)
    virus = np.array([1] * 49 + [0] + [0] * 49 + [1] + [0, 1] * 25)
    assert measures.distinct_l(labels, virus).tolist() == [2, 2, 2]
    first, second, even = measures.entropy_l(labels, virus)
    assert first == second == pytest.approx(50 / 49**0.98)
    assert even == pytest.approx(2.0, rel=1e-15)
    assert measures.recursive_c(labels, virus, 2).tolist() == [49.0, 49.0, 1.0]
    assert measures.recursive_l(labels, virus, 49).tolist() == [1, 1, 2]
    assert measures.recursive_l(labels, virus, "49.000000000001").tolist() == [2, 2, 2]


def test_recursive_by_hand() -> None:
    """Frequencies 4, 2, 2, 1: tails 9, 5, 3, 1, so c must exceed 4/9, 4/5, 4/3, 4; a fifth value is missing."""
    values = list("aaaabbccd")
    labels = [0] * 9
    found = [measures.recursive_c(labels, values, l)[0] for l in range(1, 6)]  # noqa: E741
    assert found == [4 / 9, 0.8, 4 / 3, 4.0, math.inf]
    for c, reached in (
        ("0.1", 0),
        (Fraction(4, 9), 0),
        (0.5, 1),
        (Decimal("0.8"), 1),
        (1, 2),
        (4, 3),
        (5, 4),
    ):
        assert measures.recursive_l(labels, values, c).tolist() == [reached]
        assert measures.l_diversity(labels, values, "recursive", c) == reached
    assert measures.recursive_l(labels, values, "1e-40").tolist() == [0]
    assert measures.recursive_l(labels, values, 1e40).tolist() == [4]


@given(case=tables(), l=st.integers(1, 4), c=st.fractions(Fraction(1, 20), 5, max_denominator=20))
def test_agrees_with_the_oracle(case: tuple[Any, list[Any]], l: int, c: Fraction) -> None:  # noqa: E741
    labels, values = case
    groups = counts_of(labels, values)
    sensitive = np.array(values, dtype=object) if None in values else values
    assert measures.distinct_l(labels, sensitive).tolist() == [oracle.distinct_l(group) for group in groups]
    found = measures.entropy_l(labels, sensitive)
    assert found == pytest.approx([oracle.entropy_l(group) for group in groups], rel=1e-12)
    assert found == pytest.approx([math.exp(entropy(list(group.values()))) for group in groups], rel=1e-12)
    slow = [oracle.recursive_c(group, l) for group in groups]
    expected = [math.inf if least is None else float(least) for least in slow]
    assert measures.recursive_c(labels, sensitive, l).tolist() == expected
    reached = [
        max((x for x in range(1, 26) if oracle.reaches_l(group, Fraction(x), "recursive", c)), default=0)
        for group in groups
    ]
    assert measures.recursive_l(labels, sensitive, c).tolist() == reached
    assert measures.l_diversity(labels, sensitive) == min(map(len, groups))
    assert measures.p_sensitivity(labels, sensitive) == (
        min(map(len, groups)),
        min(g.total() for g in groups),
    )


@given(case=tables(), data=st.data())
def test_similarity_agrees_with_sets(case: tuple[Any, list[Any]], data: st.DataObject) -> None:
    """The definition of Li 2007, section 6, by sets: a class is vulnerable if its values fall in one group."""
    labels, values = case
    keys = sorted({oracle.key(value) for value in values})
    group = {value: data.draw(st.integers(0, 2)) for value in keys}
    tree = [[place, group[value], 9] for place, value in enumerate(keys)]
    found = measures.similar_classes(labels, values, tree, level=1)
    members = [{group[oracle.key(values[i])] for i in each} for each in classes_of(labels)]
    assert found.tolist() == [len(nodes) == 1 for nodes in members]
    exposed = sum(
        len(each) for each, nodes in zip(classes_of(labels), members, strict=True) if len(nodes) == 1
    )
    assert measures.similarity_attack(labels, values, tree, 1) == exposed
    assert measures.similarity_attack(labels, values, tree, 2) == len(values)


def test_nan_and_none_are_values() -> None:
    """NaN is one value, None another; neither is equal to a number or to text."""
    nan = float("nan")
    assert measures.distinct_l([0, 0, 0, 0], [nan, nan, 1.0, 2.0]).tolist() == [3]
    assert measures.distinct_l([0] * 5, [nan, np.float64("nan"), None, None, 1.0]).tolist() == [3]
    assert measures.distinct_l([0, 0, 0], ["None", None, "nan"]).tolist() == [3]
    dates = np.array(["2020-01-01", "NaT", "NaT"], dtype="datetime64[D]")
    assert measures.distinct_l([0, 0, 0], dates).tolist() == [2]
    assert measures.similar_classes([0, 0], [None, "a"], [[0, 0, 0], [1, 1, 0]], 1).tolist() == [False]


def test_merging_classes_lowers_no_entropy() -> None:
    """Machanavajjhala 2007: entropy is concave, so a union is at least as diverse as the poorer part."""
    draw = np.random.default_rng(3)
    labels, values = np.arange(400) % 40, draw.integers(0, 6, 400)
    apart = measures.entropy_l(labels, values)
    together = measures.entropy_l(labels // 2, values)
    assert (together >= np.minimum(apart[::2], apart[1::2]) - 1e-12).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measures.distinct_l([], []), "at least one record"),
        (lambda: measures.distinct_l([0, 0], [1]), r"of shape \(2,\), not \(1,\)"),
        (lambda: measures.distinct_l([0, 0], [[1, 2], [3, 4]]), r"of shape \(2,\), not \(2, 2\)"),
        (lambda: measures.entropy_l([0, 0], np.array([1, "a"], dtype=object)), "cannot be ordered"),
        (lambda: measures.entropy_l([0, 0], np.array([{}, {}], dtype=object)), "cannot be ordered"),
        (lambda: measures.recursive_c([0], [1], 0), "l must be at least 1"),
        (lambda: measures.recursive_c([0], [1], 1.5), "l must be an integer"),
        (lambda: measures.recursive_l([0], [1], 0), "c must be a number above 0, not 0"),
        (lambda: measures.recursive_l([0], [1], "1/0"), "c must be a number above 0"),
        (lambda: measures.recursive_l([0], [1], float("nan")), "c must be a number above 0, not nan"),
        (lambda: measures.l_diversity([0], [1], "other"), "unknown kind 'other'"),
        (lambda: measures.l_diversity([0], [1], "recursive"), "needs c"),
        (lambda: measures.l_diversity([0], [1], c=2), "takes no c"),
        (lambda: measures.p_sensitivity([0, 0], [1]), "one row a record"),
        (lambda: measures.p_sensitivity([0], np.zeros((1, 0))), "one row a record"),
        (lambda: measures.similarity_attack([0], [1], [[0, 0]], 2), r"within 0\.\.1"),
        (lambda: measures.similarity_attack([0], [1], [[0, 0]], -1), "level must be at least 0"),
        (lambda: measures.similarity_attack([0, 0], [1, 2], [[0, 0]], 0), "row for each of the 2"),
        (lambda: measures.similarity_attack([0, 0], [1, 2], [[0, 0], [1, 1]], 0), "more than one root"),
    ],
)
def test_arguments_are_checked(call: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_the_disease_tree_is_that_of_the_paper() -> None:
    """Figure 1: six of the ten diseases occur in Table 3, three of them of the stomach."""
    _, rows = paper_table(3)
    tree, names = disease_tree([row["disease"] for row in rows])
    assert len(names) == 6
    assert sorted(Counter(tree[:, 1].tolist()).values()) == [3, 3]
