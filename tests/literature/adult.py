"""Adult as ARX has it: 30,162 records, nine columns with their hierarchies, coded for full-domain generalization."""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.rollup import DistinctRows, Generalized, values_of
from tests.reference import reference_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.reference import Distance, Reference

COLUMNS = (
    "sex",
    "age",
    "race",
    "marital-status",
    "education",
    "native-country",
    "workclass",
    "occupation",
    "salary-class",
)
"""In the order of the file."""


@cache
def lines(name: str) -> list[list[str]]:
    """Return the cells of a file of the folder."""
    with reference_file(f"adult/{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=";"))


@cache
def column(name: str) -> NDArray[np.str_]:
    """Return the values of a column."""
    head, *rows = lines("adult")
    return np.array([row[head.index(name)] for row in rows])


def hierarchy(name: str) -> dict[str, list[str]]:
    """Return the labels of each leaf, the leaf first."""
    return {row[0]: row for row in lines(f"hierarchy_{name}")}


@cache
def generalized(name: str) -> Generalized:
    """Return the nodes above the values of a column, ascending."""
    tree = hierarchy(name)
    height = len(next(iter(tree.values())))
    paths = [[tree[value][level] for value in np.unique(column(name))] for level in range(height)]
    leaves = [
        [sum(row[level] == node for row in tree.values()) for node in row_of]
        for level, row_of in enumerate(paths)
    ]
    nodes = [np.unique(row_of, return_inverse=True)[1] for row_of in paths]
    return Generalized(np.array(nodes, dtype=np.int64), np.array(leaves, dtype=np.int64), len(tree))


def rows(quasi: Sequence[str], sensitive: Sequence[str] = ()) -> DistinctRows:
    """Return the distinct rows of some columns."""
    codes = np.stack([np.unique(column(name), return_inverse=True)[1] for name in quasi], axis=1)
    distinct, row_of, records = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    values = [values_of(row_of.ravel(), ranks(name), len(distinct)) for name in sensitive]
    return DistinctRows(
        distinct.astype(np.int32), records.astype(np.int64), tuple(map(generalized, quasi)), tuple(values)
    )


def ranks(name: str) -> NDArray[np.int64]:
    """Return the rank of each record's value, of age as a number."""
    values = column(name).astype(np.int64) if name == "age" else column(name)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


def reference_of(name: str, distance: Distance) -> Reference:
    """Return the distribution of a sensitive column."""
    counts = np.bincount(ranks(name))
    return reference(counts, distance, generalized(name).nodes.T if distance == "hierarchical" else None)
