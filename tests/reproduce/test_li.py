"""Reproduction of Li et al. 2007: the worked examples, and the nodes of Adult beside the public measures."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from duckanon import measures
from reproduce import li, li_adult, li_tables
from reproduce.rows import MissingDataError
from tests.literature import adult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reproduce.li_adult import Compared
    from reproduce.rows import Maker, Row

    Node = tuple[int, ...]

HEIGHTS = (4, 2, 3, 2, 2, 1, 1)
"""Of the hierarchies of ARX, in the order of Figure 2."""

pytestmark = pytest.mark.slow


def rows_of(maker: Maker) -> dict[str, Row]:
    """Return the rows of a section by place, or skip the test where the data are absent."""
    try:
        return {row.place: row for row in maker().rows}
    except MissingDataError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def _data() -> None:
    """Skip the test where the data are absent."""
    adult.lines("adult")


@cache
def shown(name: str, level: int) -> NDArray[np.int64]:
    """Number the label of each record."""
    tree = adult.hierarchy(name)
    labels = [tree[value][level] for value in adult.column(name).tolist()]
    return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)


def classes_of(node: Node) -> NDArray[np.int64]:
    """Give the equivalence class of each record, from the labels that it shows; no column has 128 of them."""
    key = sum(
        shown(name, level) << 7 * place
        for place, (name, level) in enumerate(zip(li_tables.QUASI_IDENTIFIERS, node, strict=True))
    )
    return np.asarray(np.unique(key, return_inverse=True)[1], dtype=np.int64)


def satisfies(node: Node, name: str, size: int) -> bool:
    """Judge a node by the definition of a measure of section 6, with the public measures."""
    labels, occupation = classes_of(node), adult.column("occupation")
    if name == "entropy l":
        # Rounding must not decide where an entropy is log l.
        return bool(measures.entropy_l(labels, occupation).min() >= size - 1e-9)
    if name == "recursive (4, l)":
        return bool(measures.recursive_c(labels, occupation, size).max() < 4)
    if name == "k-anonymity":
        return bool(measures.minimum_class_size(labels) >= size)
    t = {"k and t = 0.2": 0.2, "k and t = 0.15": 0.15}[name]
    paths = adult.generalized("occupation").nodes.T
    emd = measures.maximum_emd(labels, occupation, "hierarchical", paths=paths)
    return bool(measures.minimum_class_size(labels) >= size and emd <= t + 1e-12)


def kept(keeping: NDArray[np.bool_]) -> set[Node]:
    """List the nodes that keep what is asked."""
    return {tuple(map(int, node)) for node in np.argwhere(keeping)}


def beside(node: Node, step: int) -> list[Node]:
    """List the nodes that differ by a step in one column, those that do not exist among them."""
    return [(*node[:at], node[at] + step, *node[at + 1 :]) for at in range(len(node))]


def lowest(nodes: set[Node]) -> list[Node]:
    """List the nodes none of whose direct specializations is in an upward closed set."""
    return sorted(node for node in nodes if not nodes & set(beside(node, -1)))


@pytest.mark.parametrize("maker", [li.diversity_examples, li.salary_examples, li.limits_of_emd])
def test_every_figure_of_the_examples_matches(maker: Maker) -> None:
    """Source: Tables 1 to 5, Examples 1 to 3, sections 3, 4, 5.3 and 8."""
    rows = rows_of(maker)
    assert rows
    assert [place for place, row in rows.items() if not row.match] == []


def test_diseases_match_for_the_uniform_distribution_only() -> None:
    """Source: section 5.3; hand calculation: 1/2 and 5/18 by the six diseases, 4/9, 7/27, 8/27 by the nine."""
    rows = rows_of(li.disease_examples)
    for place, row in rows.items():
        assert row.match != ("Q of the 9 records" in place)
        assert row.match or row.remark
    own = [float(row.measured) for place, row in rows.items() if "Q of the 9 records" in place]
    assert own == pytest.approx([4 / 9, 7 / 27, 8 / 27], abs=5e-3)


def test_the_typed_tables_are_those_of_the_paper() -> None:
    """Source: Tables 3 and 5: sums and classes by hand."""
    assert sum(li.SALARY) == sum(range(3, 12))
    classes = [sorted(s for s, c in zip(li.SALARY, li.TABLE_5, strict=True) if c == one) for one in range(3)]
    assert classes == [[3, 5, 9], [6, 8, 11], [4, 7, 10]]
    assert sum(Fraction(abs(a - b), 72) for a, b in li.FLOW) == Fraction(27, 72)


def test_adult_has_the_attributes_of_figure_2() -> None:
    """Source: Figure 2; two values occur only in records that were left out, and one hierarchy is flatter."""
    rows = rows_of(li_adult.adult_attributes)
    assert rows["section 6: records without missing values"].match
    assert {place for place, row in rows.items() if not row.match} == {
        "Figure 2, Age: number of values",
        "Figure 2, Workclass: number of values",
        "Figure 2, Race: height, in levels",
    }


@pytest.mark.usefixtures("_data")
def test_a_label_stands_for_its_leaves() -> None:
    """Source: the lines of each file that have the label."""
    for column, height in zip(li_tables.QUASI_IDENTIFIERS, HEIGHTS, strict=True):
        tree, coded = adult.hierarchy(column), li_tables.generalized(column)
        assert (coded.height, coded.total) == (height, len(tree))
        for place, value in enumerate(np.unique(adult.column(column)).tolist()):
            labels = tree[value]
            lines = [sum(row[level] == labels[level] for row in tree.values()) for level in range(height + 1)]
            assert coded.leaves[:, place].tolist() == lines


@pytest.mark.usefixtures("_data")
@pytest.mark.parametrize("node", [(0, 0, 0, 0, 0, 0, 0), (2, 1, 2, 0, 1, 0, 1), (3, 2, 1, 2, 2, 1, 0)])
def test_a_node_has_the_public_measures(node: Node) -> None:
    """Source: duckanon.measures on the labels of all records; occupations are few where 7 of 14 at most occur."""
    labels, occupation = classes_of(node), adult.column("occupation")
    paths = adult.generalized("occupation").nodes.T
    quality, exposed = li_tables.quality_of(node), li_tables.exposed(node)
    assert quality.discernibility == measures.discernibility(labels)
    assert quality.average == pytest.approx(30162 / len(set(labels.tolist())))
    assert exposed.revealed == measures.similarity_attack(labels, occupation, paths, 1)
    sizes, distinct = np.bincount(labels), measures.distinct_l(labels, occupation)
    assert exposed.few == int(sizes[distinct <= 7].sum())


@pytest.mark.usefixtures("_data")
@pytest.mark.parametrize("size", [2, 4, 5, 6, 8, 10])
@pytest.mark.parametrize("compared", li_adult.COMPARED, ids=lambda compared: compared.name)
def test_the_nodes_that_satisfy_are_those_of_the_definitions(compared: Compared, size: int) -> None:
    """Source: the public measures, and the generalization property of section 4.

    By that all nodes are judged if the lowest that are said to satisfy do, and the highest others do not.
    """
    keeping = li_adult.keeping(compared.criteria(size))
    assert keeping.shape == tuple(height + 1 for height in HEIGHTS)
    nodes = kept(keeping)
    others = set(product(*(range(height + 1) for height in HEIGHTS))) - nodes
    assert not others & {above for node in nodes for above in beside(node, 1)}
    assert li_adult.minimal(compared.criteria(size)) == lowest(nodes)
    assert [node for node in lowest(nodes) if not satisfies(node, compared.name, size)] == []
    highest = [node for node in others if not others & set(beside(node, 1))]
    assert [node for node in highest if satisfies(node, compared.name, size)] == []


def test_checks_by_hand() -> None:
    """Source: hand calculation; two attributes of two levels, of which only the second must be suppressed.

    Alone the first attribute is checked once, as it satisfies; the second is checked on both levels. Of the
    pairs only (0, 1) is left: (0, 0) and (1, 0) have a projection that does not satisfy, (1, 1) generalizes it.
    """
    keeping = np.array([[False, True], [False, True]])
    assert li_tables.checked(keeping, 1) == 1
    assert li_tables.checked(keeping, 2) == 4
    # Where no table satisfies, only those of one attribute are checked.
    assert li_tables.checked(np.zeros((2, 3), dtype=bool), 2) == 5


def incognito(keeping: NDArray[np.bool_], attributes: int) -> int:
    """Count checks as the algorithm goes: it marks what generalizes a table that satisfied."""
    top = tuple(length - 1 for length in keeping.shape)
    satisfied, number = {top}, 0
    for size in range(1, attributes + 1):
        for chosen in combinations(range(attributes), size):
            levels = [
                range(length) if at in chosen else [length - 1] for at, length in enumerate(keeping.shape)
            ]
            marked: set[Node] = set()
            for node in sorted(product(*levels), key=sum):
                shorter = [(*node[:at], top[at], *node[at + 1 :]) for at in chosen]
                if size > 1 and not satisfied.issuperset(shorter):
                    continue
                if node not in marked:
                    number += 1
                    if not keeping[node]:
                        continue
                satisfied.add(node)
                marked.update(above for above in product(*levels) if all(np.greater_equal(above, node)))
    return number


@pytest.mark.parametrize("seed", range(20))
def test_checks_are_those_of_incognito(seed: int) -> None:
    """Source: the algorithm step by step, on random sets of nodes that hold all their generalizations."""
    random = np.random.default_rng(seed)
    keeping = random.random((3, 2, 4)) < 0.15
    keeping[-1, -1, -1] = True
    for axis in range(keeping.ndim):
        np.logical_or.accumulate(keeping, axis=axis, out=keeping)
    for attributes in (1, 2, 3):
        assert li_tables.checked(keeping, attributes) == incognito(keeping, attributes)


@pytest.mark.usefixtures("_data")
def test_the_similarity_attack_is_that_of_the_public_measures() -> None:
    """Source: duckanon.measures on the labels of all records in each of the lowest nodes."""
    rows, paths = rows_of(li_adult.similarity_attack_on_adult), adult.generalized("occupation").nodes.T
    for place, criteria in (
        ("entropy 2-diversity", li_adult.entropy_diverse(2)),
        ("recursive (4, 4)-diversity", li_adult.recursive_diverse(4)),
    ):
        found = lowest(kept(li_adult.keeping(criteria)))
        revealed = [
            measures.similarity_attack(classes_of(node), adult.column("occupation"), paths, 1)
            for node in found
        ]
        assert rows[f"section 6, {place}: minimal tables"].measured == str(len(found))
        assert rows[f"section 6, {place}: vulnerable ones"].measured == str(sum(map(bool, revealed)))
        if place.startswith("entropy"):
            most = rows[f"section 6, {place}: records revealed in one table"]
            assert most.measured == str(max(revealed))


def test_no_grouping_of_occupations_reveals_what_the_paper_found() -> None:
    """Source: section 6; every figure differs, and its remark says why."""
    rows = rows_of(li_adult.similarity_attack_on_adult)
    assert len(rows) == 5
    assert all(row.remark and not row.match for row in rows.values())


@pytest.mark.usefixtures("_data")
@pytest.mark.parametrize("compared", li_adult.COMPARED, ids=lambda compared: compared.name)
def test_the_best_quality_is_that_of_the_public_measures(compared: Compared) -> None:
    """Source: duckanon.measures on the labels of all records in each of the lowest nodes."""
    criteria = compared.criteria(4)
    found = [classes_of(node) for node in lowest(kept(li_adult.keeping(criteria)))]
    best = li_adult.best_of_minimal(criteria)
    assert best.discernibility == min(measures.discernibility(labels) for labels in found)
    assert best.average == pytest.approx(min(measures.average_class_size(labels) for labels in found))


@pytest.mark.usefixtures("_data")
def test_closeness_costs_quality_and_diversity_saves_checks() -> None:
    """Source: section 6; a smaller t is a stricter one, and entropy l is checked in fewer tables than k."""
    plain, entropy, _, close, closer = li_adult.COMPARED
    before = None
    for size in li_adult.SIZES:
        costs = [li_adult.best_of_minimal(each.criteria(size)) for each in (plain, close, closer)]
        assert costs[0].average < costs[1].average < costs[2].average
        assert costs[0].discernibility < costs[1].discernibility < costs[2].discernibility
        number = li_tables.checked(li_adult.keeping(entropy.criteria(size)), 7)
        assert number < li_tables.checked(li_adult.keeping(plain.criteria(size)), 7)
        assert before is None or number < before
        before = number


def test_full_domain_draws_both_figures() -> None:
    """Source: section 6; each row of words is judged, and the pictures are there."""
    try:
        section = li_adult.full_domain()
    except MissingDataError as missing:
        pytest.skip(str(missing))
    assert [picture.name for picture in section.pictures] == ["li-figure-3", "li-figure-4"]
    assert all(row.remark for row in section.rows)


@pytest.mark.long
def test_the_pipeline_keeps_k_and_t_and_closeness_costs() -> None:
    """Source: Definition 2; 30162 records in classes of 5 at least, larger ones where t is asked for too."""
    try:
        plain, close = (li_adult.of_pipeline(li_adult.COMPARED[which].options(5)) for which in (0, 3))
    except MissingDataError as missing:
        pytest.skip(str(missing))
    assert 5 <= plain.average < close.average
    # Classes of equal size cost least for their number.
    assert plain.discernibility >= 30162 * plain.average
    assert close.discernibility >= 30162 * close.average
