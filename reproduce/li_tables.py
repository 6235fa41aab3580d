"""Tables of section 6 of Li et al.: Adult coded for full-domain generalization, and figures of its nodes."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duckanon.kernels.closeness.reference import Reference, reference
from duckanon.kernels.rollup import DistinctRows, Generalized, classes_at, rolled_up, values_of
from duckanon.literature.lattice import Levels
from reproduce import data

QUASI_IDENTIFIERS = ("age", "workclass", "education", "native-country", "marital-status", "race", "sex")
"""Columns of the file in the order of Figure 2."""

FEW_OCCUPATIONS = 7
"""Half of the number of occupations, 14."""


class Quality(NamedTuple):
    """The two measures of data quality in Figure 4."""

    discernibility: float
    average: float


class Exposed(NamedTuple):
    """Numbers of records of a node whose class reveals something about their occupation."""

    revealed: int  # in classes whose occupations all belong to one group
    few: int  # in classes with at most `FEW_OCCUPATIONS` occupations


def table(name: str) -> list[list[str]]:
    """Return the rows of a file of the Adult folder, with its first row."""
    # The fields are separated by semicolons; `columns` splits at commas, and the file has none.
    ((first, rows),) = data.columns(f"adult/{name}").items()
    return [text.split(";") for text in (first, *rows.tolist())]


@cache
def adult() -> dict[str, NDArray[np.str_]]:
    """Return the columns of Adult without the records that have missing values."""
    head, *rows = table("adult")
    return dict(zip(head, np.array(rows).T, strict=True))


@cache
def generalized(column: str) -> Generalized:
    """Return the levels of the hierarchy of a column above its values, which are in ascending order."""
    tree = np.array(table(f"hierarchy_{column}"))
    line = {value: place for place, value in enumerate(tree[:, 0].tolist())}
    lines = [line[value] for value in np.unique(adult()[column]).tolist()]
    nodes, leaves = [], []
    for labels in tree.T:
        _, node, count = np.unique(labels, return_inverse=True, return_counts=True)
        nodes.append(node[lines])
        leaves.append(count[node[lines]])
    return Generalized(np.array(nodes, dtype=np.int64), np.array(leaves, dtype=np.int64), len(tree))


@cache
def adult_rows() -> DistinctRows:
    """Return the distinct rows of the quasi-identifiers, with their occupations."""
    codes = np.stack([_codes(column) for column in QUASI_IDENTIFIERS], axis=1)
    distinct, row, records = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    return DistinctRows(
        distinct.astype(np.int32),
        records.astype(np.int64),
        tuple(map(generalized, QUASI_IDENTIFIERS)),
        (values_of(row.ravel().astype(np.int64), _codes("occupation"), len(distinct)),),
    )


@cache
def occupations() -> Reference:
    """Return the distribution of occupation in the whole table, with hierarchical distance."""
    return reference(np.bincount(_codes("occupation")), "hierarchical", generalized("occupation").nodes.T)


def _codes(column: str) -> NDArray[np.int64]:
    """Return the value code of each record."""
    return np.unique(adult()[column], return_inverse=True)[1].astype(np.int64)


def quality_of(levels: Levels) -> Quality:
    """Return the data quality of a node."""
    sizes = classes_at(adult_rows(), levels).sizes
    return Quality(float(sizes @ sizes), float(sizes.mean()))


def exposed(levels: Levels) -> Exposed:
    """Return the numbers of records of a node that a similarity attack exposes."""
    classes = rolled_up(adult_rows(), classes_at(adult_rows(), levels))
    (values,) = classes.sensitive
    group, first = generalized("occupation").nodes[1][values.codes], values.starts[:-1]
    alike = np.minimum.reduceat(group, first) == np.maximum.reduceat(group, first)
    few = np.diff(values.starts) <= FEW_OCCUPATIONS
    return Exposed(int(classes.records[alike].sum()), int(classes.records[few].sum()))


def checked(keeping: NDArray[np.bool_], attributes: int) -> int:
    """Return how many tables Incognito checks for a monotone measure, over all subsets of the attributes."""
    # Incognito (LeFevre, DeWitt and Ramakrishnan, SIGMOD 2005) takes sets of attributes in the order of their
    # size. For each set it checks, from specific to general, the tables whose projections to fewer attributes
    # all satisfy the measure. A table that generalizes a satisfying table is not checked. `keeping` tells by
    # the level of each attribute whether the node satisfies the measure; an attribute at the top of its
    # hierarchy is one that is left out.
    number = 0
    for size in range(1, attributes + 1):
        for chosen in combinations(range(attributes), size):
            tables = keeping[tuple(slice(None) if at in chosen else -1 for at in range(keeping.ndim))]
            number += int(_are_checked(tables).sum())
    return number


def _are_checked(tables: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which tables are checked: no projection rules them out, and no specialization satisfies."""
    found = np.ones_like(tables)
    for axis in range(tables.ndim):
        if tables.ndim > 1:
            found &= tables.take([-1], axis=axis)
        np.moveaxis(found, axis, 0)[1:] &= ~np.moveaxis(tables, axis, 0)[:-1]
    return found
