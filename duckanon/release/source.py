"""Source: a query, and the database and schema in which its unqualified names are looked up."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.database import engine, interrupts, templates
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from duckanon.release.drift import Drawn


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
