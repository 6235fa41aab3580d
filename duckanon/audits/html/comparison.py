"""Comparison with the original: values, correlations, and changes of the records.

A release has no key to its original. Columns that were released unchanged restrict which records can belong
together. Over all possible assignments of records, the least and the greatest change are given. If every
record fits exactly one record, the two are equal and the figure is exact.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from duckanon.audits.html.copies import STAGE, Spread, Summary, make, rounded, spread, summary
from duckanon.database import engine, templates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.html.copies import CopiedColumn, Copies

Form = Literal["same", "number", "time", "text"]


class Pair(NamedTuple):
    """A released column, the original column of that name, and the form in which they are compared."""

    new: CopiedColumn
    old: CopiedColumn
    form: Form


class Span(NamedTuple):
    """The least and the greatest possible figure; equal if the figure is exact."""

    least: float
    most: float


@dataclass(frozen=True)
class Matching:
    """Match between the records of the release and of the original."""

    used: tuple[Pair, ...]  # matching columns: no quasi-identifiers, no value more frequent in the release
    compared: tuple[Pair, ...]  # all other columns that both tables have in comparable types
    apart: tuple[CopiedColumn, ...]  # released columns that the original lacks, or has in another type
    released: int  # records of the release
    original: int  # records of the original
    certain: int  # released records that fit exactly one record of the original
    possible: bool  # whether distinct records of the original can give the release
    groups: str  # temporary table
    matched: str  # temporary table


@dataclass(frozen=True)
class Effect:
    """Effect of the release on a column."""

    column: CopiedColumn  # released column
    taken: bool  # whether records were matched by the column, so that it counts as unchanged
    changed: Span | None  # share of the released records with another value; None if not comparable
    moved: Span | None  # mean absolute change of numbers; seconds for dates and timestamps
    loss: Span | None  # SSE / SST for numbers; else the share of changed records
    over: int  # records behind the mean changes
    before: tuple[float, float] | None  # range of a number
    after: tuple[float, float] | None  # range of a number
    kept: float | None  # variance after / variance before; None if the latter is 0


def matching(copies: Copies) -> Matching | None:
    """Match the records of the release with the original; None without an original.

    Groups all records once for each column, and once for all columns together.
    """
    if not copies.before:
        return None
    pairs = [pair for column in copies.columns if (pair := _pair(copies, column)) is not None]
    used = [pair for pair in pairs if not pair.new.place.startswith("q") and _contained(copies, pair)]
    grouped = _grouped(copies, used)
    if grouped[3] and used:
        # The columns agree one by one but not together, so no column tells which record is which.
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
    """Make the groups; return records of both tables, certain records, and groups with too many records."""
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
    """Effect of the release on one column.

    k - 1 records at each end of the original range are left out.
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
    """Mean loss of the quasi-identifiers; None if no loss is known."""
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
        # The original has no variance, so a change cannot be a share of it.
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
    """A column after the release, and before the release if the original has the column."""

    column: CopiedColumn
    after: Summary
    before: Summary | None
    spread: Spread | None  # of a quasi-identifier, the release last; else None
    both: bool  # whether the spread includes the original
    by_label: bool  # whether the spread is by the nodes of a hierarchy


@dataclass(frozen=True)
class Correlations:
    """Pearson's correlations as a square of rows; None for a constant or missing column."""

    names: tuple[str, ...]
    after: list[list[float | None]]
    before: list[list[float | None]] | None
    left_out: int  # columns beyond the first `CORRELATION_MAX_COLUMNS`

    @property
    def largest_change(self) -> tuple[float, str, str] | None:
        """Largest change of a correlation between original and release, with its two columns."""
        if self.before is None:
            return None
        changes = [
            (abs(now - then), self.names[row], self.names[column])
            for row, column in itertools.combinations(range(len(self.names)), 2)
            if (now := self.after[row][column]) is not None and (then := self.before[row][column]) is not None
        ]
        return max(changes, key=lambda change: change[0], default=None)


def changed(copies: Copies, column: CopiedColumn, *, k: int, tree: str | None = None) -> ColumnChange:
    """Figures of one column before and after the release; a tree groups its labels.

    Original values of fewer than k records are not shown.
    """
    con = copies.con
    after = summary(con, column)
    old = copies.before.get(column.place)
    before = None if old is None else summary(con, old, least=k)
    both = old is not None and (tree is not None or column.listed or _unit(old) == _unit(column))
    distribution = None
    if column.place.startswith("q"):
        # The values of a set are compared as texts.
        first = replace(old, kind="text") if old is not None and column.listed else old
        sides = [first, column] if both and first is not None else [column]
        figures = [before, after] if both and before is not None else [after]
        distribution = spread(con, sides, figures, least=k, tree=tree)
    return ColumnChange(column, after, before, distribution, both, tree is not None)


def _unit(column: CopiedColumn) -> str:
    """Return the unit of the number of a value: a point in time, or the value itself."""
    if column.kind in {"date", "timestamp"}:
        return "time"
    return "number" if column.numeric else column.kind


def correlations(copies: Copies) -> Correlations | None:
    """Correlations of all numeric columns; None with fewer than two of them."""
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
