"""Full-domain generalization with k of subsets: every node by brute force, records removed one class at a time."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from duckanon.kernels.rollup import DistinctRows, Generalized, values_of
from duckanon.literature.full_domain import search
from duckanon.literature.lattice import Criteria
from tests.examples import examples

LEVELS = (lambda value: value, lambda value: value // 2, lambda _: "*")
"""What a value 0 to 3 is on each level."""

Rows = list[tuple[int, ...]]


def kept_at(rows: Rows, people: list[int] | None, node: tuple[int, ...], k: int, subsets: Any) -> Rows:
    """Give the records that are left at a node once no class and no combination of a subset is too rare."""
    left = list(zip(rows, people or range(len(rows)), strict=True))
    while True:
        shown = [(tuple(LEVELS[up](v) for v, up in zip(row, node, strict=True)), who) for row, who in left]
        whole = tuple(range(len(node)))
        for columns, least in ((whole, k), *subsets):
            if people is None or columns == whole:
                counts = Counter(tuple(labels[c] for c in columns) for labels, _ in shown)
            else:
                counts = Counter(
                    key for key, _ in {(tuple(labels[c] for c in columns), who) for labels, who in shown}
                )
            rare = [counts[tuple(labels[c] for c in columns)] < least for labels, _ in shown]
            if any(rare):
                left = [one for one, gone in zip(left, rare, strict=True) if not gone]
                break
        else:
            return [row for row, _ in left]


def cost(rows: Rows, left: Rows, node: tuple[int, ...]) -> int:
    """Give the discernibility: squared sizes of the classes, and n for each record that is gone."""
    sizes = Counter(tuple(LEVELS[up](v) for v, up in zip(row, node, strict=True)) for row in left)
    return sum(size**2 for size in sizes.values()) + (len(rows) - len(left)) * len(rows)


@pytest.mark.parametrize("seed", range(examples(300, 40)))
def test_the_optimum_is_that_of_all_nodes(seed: int) -> None:
    draw = Random(seed)
    d, k = draw.randint(2, 3), draw.randint(1, 3)
    rows: Rows = [tuple(draw.randrange(4) for _ in range(d)) for _ in range(draw.randint(6, 40))]
    subsets = [
        (tuple(sorted(draw.sample(range(d), draw.randint(1, d - 1)))), draw.randint(k, len(rows) // 2))
        for _ in range(draw.randint(1, 2))
    ]
    allowed = draw.choice([0, len(rows) // 5])
    people = [draw.randrange(len(rows)) for _ in rows] if draw.random() < 0.3 else None
    best = None
    for node in product(range(3), repeat=d):
        left = kept_at(rows, people, node, k, subsets)
        if left and len(rows) - len(left) <= allowed:
            found = cost(rows, left, node), node
            best = found if best is None else min(best, found)

    distinct = sorted(set(rows))
    of_row = np.array([distinct.index(row) for row in rows])
    nodes = np.array([[0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 0]])
    one = Generalized(nodes, np.array([[1] * 4, [2] * 4, [4] * 4]), 4)
    held = () if people is None else (values_of(of_row, np.array(people), len(distinct)),)
    codes = np.array(distinct, dtype=np.int32)
    given = DistinctRows(codes, np.bincount(of_row).astype(np.int64), (one,) * d, held)
    criteria = Criteria(k, allowed=allowed, subsets=subsets, subjects=None if people is None else 0)
    optimum = search(given, criteria, "discernibility")
    assert (best is None) == (optimum is None)
    if best is not None and optimum is not None:
        assert (optimum.cost, optimum.levels) == best
