"""Reproduction of Li et al. 2007: the worked examples, and the lattice of Adult beside the public measures."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from duckanon import measures
from reproduce import li, li_adult, li_lattice
from reproduce.rows import MissingDataError

if TYPE_CHECKING:
    from reproduce.li_lattice import Lattice, Node
    from reproduce.rows import Maker, Row

pytestmark = pytest.mark.slow


def rows_of(maker: Maker) -> dict[str, Row]:
    """Return the rows of a section by place, or skip the test where the data are absent."""
    try:
        return {row.place: row for row in maker().rows}
    except MissingDataError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def tables() -> Lattice:
    """Return the lattice, or skip the test where the data are absent."""
    try:
        return li_lattice.lattice()
    except MissingDataError as missing:
        pytest.skip(str(missing))


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


@pytest.mark.parametrize("node", [(0, 0, 0, 0, 0, 0, 0), (2, 1, 2, 0, 1, 0, 1), (3, 2, 1, 2, 2, 1, 0)])
def test_the_lattice_has_the_public_measures(tables: Lattice, node: Node) -> None:
    """Source: duckanon.measures on the classes of the same table."""
    labels, occupation = li_lattice.classes_of(node), li_lattice.adult()["occupation"]
    paths, found = li_lattice.occupation_paths(), tables[node]
    assert found.smallest == measures.minimum_class_size(labels)
    assert found.classes == int(labels.max()) + 1
    assert found.discernibility == measures.discernibility(labels)
    assert found.entropy_l == pytest.approx(measures.entropy_l(labels, occupation).min(), abs=1e-9)
    assert found.c.tolist() == [measures.recursive_c(labels, occupation, at).max() for at in range(1, 15)]
    assert found.emd == pytest.approx(
        measures.maximum_emd(labels, occupation, "hierarchical", paths=paths), abs=1e-12
    )
    assert found.revealed == measures.similarity_attack(labels, occupation, paths, 1)
    sizes, distinct = np.bincount(labels), measures.distinct_l(labels, occupation)
    assert found.few == int(sizes[distinct <= li_lattice.FEW].sum())


def test_the_lattice_is_monotone_and_complete(tables: Lattice) -> None:
    """Source: hierarchies of 5, 3, 4, 3, 3, 2, 2 levels; the generalization property of section 4."""
    assert len(tables) == 5 * 3 * 4 * 3 * 3 * 2 * 2
    for node, found in tables.items():
        for place in range(7):
            upper = tables.get((*node[:place], node[place] + 1, *node[place + 1 :]))
            if upper is not None:
                assert upper.smallest >= found.smallest
                assert upper.emd <= found.emd + 1e-12
                assert upper.entropy_l >= found.entropy_l - 1e-9


def test_minimal_tables_and_checks_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Source: hand calculation; two attributes of two levels, of which only the second must be suppressed.

    Alone the first attribute is checked once, as it satisfies; the second is checked on both levels. Of the
    pairs only (0, 1) is left: (0, 0) and (1, 0) have a projection that does not satisfy, (1, 1) generalizes it.
    """
    nodes: list[Node] = [(0, 0), (0, 1), (1, 0), (1, 1)]
    monkeypatch.setattr(li_lattice, "lattice", lambda: dict.fromkeys(nodes))
    good: set[Node] = {(0, 1), (1, 1)}
    assert li_lattice.minimal(good) == [(0, 1)]
    assert li_lattice.checked(good, 1) == 1
    assert li_lattice.checked(good, 2) == 4


def test_no_grouping_of_occupations_reveals_what_the_paper_found() -> None:
    """Source: section 6; every figure differs, and its remark says why."""
    rows = rows_of(li_adult.similarity_attack_on_adult)
    assert len(rows) == 5
    assert all(row.remark and not row.match for row in rows.values())


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
