"""What a node that fails says of the nodes below it: the bound by brute force, and by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.rollup import DistinctRows, Generalized, values_of
from duckanon.literature.lattice import Criteria, Lattice, loosest
from tests.examples import examples
from tests.lattice import Sensitive, nodes, released
from tests.literature.test_full_domain import limits_of
from tests.oracle import counts, emd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.literature.lattice import Levels

TREE = [
    ("v0", "x", "*"),
    ("v1", "x", "*"),
    ("v2", "y", "*"),
    ("v3", "y", "*"),
    ("v4", "z", "*"),
    ("v5", "z", "*"),
]
"""Of the sensitive values where their distance is hierarchical; elsewhere they are texts, in their order."""


def paths_of(values: Sequence[str]) -> NDArray[np.int64]:
    """Give the nodes above the sensitive values."""
    labels = [np.unique(level, return_inverse=True)[1] for level in zip(*TREE, strict=True)]
    leaves = [leaf for leaf, *_ in TREE]
    return np.stack(labels, axis=1)[[leaves.index(value) for value in values]]


@dataclass(frozen=True)
class Problem:
    """A table of quasi-identifiers a, b, ... and a sensitive column s, hierarchies and what is asked."""

    rows: list[dict[str, Any]]
    trees: dict[str, list[tuple[str, ...]]]
    k: int
    sensitive: Sensitive
    allowed: int
    against_released: bool

    def keeps(self, levels: Levels) -> bool:
        """Tell by the oracle whether a node keeps what is asked."""
        asked = {"s": self.sensitive}
        left = released(self.rows, self.trees, levels, self.k, asked, original=not self.against_released)
        return bool(left) and len(self.rows) - sum(map(len, left)) <= self.allowed

    def lattice(self) -> Lattice:
        """Give the lattice, coded."""
        quasi = []
        for tree in self.trees.values():
            codes = [np.unique(labels, return_inverse=True)[1] for labels in zip(*tree, strict=True)]
            quasi.append(Generalized(np.array(codes), np.ones((len(codes), len(tree)), np.int64), len(tree)))
        coded = [
            [[leaf for leaf, *_ in self.trees[q]].index(row[q]) for q in self.trees] for row in self.rows
        ]
        distinct, row_of, records = np.unique(coded, axis=0, return_inverse=True, return_counts=True)
        values, codes = np.unique([row["s"] for row in self.rows], return_inverse=True)
        rows = DistinctRows(
            distinct.astype(np.int32),
            records,
            tuple(quasi),
            (values_of(row_of.ravel(), codes, len(records)),),
        )
        paths = paths_of(values.tolist()) if self.sensitive.distance == "hierarchical" else None
        known, asked = reference(np.bincount(codes), self.sensitive.distance, paths), self.sensitive
        threshold = Threshold(known, t=asked.t, l=asked.l and Decimal(int(asked.l)), l_kind=asked.kind)  # type: ignore[arg-type]
        limits = limits_of([threshold], [paths]) if self.against_released else None
        return Lattice(rows, Criteria(self.k, [threshold], self.allowed, limits))


def drawn(random: Random) -> Problem:
    """Draw a small table, and what one of its nodes keeps only just, or anything else."""
    trees: dict[str, list[tuple[str, ...]]] = {}
    for column in "abc"[: random.choice([2, 2, 3])]:
        leaves, middle = range(random.randint(2, 4)), random.randint(0, 1)
        trees[column] = [(f"v{leaf}", *[f"g{leaf // 2}"] * middle, "*") for leaf in leaves]
    domain, rows = random.randint(2, 6), []
    for _ in range(random.randint(3, 14)):
        row: dict[str, Any] = {column: random.choice(tree)[0] for column, tree in trees.items()}
        rows += [{**row, "s": f"v{random.randrange(domain)}"}] * random.choice([1, 1, 1, 2, 5, 20])
    distance, k = random.choice(["ordered", "equal", "hierarchical"]), random.randint(1, 3)
    l, kind = random.choice([(None, "distinct")] * 3 + [(Fraction(2), "distinct"), (Fraction(2), "entropy")])  # noqa: E741
    asked, against_released = Sensitive(distance, None, l, kind, tree=TREE), random.random() < 0.6
    t, allowed = Fraction(random.randint(0, 10), 20), random.randint(1, max(len(rows) // 4, 1))
    left = released(rows, trees, random.choice(nodes(trees)), k, {"s": asked})
    if left and random.random() < 0.7:
        whole = counts([row for members in left for row in members] if against_released else rows, "s")
        t = max(emd(counts(members, "s"), whole, distance, TREE) for members in left)
        allowed = max(len(rows) - whole.total(), 1) if against_released else allowed
    return Problem(rows, trees, k, asked._replace(t=t), allowed, against_released)


def table(
    *groups: tuple[str, str, int], tree: list[tuple[str, ...]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Give a table of one quasi-identifier, by its value, the sensitive value and the number of records."""
    return [{"a": a, "s": s} for a, s, records in groups for _ in range(records)], {"a": tree}


JOINED = [("v0", "x", "*"), ("v1", "x", "*"), ("v2", "y", "*")]
"""Level 0 keeps what is asked in the examples, as the few records of v1 go; on level 1 they are in a class."""

# Both classes that are left have the distribution of what is left. With the four records of v0 they miss t = 0.
OTHERS_GO = Problem(
    *table(("v0", "v0", 50), ("v0", "v1", 50), ("v1", "v0", 4), ("v2", "v0", 50), ("v2", "v1", 50), tree=JOINED),
    k=5, sensitive=Sensitive("equal", Fraction(0)), allowed=4, against_released=True,
)  # fmt: skip

# The classes that are left are as far from the table as they may be: one of seven records, which no decimal is.
JUST = Problem(
    *table(("v0", "v0", 3), ("v1", "v1", 1), ("v2", "v0", 3), tree=JOINED),
    k=2, sensitive=Sensitive("equal", Fraction(0)), allowed=1, against_released=True,
)  # fmt: skip

# Of the values v0, v2, v3 that are left the classes differ on one of two edges, by .1; with v1 on two of three.
A_VALUE_GOES = Problem(
    *table(
        ("v0", "v0", 40), ("v0", "v2", 20), ("v0", "v3", 40), ("v1", "v1", 1),
        ("v2", "v0", 20), ("v2", "v2", 40), ("v2", "v3", 40), tree=JOINED,
    ),
    k=2, sensitive=Sensitive("ordered", Fraction(1, 20)), allowed=1, against_released=True,
)  # fmt: skip

# Of the six and five records of v0 and v1 one has to go, as many as may: five and five are 1/62 from 16/31.
AS_MANY = Problem(
    *table(("v0", "v0", 5), ("v0", "v1", 5), ("v1", "v0", 1), ("v2", "v0", 10), ("v2", "v1", 10), tree=JOINED),
    k=2, sensitive=Sensitive("equal", Fraction(1, 62)), allowed=1, against_released=False,
)  # fmt: skip

# Four and two records miss entropy l, the two and two that are left without v1 do not.
OTHER_L = Problem(
    *table(("v0", "v0", 2), ("v0", "v1", 2), ("v1", "v0", 2), ("v2", "v0", 2), ("v2", "v1", 2), tree=JOINED),
    k=2, sensitive=Sensitive("equal", Fraction(1, 2), Fraction(2), "entropy"), allowed=2, against_released=True,
)  # fmt: skip

# Sixteen, two and two miss entropy l, of which fourteen go on level 0. There the six of v3 go as well; with them
# v2 misses t, and has five records too many. Twenty may go, as many as miss entropy l on level 1.
OTHER_L_AND_T = Problem(
    *table(
        ("v0", "v0", 2), ("v0", "v1", 2), ("v0", "v2", 2), ("v1", "v0", 14),
        ("v2", "v0", 20), ("v2", "v1", 20), ("v2", "v2", 20), ("v3", "v1", 6),
        ("v4", "v0", 20), ("v4", "v1", 20), ("v4", "v2", 20), tree=TREE,
    ),
    k=2, sensitive=Sensitive("equal", Fraction(3, 50), Fraction(2), "entropy"), allowed=20, against_released=False,
)  # fmt: skip


@example(problem=OTHERS_GO)
@example(problem=JUST)
@example(problem=A_VALUE_GOES)
@example(problem=AS_MANY)
@example(problem=OTHER_L)
@example(problem=OTHER_L_AND_T)
@settings(max_examples=examples(2000, 40), deadline=None)
@given(problem=st.randoms(use_true_random=False).map(drawn))
def test_no_node_is_ruled_out_that_keeps_what_is_asked(problem: Problem) -> None:
    """Source: brute force in plain Python and fractions."""
    lattice = problem.lattice()
    checked = {levels: lattice.check(levels) for levels in nodes(problem.trees)}
    keeping = {levels for levels in checked if problem.keeps(levels)}
    assert {levels for levels, one in checked.items() if one.keeps} == keeping
    for levels, one in checked.items():
        if one.never:
            assert not any(all(np.less_equal(below, levels)) for below in keeping), levels


@pytest.mark.parametrize("problem", [OTHERS_GO, JUST, A_VALUE_GOES, AS_MANY, OTHER_L, OTHER_L_AND_T])
def test_the_examples_keep_on_level_0_and_not_on_1(problem: Problem) -> None:
    """By hand, see each: they would show nothing if level 1 kept what is asked, too."""
    assert [problem.keeps((level,)) for level in range(2)] == [True, False]


@pytest.mark.sampled
@pytest.mark.parametrize("distance", ["ordered", "equal", "hierarchical"])
@pytest.mark.parametrize("against_released", [False, True])
def test_nodes_are_ruled_out_by_t(distance: str, against_released: bool) -> None:
    """A bound that rules out nothing would be sound as well: of a fourth of the nodes that fail t alone it does."""
    failing = ruled_out = 0
    random = Random(1)
    while failing < 300:
        problem = drawn(random)
        if problem.sensitive.distance != distance or problem.against_released != against_released:
            continue
        lattice, asked = problem.lattice(), {"s": problem.sensitive._replace(t=None)}
        for levels in nodes(problem.trees):
            one = lattice.check(levels)
            left = released(problem.rows, problem.trees, levels, problem.k, asked)
            if not one.keeps and len(problem.rows) - sum(map(len, left)) <= problem.allowed:
                failing += 1
                ruled_out += one.never
    assert ruled_out > failing / 4


@pytest.mark.parametrize(
    ("problem", "t"),
    [
        # 1 - 1 * 200/204, and 1 - 1 * 6/7: of the records no more than 4 of 204 and 1 of 7 go.
        (OTHERS_GO, "0.019607843138"),
        (JUST, "0.142857142858"),
        # 1 - .95 * 200/201 * 2/3: one of four values may vanish, an edge of three.
        (A_VALUE_GOES, "0.369817578773"),
        (replace(A_VALUE_GOES, against_released=False), "0.05"),
    ],
)
def test_the_loosest_t(problem: Problem, t: str) -> None:
    """By hand; the last of twelve digits is rounded up."""
    criteria = problem.lattice().criteria
    found = loosest(criteria.thresholds[0], criteria)
    assert found is not None
    assert found.t == Fraction(t)


def test_nothing_is_said_where_all_may_go() -> None:
    """By hand: a t of 1 is met by all, and so is one against what may be any part of the table."""
    for problem in (
        replace(OTHERS_GO, allowed=204),
        replace(OTHERS_GO, sensitive=Sensitive("equal", Fraction(1)), against_released=False),
        replace(OTHERS_GO, sensitive=Sensitive("equal", None, Fraction(2))),
    ):
        criteria = problem.lattice().criteria
        assert loosest(criteria.thresholds[0], criteria) is None


def test_where_nothing_is_left_nothing_is_below() -> None:
    """By hand: all seven records may go, but a release of none keeps nothing; no class has eight."""
    lattice = replace(JUST, k=8, allowed=7).lattice()
    for level in range(3):
        one = lattice.check((level,))
        assert (one.keeps, one.never) == (False, True)
