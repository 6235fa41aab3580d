"""Classes: their sizes, their distance from the whole table, and the worst classes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from duckanon.audits.html.copies import STAGE, Spread, spread, summary
from duckanon.audits.legible import MISSING, clean, number
from duckanon.database import engine, templates
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from duckanon.audits.html.copies import CopiedColumn, Copies
    from duckanon.policy.bind import Attribute

BARS = 40
"""Bars of a histogram of classes."""

COLUMNS_NAMED = 8
"""Quasi-identifiers that name a class below a chart."""

WORST_CLASSES_SHOWN = 3
"""Classes whose sensitive values are shown."""


class Histogram(NamedTuple):
    """Numbers of classes between edges; ``bad`` counts violating classes, None without a threshold."""

    edges: list[float]
    labels: list[str]
    good: list[int]
    bad: list[int] | None
    geometric: bool = False


@dataclass(frozen=True)
class Sizes:
    """Sizes of the classes; the histogram has at most `BARS` + 1 bars, wider for large sizes."""

    smallest: int
    median: int
    largest: int
    classes: int
    records: int
    unique: int  # records alone in their class
    histogram: Histogram


class Worst(NamedTuple):
    """One class: its values as text, size, EMD, and its sensitive values beside the whole table's."""

    where: list[tuple[str, str]]
    size: int
    emd: float
    spread: Spread


@dataclass(frozen=True)
class Distances:
    """EMD of the classes in one sensitive column."""

    column: CopiedColumn
    distance: str
    t: Decimal | None
    median: float
    largest: float
    violations: int  # classes, in exact arithmetic
    records: int
    histogram: Histogram
    worst: tuple[Worst, ...]  # at most `WORST_CLASSES_SHOWN`; empty if all classes equal the whole table


def sizes(copies: Copies, k: int | None) -> Sizes:
    """Sizes of the classes; SourceError if the table is empty."""
    query = templates.render("report/classes.sql.j2:sizes", classes=copies.classes)
    counts: list[tuple[int, int]] = [(row[0], row[1]) for row in engine.rows(copies.con, query, STAGE)]
    if not counts:
        raise SourceError(f"{STAGE}: the table is empty: there is nothing to report")
    classes = sum(count for _, count in counts)
    seen, median = 0, 0
    for size, count in counts:
        seen += count
        median = size
        if 2 * seen >= classes:
            break
    return Sizes(
        smallest=counts[0][0],
        median=median,
        largest=counts[-1][0],
        classes=classes,
        records=sum(size * count for size, count in counts),
        unique=counts[0][1] if counts[0][0] == 1 else 0,
        histogram=_size_histogram(counts, k),
    )


def risk(copies: Copies) -> dict[str, float]:
    """Row of the audit of the risk of re-identification: figures by name."""
    query = templates.render("report/classes.sql.j2:risk", members=copies.members)
    return dict(engine.table(copies.con, query, STAGE).to_pylist()[0])


def distances(copies: Copies, column: CopiedColumn, attribute: Attribute, *, tree: str | None) -> Distances:
    """EMD of every class in a sensitive column, with the verdicts and the SQL of the audit.

    `tree` is the relation (value, level, node) of a hierarchical column, as SQL text.
    """
    emd = f"{copies.workspace}_emd_{column.place}"
    distance = attribute.distance or "equal"
    statement = templates.render(
        "report/classes.sql.j2:emd",
        emd=emd,
        members=copies.members,
        column=column,
        distance=distance,
        order=attribute.order,
        tree=tree,
        t=attribute.t,
    )
    engine.run(copies.con, statement, STAGE, error=SourceError)
    query = templates.render("report/classes.sql.j2:emd_summary", emd=emd)
    median, largest, violations, records = engine.rows(copies.con, query, STAGE)[0]
    return Distances(
        column,
        distance,
        attribute.t,
        median,
        largest,
        violations,
        records,
        _emd_histogram(copies, emd, largest, attribute.t),
        _worst(copies, column, emd) if largest > 0 else (),
    )


def _worst(copies: Copies, column: CopiedColumn, emd: str) -> tuple[Worst, ...]:
    query = templates.render(
        "report/classes.sql.j2:worst",
        emd=emd,
        classes=copies.classes,
        quasi=copies.quasi,
        limit=WORST_CLASSES_SHOWN,
    )
    whole = copies.of_class(column, None)
    figures = summary(copies.con, whole)
    return tuple(
        Worst(
            [
                (clean(one.name), MISSING if value is None else clean(value))
                for one, value in zip(copies.quasi, values, strict=True)
            ],
            size,
            value_of,
            spread(copies.con, [whole, copies.of_class(column, key)], [figures]),
        )
        for key, size, value_of, *values in engine.rows(copies.con, query, STAGE)
    )


def _emd_histogram(copies: Copies, emd: str, largest: float, t: Decimal | None) -> Histogram:
    limit = None if t is None else float(t)
    upper = max(largest, limit or 0.0) or 1.0
    width = upper / BARS
    if limit is not None and limit >= width:
        # t is an edge, so no bar has classes on both sides of t.
        width = limit / max(1, math.floor(limit / width + 1e-9))
    count = max(1, math.ceil(upper / width - 1e-9))
    query = templates.render("report/classes.sql.j2:emd_histogram", emd=emd, bins=count, width=width)
    good, bad = [0] * count, [0] * count
    for violated, nearest, classes in engine.rows(copies.con, query, STAGE):
        first_bad = count if limit is None else round(limit / width)
        # Exact verdicts decide. The rounded EMD of a class at t may lie on either side of the edge.
        if violated:
            bad[min(max(nearest, first_bad), count - 1)] += classes
        else:
            good[min(nearest, max(0, first_bad - 1))] += classes
    edges = [width * place for place in range(count + 1)]
    labels = [f"{number(low)} to {number(high)}" for low, high in itertools.pairwise(edges)]
    return Histogram(edges, labels, good, bad if t is not None else None)


def _size_histogram(counts: Sequence[tuple[int, int]], k: int | None) -> Histogram:
    low, high = counts[0][0], counts[-1][0]
    starts, geometric = _starts(low, high, k)
    good, bad = [0] * len(starts), [0] * len(starts)
    place = 0
    for size, count in counts:
        while place + 1 < len(starts) and size >= starts[place + 1]:
            place += 1
        (bad if k is not None and size < k else good)[place] += count
    ends = [*starts[1:], max(high + 1, starts[-1] + 1)]
    labels = [
        f"{start:,}" if end == start + 1 else f"{start:,} to {end - 1:,}"
        for start, end in zip(starts, ends, strict=True)
    ]
    edges = [start - 0.5 for start in (*starts, ends[-1])]
    return Histogram(edges, labels, good, bad if k is not None else None, geometric)


def _starts(low: int, high: int, k: int | None) -> tuple[list[int], bool]:
    """Return the smallest size of every bar, and whether bars get wider; k always begins a bar."""
    if high - low < BARS:
        return list(range(low, high + 1)), False
    geometric = high > 25 * low
    if geometric:
        ratio = (high / low) ** (1 / BARS)
        starts = {low, *(math.ceil(low * ratio**step) for step in range(1, BARS))}
    else:
        width = math.ceil((high - low + 1) / BARS)
        starts = set(range(low, high + 1, width))
    if k is not None and low < k <= high:
        starts.add(k)
    return sorted(starts), geometric


def describe(where: Sequence[tuple[str, Any]]) -> str:
    """Text of the values of a class: the first `COLUMNS_NAMED`, and the number of further values."""
    named = ", ".join(f"{name} = {value}" for name, value in where[:COLUMNS_NAMED])
    return named if len(where) <= COLUMNS_NAMED else f"{named}, and {len(where) - COLUMNS_NAMED} more columns"
