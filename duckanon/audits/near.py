"""Audit of (n, t)-closeness: boxes of quasi-identifiers are given or searched, and SQL judges by them.

SQL computes ranks, boxes, sizes and distances from the audited rows, see sql/audit/natural_supersets.sql. Of
a given box SQL believes only which values it names. Who gives boxes may choose the values of a text for the
sensitive values below them; docs/measures/nt-closeness.md says so.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from duckanon.audits.certificate import SUPERSETS_MAX, Supersets
from duckanon.audits.report import CHANGING, VIOLATIONS_LISTED, Measure, violation_of
from duckanon.database import arrow, engine, templates
from duckanon.database.engine import temporary
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import duckdb
    import numpy.typing as npt
    import pyarrow as pa

    from duckanon.audits.columns import AuditColumn
    from duckanon.audits.report import Report, Violation

    Integers = npt.NDArray[np.int64]

MEASURE = "nt_closeness"

BOX_GROWTH = 4
"""The search cuts the table into boxes of n records, then of this many times n, and so on."""

NO_BOX_FOUND = (
    "no natural superset was found for the classes that violate nt_closeness; the boxes were searched, and a "
    "release of duckanon has recorded its own: audit the view, or run duckanon verify"
)
"""Warning of an audit that has searched for boxes."""


def audited_near(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    quasi_identifiers: Sequence[str],
    columns: Sequence[AuditColumn],
    n: int,
    report: Report,
    *,
    texts: Collection[str],
    given: Supersets | None = None,
) -> Report:
    """Report of an audit with a line of (n, t)-closeness for each column with t, and the boxes it used.

    Without `given` boxes it searches for boxes of n records that classes need.
    """
    stage = f"audit of {report.name}"
    asked = [one for one in columns if one.t is not None]
    with temporary(con) as workspace:
        values: dict[str, Any] = {"workspace": workspace, "qi": quasi_identifiers, "columns": asked, "n": n}
        values |= {"relation": relation, "texts": texts}
        for step in ("records", "classes", "members"):
            engine.run(con, _text(step, values), stage, error=SourceError)
        used = given or _searched(con, values, stage)
        _hold(con, values, used.bounds, stage)
        found = [_audit(con, values, place, stage) for place in range(1, len(asked) + 1)]
    if any(measure.classes != report.classes for measure, _ in found):
        raise SourceError(f"{stage}: {CHANGING}")
    few = f"n = {n:,} is more than the records of the table, so no group is large enough for any class"
    # The whole table holds every class: a distance is infinite only if the table has fewer than n records.
    warnings = [few] if any(measure.value == math.inf for measure, _ in found) else []
    if given is None and not warnings and any(measure.violations for measure, _ in found):
        warnings = [NO_BOX_FOUND]
    whole = report.with_audits(
        [measure for measure, _ in found], [one for _, worst in found for one in worst]
    )
    return replace(whole, warnings=(*report.warnings, *warnings), supersets=used)


def _text(step: str, values: Mapping[str, Any]) -> str:
    return templates.render(f"audit_bind/near.sql.j2:{step}", **values)


def _hold(con: duckdb.DuckDBPyConnection, values: Mapping[str, Any], bounds: pa.Table, stage: str) -> None:
    """Find the classes of every box by SQL."""
    name = f"{values['workspace']}_bounds"
    with engine.registered(con, {name: bounds}):
        text = _text("supersets", {**values, "bounds": templates.ident(name)})
        engine.run(con, text, stage, error=SourceError)


def _measure(con: duckdb.DuckDBPyConnection, values: Mapping[str, Any], place: int, stage: str) -> None:
    """Compare every class with its supersets in one column."""
    column = values["columns"][place - 1]
    named = {"place": place, "distance": column.distance, "name": column.name, "t": column.t}
    for step in ("distances", "verdicts"):
        engine.run(con, _text(step, {**values, **named}), stage, error=SourceError)


def _audit(
    con: duckdb.DuckDBPyConnection, values: Mapping[str, Any], place: int, stage: str
) -> tuple[Measure, list[Violation]]:
    """Measure of one column, and its worst violating classes."""
    _measure(con, values, place, stage)
    ((*row,),) = engine.rows(con, _text("report", values), stage)
    measure, worst = Measure(*row), []
    if not measure.passed:
        worst = engine.rows(con, _text("worst", {**values, "limit": VIOLATIONS_LISTED}), stage)
    return measure, [violation_of(one, values["qi"]) for one in worst]


def _searched(con: duckdb.DuckDBPyConnection, values: Mapping[str, Any], stage: str) -> Supersets:
    """Boxes that make the most classes keep the threshold, of those that Mondrian cuts the table into."""
    none = Supersets.of_rows(())
    _hold(con, values, none.bounds, stage)
    needy = []
    for place in range(1, len(values["columns"]) + 1):
        _measure(con, values, place, stage)
        needy.append(_numbers(con, _text("violating", values), stage)[0])
    if not any(map(len, needy)):
        return none
    size, *ranks = _numbers(con, _text("ranks", values), stage)
    rank = np.column_stack(ranks)
    wanted = np.isin(np.arange(1, len(size) + 1), np.concatenate(needy))
    boxes = list(_boxes(rank, size, wanted, values["n"]))
    if not boxes:
        return none
    pairs = _pairs(con, values, boxes, needy, stage)
    return _around([rank[boxes[number]] for number in _cover(*pairs, len(boxes))])


def _numbers(con: duckdb.DuckDBPyConnection, query: str, stage: str) -> list[Integers]:
    return [arrow.numbers(column) for column in engine.table(con, query, stage).columns]


def _around(boxes: Sequence[Integers]) -> Supersets:
    """Boxes, numbered from 1, around the ranks (classes, places) of some classes each."""
    return Supersets.of_rows(
        [
            (number, place, first, last)
            for number, ranks in enumerate(boxes, start=1)
            for place, (first, last) in enumerate(
                zip(ranks.min(axis=0).tolist(), ranks.max(axis=0).tolist(), strict=True), start=1
            )
        ]
    )


def _boxes(rank: Integers, size: Integers, wanted: npt.NDArray[np.bool_], n: int) -> Iterator[Integers]:
    """Classes, as indices, of each box with a wanted class: parts of Mondrian, the largest first."""
    # Imported here because numba takes half a second, and few audits search.
    from duckanon.literature.mondrian import mondrian

    points = np.repeat(rank / rank.max(axis=0), size, axis=0)
    first = np.cumsum(size) - size
    least = [n]
    while least[-1] * BOX_GROWTH * 2 <= len(points):
        least.append(least[-1] * BOX_GROWTH)
    for records in reversed(least):
        if 2 * records > len(points):
            continue
        # Equal points stay together, so the first record of a class tells its part.
        part = mondrian(points, records)[first]
        order = np.argsort(part, kind="stable")
        ends = np.flatnonzero(np.diff(part[order])) + 1
        parts = np.split(order, ends)
        if len(parts) > 1:
            yield from (one for one in parts if wanted[one].any())


def _pairs(
    con: duckdb.DuckDBPyConnection,
    values: Mapping[str, Any],
    boxes: Sequence[Integers],
    needy: Sequence[Integers],
    stage: str,
) -> tuple[Integers, Integers]:
    """Pairs of a violating class, counted anew for each column, and a box near to it."""
    import pyarrow as pa

    held = pa.table(
        {
            "class": arrow.arrow(np.concatenate(boxes) + 1),
            "superset": arrow.arrow(np.repeat(np.arange(len(boxes)), list(map(len, boxes)))),
        }
    )
    name = f"{values['workspace']}_held"
    with engine.registered(con, {name: held}):
        text = _text("tried", {**values, "held": templates.ident(name)})
        engine.run(con, text, stage, error=SourceError)
    found, count = [], 0
    for place, classes in enumerate(needy, 1):
        _measure(con, values, place, stage)
        t = values["columns"][place - 1].t
        class_of, box = _numbers(con, _text("near", {**values, "t": t}), stage)
        at = np.isin(class_of, classes)
        found.append((np.searchsorted(classes, class_of[at]) + count, box[at]))
        count += len(classes)
    return np.concatenate([one for one, _ in found]), np.concatenate([box for _, box in found])


def _cover(class_of: Integers, box: Integers, boxes: int) -> list[int]:
    """Boxes, at most `SUPERSETS_MAX`: each is near to the most classes without a box, the first of equals."""
    chosen: list[int] = []
    while len(box) and len(chosen) < SUPERSETS_MAX:
        best = int(np.argmax(np.bincount(box, minlength=boxes)))
        chosen.append(best)
        left = ~np.isin(class_of, class_of[box == best])
        class_of, box = class_of[left], box[left]
    return chosen
