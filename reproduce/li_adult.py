"""Section 6 of Li et al.: the Adult data, the similarity attack, and cost and quality of five measures."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import duckanon
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.literature.full_domain import keeping_nodes, minimal_nodes
from duckanon.literature.lattice import Criteria, Levels
from reproduce.li_tables import (
    FEW_OCCUPATIONS,
    QUASI_IDENTIFIERS,
    Quality,
    adult,
    adult_rows,
    checked,
    exposed,
    generalized,
    occupations,
    quality_of,
    table,
)
from reproduce.plots import Lines, Panel, chart
from reproduce.rows import Picture, Row, Section, row

PAPER = "Li 2007"

SIZES = (2, 4, 6, 8, 10)
"""Values of k and l in our figures; the text of the paper does not give its values."""

TIE = Decimal("1e-8")
"""Relative margin by which the l of an entropy is lowered.

The kernels ask for log l plus a margin, since logarithms are rounded. One node has a class with 4, 1, 1, 1
and 1 records of its occupations. Its entropy is exactly log 4, which the definition accepts for l = 4.
"""

FIGURE_2 = (
    ("Age", "age", "74", "5"),
    ("Workclass", "workclass", "8", "3"),
    ("Education", "education", "16", "4"),
    ("Country", "native-country", "41", "3"),
    ("Marital_Status", "marital-status", "7", "3"),
    ("Race", "race", "5", "3"),
    ("Gender", "sex", "2", "2"),
    ("Occupation", "occupation", "14", "3"),
    ("Salary", "salary-class", "2", "2"),
)
"""Attribute, column, number of values and height of its hierarchy, as printed."""


class Compared(NamedTuple):
    """A privacy measure of section 6: its name, the criteria of a node, and the options of a policy."""

    name: str
    criteria: Callable[[int], Criteria]
    options: Callable[[int], dict[str, Any]]


def entropy_diverse(l: int) -> Criteria:  # noqa: E741 - l-diversity has this name everywhere
    """Return entropy l-diversity as the paper defines it: an entropy of at least log l."""
    return Criteria(1, [Threshold(occupations(), l=l * (1 - TIE), l_kind="entropy")])


def recursive_diverse(l: int) -> Criteria:  # noqa: E741 - as above
    """Return recursive (4, l)-diversity."""
    return Criteria(1, [Threshold(occupations(), l=Decimal(l), l_kind="recursive", c=Decimal(4))])


def _close(t: str) -> Callable[[int], Criteria]:
    return lambda k: Criteria(k, [Threshold(occupations(), t=Decimal(t))])


def _tree(t: float) -> Callable[[int], dict[str, Any]]:
    distance, tree = {"occupation": "hierarchical"}, {"occupation": "occupation_tree"}
    return lambda k: {"k": k, "t": t, "distance": distance, "hierarchies": tree}


COMPARED = (
    Compared("k-anonymity", Criteria, lambda k: {"k": k}),
    Compared("entropy l", entropy_diverse, lambda k: {"k": 2, "l": k, "l_diversity": "entropy"}),
    Compared(
        "recursive (4, l)", recursive_diverse, lambda k: {"k": 2, "l": k, "l_diversity": "recursive", "c": 4}
    ),
    Compared("k and t = 0.2", _close("0.2"), _tree(0.2)),
    Compared("k and t = 0.15", _close("0.15"), _tree(0.15)),
)
"""The five measures of section 6."""


def adult_attributes() -> Section:
    """Figure 2."""
    columns = adult()
    rows = [row("section 6: records without missing values", "30162", len(columns["sex"]))]
    for attribute, column, values, height in FIGURE_2:
        known = len(set(columns[column].tolist()))
        tree = generalized(column)
        rows += [
            row(f"Figure 2, {attribute}: number of values", values, known,
                f"in these records; {tree.total} in the hierarchy"),
            row(f"Figure 2, {attribute}: height, in levels", height, len(tree.nodes),
                "" if len(tree.nodes) == int(height) else "the hierarchy at hand has no level between"),
        ]  # fmt: skip
    return Section(PAPER, "the Adult data (Figure 2)", _ATTRIBUTES, tuple(rows))


def similarity_attack_on_adult() -> Section:
    """The minimal tables of section 6 for which a similarity attack succeeds."""
    nodes = prod(one.height + 1 for one in adult_rows().quasi)
    rows = []
    for place, criteria, printed in (
        ("entropy 2-diversity", entropy_diverse(2), ("21", "13", "916")),
        ("recursive (4, 4)-diversity", recursive_diverse(4), ("26", "17")),
    ):
        found = [exposed(node) for node in minimal(criteria)]
        revealed = [one.revealed for one in found]
        most = max(one.few for one in found)
        remark = f"of {nodes} tables of the lattice; no hierarchy of the paper is printed"
        rows += [
            row(f"section 6, {place}: minimal tables", printed[0], len(found), remark),
            row(f"section 6, {place}: vulnerable ones", printed[1], sum(map(bool, revealed)),
                "the three groups of occupations are not printed either"),
        ]  # fmt: skip
        rows += [
            row(f"section 6, {place}: records revealed in one table", text, max(revealed),
                f"at most {most} with any groups of at most {FEW_OCCUPATIONS} occupations: "
                "it is not the groups")
            for text in printed[2:]
        ]  # fmt: skip
    return Section(PAPER, "the similarity attack on Adult", _ATTACK, tuple(rows))


def minimal(criteria: Criteria) -> list[Levels]:
    """Return the minimal nodes of Adult that our search finds."""
    found = minimal_nodes(adult_rows(), criteria)
    # The search returns None only if its number of checks is limited.
    assert found is not None
    return found


def keeping(criteria: Criteria) -> NDArray[np.bool_]:
    """Return for each node of Adult, by its levels, whether it keeps the criteria."""
    found = keeping_nodes(adult_rows(), criteria)
    assert found is not None
    return found


def best_of_minimal(criteria: Criteria) -> Quality:
    """Return the least value of each quality measure among the minimal nodes."""
    found = [quality_of(node) for node in minimal(criteria)]
    return Quality(min(one.discernibility for one in found), min(one.average for one in found))


def full_domain() -> Section:
    """Figures 3 and 4 on the lattice."""
    by_five = {each.name: keeping(each.criteria(5)) for each in COMPARED}
    work: Lines = {name: [(s, checked(nodes, s)) for s in range(2, 8)] for name, nodes in by_five.items()}
    narrow: Lines = {
        each.name: [(k, checked(keeping(each.criteria(k)), 7)) for k in SIZES] for each in COMPARED
    }
    quality = {each.name: {k: best_of_minimal(each.criteria(k)) for k in SIZES} for each in COMPARED}
    efficiency = [
        Panel("k = 5, l = 5", "quasi-identifiers", "tables checked", work, log=True),
        Panel("7 quasi-identifiers", "k, l", "tables checked", narrow, log=True),
    ]
    return Section(
        PAPER,
        "cost and quality of the measures, full-domain generalization (Figures 3 and 4)",
        _FULL_DOMAIN,
        _claims(quality, narrow),
        (
            Picture("li-figure-3", "Figure 3: tables checked in place of run time", chart(efficiency)),
            Picture("li-figure-4", "Figure 4: the best of the minimal tables", chart(_panels(quality))),
        ),
    )  # fmt: skip


def own_classes() -> Section:
    """Figure 4 with the classes of our pipeline."""
    quality = {each.name: {k: of_pipeline(each.options(k)) for k in SIZES} for each in COMPARED}
    title = "Figure 4 with the classes of duckanon.anonymize in place of full-domain generalization"
    return Section(
        PAPER,
        "quality of the measures, local recoding (Figure 4)",
        _OWN_NOTE,
        _claims(quality),
        (Picture("li-figure-4-local", title, chart(_panels(quality))),),
    )


def of_pipeline(options: dict[str, Any]) -> Quality:
    """Return the quality of an unrefined release of Adult."""
    policy = duckanon.Policy(
        quasi_identifiers=QUASI_IDENTIFIERS, sensitive="occupation", insensitive="*", refine=False, **options
    )
    with duckanon.connect() as con, warnings.catch_warnings():
        # The warning that thresholds cost quality is expected here.
        warnings.simplefilter("ignore", duckanon.DuckanonWarning)
        con.duckdb.register("adult", _arrow())
        leaves, groups, roots = (list(level) for level in zip(*table("hierarchy_occupation"), strict=True))
        con.duckdb.register("occupation_tree", pa.table({"leaf": leaves, "group": groups, "root": roots}))
        report = duckanon.anonymize(con, "adult", policy, name="released").report
    found = {measure.measure: measure.value for measure in report.measures}
    return Quality(float(found["discernibility"] or 0), float(found["average_class_size"] or 0))


@cache
def _arrow() -> pa.Table:
    columns: dict[str, Any] = {name: values.tolist() for name, values in adult().items()}
    return pa.table(columns | {"age": adult()["age"].astype(int)})


def _panels(quality: dict[str, dict[int, Quality]]) -> list[Panel]:
    return [
        Panel("discernibility", "k, l", "cost", {
            name: [(k, found.discernibility) for k, found in each.items()] for name, each in quality.items()
        }, log=True),
        Panel("minimal average group size", "k, l", "records", {
            name: [(k, found.average) for k, found in each.items()] for name, each in quality.items()
        }, log=True),
    ]  # fmt: skip


def _claims(quality: dict[str, dict[int, Quality]], work: Lines | None = None) -> tuple[Row, ...]:
    """Return the claims of section 6 on Figures 3 and 4, with the average group size."""
    sizes = {name: [each[k].average for k in SIZES] for name, each in quality.items()}
    plain, entropy, others = sizes["k-anonymity"], sizes["entropy l"], [n for n in sizes if n != "entropy l"]
    worse = [k for place, k in enumerate(SIZES) if entropy[place] >= max(sizes[n][place] for n in others)]
    rows = [
        Row("section 6, Figure 4: entropy l-diversity has the worst quality", "every k and l",
            f"k, l of {_listed(worse)}", len(worse) == len(SIZES), "of " + _listed(SIZES)),
    ]  # fmt: skip
    for t, said, most in (("0.2", "minimal", 1.1), ("0.15", "slight", 1.25)):
        ratios = [close / open_ for close, open_ in zip(sizes[f"k and t = {t}"], plain, strict=True)]
        rows.append(
            Row(f"section 6, Figure 4: loss of quality by t = {t}", said,
                f"{min(ratios):.1f} to {max(ratios):.1f} times", max(ratios) <= most,
                f"average group size with t by that without; {said} is read as at most {most:g} times")
        )  # fmt: skip
    if work is not None:
        tables = {name: [number for _, number in points] for name, points in work.items()}
        least = [k for place, k in enumerate(SIZES)
                 if tables["entropy l"][place] <= min(tables[n][place] for n in others)]  # fmt: skip
        beside = [
            k for place, k in enumerate(SIZES) if tables["entropy l"][place] < tables["k-anonymity"][place]
        ]
        rows.append(
            Row("section 6, Figure 3b: entropy l-diversity runs fastest", "every k and l",
                f"k, l of {_listed(least)}", len(least) == len(SIZES),
                f"by tables checked; before k-anonymity for {_listed(beside)}")
        )  # fmt: skip
    return tuple(rows)


def _listed(numbers: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


_ATTRIBUTES = (
    "The UCI Adult data without the records that have missing values, with the hierarchies of the "
    "example data of ARX, counted in levels from the value itself to the root. The paper seems to count "
    "values that only records with missing values, or those of the test part of the data, have."
)

_ATTACK = (
    "The minimal tables of full-domain generalization without suppression, found by the search of the "
    "project's method 'full_domain'. Incognito, which the paper uses, finds the same. The hierarchies are "
    "those of ARX, for the paper prints their heights only; the groups of occupations are the three nodes "
    "below the root of that hierarchy. The attack works on l-diverse tables here as well, but on fewer and "
    "on far fewer records. The numbers of minimal tables do not depend on the groups, so the difference "
    "lies in the hierarchies of the quasi-identifiers, or in suppression, of which the paper says nothing "
    "here."
)

_FULL_DOMAIN = (
    "The lattice of the section before, occupation sensitive, EMD with hierarchical distance on the "
    "hierarchy of ARX, c = 4; k and l of 2, 4, 6, 8 and 10, as the text does not name those of the "
    "figures. Both measures of quality are the least among the minimal tables. Running times of a Java "
    "program of 2007 cannot be compared: Figure 3 shows how many tables Incognito checks, all subsets of "
    "the quasi-identifiers included, and does not show that a check of t-closeness costs more than one "
    "of k.\n\n"
    "Entropy l-diversity needs fewer checks than k-anonymity, the more so the larger l, as the text "
    "says. But with these hierarchies and without suppression t-closeness leaves only tables near the "
    "top of the lattice: it is ruled out early, and costs much more quality than the paper reports."
)

_OWN_NOTE = (
    "Not the algorithm of the paper: each release is made by duckanon.anonymize with method 'auto', "
    "without refinement, which forms classes of near records in an embedding of the quasi-identifiers "
    "(MDAV in blocks, with l or t also t-closeness-first, and merging) and recodes each by itself. "
    "Occupation is sensitive, with hierarchical distance; the l-diverse releases have k = 2 besides.\n\n"
    "Classes are far smaller than those of full-domain generalization, and so is the discernibility. "
    "What the text says of the order of the measures is not confirmed here either: t costs more than "
    "l-diversity but for the largest l."
)
