"""The tables of section 6 of Li et al.: Adult coded for full-domain generalization, and what a node has."""

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
"""Half of the 14 occupations."""


class Quality(NamedTuple):
    """Both measures of data quality of Figure 4."""

    discernibility: float
    average: float


class Exposed(NamedTuple):
    """What the equivalence classes of a node tell of occupations.

    Attributes
    ----------
    revealed : int
        Records in classes whose occupations all belong to one group.
    few : int
        Records in classes with at most `FEW_OCCUPATIONS` occupations.
    """

    revealed: int
    few: int


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


@cache
def generalized(column: str) -> Generalized:
    """Return what the hierarchy of a column has above its values, which are in ascending order."""
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
    """Return how many records of a node are subject to a similarity attack."""
    classes = rolled_up(adult_rows(), classes_at(adult_rows(), levels))
    (values,) = classes.sensitive
    group, first = generalized("occupation").nodes[1][values.codes], values.starts[:-1]
    alike = np.minimum.reduceat(group, first) == np.maximum.reduceat(group, first)
    few = np.diff(values.starts) <= FEW_OCCUPATIONS
    return Exposed(int(classes.records[alike].sum()), int(classes.records[few].sum()))


def checked(keeping: NDArray[np.bool_], attributes: int) -> int:
    """Return how many tables Incognito checks.

    LeFevre, DeWitt and Ramakrishnan, SIGMOD 2005: for each set of attributes, small sets first, the tables
    all of whose projections to fewer attributes satisfy, from specific to general; one that generalizes a
    satisfying table is not checked. An attribute that is left out is one at the top of its hierarchy.

    Parameters
    ----------
    keeping : ndarray of bool
        By the level of each attribute, whether the node satisfies the measure, which is monotone.
    attributes : int
        How many of them are quasi-identifiers: the first ones.

    Returns
    -------
    int
        Of all sets of these attributes together.
    """
    number = 0
    for size in range(1, attributes + 1):
        for chosen in combinations(range(attributes), size):
            tables = keeping[tuple(slice(None) if at in chosen else -1 for at in range(keeping.ndim))]
            number += int(_are_checked(tables).sum())
    return number


def _are_checked(tables: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which tables no projection rules out and no specialization vouches for, given which satisfy."""
    found = np.ones_like(tables)
    for axis in range(tables.ndim):
        if tables.ndim > 1:
            found &= tables.take([-1], axis=axis)
        np.moveaxis(found, axis, 0)[1:] &= ~np.moveaxis(tables, axis, 0)[:-1]
    return found
