"""Closeness: the worked examples of Li 2007, dense fractions, transport problems, scipy's distances."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy, wasserstein_distance

from duckanon import PolicyError, measures
from tests import oracle
from tests.examples import examples
from tests.kernels.distances import transport_emd
from tests.measures.slow import counts_of, tables
from tests.measures.test_diversity import disease_tree, paper_table

if TYPE_CHECKING:
    from duckanon.kernels.closeness.reference import Distance

NAMES = ["gastric ulcer", "gastritis", "stomach cancer", "flu", "bronchitis", "pneumonia"]
DISEASES = [NAMES[i] for i in (0, 1, 2, 1, 3, 4, 4, 5, 2)]
"""Diseases of the nine records of Li 2007, Table 3."""


def salary_emds(number: int) -> list[float]:
    """Give the EMD of salary of each class of a table of Li 2007."""
    labels, rows = paper_table(number)
    return measures.emd(labels, [int(row["salary"]) for row in rows]).tolist()


def disease_emds(classes: list[list[str]], population: list[str]) -> list[float]:
    """Give the EMD of classes of diseases from a population, on the tree of Figure 1."""
    labels = [label for label, own in enumerate(classes) for _ in own]
    values = [disease for own in classes for disease in own]
    tree, _ = disease_tree(population)
    return measures.emd(labels, values, "hierarchical", paths=tree, population=population).tolist()


def test_salaries_of_li() -> None:
    """Section 5.3: Table 4 has {3, 4, 5} at .375 and {6, 8, 11} at .167; Table 5 is .167-close."""
    assert salary_emds(4)[:2] == [3 / 8, 1 / 6]
    assert salary_emds(5) == [1 / 6, 1 / 6, 1 / 12]
    labels, rows = paper_table(5)
    salary = [int(row["salary"]) for row in rows]
    assert measures.maximum_emd(labels, salary) == 1 / 6
    assert measures.average_emd(labels, salary) == pytest.approx(5 / 36, rel=1e-15)


def test_diseases_of_li_as_printed() -> None:
    """Section 5.3 prints .5 and .278: so it is with each of the six diseases once in the population."""
    classes = [
        ["gastric ulcer", "gastritis", "stomach cancer"],
        ["gastric ulcer", "stomach cancer", "pneumonia"],
    ]
    assert disease_emds(classes, NAMES) == [1 / 2, 5 / 18]


def test_diseases_of_li_with_the_frequencies_of_table_3() -> None:
    """The same classes against the nine records; Table 5 is then at 7/27, 8/27, 5/27, so .296-close."""
    classes = [
        ["gastric ulcer", "gastritis", "stomach cancer"],
        ["gastric ulcer", "stomach cancer", "pneumonia"],
    ]
    assert disease_emds(classes, DISEASES) == [4 / 9, 7 / 27]
    labels, rows = paper_table(5)
    disease = [row["disease"] for row in rows]
    assert sorted(disease) == sorted(DISEASES)
    tree, _ = disease_tree(disease)
    found = measures.emd(labels, disease, "hierarchical", paths=tree)
    assert found.tolist() == [7 / 27, 8 / 27, 5 / 27]


@pytest.mark.parametrize(("p", "q"), [((11, 89), (1, 99)), ((50, 50), (40, 60))])
def test_emd_cannot_tell_the_pairs_of_li_apart_but_kl_can(p: tuple[int, int], q: tuple[int, int]) -> None:
    """Section 8: EMD of (.01, .99) from (.11, .89) and of (.4, .6) from (.5, .5) is .1 for both."""
    population = [0] * q[0] + [1] * q[1]
    values = [0] * p[0] + [1] * p[1]
    labels = [0] * 100
    assert measures.emd(labels, values, population=population).tolist() == [0.1]
    expected = entropy([x / 100 for x in p], [x / 100 for x in q])
    assert measures.kullback_leibler_distance(labels, values, population=population) == pytest.approx(
        [expected]
    )
    assert (expected > 0.1) == (p[0] == 11)


def test_variational_and_kl_do_not_see_what_the_values_mean() -> None:
    """Section 4: {3, 4, 5} and {6, 8, 11} of 3..11 are equally far for both: 2/3 and ln 3; EMD differs."""
    labels, values = [0, 0, 0, 1, 2, 1, 2, 2, 1], [3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert measures.variational_distance(labels, values).tolist() == [2 / 3] * 3
    assert measures.kullback_leibler_distance(labels, values) == pytest.approx([np.log(3)] * 3, rel=1e-15)
    first, second, _ = measures.emd(labels, values)
    assert first > second


@given(case=tables())
def test_agrees_with_the_oracle_and_scipy(case: tuple[Any, list[Any]]) -> None:
    labels, values = case
    groups = counts_of(labels, values)
    whole = sum(groups[1:], groups[0].copy())
    for distance in ("ordered", "equal"):
        exact = [float(oracle.emd(group, whole, distance)) for group in groups]
        assert measures.emd(labels, values, distance).tolist() == exact
        assert measures.maximum_emd(labels, values, distance) == max(exact)
        assert measures.average_emd(labels, values, distance) == pytest.approx(sum(exact) / len(exact))
    assert measures.variational_distance(labels, values).tolist() == exact
    domain = sorted(whole)
    q = [whole[value] for value in domain]
    kl = measures.kullback_leibler_distance(labels, values)
    steps, line = np.arange(len(domain)), max(len(domain) - 1, 1)
    for group, ordered, divergence in zip(groups, measures.emd(labels, values), kl, strict=True):
        p = [group[value] for value in domain]
        assert ordered == pytest.approx(wasserstein_distance(steps, steps, p, q) / line, abs=1e-12)
        assert divergence == pytest.approx(entropy(p, q), abs=1e-12)
        assert divergence >= 0.0


@settings(max_examples=examples(40))
@given(case=tables(), data=st.data())
def test_equals_the_transport_problem(case: tuple[Any, list[Any]], data: st.DataObject) -> None:
    """Li 2007, section 4: EMD is by definition the optimum of a transport problem, on any of the grounds."""
    labels, values = case
    keys = sorted({oracle.key(value) for value in values})
    codes = [keys.index(oracle.key(value)) for value in values]
    groups = data.draw(st.lists(st.integers(0, 2), min_size=len(keys), max_size=len(keys)))
    tree = np.array([[place, group, 0] for place, group in enumerate(groups)])
    counts = np.bincount(codes)
    found: Distance
    for found, paths in (("ordered", None), ("equal", None), ("hierarchical", tree)):
        emds = measures.emd(labels, values, found, paths=paths)
        own = [codes[i] for i in np.flatnonzero(labels == 0)]
        assert emds[0] == pytest.approx(transport_emd(own, counts, found, tree), abs=1e-9)


def test_a_population_widens_the_domain() -> None:
    """By hand: {1, 2} of 0..3, one each: cumulated differences 1/4, 0, 1/4, by 3 steps."""
    assert measures.emd([0, 0], [1, 2], population=[3, 1, 0, 2]).tolist() == [float(Fraction(1, 6))]
    assert measures.emd([0, 0], [1, 2]).tolist() == [0.0]
    assert measures.emd([0], [None], population=["a", None]).tolist() == [0.5]


def test_nan_comes_last_but_for_none() -> None:
    """By hand, on 1, NaN, None: the middle value is at (1/3 + 1/3) / 2, the ends are at (1/3 + 2/3) / 2."""
    labels, values = [0, 1, 2], [None, float("nan"), 1.0]
    assert measures.emd(labels, values).tolist() == [1 / 2, 1 / 3, 1 / 2]
    assert measures.emd([0, 1, 2], [float("nan"), 2.0, 1.0]).tolist() == [1 / 2, 1 / 3, 1 / 2]
    assert measures.emd([0, 1, 2], [None, "b", "a"]).tolist() == [1 / 2, 1 / 3, 1 / 2]


def test_one_value_and_one_class_have_distance_zero() -> None:
    for distance, paths in (("ordered", None), ("equal", None), ("hierarchical", [[5]])):
        assert measures.emd([0, 1, 1], ["x"] * 3, distance, paths=paths).tolist() == [0.0, 0.0]
    assert measures.emd([0, 0, 0], [1, 5, 5]).tolist() == [0.0]
    assert measures.kullback_leibler_distance([0] * 7, [1, 1, 1, 2, 3, 3, 4]).tolist() == [0.0]


@given(case=tables(), merge=st.data())
def test_merging_classes_never_moves_them_away(case: tuple[Any, list[Any]], merge: st.DataObject) -> None:
    """Li 2007, Fact 2, for the EMD; the Kullback-Leibler distance is convex as well."""
    labels, values = case
    last = int(labels.max())
    into = merge.draw(st.integers(0, last))
    merged = np.unique(np.where(labels == last, into, labels), return_inverse=True)[1]
    sizes = np.bincount(labels)
    weights = sizes[[into, last]] / sizes[[into, last]].sum()
    for measure in (measures.emd, measures.variational_distance, measures.kullback_leibler_distance):
        before, after = measure(labels, values), measure(merged, values)
        assert after[into] <= weights @ before[[into, last]] + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measures.emd([], []), "at least one record"),
        (lambda: measures.emd([0], [1], "near"), "unknown distance 'near'"),
        (lambda: measures.emd([0], [1], "hierarchical"), "needs paths"),
        (lambda: measures.emd([0], [1], paths=[[0]]), "takes no paths"),
        (lambda: measures.emd([0, 0], [1, 7], population=[1, 2]), "the sensitive value 7 does not occur"),
        (lambda: measures.emd([0], [1], population=[]), "at least one value"),
        (lambda: measures.kullback_leibler_distance([0], ["a"], population=["b"]), "value a does not occur"),
        (lambda: measures.variational_distance([0, 1], [1]), r"of shape \(2,\)"),
        (lambda: measures.maximum_emd([0, 2], [1, 1]), "no class empty"),
        (lambda: measures.average_emd([0, 1], np.array([1, "a"], dtype=object)), "cannot be ordered"),
    ],
)
def test_arguments_are_checked(call: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
