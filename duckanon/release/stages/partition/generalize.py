"""Generalize: the levels of full-domain generalization, and the resulting class of every record."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.database import engine, templates
from duckanon.errors import InfeasibleError, PolicyError
from duckanon.hierarchies.tree import leaves_of
from duckanon.kernels.rollup import DistinctRows, Generalized, values_of
from duckanon.literature.full_domain import (
    least_suppressed,
    minimal_nodes,
    released_at,
    search,
)
from duckanon.literature.lattice import Criteria
from duckanon.measures.closeness import maximum_emd
from duckanon.policy.bind import Role
from duckanon.policy.subsets import binding
from duckanon.release.stages.limit import thresholds_of
from duckanon.release.stages.stage import column_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.literature.full_domain import Found, Released, Weights, Within
    from duckanon.literature.lattice import Levels
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.stage import Field, Staged

LATTICE_MAX_NODES = 5_000_000
"""Nodes of the largest lattice that is searched."""

SUPPRESSING_MAX_NODES = 1_000
"""Largest number of nodes that are asked for the least suppression if no node keeps the thresholds."""

MINIMAL_NODES_MAX_CHECKS = 5_000
"""Largest number of nodes checked in the search for minimal nodes."""

LIMIT_SHARES = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
"""Shares of the suppression limit for which the best node is an alternative, too."""


@dataclass(frozen=True)
class Generalization:
    """The optimum, and the class of every record."""

    found: Found
    rows: DistinctRows  # distinct rows of the search
    row_of: npt.NDArray[np.int64]  # (n,), distinct row by record_id from 1
    heights: dict[str, int]  # levels above the values, by quasi-identifier column

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """Class of each record (n,), by record_id from 1; -1 if suppressed."""
        return self.found.of_row[self.row_of]

    @property
    def levels(self) -> dict[str, int]:
        """Level of each quasi-identifier with a hierarchy, by column."""
        chosen = zip(self.heights.items(), self.found.levels, strict=True)
        return {column: level for (column, height), level in chosen if height}


def generalize(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Generalization:
    """Optimum of the lattice under the objective of the policy.

    PolicyError: the lattice is too large, or the policy names a level that a hierarchy does not have.
    InfeasibleError: no node keeps the thresholds.
    """
    rows, row_of = _rows(con, staged, embedded, limits)
    within = _within(staged, rows, policy)
    _check_size(staged.quasi, within)
    criteria = _criteria(staged, limits, policy)
    found = search(rows, criteria, policy.objective, within=within, weights=_weights(staged))
    quasi = staged.quasi
    if found is None:
        raise _excluded(rows, criteria, within) if policy.levels else _infeasible(rows, quasi, policy)
    heights = {field.column: one.height for field, one in zip(quasi, rows.quasi, strict=True)}
    return Generalization(found, rows, row_of, heights)


class Alternative(NamedTuple):
    """A node that keeps the thresholds, and what a release at its levels loses and leaves."""

    levels: Levels
    loss: float
    suppressed: float  # share of the records
    classes: int
    risk: float  # 1 over the records, or subjects, of the smallest class
    t: float | None  # greatest EMD of a class; None without a threshold on sensitive values
    minimal: bool  # no node below it keeps the thresholds
    chosen: bool


def alternatives(
    made: Generalization, staged: Staged, limits: Limits, policy: Policy
) -> list[Alternative] | None:
    """Minimal nodes, and the best for shares of the suppression limit, in the order of their levels.

    None if `minimal_nodes` would check more than `MINIMAL_NODES_MAX_CHECKS` nodes.
    """
    rows, within, weights = made.rows, _within(staged, made.rows, policy), _weights(staged)
    criteria = _criteria(staged, limits, policy)
    minimal = minimal_nodes(rows, criteria, MINIMAL_NODES_MAX_CHECKS, within=within)
    if minimal is None:
        return None
    nodes = {*minimal, made.found.levels}
    for allowed in {int(share * criteria.allowed) for share in LIMIT_SHARES} if criteria.allowed else ():
        fewer = replace(criteria, allowed=allowed)
        best = search(rows, fewer, policy.objective, within=within, weights=weights)
        nodes |= set() if best is None else {best.levels}
    return [
        _alternative(one, made, limits, minimal=one.levels in minimal)
        for one in released_at(rows, criteria, sorted(nodes), weights=weights)
    ]


def _alternative(node: Released, made: Generalization, limits: Limits, *, minimal: bool) -> Alternative:
    """Return what a node loses and leaves."""
    rows, classes = made.rows, int(node.of_row.max()) + 1
    kept = node.of_row >= 0
    least = int(np.bincount(node.of_row[kept], weights=rows.records[kept]).min())
    distances = []
    for field, values in zip(limits.fields, rows.sensitive, strict=True):
        of = np.repeat(node.of_row, np.diff(values.starts))
        labels, codes, records = of[of >= 0], values.codes[of >= 0], values.records[of >= 0]
        if field.attribute.role is Role.SUBJECT:
            least = int(np.bincount(np.unique(np.stack([labels, codes]), axis=1)[0]).min())
            continue
        paths = limits.paths.get(field.column)
        above = None if paths is None else paths[np.unique(codes)]
        each = np.repeat(labels, records), np.repeat(codes, records)
        distances.append(maximum_emd(*each, field.attribute.distance or "equal", paths=above))
    suppressed = node.suppressed / int(rows.records.sum())
    greatest, chosen = max(distances, default=None), node.levels == made.found.levels
    return Alternative(node.levels, node.cost, suppressed, classes, 1 / least, greatest, minimal, chosen)


def _weights(staged: Staged) -> Weights:
    """Weight of each quasi-identifier."""
    return [Fraction(field.attribute.weight) for field in staged.quasi]


def _within(staged: Staged, rows: DistinctRows, policy: Policy) -> Within:
    """Return the lowest and highest level of each quasi-identifier under the policy."""
    within = []
    for field, one in zip(staged.quasi, rows.quasi, strict=True):
        asked = policy.levels.get(field.name, (0, one.height))
        low, high = asked if isinstance(asked, tuple) else (asked, asked)
        if high > one.height:
            raise PolicyError(
                f"levels of {field.name!r} = {asked}: its hierarchy has the levels 0 (the values) to "
                f"{one.height} (the root)"
            )
        within.append((low, high))
    return within


def _criteria(staged: Staged, limits: Limits, policy: Policy) -> Criteria:
    def of_counts(counts: Sequence[npt.NDArray[np.int64]]) -> Sequence[Threshold]:
        return thresholds_of(limits, policy, counts)

    names = [field.name for field in staged.quasi]
    whose = [number for number, field in enumerate(limits.fields) if field.attribute.role is Role.SUBJECT]
    return Criteria(
        policy.k,
        limits.thresholds,
        int(policy.suppression_limit * staged.size),
        of_counts,
        [
            (tuple(map(names.index, one.columns)), one.k or 1)
            for one in binding(policy.k_subsets, names, policy.k)
        ],
        whose[0] if whose else None,
    )


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


def _check_size(fields: Sequence[Field], within: Within) -> None:
    levels = [high - low + 1 for low, high in within]
    nodes = math.prod(levels)
    if nodes > LATTICE_MAX_NODES:
        tallest, most = max(zip(fields, levels, strict=True), key=lambda pair: pair[1])
        raise PolicyError(
            f"method = 'full_domain' would search {nodes} nodes, more than {LATTICE_MAX_NODES}: give the "
            f"hierarchy of {tallest.name!r} fewer than its {most} levels, limit them by levels = "
            f"{{{tallest.name}: {most // 2}}}, or take fewer columns"
        )


def _excluded(rows: DistinctRows, criteria: Criteria, within: Within) -> InfeasibleError:
    """Return the error if none of the levels in the policy keeps the thresholds."""
    size = int(rows.records.sum())
    least = least_suppressed(rows, criteria, within, SUPPRESSING_MAX_NODES)
    if least is None:
        text = "levels: at no node within them a class keeps the thresholds: allow others, or ask for less"
        return InfeasibleError(text, float(size))
    share = math.ceil(least / size * 10**6) / 10**6
    nodes = math.prod(high - low + 1 for low, high in within)
    every = nodes <= SUPPRESSING_MAX_NODES or replace(criteria, allowed=1).monotone
    which = "every node within them" if every else f"each of {SUPPRESSING_MAX_NODES} nodes within them"
    return InfeasibleError(
        f"levels: {which} suppresses at least {least} of {size} records, and {criteria.allowed} may go: "
        f"allow other levels, or set suppression_limit = {share:g}",
        float(least),
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
