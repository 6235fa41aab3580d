"""The columns of the source of a view when the view was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.database.fingerprint import fingerprint
from duckanon.database.relations import named
from duckanon.errors import ReleaseError
from duckanon.release import metadata
from duckanon.release.drift import CREATE_AGAIN, Drawn, SourceColumn

if TYPE_CHECKING:
    import duckdb

    from duckanon.release.metadata import Published
    from duckanon.release.stages.stage import Staged

SOURCES = "sources"
"""Table, in schema `metadata.SCHEMA`, of the columns of all sources; no export has it."""


def drawn(con: duckdb.DuckDBPyConnection, published: Published) -> Drawn:
    """Columns of the source of a release, which the present source must have.

    A ReleaseError if someone removed their record.
    """
    catalog = published.target.catalog
    if SOURCES in metadata.tables(con, catalog):
        query = templates.render(
            "catalog/releases.sql.j2:sources", catalog=catalog, release_id=published.release_id
        )
        rows = engine.rows(con, query, "catalog", error=ReleaseError)
        if rows:
            return Drawn(str(published.target), tuple(SourceColumn(*row) for row in rows))
    raise ReleaseError(
        f"the columns of the source of {published.target} are gone from "
        f"{catalog}.{metadata.SCHEMA}.{SOURCES}: {CREATE_AGAIN}"
    )


def drawn_columns(con: duckdb.DuckDBPyConnection, staged: Staged) -> list[tuple[str, str, str | None]]:
    """Columns of the source of records, their types, and the fingerprints of their hierarchies."""
    trees = _fingerprints(con, staged)
    return [(name, type_text, trees.get(name)) for name, type_text in staged.columns]


def check_hierarchies(con: duckdb.DuckDBPyConnection, source: Drawn, staged: Staged) -> None:
    """Raise if new classes would have other hierarchies than the published classes."""
    before = {column.name: column.hierarchy for column in source.columns}
    for name, now in _fingerprints(con, staged).items():
        if before.get(name) != now:
            raise ReleaseError(
                f"the hierarchy of {name!r} is not the one that {source.view} was made with, and mode = "
                "'append' would release nodes of both: REFRESH it without mode = 'append'"
            )


def _fingerprints(con: duckdb.DuckDBPyConnection, staged: Staged) -> dict[str, str]:
    climbs = staged.climbs
    with_tree = [
        field
        for field in staged.fields
        if field.column in climbs or field.attribute.distance == "hierarchical"
    ]
    return {field.name: fingerprint(con, named("temp", staged.tree(field))) for field in with_tree}
