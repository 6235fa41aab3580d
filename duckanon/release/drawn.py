"""What a view was made from: the columns of its source, as its database recorded them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.database.fingerprint import fingerprint
from duckanon.database.relations import columns_of, named
from duckanon.errors import ReleaseError
from duckanon.policy.bind import Role
from duckanon.policy.names import fold
from duckanon.policy.policy import Policy
from duckanon.release import metadata
from duckanon.release.drift import Drawn, SourceColumn
from duckanon.release.tables import parts_of

if TYPE_CHECKING:
    import duckdb

    from duckanon.release.metadata import Published
    from duckanon.release.stages.stage import Staged

SOURCES = "sources"
"""Table, in schema `metadata.SCHEMA`, of the columns of all sources; no export has it."""


def drawn(con: duckdb.DuckDBPyConnection, published: Published) -> Drawn:
    """Columns that the source of a release had, to which today's source has to keep."""
    catalog = published.target.catalog
    if SOURCES in metadata.tables(con, catalog):
        query = templates.render("catalog/sources.sql.j2", catalog=catalog, release_id=published.release_id)
        rows = engine.rows(con, query, "catalog", error=ReleaseError)
        if rows:
            return Drawn(str(published.target), tuple(SourceColumn(*row) for row in rows))
    return Drawn(str(published.target), _told(con, published))


def drawn_columns(con: duckdb.DuckDBPyConnection, staged: Staged) -> list[tuple[str, str, str | None]]:
    """Columns of the source of records, their types, and the fingerprints of their hierarchies."""
    trees = _fingerprints(con, staged)
    return [(name, type_text, trees.get(name)) for name, type_text in staged.columns]


def check_hierarchies(con: duckdb.DuckDBPyConnection, source: Drawn, staged: Staged) -> None:
    """Raise where new classes would have other hierarchies than the published ones that they stand beside."""
    before = {column.name: column.hierarchy for column in source.columns}
    for name, now in _fingerprints(con, staged).items():
        if before.get(name) is None:
            raise ReleaseError(
                f"which hierarchy {name!r} of {source.view} has was not recorded, as by an older duckanon: "
                "REFRESH it once without mode = 'append'"
            )
        if before[name] != now:
            raise ReleaseError(
                f"the hierarchy of {name!r} is not the one that {source.view} was made with, and mode = "
                "'append' would release nodes of both: REFRESH it without mode = 'append'"
            )


def _fingerprints(con: duckdb.DuckDBPyConnection, staged: Staged) -> dict[str, str]:
    with_tree = [
        field
        for field in staged.fields
        if field.column in staged.climbs or field.attribute.distance == "hierarchical"
    ]
    return {field.name: fingerprint(con, named("temp", staged.tree(field))) for field in with_tree}


def _told(con: duckdb.DuckDBPyConnection, published: Published) -> tuple[SourceColumn, ...]:
    """Columns of a source of which an older duckanon recorded nothing: those released, and those dropped.

    The policy names all that was dropped. Types are those of the release, where its tables are still there.
    """
    catalog, present = published.target.catalog, metadata.tables(con, published.target.catalog)
    released = metadata.columns(con, published) if "columns" in present else []
    tables = [part.of(published.table) for part in parts_of(released)]
    types = {
        fold(name): type_text
        for table in tables
        if table in present
        for name, type_text in columns_of(con, metadata.backing(catalog, table), "catalog")
    }
    shown = [
        SourceColumn(column.name, None, None, types.get(fold(column.name)), column.recode)
        for column in released
        if column.role != Role.CLASS.value
    ]
    # Someone deleted the metadata of the columns: the table has them.
    shown = shown or [SourceColumn(name, None) for name in types]
    policy = Policy.from_toml(published.policy)
    known = {fold(column.name) for column in shown}
    dropped = {fold(name): name for name in (*policy.identifiers, *policy.subject)}
    return (*shown, *(SourceColumn(name, None) for key, name in dropped.items() if key not in known))
