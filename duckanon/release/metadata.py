"""Releases in the catalog of DuckDB, and the views that stand for them."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from duckanon.audits.evidence import SCHEMA_VERSION
from duckanon.database import engine, templates
from duckanon.database.relations import Target, columns_of, databases, lookup, named, relation_of
from duckanon.errors import DuckanonError, ReleaseError
from duckanon.policy.names import fold
from duckanon.policy.policy import AuditPolicy, Policy
from duckanon.release.proofs import supersets_of
from duckanon.release.source import CREATE_AGAIN, Drawn, SourceColumn
from duckanon.release.tables import SECOND_ENDING, Released, parts_of, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SCHEMA = "duckanon"
"""Schema of the backing tables and the metadata, in the database of the view."""

METADATA = ("releases", "columns", "thresholds", "audits")
"""The metadata tables."""

SOURCES = "sources"
"""Table, in schema `SCHEMA`, of the columns of all sources; no export has it."""

_OF_OTHERS = re.compile(r"Table with name (release|persons|values)_\d+\w* does not exist")
_MARK = re.compile(r"duckanon release (\d+)")


@dataclass(frozen=True)
class Published:
    """A release written in a database."""

    target: Target  # the view, spelled as in the catalog
    release_id: int
    table: str  # backing table in schema `SCHEMA`
    records: int
    classes: int
    suppressed: int
    method: str
    information_loss: float | None  # None if it is not reported
    policy: str  # as TOML
    source_sql: str
    source_catalog: str  # where unqualified names of the query are looked up
    source_schema: str


def check_writable(con: duckdb.DuckDBPyConnection, target: Target) -> None:
    """Raise unless a release can be written to the database of a view.

    A database must not be read-only, temporary, internal or named like our schema. No user's table may have
    the name of one of ours.
    """
    attached = databases(con, "catalog")
    if target.catalog not in attached:
        raise ReleaseError(
            f"{target}: a release cannot live in the database {target.catalog!r}; attach a file"
        )
    if attached[target.catalog].readonly:
        raise ReleaseError(f"{target}: the database {target.catalog!r} is read-only; nothing was written")
    if target.catalog.lower() == SCHEMA:
        raise ReleaseError(
            f"{target}: in a database called {SCHEMA!r} the schema {SCHEMA!r} of a release is ambiguous; "
            "rename the file or ATTACH it under another name"
        )
    if target.schema.lower() == SCHEMA:
        raise ReleaseError(f"{target}: the schema {SCHEMA!r} is kept for backing tables; use another schema")
    with_releases(con, target.catalog)


def recorded(con: duckdb.DuckDBPyConnection, target: Target) -> list[Published]:
    """Releases recorded under a name, the newest last, with or without an existing view.

    A release has the present name of its view (after ALTER VIEW) or the last one. Raises for metadata of
    another version and for a user's table with the name of ours.
    """
    if target.catalog not in with_releases(con, target.catalog):
        return []
    query = templates.render(
        "catalog/releases.sql.j2:release", catalog=target.catalog, schema=target.schema, name=target.name
    )
    rows = engine.rows(con, query, "catalog", error=ReleaseError)
    for release_id, version, *_ in rows:
        check_version(f"{target}: release {release_id}", version)
    return [
        Published(Target(target.catalog, schema, view), release_id, table, *rest)
        for release_id, _, schema, view, table, *rest in rows
    ]


def check_version(release: str, version: int) -> None:
    """Raise if the metadata of a release are of a version that this duckanon does not read."""
    if version != SCHEMA_VERSION:
        raise ReleaseError(
            f"{release} has metadata of version {version}, and this duckanon reads version {SCHEMA_VERSION}: "
            "use the duckanon that wrote it"
        )


def attached(con: duckdb.DuckDBPyConnection, catalog: str, schema: str) -> bool:
    """Whether a database has a readable schema; names are compared as in DuckDB."""
    schemas = engine.rows(con, templates.render("catalog/databases.sql.j2:schemas"), "catalog")
    return (fold(catalog), fold(schema)) in {(fold(row[0]), fold(row[1])) for row in schemas}


def with_releases(con: duckdb.DuckDBPyConnection, catalog: str | None = None) -> list[str]:
    """Attached databases with anonymized views, in order, without exported files.

    Raises if, in the given catalog, a user's table has the name of ours.
    """
    kinds = dict(engine.rows(con, templates.render("catalog/databases.sql.j2:with_releases"), "catalog"))
    if kinds.get(catalog or "") == "other":
        raise ReleaseError(
            f"{catalog}.{SCHEMA}.releases is not a table that duckanon made, and duckanon needs the name: "
            "rename that table"
        )
    return [name for name, kind in kinds.items() if kind == "releases"]


def tables(con: duckdb.DuckDBPyConnection, catalog: str) -> set[str]:
    """Tables of our schema in a database: metadata, backing tables and trees."""
    query = templates.render("catalog/databases.sql.j2:tables", catalog=catalog, schema=SCHEMA, prefix="")
    return {row[0] for row in engine.rows(con, query, "catalog")}


@contextlib.contextmanager
def undisturbed(con: duckdb.DuckDBPyConnection, catalog: str) -> Iterator[None]:
    """Replace an error about stored releases if another connection wrote releases meanwhile.

    Then the other connection caused the missing or unexpected rows. Any other mistake shows at the next try.
    """
    before = _stored(con, catalog)
    try:
        yield
    except DuckanonError as failure:
        missing = isinstance(failure.__cause__, duckdb.CatalogException)
        conflict = isinstance(failure.__cause__, duckdb.TransactionException)
        if (missing or isinstance(failure, ReleaseError)) and not conflict:
            # A release that was made and dropped meanwhile leaves no other trace.
            disturbed = missing and _OF_OTHERS.search(str(failure)) is not None
            # In an aborted transaction nothing can be queried.
            with contextlib.suppress(DuckanonError):
                disturbed = disturbed or _stored(con, catalog) != before
            if disturbed:
                raise meanwhile(catalog) from failure
        raise


def _stored(con: duckdb.DuckDBPyConnection, catalog: str) -> list[tuple[int]]:
    query = templates.render("catalog/databases.sql.j2:stored", catalog=catalog, schema=SCHEMA)
    return engine.rows(con, query, "catalog")


def meanwhile(catalog: str) -> ReleaseError:
    """Error of a statement whose release another connection replaced or dropped meanwhile."""
    return ReleaseError(
        f"another connection made or dropped a release in {catalog} meanwhile, so nothing was written: "
        "run the statement again"
    )


def backing(catalog: str, table: str) -> str:
    """Backing table or tree of a release, in schema `SCHEMA` of a database, as SQL text."""
    return named(catalog, SCHEMA, table)


def orphans(con: duckdb.DuckDBPyConnection, catalog: str) -> list[int]:
    """Numbers of the releases whose view someone dropped by a plain DROP VIEW.

    A release whose view was renamed is no orphan, nor is a release that another view or a macro reads. The
    database has all metadata tables. Uncommitted changes of others are not seen.
    """
    query = templates.render("catalog/views.sql.j2:unmarked", catalog=catalog, metadata=METADATA)
    unmarked = [int(row[0]) for row in engine.rows(con, query, "catalog")]
    if not unmarked:
        # The usual case; reading the text of every function would cost more than the rest.
        return []
    query = templates.render("catalog/views.sql.j2:orphans", releases=unmarked)
    return [int(row[0]) for row in engine.rows(con, query, "catalog")]


def lost(con: duckdb.DuckDBPyConnection, target: Target, releases: Sequence[Published]) -> int | None:
    """Number of an anonymized view's release that is not recorded under the name of the view; else None."""
    there = lookup(con, target)
    marked = _MARK.fullmatch(there.comment or "") if there else None
    if there is None or marked is None:
        return None
    if int(marked[1]) in {release.release_id for release in releases}:
        return None
    reads = re.search(rf"\b{SCHEMA}\.release_{marked[1]}\b", there.definition or "")
    return int(marked[1]) if reads else None


def find(con: duckdb.DuckDBPyConnection, target: Target) -> Published | None:
    """Release that a name stands for; None for another view in its place, even with the release's mark."""
    return standing(con, recorded(con, target))


def standing(con: duckdb.DuckDBPyConnection, releases: Sequence[Published]) -> Published | None:
    """Newest release recorded under a name if its view is as it was made; else None."""
    for published in releases[-1:]:
        if _marked(con, published) and shows(con, published):
            return published
    return None


def _marked(con: duckdb.DuckDBPyConnection, published: Published) -> bool:
    """Whether the view with the name of a release has its mark."""
    there = lookup(con, published.target)
    return there is not None and there.comment == comment(published.release_id)


def shows(con: duckdb.DuckDBPyConnection, published: Published) -> bool:
    """Whether a view shows a release, whatever its comment; the view is not evaluated."""
    names = _shown_columns(con, published)
    return bool(names) and is_release_view(con, published.target, published.table, names)


def _shown_columns(con: duckdb.DuckDBPyConnection, published: Published) -> Sequence[str]:
    """Columns of a view from the metadata, or from its table if the metadata were deleted."""
    catalog, present = published.target.catalog, tables(con, published.target.catalog)
    names: Sequence[str] = ()
    if "columns" in present:
        names = parts_of(columns(con, published))[0].columns
    if not names and published.table in present:
        names = [name for name, _ in columns_of(con, backing(catalog, published.table), "catalog")]
    return names


def rows(con: duckdb.DuckDBPyConnection, published: Published) -> str:
    """Rows of a release as SQL text: from its view, or from its two tables together."""
    released = columns(con, published)
    parts = parts_of(released)
    if len(parts) == 1:
        return relation_of(published.target)
    relations = [backing(published.target.catalog, part.of(published.table)) for part in parts]
    return read(con, relations, released, "release")


def is_release_view(con: duckdb.DuckDBPyConnection, view: Target, table: str, columns: Sequence[str]) -> bool:
    """Whether the text of a view is exactly what CREATE ANONYMIZED VIEW writes for a table.

    False without a view; the view is not evaluated.
    """
    query = templates.render(
        "relation.sql.j2:select", columns=columns, relation=named(SCHEMA, table), order=()
    )
    values = {"catalog": view.catalog, "schema": view.schema, "view": view.name, "query": query}
    definition = templates.render("catalog/views.sql.j2:definition", **values)
    return engine.rows(con, definition, "catalog", error=ReleaseError) == [(True,)]


def require(con: duckdb.DuckDBPyConnection, target: Target, *, whole: bool = False) -> Published:
    """Release that a name stands for; a ReleaseError says if there is none, or which part is missing.

    With `whole` its table and all metadata must exist; otherwise the release can be made again.
    """
    releases = recorded(con, target)
    published = standing(con, releases)
    if published is None:
        raise absent(con, target, releases)
    if not published.policy:
        raise ReleaseError(
            f"the metadata of {target} has no policy ({target.catalog}.{SCHEMA}.releases): "
            "make it again by CREATE OR REPLACE ANONYMIZED VIEW"
        )
    there = tables(con, target.catalog) if whole else set()
    gone = sorted({*METADATA, published.table} - there) if whole else []
    if whole and not gone and Policy.from_toml(published.policy).n is not None:
        gone = sorted({supersets_of(published.release_id)} - there)
    if whole and not gone:
        gone = sorted({part.of(published.table) for part in parts_of(columns(con, published))} - there)
    if gone:
        raise ReleaseError(
            f"the table {target.catalog}.{SCHEMA}.{gone[0]} of {target} is gone: "
            "REFRESH ANONYMIZED VIEW makes it again from the source"
        )
    return published


def absent(con: duckdb.DuckDBPyConnection, target: Target, releases: Sequence[Published]) -> ReleaseError:
    """Error for a name without a release, with the releases recorded under it."""
    without = unmarked(con, releases)
    if without is not None:
        return without
    for replaced in releases[-1:]:
        if _marked(con, replaced):
            return ReleaseError(
                f"{target} carries the mark of release {replaced.release_id} but is not its view: "
                "someone put another in its place; DROP VIEW it and create the release again"
            )
    if lost(con, target, releases) is not None:
        return ReleaseError(
            f"the metadata of {target} is gone from {target.catalog}.{SCHEMA}: make it again by "
            "CREATE OR REPLACE ANONYMIZED VIEW, or remove it by DROP ANONYMIZED VIEW"
        )
    return ReleaseError(f"{target} is not an anonymized view; SHOW ANONYMIZED VIEWS lists them")


def unmarked(con: duckdb.DuckDBPyConnection, releases: Sequence[Published]) -> ReleaseError | None:
    """Error for a release view that has lost only its comment; None for any other view."""
    for replaced in releases[-1:]:
        there = lookup(con, replaced.target)
        if there is not None and not there.comment and shows(con, replaced):
            marks = [
                templates.render(
                    "relation.sql.j2:mark",
                    view=relation_of(part.beside(replaced.target)),
                    comment=comment(replaced.release_id, part.ending),
                ).strip()
                for part in parts_of(columns(con, replaced))
            ]
            return ReleaseError(
                f"{replaced.target} is the view of release {replaced.release_id} without the comment that "
                f"marks it, which IMPORT DATABASE leaves out: {'; '.join(marks)} brings it back"
            )
    return None


def comment(release_id: int, ending: str = "") -> str:
    """Mark in the comment of a release view, which identifies the view after a rename; see `shows`.

    The mark of a second view has the ending of its name, because that view alone stands for no release.
    """
    return f"duckanon release {release_id}{ending.replace('_', ' ')}"


def views_beside(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> list[Target]:
    """Second views of a release under their present names, without views to which someone copied the mark."""
    query = templates.render(
        "catalog/views.sql.j2:beside", catalog=catalog, comment=comment(release_id, SECOND_ENDING)
    )
    found = engine.rows(con, query, "catalog", error=ReleaseError)
    marked = [Target(catalog, schema, name) for schema, name in found]
    parts = [part for part in parts_of(_columns(con, catalog, release_id)) if part.ending] if marked else []
    return [
        view
        for view in marked
        for part in parts
        if is_release_view(con, view, part.of(f"release_{release_id}"), part.columns)
    ]


def trees(con: duckdb.DuckDBPyConnection, published: Published) -> dict[str, str]:
    """Tree tables of the hierarchical columns of a release, by column: names in schema `SCHEMA`."""
    graded = [column for column in columns(con, published) if column.distance == "hierarchical"]
    return {column.name: column.tree for column in graded if column.tree is not None}


def orders(con: duckdb.DuckDBPyConnection, published: Published) -> dict[str, tuple[str, ...]]:
    """Released values of the columns whose text has an order, from the least to the greatest, by column."""
    return {
        column.name: order_of(con, published.target.catalog, column.tree)
        for column in columns(con, published)
        if column.tree is not None and column.distance == "ordered"
    }


def order_of(con: duckdb.DuckDBPyConnection, catalog: str, table: str) -> tuple[str, ...]:
    """Values in a table of an order in schema `SCHEMA`."""
    query = templates.render("catalog/releases.sql.j2:order", catalog=catalog, table=table)
    return tuple(value for (value,) in engine.rows(con, query, "catalog", error=ReleaseError))


def audited(con: duckdb.DuckDBPyConnection, published: Published) -> AuditPolicy:
    """Policy by which a release is audited; its orders have released values only."""
    return Policy.from_toml(published.policy).audited().override(order=orders(con, published))


def columns(con: duckdb.DuckDBPyConnection, published: Published) -> list[Released]:
    """Columns of a release by its metadata, in their order."""
    return _columns(con, published.target.catalog, published.release_id)


def _columns(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> list[Released]:
    query = templates.render("catalog/releases.sql.j2:columns", catalog=catalog, release_id=release_id)
    return [Released(*row) for row in engine.rows(con, query, "catalog", error=ReleaseError)]


def drawn(con: duckdb.DuckDBPyConnection, published: Published) -> Drawn:
    """Columns of the source of a release, which the present source must have.

    A ReleaseError if someone removed their record.
    """
    catalog = published.target.catalog
    if SOURCES in tables(con, catalog):
        query = templates.render(
            "catalog/releases.sql.j2:sources", catalog=catalog, release_id=published.release_id
        )
        rows = engine.rows(con, query, "catalog", error=ReleaseError)
        if rows:
            return Drawn(str(published.target), tuple(SourceColumn(*row) for row in rows))
    raise ReleaseError(
        f"the columns of the source of {published.target} are gone from "
        f"{catalog}.{SCHEMA}.{SOURCES}: {CREATE_AGAIN}"
    )
