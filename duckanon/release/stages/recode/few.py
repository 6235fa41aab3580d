"""Few: classes with too few values in a column release NULL, because a mean of few would reveal them.

A record of such a class moves from the class mean to the place of NULL. For a class of s records with h
values and sum S of their scores, SSE grows by w^2 (S^2 + h^2) / s, where w^2 is the weight of the column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.audits.report import Measure
from duckanon.database import engine, templates
from duckanon.policy.reported import MIN_VALUES

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.classes import Classes
    from duckanon.release.stages.embed.embed import Embedded
    from duckanon.release.stages.stage import Field, Staged


def sparse(staged: Staged, policy: Policy) -> list[Field]:
    """Quasi-identifiers in which a class may have fewer values, or subjects with a value, than required."""
    short = policy.least_values > policy.k
    return [
        field
        for field in staged.quasi
        if field.rule.of_values and (short or field.column in staged.with_nulls)
    ]


def lost(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, classes: Classes, policy: Policy
) -> float:
    """Information loss in per cent of values released as NULL, in addition to the classes' loss. O(n)."""
    more, told = 0.0, sparse(staged, policy)
    if not told:
        return 0.0
    found = classes.labels.columns()
    labels = np.full(staged.size, -1, dtype=np.int64)
    labels[found["record_id"] - 1] = found["class_id"]
    subjects = None if staged.subject is None else _column(con, staged, staged.records, "subject")
    sizes = np.bincount(labels[labels >= 0], minlength=classes.count)
    for field, axis in zip(staged.quasi, embedded.axes, strict=True):
        if field not in told:
            continue
        values = _column(con, staged, embedded.coded, axis.column)
        there = (labels >= 0) & ~np.isnan(values)
        of, scores = labels[there], np.zeros(int(there.sum()))
        if axis.spread:
            scores = (np.ldexp(values[there], -axis.exponent) - axis.center) / axis.spread
        held = np.bincount(of, minlength=len(sizes))
        whose = held if subjects is None else _different(of, subjects[there], len(sizes))
        few = (whose < policy.least_values) & (held > 0)
        sums = np.bincount(of, weights=scores, minlength=len(sizes))
        more += axis.weight**2 * float(((sums[few] ** 2 + held[few] ** 2) / sizes[few]).sum())
    whole = staged.size * sum(axis.variance for axis in embedded.axes)
    return 100 * more / whole if whole else 0.0


def _column(
    con: duckdb.DuckDBPyConnection, staged: Staged, relation: str, column: str
) -> npt.NDArray[np.float64]:
    query = templates.render("relation.sql.j2:numbers", records=relation, column=column)
    return engine.column(con, query, "recode", staged.size)


def _different(
    labels: npt.NDArray[np.int64], subjects: npt.NDArray[np.float64], classes: int
) -> npt.NDArray[np.int64]:
    """Return the number of distinct subjects of each class."""
    pairs = np.unique(np.stack([labels, subjects.astype(np.int64)]), axis=1)
    return np.bincount(pairs[0], minlength=classes)


def kept(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    policy: Policy,
    classes: int,
    *,
    relations: tuple[str, str],
) -> tuple[tuple[Measure, ...], tuple[str, ...]]:
    """The measure `min_values` by column, counted again from the released records, and warnings.

    `relations` are the temporary tables of released records with their class, and of class values. If kept,
    the measure shows its threshold, because the least count would describe a single class.
    """
    labelled, values = relations
    measures, warnings = [], []
    for field in sparse(staged, policy):
        query = templates.render(
            "recode/min_values.sql.j2",
            labelled=labelled,
            classes=values,
            column=field.column,
            subject=staged.subject is not None,
            least=policy.least_values,
        )
        fewest, violations, records, empty, lost = engine.rows(con, query, "audit")[0]
        least = float(fewest if violations else policy.least_values)
        counted = int(violations), int(records), violations == 0
        measures.append(Measure(MIN_VALUES, field.name, policy.least_values, least, classes, *counted))
        if empty:
            warnings.append(too_few(field.name, int(empty), int(lost), policy))
    return tuple(measures), tuple(warnings)


def too_few(name: str, classes: int, records: int, policy: Policy) -> str:
    """Warning of a column in which classes release NULL although some of their records have a value."""
    whose = "subjects" if policy.subject else "records"
    held = f"{records} value{'' if records == 1 else 's'}"
    what = (
        f"1 class with {held} of {name!r} releases"
        if classes == 1
        else f"{classes} classes with {held} of {name!r} release"
    )
    return (
        f"{what} NULL for it: fewer than {policy.least_values} {whose} of a class have one, and a mean of "
        "few tells them (min_values)"
    )
