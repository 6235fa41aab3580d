"""Audits in the metadata of a release: a chain, each binding the release and all before it by a hash."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.audits.evidence import SCHEMA_VERSION
from duckanon.database import engine, templates
from duckanon.database.fingerprint import digest, fingerprint, recipe_of
from duckanon.database.relations import subquery
from duckanon.errors import ReleaseError
from duckanon.release.metadata import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.audits.evidence import Evidence
    from duckanon.audits.report import Measure
    from duckanon.release.metadata import Published

STAGE = "evidence"

RECIPE = 1
"""Recipe of the fingerprints of records: the links of older audits must stay what they are."""

_BOUND = ("releases", "columns", "thresholds")


@dataclass(frozen=True)
class Place:
    """Where an audit stands in the chain of its release."""

    number: int  # one more than the largest before it, from 1
    previous: str  # links that it follows, with spaces between; the first audit follows the `origin`


def origin(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> str:
    """What the first audit of a release follows: SHA-256 of its rows in the other tables of the metadata.

    64 hex digits, the same in an exported file: its name and what a file does not have are not in it.
    """
    values = {"catalog": catalog, "release_id": release_id}
    queries = [templates.render("evidence/origin.sql.j2", table=table, **values) for table in _BOUND]
    return digest("\n".join(fingerprint(con, subquery(query), RECIPE) for query in queries))


def next_place(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> Place:
    """Where the next audit of a release stands: behind all that this connection sees.

    Audits of two connections at a time need not wait for one another, and the next one follows both.
    """
    query = templates.render("evidence/chained.sql.j2", catalog=catalog, release_id=release_id)
    chained = engine.rows(con, query, STAGE, error=ReleaseError)
    followed = {link for _, previous, _ in chained for link in (previous or "").split()}
    heads = sorted({chain for _, _, chain in chained} - followed)
    if not heads:
        return Place(1, origin(con, catalog, release_id))
    return Place(1 + max(number or 0 for number, _, _ in chained), " ".join(heads))


def link(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int, audit_id: str, place: Place) -> str:
    """Link of an audit: SHA-256, in hex, of the links that it follows and of all that was recorded of it."""
    values = {"catalog": catalog, "release_id": release_id, "audit_id": audit_id, "number": place.number}
    query = templates.render("evidence/link.sql.j2", **values)
    return digest(f"{place.previous}\n{fingerprint(con, subquery(query), RECIPE)}")


def append(
    con: duckdb.DuckDBPyConnection, catalog: str, release_id: int, audit_id: str, place: Place
) -> None:
    """Write the link of an audit beside its rows, written before; the caller owns the transaction."""
    values = {"catalog": catalog, "release_id": release_id, "audit_id": audit_id, "number": place.number}
    chain = link(con, catalog, release_id, audit_id, place)
    engine.run(
        con, templates.render("publish/chained.sql.j2", **values, chain=chain), STAGE, error=ReleaseError
    )


def record(
    con: duckdb.DuckDBPyConnection,
    catalog: str,
    release_id: int,
    measures: Sequence[Measure],
    evidence: Evidence,
    *,
    statement: str,
) -> None:
    """Write an audit into the metadata; the caller owns the transaction.

    The table of audits may be of an older layout. `statement` is what made it: release, audit or export.
    """
    renew(con, catalog)
    audit_id = secrets.token_hex(8)
    place = next_place(con, catalog, release_id)
    text = templates.render(
        "publish/audited.sql.j2",
        catalog=catalog,
        release_id=release_id,
        schema_version=SCHEMA_VERSION,
        measures=measures,
        evidence=evidence,
        statement=statement,
        audit_id=audit_id,
        place=place,
    )
    engine.run(con, text, STAGE, error=ReleaseError)
    append(con, catalog, release_id, audit_id, place)


def changed_by_hand(
    con: duckdb.DuckDBPyConnection, published: Published, rows: str, now: str | None = None
) -> str | None:
    """What to say of a release whose rows, a relation, are not those that were audited when it was made.

    None where their fingerprint is the same; also where version 1 of the metadata recorded no fingerprint.
    `now` is the fingerprint of the rows by today's recipe, where it is known.
    """
    catalog = published.target.catalog
    layout = engine.rows(con, templates.render("evidence/layout.sql.j2", catalog=catalog), STAGE)
    if ("fingerprint",) not in layout:
        return None
    query = templates.render("catalog/fingerprint.sql.j2", catalog=catalog, release_id=published.release_id)
    recorded = [row[0] for row in engine.rows(con, query, STAGE, error=ReleaseError)]
    if not recorded:
        return None
    recipe = recipe_of(recorded[0])
    if now is None or recipe_of(now) != recipe:
        now = fingerprint(con, rows, recipe)
    if recorded == [now]:
        return None
    return (
        f"the rows are not those that were audited when the release was made (fingerprint {now}, recorded "
        f"{' and '.join(recorded)}): someone changed {SCHEMA}.{published.table}; REFRESH makes a new release"
    )


def renew(con: duckdb.DuckDBPyConnection, catalog: str) -> None:
    """Give the table of audits the columns of today, where it was made by an older version."""
    query = templates.render("evidence/layout.sql.j2", catalog=catalog)
    if ("chain",) not in engine.rows(con, query, STAGE):
        text = templates.render("evidence/migrate.sql.j2", catalog=catalog)
        engine.run(con, text, STAGE, error=ReleaseError)
