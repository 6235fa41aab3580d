"""Names of relations in the catalog of DuckDB: their full names, and what they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.errors import DuckanonError, ReleaseError, SourceError

if TYPE_CHECKING:
    import duckdb

    from duckanon.statements.tokens import QualifiedName


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
class Database:
    """An attached database: whether it is read-only, and its file; None in memory."""

    readonly: bool
    path: str | None


def databases(con: duckdb.DuckDBPyConnection, stage: str) -> dict[str, Database]:
    """Attached databases by name, without DuckDB's internal ones."""
    rows = engine.rows(con, templates.render("catalog/databases.sql.j2:databases"), stage)
    return {name: Database(readonly, path) for name, readonly, path in rows}


def current(con: duckdb.DuckDBPyConnection) -> tuple[str, str]:
    """Database and schema in which unqualified names are looked up."""
    catalog, schema, _ = engine.rows(con, templates.render("session.sql.j2:current"), "catalog")[0]
    return str(catalog), str(schema)


def resolve(con: duckdb.DuckDBPyConnection, name: QualifiedName) -> Target:
    """Full name of a view to be written or found, by DuckDB's rules, spelled as in the catalog.

    A ReleaseError if a part does not exist, or the first of two parts is both a database and a schema.
    """
    catalog, schema = current(con)
    schemas = [
        (row[0], row[1])
        for row in engine.rows(con, templates.render("catalog/databases.sql.j2:schemas"), "catalog")
    ]
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


@dataclass(frozen=True)
class Relation:
    """A table or a view under a name; for a view its comment, if any, and its SQL."""

    kind: str
    comment: str | None
    definition: str | None


def lookup(con: duckdb.DuckDBPyConnection, target: Target) -> Relation | None:
    """The relation of a name; None if there is none."""
    query = templates.render(
        "catalog/views.sql.j2:relation", catalog=target.catalog, schema=target.schema, name=target.name
    )
    rows = engine.rows(con, query, "catalog")
    return Relation(*rows[0]) if rows else None


def relation_of(target: Target) -> str:
    """Quoted full name of a relation, as SQL text."""
    return named(target.catalog, target.schema, target.name)


def named(*parts: str | None) -> str:
    """Quoted name of a relation from its known parts; ``'temp'`` and a name for a temporary relation."""
    known = [part for part in parts if part is not None]
    return templates.render("relation.sql.j2:named", parts=known)


def subquery(query: str) -> str:
    """Query, one SELECT, in parentheses, as SQL text after FROM."""
    return templates.render("relation.sql.j2:subquery", query=query).strip()


def columns_of(
    con: duckdb.DuckDBPyConnection, relation: str, stage: str, *, error: type[DuckanonError] = SourceError
) -> list[tuple[str, str]]:
    """Names and types of the columns of a relation, given as SQL text after FROM."""
    query = templates.render("relation.sql.j2:describe", relation=relation)
    return [(row[0], row[1]) for row in engine.rows(con, query, stage, error=error)]
