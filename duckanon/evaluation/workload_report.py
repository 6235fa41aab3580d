"""Errors of aggregate queries on a release: by cell, column and query, as text and plain data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from duckanon.audits.legible import legible
from duckanon.audits.report import shown, text_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GROUPS_SHOWN = 5
"""Most missing groups, and most extra groups, that the text lists."""

Number = int | float | Decimal


@dataclass(frozen=True)
class Cell:
    """A number of a result, on both tables.

    Attributes
    ----------
    group : dict
        Values of the key columns; empty for a query of one row.
    column : str
        Name of the column.
    original, release : int, float, Decimal or None
        Result of the query on each table.
    absolute, relative : float or None
        |release - original|, and that over |original|. Both None if just one number is NULL, NaN or infinite;
        relative is None if the original is 0 and the release is not.
    """

    group: dict[str, Any]
    column: str
    original: Number | None
    release: Number | None
    absolute: float | None
    relative: float | None


@dataclass(frozen=True)
class Summary:
    """Errors of some cells.

    Attributes
    ----------
    cells, undefined : int
        Numbers compared, and numbers without a relative error.
    mean_absolute, max_absolute, mean_relative, max_relative : float or None
        Over the cells with such an error; None if no cell has one.
    """

    cells: int
    undefined: int
    mean_absolute: float | None
    max_absolute: float | None
    mean_relative: float | None
    max_relative: float | None


@dataclass(frozen=True)
class QueryError:
    """Error of a query.

    Attributes
    ----------
    name : str
        From its ``-- name:`` comment, or its number.
    line : int
        Line of the script where the query begins, from 1.
    sql : str
        The query.
    keys : tuple of str
        Columns by which rows are matched.
    groups : int
        Rows that both tables give.
    missing, extra : tuple of dict
        Groups that only the original gives, and groups that only the release gives.
    columns : dict of Summary
        Errors of each numeric column.
    overall : Summary
        Errors of all columns together. Read the relative errors: absolute errors may mix units.
    cells : tuple of Cell
        Every number, in the order of the rows of the original.
    """

    name: str
    line: int
    sql: str
    keys: tuple[str, ...]
    groups: int
    missing: tuple[dict[str, Any], ...]
    extra: tuple[dict[str, Any], ...]
    columns: dict[str, Summary]
    overall: Summary
    cells: tuple[Cell, ...]

    def lines(self) -> list[str]:
        """Return the text of the query: its columns, its worst cells, and the groups of one table only."""
        both = f"{self.groups} group{'' if self.groups == 1 else 's'} in both"
        head = f"{self.name} (line {self.line}): {both}"
        lines = [f"{head}, {len(self.missing)} missing, {len(self.extra)} extra"]
        titles = ("column", "cells", "mean error", "max error", "mean relative", "max relative", "undefined")
        rows = [
            (name, s.cells, s.mean_absolute, s.max_absolute, s.mean_relative, s.max_relative, s.undefined)
            for name, s in self.columns.items()
        ]
        lines += text_table(titles, rows)
        for name in self.columns:
            worst = max((c for c in self.cells if c.column == name and c.absolute), key=_weight, default=None)
            if worst is not None:
                where = f" in {_described(worst.group)}" if worst.group else ""
                lines.append(f"worst {name}: {shown(worst.original)} became {shown(worst.release)}{where}")
        for title, groups in (("missing", self.missing), ("extra", self.extra)):
            lines += [f"{title}: {_described(group)}" for group in groups[:GROUPS_SHOWN]]
            if len(groups) > GROUPS_SHOWN:
                lines.append(f"{title}: {len(groups) - GROUPS_SHOWN} more")
        return lines


@dataclass(frozen=True)
class Workload:
    """Errors of all queries of a workload.

    Attributes
    ----------
    original, release : str
        The tables.
    queries : tuple of QueryError
        In the order of the script.
    """

    original: str
    release: str
    queries: tuple[QueryError, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: dicts, lists, strings, numbers; values of other types as text."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def to_json(self) -> str:
        """JSON text of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_text(self) -> str:
        """One paragraph a query."""
        queries = "1 query" if len(self.queries) == 1 else f"{len(self.queries)} queries"
        blocks = [[f"{queries} on {self.original} and on {self.release}"]]
        blocks += [query.lines() for query in self.queries]
        return "\n\n".join("\n".join(map(legible, lines)) for lines in blocks)


def cell(group: dict[str, Any], column: str, original: Number | None, release: Number | None) -> Cell:
    """Compare two numbers of a group; errors are computed exactly and then rounded once."""
    if _usable(original) and _usable(release):
        before, after = Fraction(original), Fraction(release)  # type: ignore[arg-type]
        gap = abs(after - before)
        relative = _rounded(gap / abs(before)) if before else (None if gap else 0.0)
        return Cell(group, column, original, release, _rounded(gap), relative)
    same = original == release or (_nan(original) and _nan(release))
    return Cell(group, column, original, release, 0.0 if same else None, 0.0 if same else None)


def summary(cells: Iterable[Cell]) -> Summary:
    """Means and maxima of the errors of some cells; means are exact sums, rounded once."""
    every = list(cells)
    absolute = [one.absolute for one in every if one.absolute is not None]
    relative = [one.relative for one in every if one.relative is not None]
    return Summary(
        len(every),
        len(every) - len(relative),
        _mean(absolute),
        max(absolute, default=None),
        _mean(relative),
        max(relative, default=None),
    )


def _usable(value: Number | None) -> bool:
    return value is not None and math.isfinite(value)


def _nan(value: Number | None) -> bool:
    return value is not None and math.isnan(value)


def _rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return 1.7976931348623157e308


def _mean(values: Sequence[float]) -> float | None:
    # Divided first: a sum of numbers near the largest float would overflow.
    return math.fsum(value / len(values) for value in values) if values else None


def _weight(one: Cell) -> tuple[float, float]:
    relative = math.inf if one.relative is None else one.relative
    return relative, one.absolute or 0.0


def _described(group: dict[str, Any]) -> str:
    pairs = (f"{name} = {'NULL' if value is None else shown(value)}" for name, value in group.items())
    return ", ".join(pairs)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    return value if isinstance(value, float) and math.isfinite(value) else str(value)
