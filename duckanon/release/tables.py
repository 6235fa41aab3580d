"""The tables of a release (two with ``release = 'anatomy'``), and their rows in the form of an audit.

Two tables are joined by class, in the order of both, so that the rows reveal no more than the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.database import templates
from duckanon.database.relations import Target, columns_of, subquery
from duckanon.errors import SourceError
from duckanon.policy.bind import Role
from duckanon.policy.names import CLASS, RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    Columns = Sequence[tuple[str, str]]

SECOND_ENDING = "_sensitive"
"""Ending of the name of a second table or file."""


@dataclass(frozen=True)
class Released:
    """A column of a release in the metadata."""

    name: str
    role: str
    recode: str | None
    tree: str | None  # table in our schema, of the hierarchy or of the order of its values
    distance: str | None = None


@dataclass(frozen=True)
class Part:
    """A table of a release: its columns, and the ending of its name after the name of the view."""

    ending: str
    columns: tuple[str, ...]

    def of(self, name: str) -> str:
        """Name of the part."""
        return f"{name}{self.ending}"

    def beside(self, target: Target) -> Target:
        """View or table of the part."""
        return Target(target.catalog, target.schema, self.of(target.name))


def parts_of(columns: Sequence[Released]) -> tuple[Part, ...]:
    """The tables of a release, with the table of the quasi-identifiers first."""
    names = tuple(column.name for column in columns)
    held = sensitive_of(columns)
    if not held:
        return (Part("", names),)
    first = tuple(name for name in names if name not in held)
    return Part("", first), Part(SECOND_ENDING, (CLASS, *held, RECORDS))


def sensitive_of(columns: Sequence[Released]) -> tuple[str, ...]:
    """Columns of the second table; none if there is only one table."""
    if not any(column.recode == "anatomy" for column in columns):
        return ()
    return tuple(column.name for column in columns if column.role == Role.SENSITIVE.value)


def whole(relations: Sequence[str], columns: Columns, sensitive: Sequence[str]) -> str:
    """Rows of a release, one a record, as SQL text after FROM. O(n log n) for two tables.

    `relations` are the tables of `parts_of`; `columns` are names and types, unused for a single table;
    `sensitive` are the columns of `sensitive_of`.
    """
    if len(relations) == 1:
        return relations[0]
    first, second = relations
    query = templates.render(
        "anatomy.sql.j2:joined",
        first=first,
        second=second,
        number=CLASS,
        records=RECORDS,
        fields=[column for column in columns if column[0] != CLASS],
        sensitive=sensitive,
    )
    return subquery(query)


def read(
    con: duckdb.DuckDBPyConnection, relations: Sequence[str], columns: Sequence[Released], stage: str
) -> str:
    """Rows of a release, as of `whole`, from tables that a connection sees.

    SourceError if a table has other columns than those released, because an audit would not see them.
    """
    if len(relations) == 1:
        return relations[0]
    types: dict[str, str] = {}
    for part, relation in zip(parts_of(columns), relations, strict=True):
        found = columns_of(con, relation, stage)
        names = tuple(name for name, _ in found)
        if names != part.columns:
            raise SourceError(
                f"{stage}: {relation} has the columns {', '.join(map(repr, names))}, and the release has "
                f"{', '.join(map(repr, part.columns))}"
            )
        types |= _checked(found, types, stage) if part.ending else dict(found)
    listed = [(column.name, types[column.name]) for column in columns]
    return whole(relations, listed, sensitive_of(columns))


def together(con: duckdb.DuckDBPyConnection, first: str, second: str, stage: str) -> str:
    """Rows of a release, as of `whole`, from two tables without metadata.

    SourceError unless both have the class, and the second one values and their count.
    """
    persons, values = columns_of(con, first, stage), columns_of(con, second, stage)
    held = _checked(values, dict(persons), stage)
    return whole([first, second], [*persons, *held.items()], tuple(held))


def _checked(values: Columns, persons: Mapping[str, str], stage: str) -> dict[str, str]:
    """Return names and types of the sensitive columns of a second table; raise without class and count."""
    types = dict(values)
    if types.get(CLASS, "") != persons.get(CLASS) or types.get(RECORDS) != "BIGINT":
        told = ", ".join(f"{name!r} {kind}" for name, kind in values)
        raise SourceError(
            f"{stage}: the second table of release = 'anatomy' has {CLASS!r}, of the type that the first one "
            f"has, and {RECORDS!r} BIGINT; found {told}"
        )
    return {name: kind for name, kind in values if name not in {CLASS, RECORDS}}


def counted(relation: str, columns: Columns, sensitive: Sequence[str]) -> str:
    """Query of the second table, from the rows of a release."""
    return templates.render(
        "anatomy.sql.j2:counted",
        relation=relation,
        number=CLASS,
        records=RECORDS,
        fields=[column for column in columns if column[0] in sensitive],
    )
