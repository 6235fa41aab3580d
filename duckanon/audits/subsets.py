"""Audit of k over subsets of the quasi-identifiers: one query with GROUPING SETS for all subsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.audits.report import CHANGING, Measure, Violation
from duckanon.database import engine, templates
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import duckdb

    from duckanon.policy.subsets import SubsetThreshold

MEASURE = "k_anonymity_subset"
"""Measure of a subset: fewest records with equal values in its columns; the attribute names the columns."""


@dataclass(frozen=True)
class SubsetValues:
    """Values of the templates ``audit_bind/subset_*``."""

    relation: str  # SQL text after FROM
    qi: list[str]  # columns of all subsets; each is read once
    texts: Collection[str]  # columns of text
    subsets: list[dict[str, object]]  # name, columns (numbers from 1 in qi), number, and k or None


def subset_values(relation: str, subsets: Sequence[SubsetThreshold], texts: Collection[str]) -> SubsetValues:
    """What the templates read; a subset's number is the sum of 2^(i - 1) over the columns i that it lacks."""
    qi = list(dict.fromkeys(name for one in subsets for name in one.columns))
    place = {name: number for number, name in enumerate(qi, start=1)}
    rows: list[dict[str, object]] = []
    for one in subsets:
        columns = [place[name] for name in one.columns]
        number = sum(2 ** (i - 1) for i in place.values() if i not in columns)
        rows.append({"name": one.name, "columns": columns, "number": number, "k": one.k})
    return SubsetValues(relation, qi, texts, rows)


def subset_measures(
    con: duckdb.DuckDBPyConnection, values: SubsetValues, measures: Sequence[Measure], stage: str
) -> tuple[Measure, ...]:
    """Measures of an audit with those of the subsets after k, the worst first. O(n).

    SourceError if the relation has other rows than in `measures`.
    """
    query = templates.render("audit_bind/subset_report.sql.j2", **vars(values))
    (*_, records, _, classes, _), *found = engine.rows(con, query, stage, error=SourceError)
    first = measures[0]
    average = next(one.value for one in measures if one.measure == "average_class_size")
    # All columns of the subsets are some of those of the classes, so there are at most as many classes.
    if not records or classes > first.classes or records / first.classes != average:
        raise SourceError(f"{stage}: {CHANGING}")
    return (first, *sorted((Measure(*row) for row in found), key=_kept), *measures[1:])


def _kept(measure: Measure) -> tuple[float, str]:
    """How much of its threshold a measure reaches, or its value; then its columns."""
    return float(measure.value or 0) / float(measure.threshold or 1), str(measure.attribute)


def subset_violations(
    con: duckdb.DuckDBPyConnection,
    values: SubsetValues,
    subsets: Sequence[SubsetThreshold],
    *,
    limit: int,
    stage: str,
) -> list[Violation]:
    """Combinations of values that are too rare, the worst of every subset first."""
    query = templates.render("audit_bind/subset_classes.sql.j2", **vars(values), limit=limit)
    found = []
    for place, measure, attribute, *texts, size, value in engine.rows(con, query, stage):
        columns = subsets[int(place) - 1].columns
        held = dict(zip(values.qi, texts, strict=True))
        found.append(
            Violation(measure, attribute, {name: held[name] for name in columns}, int(size), float(value))
        )
    return found
