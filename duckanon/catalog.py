"""Names and releases in the catalog of DuckDB: where a view lives and which release it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon import engine, sqlfiles
from duckanon.errors import ReleaseError

if TYPE_CHECKING:
    import duckdb

    from duckanon.qualified import QualifiedName

SCHEMA = "duckanon"
"""Schema of the backing tables and the metadata, in the database of the view."""

SCHEMA_VERSION = 1
"""Version of the layout of the metadata tables."""


@dataclass(frozen=True)
class Target:
    """A fully qualified name in an attached database."""

    catalog: str
    schema: str
    name: str

    def __str__(self) -> str:
        """Show the name as a user would read it."""
        return f"{self.catalog}.{self.schema}.{self.name}"


@dataclass(frozen=True)
class Published:
    """A release that is written in a database.

    Attributes
    ----------
    target : Target
        The view, spelled as it was created.
    release_id : int
        Number of the release in its database.
    table : str
        Backing table in schema `SCHEMA`.
    records, classes, suppressed : int
        Size of the release.
    method : str
        Method that made the partition.
    information_loss : float
        IL in per cent.
    policy : str
        The policy as TOML.
    source_sql : str
        The source query.
    source_catalog, source_schema : str
        Where its unqualified names were looked up.
    """

    target: Target
    release_id: int
    table: str
    records: int
    classes: int
    suppressed: int
    method: str
    information_loss: float
    policy: str
    source_sql: str
    source_catalog: str
    source_schema: str


def current(con: duckdb.DuckDBPyConnection) -> tuple[str, str]:
    """Database and schema in which unqualified names are looked up.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.

    Returns
    -------
    tuple of str
        Catalog and schema.
    """
    catalog, schema = engine.rows(con, sqlfiles.read("catalog/current.sql"), "catalog")[0]
    return str(catalog), str(schema)


def resolve(con: duckdb.DuckDBPyConnection, name: QualifiedName) -> Target:
    """Full name of a view to be written or found, by DuckDB's rules.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.
    name : QualifiedName
        One to three parts; the first of two is a schema or a database.

    Returns
    -------
    Target
        Catalog, schema and name; catalog and schema spelled as in the catalog.

    Raises
    ------
    ReleaseError
        The database or schema does not exist, or two parts could mean both.
    """
    catalog, schema = current(con)
    schemas = [(row[0], row[1]) for row in engine.rows(con, sqlfiles.read("catalog/schemas.sql"), "catalog")]
    if name.catalog is not None:
        return Target(*_existing(schemas, name.catalog, name.schema or "main"), name.name)
    if name.schema is None:
        return Target(catalog, schema, name.name)
    in_current = [pair for pair in schemas if pair[0] == catalog and pair[1].lower() == name.schema.lower()]
    as_catalog = [pair for pair in schemas if pair[0].lower() == name.schema.lower() and pair[1] == "main"]
    if in_current and as_catalog:
        raise ReleaseError(
            f"{name.schema!r} is a schema and a database: write {name.schema}.main.{name.name} "
            f"or {catalog}.{name.schema}.{name.name}"
        )
    if not in_current and not as_catalog:
        raise ReleaseError(f"there is no schema and no database {name.schema!r}: create or attach it first")
    return Target(*(in_current or as_catalog)[0], name.name)


def _existing(schemas: list[tuple[str, str]], catalog: str, schema: str) -> tuple[str, str]:
    for pair in schemas:
        if pair[0].lower() == catalog.lower() and pair[1].lower() == schema.lower():
            return pair
    raise ReleaseError(
        f"there is no schema {catalog}.{schema}: create the schema or attach the database first"
    )


def check_writable(con: duckdb.DuckDBPyConnection, target: Target) -> None:
    """Raise unless a release can be written to the database of a view.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.
    target : Target
        The view.

    Raises
    ------
    ReleaseError
        The database is read-only, temporary, internal, or has the name of our schema.
    """
    databases = dict(engine.rows(con, sqlfiles.read("catalog/databases.sql"), "catalog"))
    if target.catalog not in databases:
        raise ReleaseError(
            f"{target}: a release cannot live in the database {target.catalog!r}; attach a file"
        )
    if databases[target.catalog]:
        raise ReleaseError(f"{target}: the database {target.catalog!r} is read-only; nothing was written")
    if target.catalog.lower() == SCHEMA:
        raise ReleaseError(
            f"{target}: in a database called {SCHEMA!r} the schema {SCHEMA!r} of a release is ambiguous; "
            "rename the file or ATTACH it under another name"
        )
    if target.schema.lower() == SCHEMA:
        raise ReleaseError(f"{target}: the schema {SCHEMA!r} is kept for backing tables; use another schema")


def recorded(con: duckdb.DuckDBPyConnection, target: Target) -> list[Published]:
    """Releases that the metadata knows under a name, whether or not their view is still there.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.
    target : Target
        A full name.

    Returns
    -------
    list of Published
        The newest last; empty where the database holds no releases.
    """
    names = [row[0] for row in engine.rows(con, sqlfiles.read("catalog/with_releases.sql"), "catalog")]
    if target.catalog not in names:
        return []
    query = sqlfiles.render(
        "catalog/release.sql.j2", catalog=target.catalog, schema=target.schema, name=target.name
    )
    return [
        Published(Target(target.catalog, schema, view), release_id, table, *rest)
        for release_id, schema, view, table, *rest in engine.rows(con, query, "catalog")
    ]


def find(con: duckdb.DuckDBPyConnection, target: Target) -> Published | None:
    """Release that a name stands for.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.
    target : Target
        A full name.

    Returns
    -------
    Published or None
        None when no anonymized view has that name, or someone put another view in its place.
    """
    for published in recorded(con, target)[-1:]:
        if _mark(con, published.target) == comment(published.release_id):
            return published
    return None


def require(con: duckdb.DuckDBPyConnection, target: Target) -> Published:
    """Release that a name stands for, or an error that says there is none.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.
    target : Target
        A full name.

    Returns
    -------
    Published
        The release.

    Raises
    ------
    ReleaseError
        No anonymized view has that name.
    """
    published = find(con, target)
    if published is None:
        raise ReleaseError(f"{target} is not an anonymized view; SHOW ANONYMIZED VIEWS lists them")
    return published


def occupied(con: duckdb.DuckDBPyConnection, target: Target) -> str | None:
    """Kind of whatever has a name now.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.
    target : Target
        A full name.

    Returns
    -------
    str or None
        ``'table'``, ``'view'`` or None.
    """
    found = _relation(con, target)
    return found[0] if found else None


def comment(release_id: int) -> str:
    """Mark that the view of a release carries.

    Parameters
    ----------
    release_id : int
        Number of the release.

    Returns
    -------
    str
        Comment of the view; a view that someone replaced does not have it.
    """
    return f"duckanon release {release_id}"


def trees(con: duckdb.DuckDBPyConnection, published: Published) -> dict[str, str]:
    """Tree tables of the hierarchical columns of a release.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.
    published : Published
        The release.

    Returns
    -------
    dict of str
        Table in schema `SCHEMA` by column name.
    """
    query = sqlfiles.render(
        "catalog/trees.sql.j2", catalog=published.target.catalog, release_id=published.release_id
    )
    return dict(engine.rows(con, query, "catalog"))


def _mark(con: duckdb.DuckDBPyConnection, target: Target) -> str | None:
    found = _relation(con, target)
    return found[1] if found else None


def _relation(con: duckdb.DuckDBPyConnection, target: Target) -> tuple[str, str | None] | None:
    query = sqlfiles.render(
        "catalog/relation.sql.j2", catalog=target.catalog, schema=target.schema, name=target.name
    )
    found = engine.rows(con, query, "catalog")
    return (found[0][0], found[0][1]) if found else None
