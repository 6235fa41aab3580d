"""Copies: the tables of a report, copied once, so that all its parts describe the same rows and columns."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duckanon.audits.unaudited import unique_records
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

    from duckanon.audits.unaudited import Roles
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
    inner = bounds.group(1) if bounds else type_text
    kind = kind_of(inner)
    ranged = bounds is not None and kind in NUMBERS
    return CopiedColumn(name, place, table, kind if ranged or not bounds else "other", inner, ranged)


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
    audited = zip((*copies.quasi, *copies.sensitive), _in_order(attributes), strict=True)
    return [
        *(Released(column, one.role, one, one.type, _alone(copies, [column])) for column, one in audited),
        *(
            Released(column, roles.of(column.name), None, kind, _alone(copies, [column]))
            for column, (_, kind) in zip(copies.others, others, strict=True)
        ),
    ]


def _in_order(attributes: Sequence[Attribute]) -> list[Attribute]:
    return sorted(attributes, key=lambda one: one.role is not Role.QUASI_IDENTIFIER)


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
