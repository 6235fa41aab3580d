"""Copies of the tables of a report, so that all its parts describe the same rows, and figures of columns."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from duckanon.audits.legible import DAY_SECONDS, MISSING, clean, moment
from duckanon.audits.run import unique_records
from duckanon.database import engine, templates
from duckanon.database.engine import temporary
from duckanon.database.relations import columns_of, named
from duckanon.errors import SourceError
from duckanon.policy.bind import Role
from duckanon.policy.kinds import NUMBERS, kind_of
from duckanon.policy.names import fold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb

    from duckanon.audits.run import Roles
    from duckanon.policy.bind import Attribute
    from duckanon.policy.kinds import Kind


STAGE = "HTML report"
"""Name of this stage in logs and errors."""

_RANGE = re.compile(r'STRUCT\("?low"? (.+), "?high"? \1\)')


@dataclass(frozen=True)
class CopiedColumn:
    """A column in one of the copies."""

    name: str
    place: str  # in the copy: q_1, ... quasi-identifiers, s_1, ... sensitive columns, o_1, ... others
    table: str
    kind: Kind  # of the values, or of the bounds if `ranged`
    type: str  # likewise
    ranged: bool = False  # whether values have a low and a high end
    only: int | None = None  # class to which queries are restricted; None for all records

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers, dates or timestamps."""
        return self.kind in NUMBERS

    @property
    def listed(self) -> bool:
        """Whether the values are sets."""
        return self.type.endswith("[]")


@dataclass(frozen=True)
class Copies:
    """The temporary tables of one report, and their columns."""

    con: duckdb.DuckDBPyConnection
    workspace: str
    released: str  # table of the released columns
    original: str  # table of the original columns, if `before` is not empty
    classes: str
    members: str  # table of the class and the sensitive values of every record
    quasi: tuple[CopiedColumn, ...]
    sensitive: tuple[CopiedColumn, ...]
    others: tuple[CopiedColumn, ...]  # not audited
    before: Mapping[str, CopiedColumn]  # columns of the original by place

    @property
    def columns(self) -> tuple[CopiedColumn, ...]:
        """All released columns."""
        return *self.quasi, *self.sensitive, *self.others

    def of_class(self, column: CopiedColumn, number: int | None) -> CopiedColumn:
        """Return a sensitive column among the members, of one class or of all classes."""
        return replace(column, table=self.members, only=number)


@contextlib.contextmanager
def copied(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    attributes: Sequence[Attribute],
    others: Sequence[tuple[str, str]],
    *,
    original: str | None,
) -> Iterator[Copies]:
    """Copies for the time of a report. One scan of each relation, one grouping, one join.

    Relations are SQL text; `others` are names and types of columns that are not audited. Columns that the
    original lacks are left out.
    """
    with temporary(con) as workspace:
        released, before, classes, members = (
            f"{workspace}_{part}" for part in ("released", "original", "classes", "members")
        )
        columns = _columns(attributes, others, released)
        quasi = tuple(column for column in columns if column.place.startswith("q"))
        sensitive = tuple(column for column in columns if column.place.startswith("s"))
        make(con, "report/classes.sql.j2:columns", table=released, columns=columns, relation=relation)
        make(con, "report/classes.sql.j2:classes", classes=classes, table=released, quasi=quasi)
        make(
            con,
            "report/classes.sql.j2:members",
            members=members,
            table=released,
            classes=classes,
            quasi=quasi,
            sensitive=sensitive,
        )
        old = _original(con, before, original, columns) if original else {}
        rest = tuple(columns[len(attributes) :])
        yield Copies(con, workspace, released, before, classes, members, quasi, sensitive, rest, old)


def _columns(
    attributes: Sequence[Attribute], others: Sequence[tuple[str, str]], table: str
) -> list[CopiedColumn]:
    counts = {"q": 0, "s": 0}
    columns = []
    for attribute in attributes:
        letter = "q" if attribute.role is Role.QUASI_IDENTIFIER else "s"
        counts[letter] += 1
        columns.append(_column(attribute.name, attribute.type, f"{letter}_{counts[letter]}", table))
    rest = [_column(*other, f"o_{number}", table) for number, other in enumerate(others, start=1)]
    return columns + rest


def _column(name: str, type_text: str, place: str, table: str) -> CopiedColumn:
    bounds = _RANGE.fullmatch(type_text)
    ranged = bounds is not None and kind_of(bounds.group(1)) in NUMBERS
    # A range of texts that have an order is shown as it is written.
    inner = bounds.group(1) if bounds and ranged else type_text
    return CopiedColumn(name, place, table, kind_of(inner), inner, ranged)


def _original(
    con: duckdb.DuckDBPyConnection, table: str, original: str, columns: Sequence[CopiedColumn]
) -> dict[str, CopiedColumn]:
    types = {fold(name): (name, type_text) for name, type_text in columns_of(con, original, STAGE)}
    common = [
        _column(*types[fold(column.name)], column.place, table)
        for column in columns
        if fold(column.name) in types
    ]
    if not any(column.place[0] in "qs" for column in common):
        raise SourceError(
            f"{STAGE}: the original has none of the columns of the policy; give the table the release is from"
        )
    make(con, "report/classes.sql.j2:columns", table=table, columns=common, relation=original)
    query = templates.render("relation.sql.j2:any_record", relation=named("temp", table))
    if not engine.rows(con, query, STAGE):
        raise SourceError(f"{STAGE}: the original is empty; give the table that the release is from")
    return {column.place: column for column in common}


def make(con: duckdb.DuckDBPyConnection, name: str, **values: object) -> None:
    """Run a template that makes a temporary table of a report."""
    engine.run(con, templates.render(name, **values), STAGE, error=SourceError)


@dataclass(frozen=True)
class Released:
    """A released column."""

    column: CopiedColumn
    role: Role | None  # None if the policy does not name it
    attribute: Attribute | None  # None if it is not audited
    type: str
    alone: int  # records with a value that no other record has

    @property
    def audited(self) -> bool:
        """Whether the audit covers the column."""
        return self.attribute is not None


@dataclass(frozen=True)
class Uniqueness:
    """Records that are unique in the unaudited columns, and in unaudited and sensitive columns together."""

    unaudited: tuple[str, ...]
    alone_unaudited: int
    beside: tuple[str, ...]
    alone_beside: int
    records: int


def released_columns(
    copies: Copies, attributes: Sequence[Attribute], others: Sequence[tuple[str, str]], roles: Roles
) -> list[Released]:
    """All released columns: quasi-identifiers, sensitive columns, then all others; one query a column."""
    in_order = sorted(attributes, key=lambda one: one.role is not Role.QUASI_IDENTIFIER)
    audited = zip((*copies.quasi, *copies.sensitive), in_order, strict=True)
    return [
        *(Released(column, one.role, one, one.type, _alone(copies, [column])) for column, one in audited),
        *(
            Released(column, roles.of(column.name), None, kind, _alone(copies, [column]))
            for column, (_, kind) in zip(copies.others, others, strict=True)
        ),
    ]


def uniqueness(copies: Copies, records: int) -> Uniqueness:
    """Records that are unique in columns other than quasi-identifiers, by sql/audit/uniqueness.sql."""
    beside = (*copies.sensitive, *copies.others)
    return Uniqueness(
        tuple(column.name for column in copies.others),
        _alone(copies, copies.others),
        tuple(column.name for column in beside),
        _alone(copies, beside),
        records,
    )


def revealed(copies: Copies, column: CopiedColumn) -> tuple[int, int]:
    """Number of classes, and of their records, with a single value of a sensitive column."""
    query = templates.render("report/classes.sql.j2:revealed", members=copies.members, column=column)
    classes, records = engine.rows(copies.con, query, STAGE)[0]
    return int(classes), int(records)


def _alone(copies: Copies, columns: Sequence[CopiedColumn]) -> int:
    if not columns:
        return 0
    relation = named("temp", copies.released)
    places = [column.place for column in columns]
    # The texts of the copy have no collation.
    return unique_records(copies.con, relation, places, texts=(), stage=STAGE)[1]


BARS = 30
"""Bins of a number: about as many, and at most twice as many and two."""

BAR_MAX_NUMBERS = 24
"""Distinct values of a number up to which each value has its own bar."""

BAR_MAX_TEXTS = 12
"""Values of a text that are named; one bar has all others."""

BAR_MAX_LABELS = 24
"""Rows of a chart of the labels of a hierarchy, or of the values of sets."""

_UNITS = {"integer": 1.0, "date": DAY_SECONDS}
"""Width of one number of a range; other numbers have no width."""

_TIMES = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600)


class Summary(NamedTuple):
    """Figures of a column; quartiles and tails are None without numbers."""

    records: int
    missing: int
    distinct: int
    mean: float | None
    deviation: float | None
    low: float | None
    high: float | None
    quartiles: list[float] | None
    tails: list[float] | None


class Bins(NamedTuple):
    """Equal bins from `low` on; the first and the last bin include all values beyond."""

    low: float
    width: float
    number: int

    @property
    def edges(self) -> list[float]:
        """All number + 1 edges."""
        return [self.low + place * self.width for place in range(self.number + 1)]


class Spread(NamedTuple):
    """Shares of records by value or by bin: one list a group, in the order of the labels."""

    labels: list[str]
    bins: Bins | None
    shares: list[list[float]]
    missing: list[float]  # shares beside the bins; 0 if NULL is a label
    hidden: bool  # whether small shares of the first group are shown as 0


def summary(con: duckdb.DuckDBPyConnection, column: CopiedColumn, *, least: int = 1) -> Summary:
    """Figures of one column, rounded to ten digits, because the last digits of parallel sums vary.

    Beyond each of the tails lie at least `least` records.
    """
    query = templates.render("relation.sql.j2:count", relation=named("temp", column.table))
    rows = engine.rows(con, query, STAGE)
    tail = min(0.5, max(0.01, least / max(1, rows[0][0])))
    query = templates.render("report/columns.sql.j2:summary", column=column, tail=tail)
    row = engine.rows(con, query, STAGE)[0]
    mean, deviation, low, high = (rounded(value) for value in row[3:7])
    quartiles, tails = (
        None if value is None or None in value else [float(rounded(one) or 0) for one in value]
        for value in row[7:9]
    )
    return Summary(row[0], row[1], row[2], mean, deviation, low, high, quartiles, tails)


def rounded(value: float | None, digits: int = 10) -> float | None:
    """Number with some significant digits; None for None and NaN."""
    return None if value is None or math.isnan(value) else float(f"{float(value):.{digits}g}")


def spread(
    con: duckdb.DuckDBPyConnection,
    sides: Sequence[CopiedColumn],
    summaries: Sequence[Summary],
    *,
    least: int = 1,
    tree: str | None = None,
) -> Spread:
    """Distribution of a column in one or two groups, the released group last, in bins or by value.

    With a tree (value, level, node) it is by node, in the order of the hierarchy.

    In the first of two groups a share of fewer than `least` records is shown as 0; its value is named only if
    the released group has it. The summaries cover all records of the bins.
    """
    column = sides[-1]
    if tree is not None:
        return _by_label(con, sides, least, tree)
    bins = _bins(column, summaries) if column.numeric else None
    if bins is None:
        return _by_value(con, sides, least)
    query = templates.render(
        "report/columns.sql.j2:bins",
        sides=sides,
        bins=bins.number,
        low=bins.low,
        width=bins.width,
        unit=_UNITS.get(column.kind, 0.0),
    )
    counts = [[0.0] * (bins.number + 1) for _ in sides]
    for side, number, records in engine.rows(con, query, STAGE):
        counts[side][bins.number if number is None else number] = records
    shares, hidden = _shares(counts, least)
    labels = _bin_labels(bins, column.kind)
    return Spread(labels, bins, [side[:-1] for side in shares], [side[-1] for side in shares], hidden)


def _shares(counts: Sequence[Sequence[float]], least: int) -> tuple[list[list[float]], bool]:
    """Return shares of each group, and whether shares of the first of two were hidden as 0."""
    shown = [list(side) for side in counts]
    if len(counts) > 1:
        shown[0] = [records if records >= least else 0 for records in counts[0]]
    totals = [max(1, sum(side)) for side in counts]
    shares = [[records / total for records in side] for side, total in zip(shown, totals, strict=True)]
    return shares, shown[0] != list(counts[0])


def _by_label(con: duckdb.DuckDBPyConnection, sides: Sequence[CopiedColumn], least: int, tree: str) -> Spread:
    query = templates.render("report/columns.sql.j2:labels", sides=sides, tree=tree, limit=BAR_MAX_LABELS)
    rows = engine.rows(con, query, STAGE)
    records = {(place, label, side): number for place, side, label, number in rows}
    order = list(dict.fromkeys((place, label) for place, _, label, _ in rows))
    counts = [[records.get((*row, side), 0.0) for row in order] for side in range(len(sides))]
    shares, hidden = _shares(counts, least)
    drawn = [place for place in range(len(order)) if any(side[place] for side in shares)]
    labels = [MISSING if order[place][1] is None else clean(order[place][1]) for place in drawn]
    shown = [[side[place] for place in drawn] for side in shares]
    return Spread(labels, None, shown, [0.0] * len(sides), hidden)


def _by_value(con: duckdb.DuckDBPyConnection, sides: Sequence[CopiedColumn], least: int) -> Spread:
    last = sides[-1]
    limit = BAR_MAX_NUMBERS if last.numeric else BAR_MAX_LABELS if last.listed else BAR_MAX_TEXTS
    query = templates.render("report/columns.sql.j2:categories", sides=sides, limit=limit, least=least)
    rows = engine.rows(con, query, STAGE)
    order = list(dict.fromkeys(row[0] for row in rows))
    if last.numeric:
        numbers = {row[0]: row[3] for row in rows}
        order.sort(key=lambda place: (place is None, numbers[place] is None, numbers[place] or 0.0))
    records = {(row[0], row[1]): row[4] for row in rows}
    first = {row[0]: row for row in reversed(rows)}
    counts = [[records.get((place, side), 0) for place in order] for side in range(len(sides))]
    shares, hidden = _shares(counts, least)
    labels = [_value_label(first[place], last) for place in order]
    return Spread(labels, None, shares, [0.0] * len(sides), hidden)


def _value_label(row: tuple[int | None, int, str | None, float | None, float], column: CopiedColumn) -> str:
    place, _, value, size, _ = row
    if place is None:
        return "all others"
    if not column.numeric:
        return MISSING if value is None else clean(value)
    return MISSING if size is None else shown_value(size, column.kind)


def shown_value(value: float, kind: str) -> str:
    """Value of a numeric column as text, ten digits at most; dates and timestamps are seconds."""
    if kind in {"date", "timestamp"}:
        return moment(value, day=kind == "date")
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.10g}"


def _bins(column: CopiedColumn, summaries: Sequence[Summary]) -> Bins | None:
    """Return bins between the tails; None for few values."""
    if not column.ranged and max(one.distinct for one in summaries) <= BAR_MAX_NUMBERS:
        return None
    tails = [one.tails for one in summaries if one.tails is not None]
    if not tails:
        return None
    low, high = min(pair[0] for pair in tails), max(pair[1] for pair in tails)
    if low == high:
        last = summaries[-1]
        low, high = last.low or 0.0, last.high or 0.0
    if low == high:
        low, high = low - max(1.0, abs(low) / 10), high + max(1.0, abs(high) / 10)
    # Bins are wider than the distance of neighbouring floating-point numbers, so edges differ.
    finest = max(4 * math.ulp(max(abs(low), abs(high))), 1e-300)
    width = _step(column.kind, max((high - low) / BARS, finest))
    begin = math.floor(low / width) * width
    return Bins(begin, width, min(2 * BARS + 2, max(1, math.floor((high - begin) / width) + 1)))


def _step(kind: str, least: float) -> float:
    """Return the least round width that is not below the wanted width."""
    if kind == "date":
        return DAY_SECONDS * _nice(max(1.0, least / DAY_SECONDS))
    if kind == "timestamp":
        fitting = [float(step) for step in _TIMES if step >= least]
        return fitting[0] if fitting else DAY_SECONDS * _nice(max(1.0, least / DAY_SECONDS))
    return _nice(max(1.0, least)) if kind == "integer" else _nice(least)


def _nice(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _bin_labels(bins: Bins, kind: str) -> list[str]:
    texts = [edge_label(edge, bins.width, kind) for edge in bins.edges]
    labels = [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
    if bins.number > 1:
        labels[0], labels[-1] = f"below {texts[1]}", f"{texts[-2]} and more"
    return labels


def edge_label(edge: float, width: float, kind: str) -> str:
    """Edge of a bin with as many digits as the bin width needs: a number, date or time."""
    if kind in {"date", "timestamp"}:
        return moment(edge, day=width >= DAY_SECONDS)
    if abs(edge) >= 1e15 or width < 1e-9:
        return f"{edge:.4g}"
    return f"{edge:,.{max(0, -math.floor(math.log10(width)))}f}"
