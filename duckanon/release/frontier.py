"""EXPLAIN ... FRONTIER: the cost of other k and t, measured on a sample, without writing anything.

Class size and loss are those of the sample; the number of classes and the CPU seconds of the partition are
extrapolated to the whole table. l is unchanged. A k or l that the sample cannot keep gives no row. The result
is deterministic except for the seconds. A sample is sparser than its table, so its loss is higher.

Full-domain generalization is not sampled: its frontier are the minimal nodes of the whole table, and the best
nodes for less suppression, all under the k, l and t of the policy.
"""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from duckanon import progress
from duckanon.database import arrow, engine, templates
from duckanon.database.templates import ident
from duckanon.errors import InfeasibleError, MissingExtra, PolicyError
from duckanon.kernels.loss import information_loss
from duckanon.kernels.merge import violations_of
from duckanon.kernels.recipes import choice
from duckanon.policy.bind import Role
from duckanon.policy.reported import reported_figure
from duckanon.release.source import names_of
from duckanon.release.stages.bucket import CUTTING_METHODS
from duckanon.release.stages.embed import coordinates, cut_points, embed
from duckanon.release.stages.limit import limit, thresholds_without
from duckanon.release.stages.partition.generalize import (
    MINIMAL_NODES_MAX_CHECKS,
    alternatives,
    generalize,
)
from duckanon.release.stages.partition.plan import candidates, classes_of
from duckanon.release.stages.stage import stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import numpy.typing as npt
    from matplotlib.axes import Axes

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.recipes import Recipe
    from duckanon.policy.policy import Policy
    from duckanon.release.source import Source
    from duckanon.release.stages.embed import Cuts, Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.stage import Staged

SAMPLE_MAX_RECORDS = 2000
"""Largest number of records of the sample, which is partitioned for each k and t."""

T_FACTORS = (Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2), Fraction(3))
"""Factors of t; each factor multiplies all t of the policy."""

FRONTIER = pa.schema(
    [
        ("k", pa.int64()),
        ("t", pa.float64()),
        ("class_size", pa.float64()),
        ("classes", pa.int64()),
        ("information_loss", pa.float64()),
        ("seconds", pa.float64()),
        ("chosen", pa.bool_()),
        ("reason", pa.string()),
    ]
)
"""Types of the rows."""

NODES = pa.schema(
    [
        ("levels", pa.string()),
        ("loss", pa.float64()),
        ("suppressed", pa.float64()),
        ("classes", pa.int64()),
        ("risk", pa.float64()),
        ("t", pa.float64()),
        ("minimal", pa.bool_()),
        ("chosen", pa.bool_()),
    ]
)
"""Types of the rows for full-domain generalization."""


_CIRCLE: dict[str, Any] = {"markersize": 10, "fillstyle": "none", "color": "black", "label": "policy"}
"""Looks of the circle around the policy in a picture."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, eq=False)
class _FrontierSample:
    """Sampled records: coordinates (m, d), dense codes (s, m), s thresholds, and facts about the table."""

    points: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int64]
    thresholds: tuple[Threshold, ...]
    size: int
    cuts: Cuts | None
    of_subjects: bool  # whether the last threshold asks for k subjects in a class


class _Cell(NamedTuple):
    """A k, the thresholds with their t, and whether both are the policy's."""

    k: int
    thresholds: tuple[Threshold, ...]
    chosen: bool


class _Measured(NamedTuple):
    """Number of classes in the sample, IL in per cent, CPU seconds."""

    classes: int
    loss: float
    seconds: float


def frontier(con: duckdb.DuckDBPyConnection, source: Source, policy: Policy) -> pa.Table:
    """Class size, information loss in per cent and CPU seconds for k and t around the policy's.

    Columns `FRONTIER`, ordered by k and t (the least of several t, NULL without t); of 'full_domain' columns
    `NODES`, ordered by loss. Top of the module says more. Raises what CREATE raises before the partition, and
    InfeasibleError without a row.
    """
    if policy.joint_t is not None:
        raise PolicyError(
            "FRONTIER measures t of single columns, and the policy has t of several columns together: leave "
            "that out of the explained statement"
        )
    if policy.n is not None:
        raise PolicyError(
            "FRONTIER measures the distance from all records, and n makes it that from a natural superset: "
            "leave n out of the explained statement"
        )
    with names_of(con, source), engine.temporary(con) as workspace:
        staged = stage(con, source.query, policy, workspace, drawn=source.drawn)
        embedded = embed(con, staged, policy)
        limits = limit(con, staged, embedded, policy)
        if policy.method == "full_domain":
            return _nodes(con, staged, embedded, limits, policy)
        sample = _sample(con, staged, embedded, limits, policy)
    rows = _rows(sample, policy)
    if not rows:
        raise InfeasibleError(
            f"no k or l around those of the policy can be had in a sample of {len(sample.points)} records, "
            "which is what FRONTIER measures: ask with smaller ones",
            float(len(sample.points)),
        )
    columns = map(arrow.column, zip(*rows, strict=True), FRONTIER.types)
    return pa.Table.from_arrays(list(columns), schema=FRONTIER)


def picture(table: pa.Table) -> str:
    """Chart of information loss over t with one line for each k; over k without t.

    For full-domain generalization, chart of the loss of each node over its suppressed records.

    Parameters
    ----------
    table : pyarrow.Table
        Rows of `frontier`.

    Returns
    -------
    str
        An SVG document; the same rows give the same text.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingExtra("a picture needs matplotlib: pip install 'duckanon[report]'") from missing
    rows = table.to_pylist()
    written = io.StringIO()
    # Texts stay texts; names and dates do not change from run to run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "duckanon"}):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot()
        (_draw_nodes if "levels" in table.column_names else _draw_lines)(axes, rows)
        axes.set_ylim(bottom=0)
        axes.legend()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def _draw_lines(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the loss over t with a line for each k, or over k."""
    over = "k" if all(row["t"] is None for row in rows) else "t"
    axes.set(xlabel=over, ylabel="information loss, per cent")
    for k in sorted({row["k"] for row in rows}) if over == "t" else [None]:
        line = [row for row in rows if k in (None, row["k"])]
        label = "all k" if k is None else f"k = {k}"
        axes.plot([r[over] for r in line], [r["information_loss"] for r in line], marker=".", label=label)
    chosen = [row for row in rows if row["chosen"]]
    axes.plot([r[over] for r in chosen], [r["information_loss"] for r in chosen], "o", **_CIRCLE)
    if over == "k":
        axes.set_xticks(sorted({row["k"] for row in rows}))


def _draw_nodes(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the loss of each node over its suppressed records."""
    axes.set(xlabel="suppressed, per cent of the records", ylabel="loss")
    axes.plot([100 * row["suppressed"] for row in rows], [row["loss"] for row in rows], ".", label="levels")
    chosen = [row for row in rows if row["chosen"]]
    axes.plot([100 * r["suppressed"] for r in chosen], [r["loss"] for r in chosen], "o", **_CIRCLE)


def _nodes(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> pa.Table:
    """Return the alternatives of full-domain generalization, those of least loss first."""
    made = generalize(con, staged, embedded, limits, policy)
    known = alternatives(made, staged, limits, policy)
    if known is None:
        raise PolicyError(
            f"FRONTIER would check more than {MINIMAL_NODES_MAX_CHECKS} nodes of the lattice: limit the "
            "search by levels = {column: (lowest, highest)}"
        )
    rows = []
    for one in sorted(known, key=lambda one: (one.loss, one.suppressed)):
        climbed = [
            f"{field.name if _WORD.fullmatch(field.name) else ident(field.name)}: {level}"
            for field, level in zip(staged.quasi, one.levels, strict=True)
            if made.heights[field.column]
        ]
        rows.append((f"{{{', '.join(climbed)}}}", *one[1:]))
    columns = map(arrow.column, zip(*rows, strict=True), NODES.types)
    return pa.Table.from_arrays(list(columns), schema=NODES)


def _sample(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> _FrontierSample:
    """Read records evenly spread over the order of the values; their own distribution is the reference."""
    query = templates.render(
        "frontier/sample.sql.j2",
        coded=embedded.coded,
        axes=embedded.axes,
        codes=limits.codes,
        taken=min(staged.size, SAMPLE_MAX_RECORDS),
        size=staged.size,
    )
    table = engine.table(con, query, "frontier")
    columns = {axis.column: arrow.numbers(table.column(axis.column)) for axis in embedded.axes}
    codes = np.empty((len(limits.codes), len(table)), dtype=np.int64)
    for row, name in enumerate(limits.codes):
        codes[row] = arrow.numbers(table.column(name))
    thresholds, dense = thresholds_without(limits, policy, codes, np.ones(len(table), dtype=bool))
    cuts = cut_points(embedded.axes, columns) if policy.method in CUTTING_METHODS else None
    told = bool(limits.fields) and limits.fields[-1].attribute.role is Role.SUBJECT
    return _FrontierSample(coordinates(embedded.axes, columns), dense, thresholds, staged.size, cuts, told)


def _rows(sample: _FrontierSample, policy: Policy) -> list[tuple[object, ...]]:
    """Measure every cell; a cell that the sample cannot keep gives no row."""
    records = len(sample.points)
    cells = [cell for cell in _cells(sample, policy.k) if cell.k <= records]
    part = "all" if records == sample.size else f"{records} of"
    reason = f"measured on {part} {sample.size} records" + ("" if part == "all" else ", from above")
    reason += "" if policy.k_subsets is None else ", without the k of subsets"
    rows: list[tuple[object, ...]] = []
    with progress.step("frontier", len(cells), "cells") as step:
        if cells:
            # The first call compiles, so it is not timed.
            _measure(sample, cells[0], policy)
        for cell in cells:
            measured = _measure(sample, cell, policy)
            step.advance()
            if measured is None:
                continue
            size = records / measured.classes
            t = min((float(one.t) for one in cell.thresholds if one.t is not None), default=None)
            seconds = measured.seconds * sample.size / records
            expected = max(1, round(sample.size / size))
            loss = reported_figure(measured.loss)
            rows.append((cell.k, t, size, expected, loss, seconds, cell.chosen, reason))
    return rows


def _cells(sample: _FrontierSample, k: int) -> list[_Cell]:
    """Return the combinations of k and t in order; t is capped at 1, and equal combinations are merged."""
    series: dict[tuple[object, ...], tuple[tuple[Threshold, ...], bool]] = {}
    for factor in T_FACTORS:
        scaled = tuple(
            one if one.t is None else replace(one, t=min(Fraction(1), Fraction(one.t) * factor))
            for one in sample.thresholds
        )
        key = tuple(limit.t for limit in scaled)
        series[key] = scaled, factor == 1 or (key in series and series[key][1])
    return [
        _Cell(
            size,
            # The last threshold then asks for k subjects.
            (*scaled[:-1], replace(scaled[-1], l=Decimal(size))) if sample.of_subjects else scaled,
            unscaled and size == k,
        )
        for size in sorted({max(2, k // 2), k, 2 * k, 4 * k})
        for scaled, unscaled in series.values()
    ]


def _measure(sample: _FrontierSample, cell: _Cell, policy: Policy) -> _Measured | None:
    """Partition the sample as CREATE partitions a tile; None if a threshold is violated."""
    asked = replace(policy, k=cell.k)
    # As CREATE would take them, refined with little effort.
    recipes = candidates(sample.size, asked, cell.thresholds, columns=sample.points.shape[1])
    tried = [replace(recipe, effort="fast" if recipe.effort else None) for recipe in recipes]
    measured = [_attempt(sample, cell, asked, recipe) for recipe in tried]
    best = measured[choice(tried, [one.loss for one in measured])]
    return best if best.loss < inf else None


def _attempt(sample: _FrontierSample, cell: _Cell, asked: Policy, recipe: Recipe) -> _Measured:
    """Partition the sample by a recipe; the loss is infinite if a threshold is violated."""
    begin = time.process_time()
    labels = classes_of(
        sample.points, sample.codes, asked, recipe, cell.thresholds, sample.cuts, seed=asked.seed
    )
    seconds = time.process_time() - begin
    kept = not violations_of(cell.thresholds, sample.codes, labels).any()
    return _Measured(int(labels.max()) + 1, information_loss(sample.points, labels) if kept else inf, seconds)
