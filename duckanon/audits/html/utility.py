"""Utility: what the release kept of the original, column by column and between columns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.audits.html.copies import STAGE
from duckanon.audits.html.spread import Spread, Summary, rounded, spread, summary
from duckanon.database import engine, templates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.html.copies import Column, Copies

CORRELATED = 10
"""Columns of the table of correlations, at most."""


@dataclass(frozen=True)
class Change:
    """A column after the release, and before it where the original has it.

    Attributes
    ----------
    column : Column
        The released column.
    after, before : Summary
        Figures; before is None without original.
    spread : Spread or None
        Distribution, the released one last; None for other columns than a quasi-identifier.
    both : bool
        Whether the spread shows the original, too.
    """

    column: Column
    after: Summary
    before: Summary | None
    spread: Spread | None
    both: bool


@dataclass(frozen=True)
class Correlations:
    """Pearson's correlations, a square of rows; None where a column is constant or missing.

    Attributes
    ----------
    names : tuple of str
        Columns.
    after, before : list of list of float or None
        Symmetric, 1 on the diagonal of what varies; before is None without original.
    left_out : int
        Columns beyond the first `CORRELATED`.
    """

    names: tuple[str, ...]
    after: list[list[float | None]]
    before: list[list[float | None]] | None
    left_out: int

    @property
    def largest_change(self) -> tuple[float, str, str] | None:
        """Largest difference of a pair between original and release."""
        if self.before is None:
            return None
        changes = [
            (abs(now - then), self.names[row], self.names[column])
            for row, column in itertools.combinations(range(len(self.names)), 2)
            if (now := self.after[row][column]) is not None and (then := self.before[row][column]) is not None
        ]
        return max(changes, key=lambda change: change[0], default=None)


def changed(copies: Copies, column: Column, *, k: int) -> Change:
    """Figures of one column before and after.

    Parameters
    ----------
    copies : Copies
        The copies.
    column : Column
        A released column.
    k : int
        What fewer records of the original have in common is not shown.

    Returns
    -------
    Change
        With the distribution of a quasi-identifier.
    """
    con = copies.con
    after = summary(con, column)
    old = copies.before.get(column.place)
    before = None if old is None else summary(con, old, least=k)
    both = old is not None and old.numeric == column.numeric and _unit(old) == _unit(column)
    distribution = None
    if column.place.startswith("q"):
        sides = [old, column] if both and old is not None else [column]
        figures = [before, after] if both and before is not None else [after]
        distribution = spread(con, sides, figures, least=k)
    return Change(column, after, before, distribution, both)


def _unit(column: Column) -> str:
    """Return what the number of a value means: a point in time, or itself."""
    if column.kind in {"date", "timestamp"}:
        return "time"
    return "number" if column.numeric else column.kind


def correlations(copies: Copies) -> Correlations | None:
    """Correlations of all columns that are numbers.

    Parameters
    ----------
    copies : Copies
        The copies.

    Returns
    -------
    Correlations or None
        None with fewer than two such columns.
    """
    columns = [column for column in (*copies.quasi, *copies.sensitive) if column.numeric]
    old = {place: column for place, column in copies.before.items() if column.numeric}
    if copies.before:
        columns = [column for column in columns if column.place in old]
    if len(columns) < 2:
        return None
    kept = columns[:CORRELATED]
    before = _matrix(copies, [old[column.place] for column in kept]) if copies.before else None
    return Correlations(
        tuple(column.name for column in kept), _matrix(copies, kept), before, len(columns) - len(kept)
    )


def _matrix(copies: Copies, columns: Sequence[Column]) -> list[list[float | None]]:
    pairs = list(itertools.combinations_with_replacement(columns, 2))
    query = templates.render("report/correlations.sql.j2", columns=columns, pairs=pairs)
    values = engine.rows(copies.con, query, STAGE)[0]
    matrix: list[list[float | None]] = [[None] * len(columns) for _ in columns]
    places = itertools.combinations_with_replacement(range(len(columns)), 2)
    for (row, column), value in zip(places, values, strict=True):
        matrix[row][column] = matrix[column][row] = rounded(value, 6)
    return matrix
