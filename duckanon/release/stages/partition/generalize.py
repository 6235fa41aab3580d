"""Generalize: the levels of full-domain generalization, and the resulting class of every record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from duckanon.database import engine, templates
from duckanon.errors import InfeasibleError, PolicyError
from duckanon.hierarchies.tree import leaves_of
from duckanon.kernels.rollup import DistinctRows, Generalized, values_of
from duckanon.literature.full_domain import minimal_nodes, search
from duckanon.literature.lattice import Criteria
from duckanon.release.stages.limit import thresholds_of
from duckanon.release.stages.stage import column_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.literature.full_domain import Found
    from duckanon.literature.lattice import Levels
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.stage import Field, Staged

LATTICE_MAX_NODES = 5_000_000
"""Nodes of the largest lattice that is searched."""


@dataclass(frozen=True)
class Generalization:
    """The optimum, and the class of every record."""

    found: Found
    rows: DistinctRows  # distinct rows of the search
    labels: npt.NDArray[np.int64]  # (n,), class by record_id from 1, -1 if suppressed
    heights: dict[str, int]  # levels above the values, by quasi-identifier column

    @property
    def levels(self) -> dict[str, int]:
        """Level of each quasi-identifier with a hierarchy, by column."""
        chosen = zip(self.heights.items(), self.found.levels, strict=True)
        return {column: level for (column, height), level in chosen if height}


def generalize(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Generalization:
    """Optimum of the lattice under the objective of the policy.

    PolicyError: the lattice is too large. InfeasibleError: no node keeps the thresholds.
    """
    rows, row_of = _rows(con, staged, embedded, limits)
    found = search(rows, _criteria(staged, limits, policy), policy.objective)
    quasi = staged.quasi
    if found is None:
        raise _infeasible(rows, quasi, policy)
    heights = {field.column: one.height for field, one in zip(quasi, rows.quasi, strict=True)}
    return Generalization(found, rows, found.of_row[row_of], heights)


def minimal_levels(
    made: Generalization, staged: Staged, limits: Limits, policy: Policy, most: int
) -> list[Levels] | None:
    """Levels of the minimal nodes; None if that takes more than `most` checks. See `minimal_nodes`."""
    return minimal_nodes(made.rows, _criteria(staged, limits, policy), most)


def _criteria(staged: Staged, limits: Limits, policy: Policy) -> Criteria:
    def of_counts(counts: Sequence[npt.NDArray[np.int64]]) -> Sequence[Threshold]:
        return thresholds_of(limits, policy, counts)

    return Criteria(policy.k, limits.thresholds, int(policy.suppression_limit * staged.size), of_counts)


def _rows(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits
) -> tuple[DistinctRows, npt.NDArray[np.int64]]:
    """Return the distinct rows, and the row of every record (n,); records with equal values are adjacent."""
    every = np.empty((len(staged.quasi), staged.size), dtype=np.int32)
    begins = np.zeros(staged.size, dtype=bool)
    begins[0] = True
    for codes, field in zip(every, staged.quasi, strict=True):
        codes[:] = _coded(con, staged, embedded, field)
        begins[1:] |= np.diff(codes) != 0
    quasi = tuple(
        _generalized(con, staged, embedded, field, int(codes.max()) + 1)
        for field, codes in zip(staged.quasi, every, strict=True)
    )
    _check_size(staged.quasi, quasi)
    first, row_of = np.flatnonzero(begins), np.cumsum(begins) - 1
    sensitive = []
    for name in limits.codes:
        values = column_of(con, embedded.coded, name, staged.size, "partition").astype(np.int64)
        sensitive.append(values_of(row_of, values, len(first)))
    records = np.bincount(row_of).astype(np.int64)
    return DistinctRows(np.ascontiguousarray(every[:, first].T), records, quasi, tuple(sensitive)), row_of


def _coded(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, field: Field
) -> npt.NDArray[np.float64]:
    """Return the value code of each record (n,), with NULL last.

    A number without a hierarchy has the rank of its value, because coordinates have only the digits of
    DOUBLE.
    """
    if field.nominal:
        return column_of(con, embedded.coded, f"x_{field.column}", staged.size, "partition")
    query = templates.render("relation.sql.j2:ranks", records=staged.records, column=field.column)
    return engine.column(con, query, "partition", staged.size)


def _generalized(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, field: Field, values: int
) -> Generalized:
    """Return the levels above the values of a quasi-identifier."""
    paths = next(axis.paths for axis in embedded.axes if axis.column == f"x_{field.column}")
    if paths is None:
        return Generalized(np.arange(values)[None, :], np.ones((1, values), dtype=np.int64), values)
    leaves, total = leaves_of(con, staged.tree(field), embedded.domains[field.column], paths.shape)
    nodes = np.stack([np.unique(level, return_inverse=True)[1] for level in paths.T])
    return Generalized(nodes.astype(np.int64), np.ascontiguousarray(leaves.T), total)


def _check_size(fields: Sequence[Field], quasi: Sequence[Generalized]) -> None:
    nodes = math.prod(one.height + 1 for one in quasi)
    if nodes > LATTICE_MAX_NODES:
        tallest = max(zip(fields, quasi, strict=True), key=lambda pair: pair[1].height)
        raise PolicyError(
            f"method = 'full_domain' would search {nodes} nodes, more than {LATTICE_MAX_NODES}: give the "
            f"hierarchy of {tallest[0].name!r} fewer than its {tallest[1].height + 1} levels, or take fewer "
            "columns"
        )


def _infeasible(rows: DistinctRows, fields: Sequence[Field], policy: Policy) -> InfeasibleError:
    """Return the error if no node keeps the thresholds; the node of all roots does unless values stay."""
    stay = [field.name for field, one in zip(fields, rows.quasi, strict=True) if one.height == 0]
    if not stay:
        return InfeasibleError(
            "method = 'full_domain' suppresses whole classes, and at no levels do the others keep the "
            "thresholds: raise suppression_limit, ask for less, or use method = 'auto'",
            0.0,
        )
    names = ", ".join(repr(name) for name in stay)
    few = "suppresses more than it may" if policy.suppression_limit else "misses a threshold"
    return InfeasibleError(
        f"method = 'full_domain': even with all hierarchies at their root the release {few}, as {names} "
        f"{'stays' if len(stay) == 1 else 'stay'} as in the source: give a hierarchy, or use method = 'auto'",
        0.0,
    )
