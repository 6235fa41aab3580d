"""Full-domain generalization of Adult, every node of the lattice: what Incognito would find in it.

Only for the figures of Li et al.; the project has no method of full-domain generalization. Nothing is
searched cleverly: each of the nodes is tried, which gives the same minimal tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproduce import data

QUASI_IDENTIFIERS = ("age", "workclass", "education", "native-country", "marital-status", "race", "sex")
"""Columns of the file in the order of Figure 2."""

FEW = 7
"""Half of the 14 occupations."""

Node = tuple[int, ...]
"""Level of each quasi-identifier, 0 (as it is) to the top (suppressed)."""

Codes = NDArray[np.int64]


class Grouping(NamedTuple):
    """What a table of the lattice has.

    Attributes
    ----------
    smallest, classes, discernibility : int
        Size of the smallest class, number of classes, sum of the squared sizes.
    entropy_l : float
        Greatest l of entropy l-diversity.
    c : ndarray of shape (values,), float64
        For each l from 1, c must be above this for recursive (c, l)-diversity.
    emd : float
        Maximum EMD with hierarchical distance.
    revealed : int
        Records in classes whose occupations all belong to one group.
    few : int
        Records in classes with at most `FEW` occupations.
    """

    smallest: int
    classes: int
    discernibility: int
    entropy_l: float
    c: NDArray[np.float64]
    emd: float
    revealed: int
    few: int


Lattice = dict[Node, Grouping]
Measure = Callable[[Grouping], bool]


def table(name: str) -> list[list[str]]:
    """Return the rows of a file of the Adult folder, its first row first."""
    # `columns` splits at commas, of which there are none: the fields stand between semicolons.
    ((first, rows),) = data.columns(f"adult/{name}").items()
    return [text.split(";") for text in (first, *rows.tolist())]


@cache
def adult() -> dict[str, NDArray[np.str_]]:
    """Return the columns of Adult without the records that have missing values."""
    head, *rows = table("adult")
    return dict(zip(head, np.array(rows).T, strict=True))


def levels(column: str) -> list[Codes]:
    """Return the codes of each record on each level of the hierarchy of a column."""
    tree = {row[0]: row for row in table(f"hierarchy_{column}")}
    values, code = np.unique(adult()[column], return_inverse=True)
    nodes = np.array([tree[value] for value in values]).T
    return [np.unique(level, return_inverse=True)[1][code].astype(np.int64) for level in nodes]


def occupation_paths() -> Codes:
    """Return the tree node of each occupation, ascending, on each level: itself, its group, the root."""
    tree = {row[0]: row for row in table("hierarchy_occupation")}
    nodes = np.array([tree[value] for value in np.unique(adult()["occupation"])]).T
    return np.stack([np.unique(level, return_inverse=True)[1] for level in nodes], axis=1).astype(np.int64)


def classes_of(node: Node) -> Codes:
    """Return the class of each record in the table of a node."""
    key = np.zeros(len(adult()["sex"]), dtype=np.int64)
    for column, level in zip(QUASI_IDENTIFIERS, node, strict=True):
        codes = levels(column)[level]
        key = key * (int(codes.max()) + 1) + codes
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


@cache
def lattice() -> Lattice:
    """Return all tables of the lattice, about 5 s of CPU time."""
    coded = [levels(column) for column in QUASI_IDENTIFIERS]
    bottom = classes_of((0,) * len(coded))
    _, first = np.unique(bottom, return_index=True)
    occupation = np.unique(adult()["occupation"], return_inverse=True)[1]
    counts = np.zeros((len(first), int(occupation.max()) + 1))
    np.add.at(counts, (bottom, occupation), 1)
    # Records that are alike at the bottom stay so above: each node needs the first of them only.
    small = [[level[first] for level in each] for each in coded]
    group = occupation_paths()[:, 1]
    found = {}
    for node in product(*(range(len(each)) for each in small)):
        key = np.zeros(len(first), dtype=np.int64)
        for each, level in zip(small, node, strict=True):
            key = key * (int(each[level].max()) + 1) + each[level]
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        found[node] = _measured(np.add.reduceat(counts[order], starts, axis=0), group)
    return found


def _measured(counts: NDArray[np.float64], group: Codes) -> Grouping:
    """Return the measures of classes with these records of each occupation."""
    sizes, whole = counts.sum(axis=1), counts.sum(axis=0)
    shares = counts / sizes[:, None]
    logs = np.log(np.where(counts > 0, shares, 1.0))
    descending = -np.sort(-counts, axis=1)
    tails = np.cumsum(descending[:, ::-1], axis=1)[:, ::-1]
    ratios = np.where(tails > 0, descending[:, :1] / np.where(tails > 0, tails, 1.0), np.inf)
    below = np.eye(int(group.max()) + 1)[group]
    extra = shares - whole / whole.sum()
    # A tree of height 2: half of what moves at all, and half of what moves between groups.
    emd = (np.abs(extra).sum(axis=1) + np.abs(extra @ below).sum(axis=1)) / 4
    return Grouping(
        int(sizes.min()),
        len(sizes),
        int(sizes @ sizes),
        float(np.exp(-(shares * logs).sum(axis=1)).min()),
        ratios.max(axis=0),
        float(emd.max()),
        int(sizes[((counts @ below) > 0).sum(axis=1) == 1].sum()),
        int(sizes[(counts > 0).sum(axis=1) <= FEW].sum()),
    )


def satisfying(measure: Measure) -> set[Node]:
    """Return the nodes that satisfy a privacy measure."""
    return {node for node, grouping in lattice().items() if measure(grouping)}


def minimal(good: set[Node]) -> list[Node]:
    """Return the nodes none of whose direct specializations satisfies; the measures are monotone."""
    return sorted(node for node in good if not any(_below(node, place) in good for place in range(len(node))))


def checked(good: set[Node], attributes: int) -> int:
    """Return how many tables Incognito checks, by the quasi-identifiers in the order of Figure 2.

    LeFevre, DeWitt and Ramakrishnan, SIGMOD 2005: for each set of attributes, small sets first, the tables
    all of whose projections to fewer attributes satisfy, from specific to general; one that generalizes a
    satisfying table is not checked. An attribute that is left out is one at the top of its hierarchy.
    """
    top = max(lattice())
    number = 0
    for size in range(1, attributes + 1):
        for chosen in combinations(range(attributes), size):
            for levels_of in product(*(range(top[place] + 1) for place in chosen)):
                node = list(top)
                for place, level in zip(chosen, levels_of, strict=True):
                    node[place] = level
                number += _is_checked(tuple(node), chosen, top, good)
    return number


def _is_checked(node: Node, chosen: tuple[int, ...], top: Node, good: set[Node]) -> bool:
    """Tell whether no projection rules a table out and no specialization vouches for it."""
    if any(_below(node, place) in good for place in chosen):
        return False
    projections = ((*node[:place], top[place], *node[place + 1 :]) for place in chosen)
    return len(chosen) == 1 or all(projection in good for projection in projections)


def _below(node: Node, place: int) -> Node:
    """Return the node one level lower in one attribute; it does not exist if that is below 0."""
    return (*node[:place], node[place] - 1, *node[place + 1 :])
