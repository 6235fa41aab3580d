"""The chain of audits of a release: a hash binds each audit to the release and to all earlier audits."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from duckanon.audits.evidence import SCHEMA_VERSION
from duckanon.database import engine, templates
from duckanon.database.fingerprint import digest, fingerprint
from duckanon.database.relations import subquery
from duckanon.errors import ReleaseError
from duckanon.release.metadata import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.evidence import Evidence
    from duckanon.audits.report import Measure
    from duckanon.release.metadata import Published

STAGE = "evidence"

_BOUND = ("releases", "columns", "thresholds")


@dataclass(frozen=True)
class Place:
    """Place of an audit in the chain of its release."""

    number: int  # from 1
    previous: str  # link of the audit before; for the first audit the `origin`


def origin(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> str:
    """Begin of the chain: SHA-256, in hex, of the rows of a release in the other tables of the metadata.

    An exported file gives the same hash, because it omits the name and everything that is not exported.
    """
    values = {"catalog": catalog, "release_id": release_id}
    queries = [templates.render("evidence/chain.sql.j2:origin", table=table, **values) for table in _BOUND]
    return digest("\n".join(fingerprint(con, subquery(query)) for query in queries))


def next_place(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> Place:
    """Place of the next audit of a release, after the last audit that this connection sees."""
    chained = _chained(con, catalog, release_id)
    if not chained:
        return Place(1, origin(con, catalog, release_id))
    number, last = chained[-1]
    return Place(1 + (number or 0), last)


def _chained(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> list[tuple[int | None, str]]:
    """Return number and link of the audits of a release, in the order of the chain."""
    query = templates.render("evidence/chain.sql.j2:chained", catalog=catalog, release_id=release_id)
    return engine.rows(con, query, STAGE, error=ReleaseError)


def held_elsewhere(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> bool:
    """Whether another connection has recorded an audit that this transaction does not see.

    Such an audit makes a record impossible, because the chain has one line. A cursor tries it, since a
    failure would abort the caller's transaction.
    """
    ours = _chained(con, catalog, release_id)
    with con.cursor() as other:
        theirs = _chained(other, catalog, release_id)
        if theirs != ours:
            return not set(theirs) <= set(ours)
        other.begin()
        try:
            _hold(other, catalog, release_id)
        except ReleaseError:
            return True
        finally:
            with contextlib.suppress(duckdb.TransactionException):
                other.rollback()
    return False


def _hold(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> None:
    """Let no other transaction record an audit of a release until this one ends."""
    text = templates.render("publish/audits.sql.j2:hold_chain", catalog=catalog, release_id=release_id)
    engine.run(con, text, STAGE, error=ReleaseError)


def link(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int, audit_id: str, place: Place) -> str:
    """Link of an audit: SHA-256, in hex, of the previous link and of the whole record of the audit."""
    values = {"catalog": catalog, "release_id": release_id, "audit_id": audit_id, "number": place.number}
    query = templates.render("evidence/chain.sql.j2:link", **values)
    return digest(f"{place.previous}\n{fingerprint(con, subquery(query))}")


def append(
    con: duckdb.DuckDBPyConnection, catalog: str, release_id: int, audit_id: str, place: Place
) -> None:
    """Write the link of an audit beside its existing rows; the caller owns the transaction."""
    values = {"catalog": catalog, "release_id": release_id, "audit_id": audit_id, "number": place.number}
    chain = link(con, catalog, release_id, audit_id, place)
    engine.run(
        con,
        templates.render("publish/audits.sql.j2:chained", **values, chain=chain),
        STAGE,
        error=ReleaseError,
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

    `statement` is the source of the audit: release, audit or export.
    """
    _hold(con, catalog, release_id)
    audit_id = secrets.token_hex(8)
    place = next_place(con, catalog, release_id)
    text = templates.render(
        "publish/audits.sql.j2:audited",
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
    """Message if the rows of a release are not the rows of its first audit; else None.

    None also if no fingerprint was recorded. `now` is the fingerprint of the rows, if known.
    """
    catalog = published.target.catalog
    query = templates.render(
        "catalog/releases.sql.j2:fingerprint", catalog=catalog, release_id=published.release_id
    )
    recorded = [row[0] for row in engine.rows(con, query, STAGE, error=ReleaseError)]
    if not recorded:
        return None
    now = now or fingerprint(con, rows)
    if recorded == [now]:
        return None
    return (
        f"the rows are not those that were audited when the release was made (fingerprint {now}, recorded "
        f"{' and '.join(recorded)}): someone changed {SCHEMA}.{published.table}; REFRESH makes a new release"
    )
