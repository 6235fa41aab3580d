"""Source: a query, and the columns that it must still have if a view was made from it before."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.database import engine, interrupts, templates
from duckanon.errors import SourceError
from duckanon.policy.audit_policy import ROLES
from duckanon.policy.names import fold, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from duckanon.policy.policy import Policy

CREATE_AGAIN = "CREATE OR REPLACE ANONYMIZED VIEW makes the view of what is there now"
"""Way to a view with other columns."""

_NAMED_COLUMNS, _TYPE_CHARACTERS = 10, 60
"""Columns that an error names, and shown characters of a type."""


@dataclass(frozen=True)
class SourceColumn:
    """A column of a source when its view was made."""

    name: str
    type: str  # text of DESCRIBE
    hierarchy: str | None = None  # fingerprint of its tree


@dataclass(frozen=True)
class Drawn:
    """Columns of the source of a view, which the source must still have."""

    view: str
    columns: tuple[SourceColumn, ...]
    way_out: str = CREATE_AGAIN


@dataclass(frozen=True)
class Source:
    """A query, and the database and schema in which its unqualified names are looked up."""

    query: str
    catalog: str
    schema: str
    drawn: Drawn | None = None  # columns that the source must have, if a view was made from it before


@contextlib.contextmanager
def names_of(con: duckdb.DuckDBPyConnection, source: Source) -> Iterator[None]:
    """Look up unqualified names where the source was written; afterwards where the caller is."""
    catalog, schema, before = engine.rows(con, templates.render("session.sql.j2:current"), "catalog")[0]
    if (catalog, schema) == (source.catalog, source.schema):
        yield
        return
    back = templates.render("session.sql.j2:set", name="search_path", value=before, session=False)
    with interrupts.cleanup(con, lambda: engine.run(con, back, "clean-up")):
        move = templates.render("session.sql.j2:use", catalog=source.catalog, schema=source.schema)
        engine.run(con, move, "source", error=SourceError)
        yield


def in_step(columns: Sequence[tuple[str, str]], drawn: Drawn, policy: Policy) -> list[tuple[str, str]]:
    """Columns of a source, names with types, ordered and spelled as when its view was made.

    A SourceError if a column is gone, has another type, or is new and not named by the policy: a view
    releases only columns that somebody has reviewed.
    """
    today = {fold(name): (name, type_text) for name, type_text in columns}
    before = {fold(column.name): column for column in drawn.columns}
    # Columns that the policy names, so somebody has reviewed them.
    lists = [getattr(policy, option) for option in (*ROLES, "subject")]
    named = {fold(name) for names in lists if names != "*" for name in names}
    new = [name for key, (name, _) in today.items() if key not in before and key not in named]
    gone = [column.name for key, column in before.items() if key not in today]
    retyped = [
        f"{column.name!r} was {shortened(column.type, _TYPE_CHARACTERS)} "
        f"and is {shortened(today[key][1], _TYPE_CHARACTERS)}"
        for key, column in before.items()
        if key in today and column.type != today[key][1]
    ]
    said = [*(f"{name!r} is new" for name in new), *(f"{name!r} is gone" for name in gone), *retyped]
    if said:
        more = f" and {len(said) - _NAMED_COLUMNS} more" if len(said) > _NAMED_COLUMNS else ""
        raise SourceError(
            f"the source of {drawn.view} is not what it was when the view was made: "
            f"{', '.join(said[:_NAMED_COLUMNS])}{more}; nothing was released. {drawn.way_out}"
        )
    known = [(column.name, today[key][1]) for key, column in before.items()]
    return known + [today[key] for key in today if key not in before]
