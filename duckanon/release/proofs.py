"""Proofs of audits beside a release: tables of integers in the schema `SCHEMA`.

A release has a table with the certificate of each t of several columns, in the order of their names, and a
table with the boxes of (n, t)-closeness. `verify` and the check of an exported file prove the audit by these
tables and the released rows, with SQL alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.audits.certificate import Certificate, Supersets
from duckanon.database import engine, templates
from duckanon.errors import ReleaseError
from duckanon.policy.joint import JOINT_MEASURES, NT_CLOSENESS, NT_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb


def proof_tables(release_id: int, thresholds: Iterable[Sequence[object]]) -> dict[str, str]:
    """Tables of the certificates of a release by the names of the columns.

    `thresholds` are rows that begin with measure and columns.
    """
    several = sorted(str(row[1]) for row in thresholds if row[0] in JOINT_MEASURES.values())
    return {name: f"proof_{release_id}_{number}" for number, name in enumerate(several, start=1)}


def write_proofs(
    con: duckdb.DuckDBPyConnection, catalog: str, release_id: int, certificates: Sequence[Certificate]
) -> None:
    """Write the certificates of a release; the caller owns the transaction."""
    tables = proof_tables(release_id, [(JOINT_MEASURES["maximum"], one.name) for one in certificates])
    for one in certificates:
        table = tables[one.name]
        names = {"flows": f"{table}_flows", "potentials": f"{table}_potentials"}
        statement = templates.render(
            "publish/release.sql.j2:proof", catalog=catalog, table=table, denominator=one.denominator, **names
        )
        with engine.registered(con, {names["flows"]: one.flows, names["potentials"]: one.potentials}):
            engine.run(con, statement, "publish", error=ReleaseError)


def read_proof(con: duckdb.DuckDBPyConnection, relation: str, name: str, stage: str) -> Certificate:
    """Certificate in a table (SQL text), which may be of others: SQL will judge what it says."""
    query = templates.render("evidence/recorded.sql.j2:denominators", relation=relation)
    found = engine.rows(con, query, stage, error=ReleaseError)
    flows, potentials = (
        engine.table(con, templates.render(f"evidence/recorded.sql.j2:{part}", relation=relation), stage)
        for part in ("flows", "potentials")
    )
    # 0 is no denominator: nothing is proved by it.
    denominator = int(found[0][0] or 0) if len(found) == 1 else 0
    return Certificate(name, denominator, flows, potentials)


def supersets_of(release_id: int) -> str:
    """Table of the boxes of a release with an n."""
    return f"supersets_{release_id}"


def superset_table(release_id: int, thresholds: Iterable[Sequence[object]]) -> str | None:
    """Table of the boxes of a release; None if it has no n. `thresholds` are as in `proof_tables`."""
    asked = any(row[0] in {NT_CLOSENESS, NT_RECORDS} for row in thresholds)
    return supersets_of(release_id) if asked else None


def write_supersets(
    con: duckdb.DuckDBPyConnection, catalog: str, release_id: int, supersets: Supersets | None
) -> None:
    """Write the boxes of a release with an n, none if there are none; the caller owns the transaction."""
    table = supersets_of(release_id)
    bounds = {} if supersets is None else {f"{table}_bounds": supersets.bounds}
    values = {"catalog": catalog, "table": table, "bounds": next(iter(bounds), None)}
    with engine.registered(con, bounds):
        statement = templates.render("publish/release.sql.j2:supersets", **values)
        engine.run(con, statement, "publish", error=ReleaseError)


def read_supersets(con: duckdb.DuckDBPyConnection, relation: str, stage: str) -> Supersets:
    """Boxes in a table (SQL text), which may be of others: SQL will judge what it says."""
    query = templates.render("evidence/recorded.sql.j2:supersets", relation=relation)
    return Supersets(engine.table(con, query, stage))
