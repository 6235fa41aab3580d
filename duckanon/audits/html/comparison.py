"""Comparison with the original: values, correlations, and what became of the records.

A release has no key to its original. Columns that were released as they are say which records can belong
together: of all ways in which they can, the least and the most change is given. Where every record fits one
record only, the two are equal, and the figure is exact.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from duckanon.audits.html.copies import STAGE, make
from duckanon.audits.html.spread import Spread, Summary, rounded, spread, summary
from duckanon.database import engine, templates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.html.copies import CopiedColumn, Copies

Form = Literal["same", "number", "time", "text"]


class Pair(NamedTuple):
    """A released column, the one of the original with its name, and in which form the two are compared."""

    new: CopiedColumn
    old: CopiedColumn
    form: Form


class Span(NamedTuple):
    """The least and the most that a figure can be; equal where it is exact."""

    least: float
    most: float


@dataclass(frozen=True)
class Matching:
    """How the records of the release and of the original were matched.

    Attributes
    ----------
    used : tuple of Pair
        Columns by which: not quasi-identifiers, and in no value more frequent in the release. Empty where all
        pairs of records are possible.
    compared : tuple of Pair
        All other columns that both tables have in comparable types.
    apart : tuple of Column
        Released columns that the original does not have, or has in another type.
    released, original : int
        Records of each table.
    certain : int
        Released records that fit one record of the original only.
    possible : bool
        Whether the release can be made of records of the original, each of them once.
    groups, matched : str
        Temporary tables.
    """

    used: tuple[Pair, ...]
    compared: tuple[Pair, ...]
    apart: tuple[CopiedColumn, ...]
    released: int
    original: int
    certain: int
    possible: bool
    groups: str
    matched: str


@dataclass(frozen=True)
class Effect:
    """What the release did to a column.

    Attributes
    ----------
    column : Column
        The released column.
    taken : bool
        Whether the column was taken as released unchanged, because the records were matched by it.
    changed : Span or None
        Share of the released records that have another value; None where the tables cannot be compared.
    moved : Span or None
        Mean absolute change of numbers; of dates and timestamps in seconds.
    loss : Span or None
        Of numbers the mean squared change over the variance of the original: SSE / SST. Of other columns the
        share of records that changed. Never negative.
    over : int
        Records over which the mean changes of a number are.
    before, after : tuple of float or None
        Range of a number.
    kept : float or None
        Variance of the released number over that of the original; None where that has none.
    """

    column: CopiedColumn
    taken: bool
    changed: Span | None
    moved: Span | None
    loss: Span | None
    over: int
    before: tuple[float, float] | None
    after: tuple[float, float] | None
    kept: float | None


def matching(copies: Copies) -> Matching | None:
    """Match the records of the release with those of the original; None without original.

    One grouping of all records a column, and one of all columns together.
    """
    if not copies.before:
        return None
    pairs = [pair for column in copies.columns if (pair := _pair(copies, column)) is not None]
    used = [pair for pair in pairs if not pair.new.place.startswith("q") and _contained(copies, pair)]
    grouped = _grouped(copies, used)
    if grouped[3] and used:
        # The columns agree one by one and not together: none of them says which record is which.
        used, grouped = [], _grouped(copies, [])
    compared = [pair for pair in pairs if pair not in used]
    groups, matched = f"{copies.workspace}_groups", f"{copies.workspace}_matched"
    make(
        copies.con, "report/match.sql.j2:matched", matched=matched, groups=groups, used=used,
        compared=compared, new=copies.released, old=copies.original,
    )  # fmt: skip
    known = {pair.new.place for pair in pairs}
    apart = tuple(column for column in copies.columns if column.place not in known)
    released, original, certain, exceeding = grouped
    return Matching(
        tuple(used), tuple(compared), apart, released, original, certain, not exceeding, groups, matched
    )


def _pair(copies: Copies, new: CopiedColumn) -> Pair | None:
    old = copies.before.get(new.place)
    form = None if old is None else _form(old, new)
    return None if old is None or form is None else Pair(new, old, form)


def _form(old: CopiedColumn, new: CopiedColumn) -> Form | None:
    if (old.type, old.ranged) == (new.type, new.ranged):
        return "same"
    if old.kind in {"text", "boolean"}:
        return "text" if new.kind == old.kind else None
    if not (old.numeric and new.numeric):
        return None
    times = {one.kind in {"date", "timestamp"} for one in (old, new)}
    return None if len(times) == 2 else "time" if True in times else "number"


def _contained(copies: Copies, pair: Pair) -> bool:
    query = templates.render("report/match.sql.j2:contained", pair=pair)
    return not engine.rows(copies.con, query, STAGE)[0][0]


def _grouped(copies: Copies, used: Sequence[Pair]) -> tuple[int, int, int, int]:
    """Make the groups; return records of both tables, certain ones, and groups that hold too many."""
    groups = f"{copies.workspace}_groups"
    make(
        copies.con,
        "report/match.sql.j2:groups",
        groups=groups,
        used=used,
        new=copies.released,
        old=copies.original,
    )
    query = templates.render("report/match.sql.j2:groups_summary", groups=groups)
    released, original, certain, exceeding = engine.rows(copies.con, query, STAGE)[0]
    return int(released), int(original), int(certain), int(exceeding)


def effect(copies: Copies, match: Matching, column: CopiedColumn, *, k: int) -> Effect:
    """What the release did to one column.

    Of the original, k - 1 records at each end of the range are passed over.
    """
    old = copies.before.get(column.place)
    before, after = None if old is None else _range(copies, old, least=k), _range(copies, column, least=1)
    pair = next((pair for pair in (*match.used, *match.compared) if pair.new == column), None)
    if pair is None:
        return Effect(column, False, None, None, None, 0, None, after, None)
    taken, kept = pair in match.used, _variance_kept(copies, pair)
    if taken:
        none = Span(0.0, 0.0)
        moved = none if column.numeric else None
        return Effect(column, True, none, moved, none, match.released, before, after, kept)
    changed = _changed(copies, match, column)
    if not column.numeric:
        return Effect(column, False, changed, None, changed, match.released, before, after, None)
    over, moved, loss = _moved(copies, match, pair)
    return Effect(column, False, changed, moved, loss, over, before, after, kept)


def _variance_kept(copies: Copies, pair: Pair) -> float | None:
    if not pair.new.numeric:
        return None
    before, after = (summary(copies.con, one).deviation for one in (pair.old, pair.new))
    return None if not before or after is None else rounded((after / before) ** 2)


def overall(effects: Sequence[Effect]) -> Span | None:
    """Mean loss of the quasi-identifiers; None where the loss of none is known."""
    known = [one.loss for one in effects if one.loss is not None]
    if not known:
        return None
    return Span(*(sum(side) / len(known) for side in zip(*known, strict=True)))


def _changed(copies: Copies, match: Matching, column: CopiedColumn) -> Span:
    query = templates.render(
        "report/match.sql.j2:changed", matched=match.matched, groups=match.groups, place=column.place
    )
    least, most = engine.rows(copies.con, query, STAGE)[0]
    return Span(least / match.released, most / match.released if match.possible else 1.0)


def _moved(copies: Copies, match: Matching, pair: Pair) -> tuple[int, Span | None, Span | None]:
    deviation = summary(copies.con, pair.old).deviation or 0.0
    query = templates.render(
        "report/match.sql.j2:moved",
        matched=match.matched,
        place=pair.new.place,
        deviation=repr(deviation or 1.0),
    )
    over, near, far, near_squared, far_squared = engine.rows(copies.con, query, STAGE)[0]
    moved, loss = _span(near, far), _span(near_squared, far_squared)
    if not deviation and moved is not None:
        # There was no variance to lose; what moved all the same is no share of it.
        loss = Span(0.0, 0.0) if moved.most == 0 else None
    return int(over), moved, loss


def _span(least: float | None, most: float | None) -> Span | None:
    if least is None or most is None or not (math.isfinite(least) and math.isfinite(most)):
        return None
    low, high = rounded(least) or 0.0, rounded(most) or 0.0
    return Span(low, max(low, high))


def _range(copies: Copies, column: CopiedColumn, *, least: int) -> tuple[float, float] | None:
    if not column.numeric:
        return None
    query = templates.render("report/columns.sql.j2:range", column=column, least=least)
    low, high = engine.rows(copies.con, query, STAGE)[0]
    return None if low is None or high is None or low > high else (low, high)


CORRELATION_MAX_COLUMNS = 10
"""Columns of the table of correlations, at most."""


@dataclass(frozen=True)
class ColumnChange:
    """A column after the release, and before it where the original has it.

    Only a quasi-identifier has a spread, the released one last; `both`: it shows the original, too.
    """

    column: CopiedColumn
    after: Summary
    before: Summary | None
    spread: Spread | None
    both: bool


@dataclass(frozen=True)
class Correlations:
    """Pearson's correlations, a square of rows; None where a column is constant or missing.

    `left_out` counts the columns beyond the first `CORRELATION_MAX_COLUMNS`.
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


def changed(copies: Copies, column: CopiedColumn, *, k: int) -> ColumnChange:
    """Figures of one column before and after.

    What fewer than k records of the original share is not shown.
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
    return ColumnChange(column, after, before, distribution, both)


def _unit(column: CopiedColumn) -> str:
    """Return what the number of a value means: a point in time, or itself."""
    if column.kind in {"date", "timestamp"}:
        return "time"
    return "number" if column.numeric else column.kind


def correlations(copies: Copies) -> Correlations | None:
    """Correlations of all columns that are numbers; None with fewer than two of them."""
    columns = [column for column in (*copies.quasi, *copies.sensitive) if column.numeric]
    old = {place: column for place, column in copies.before.items() if column.numeric}
    if copies.before:
        columns = [column for column in columns if column.place in old]
    if len(columns) < 2:
        return None
    kept = columns[:CORRELATION_MAX_COLUMNS]
    before = _matrix(copies, [old[column.place] for column in kept]) if copies.before else None
    return Correlations(
        tuple(column.name for column in kept), _matrix(copies, kept), before, len(columns) - len(kept)
    )


def _matrix(copies: Copies, columns: Sequence[CopiedColumn]) -> list[list[float | None]]:
    pairs = list(itertools.combinations_with_replacement(columns, 2))
    query = templates.render("report/columns.sql.j2:correlations", columns=columns, pairs=pairs)
    values = engine.rows(copies.con, query, STAGE)[0]
    matrix: list[list[float | None]] = [[None] * len(columns) for _ in columns]
    places = itertools.combinations_with_replacement(range(len(columns)), 2)
    for (row, column), value in zip(places, values, strict=True):
        matrix[row][column] = matrix[column][row] = rounded(value, 6)
    return matrix
