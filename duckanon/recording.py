"""What an audit looked at, so that it can be done again: policy, fingerprint of the rows, versions."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon import engine, schema, sqlfiles
from duckanon.catalog import SCHEMA, SCHEMA_VERSION
from duckanon.chain import append, next_place
from duckanon.errors import ReleaseError, SourceError
from duckanon.fingerprints import digest, fingerprint
from duckanon.places import columns_of
from duckanon.policy import AuditPolicy
from duckanon.policy_toml import options_from_toml, options_to_toml
from duckanon.schema import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.catalog import Published
    from duckanon.report import Measure

STAGE = "evidence"


@dataclass(frozen=True)
class Evidence:
    """What an audit looked at.

    Attributes
    ----------
    audited_at : str
        UTC, ISO 8601.
    policy : str
        Canonical text of what was asked, see `canonical`.
    policy_hash : str
        SHA-256 of that text, in hex.
    fingerprint : str
        SHA-256 of the rows in any order, see `fingerprint`.
    duckanon_version, duckdb_version : str
        The programs that made the audit.
    schema_version : int
        Layout of the metadata.
    """

    audited_at: str
    policy: str
    policy_hash: str
    fingerprint: str
    duckanon_version: str
    duckdb_version: str
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def evidence_of(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    policy: AuditPolicy,
    trees: Mapping[str, str] | None = None,
) -> Evidence:
    """What an audit of a relation looks at.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that sees the relation.
    relation : str
        What stands after FROM.
    policy : AuditPolicy
        What is asked.
    trees : mapping from column to str, optional
        Relation (value, level, node) of every hierarchical column. Without it a tree is known by its name.

    Returns
    -------
    Evidence
        With the time of now.

    Notes
    -----
    O(n log n): one sort of a digest a row, in DuckDB, which spills it to disk.
    """
    columns = columns_of(con, relation, STAGE)
    text = canonical(policy, columns, {name: fingerprint(con, tree) for name, tree in (trees or {}).items()})
    return Evidence(
        audited_at=datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds"),
        policy=text,
        policy_hash=digest(text),
        fingerprint=fingerprint(con, relation),
        duckanon_version=version("duckanon"),
        duckdb_version=duckdb.__version__,
    )


def canonical(policy: AuditPolicy, columns: Sequence[tuple[str, str]], trees: Mapping[str, str]) -> str:
    """Text of a policy that is the same for every policy that asks the same of the same columns.

    Parameters
    ----------
    policy : AuditPolicy
        What is asked.
    columns : sequence of (str, str)
        Name and type of the columns of the relation.
    trees : mapping from column to str
        Fingerprint of the tree of hierarchical columns.

    Returns
    -------
    str
        TOML: columns as the relation spells them, in order; a threshold and a distance for each column; no
        needless digits; a tree by its fingerprint.
    """
    attributes = sorted(schema.bind_audit(policy, columns), key=lambda attribute: attribute.name)
    sensitive = [attribute for attribute in attributes if attribute.role is Role.SENSITIVE]
    thresholds = {
        name: {a.name: _short(value) for a in sensitive if (value := getattr(a, name)) is not None}
        for name in ("t", "l")
    }
    hierarchies = {
        a.name: trees.get(a.name, policy.hierarchies.get(a.name, ""))
        for a in sensitive
        if a.distance == "hierarchical"
    }
    options: dict[str, Any] = {
        "quasi_identifiers": [a.name for a in attributes if a.role is Role.QUASI_IDENTIFIER],
        "sensitive": [a.name for a in sensitive],
        "k": policy.k,
        **thresholds,
        "l_diversity": policy.l_diversity,
        "c": None if policy.c is None else _short(policy.c),
        "distance": {a.name: a.distance or "equal" for a in sensitive},
        "hierarchies": hierarchies,
    }
    return options_to_toml({name: value for name, value in options.items() if value not in (None, {}, [])})


def read_canonical(text: str) -> AuditPolicy:
    """Policy that a canonical text states.

    Parameters
    ----------
    text : str
        What `canonical` wrote.

    Returns
    -------
    AuditPolicy
        The same thresholds of the same columns.

    Raises
    ------
    PolicyError
        It is not such a text.
    """
    try:
        return AuditPolicy(**options_from_toml(text))
    except TypeError as wrong:
        raise SourceError(f"the recorded policy cannot be read: {engine.first_line(wrong)}") from wrong


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

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that may write.
    catalog : str
        The database of the release; its table of audits may be of an older layout.
    release_id : int
        The release.
    measures : sequence of Measure
        What the audit found.
    evidence : Evidence
        What it looked at.
    statement : str
        What made the audit: release, audit or export.

    Raises
    ------
    ReleaseError
        DuckDB refuses the write.
    """
    renew(con, catalog)
    audit_id = secrets.token_hex(8)
    place = next_place(con, catalog, release_id)
    text = sqlfiles.render(
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


def changed_by_hand(con: duckdb.DuckDBPyConnection, published: Published, found: str) -> str | None:
    """What to say of a release whose rows are not those that were audited when it was made.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that sees its metadata.
    published : Published
        The release.
    found : str
        Fingerprint of its rows as they are now.

    Returns
    -------
    str or None
        None where they are the same; also where version 1 of the metadata recorded no fingerprint.
    """
    catalog = published.target.catalog
    layout = engine.rows(con, sqlfiles.render("evidence/layout.sql.j2", catalog=catalog), STAGE)
    if ("fingerprint",) not in layout:
        return None
    query = sqlfiles.render("catalog/fingerprint.sql.j2", catalog=catalog, release_id=published.release_id)
    recorded = [row[0] for row in engine.rows(con, query, STAGE, error=ReleaseError)]
    if recorded in ([], [found]):
        return None
    return (
        f"the rows are not those that were audited when the release was made (fingerprint {found}, recorded "
        f"{' and '.join(recorded)}): someone changed {SCHEMA}.{published.table}; REFRESH makes a new release"
    )


def renew(con: duckdb.DuckDBPyConnection, catalog: str) -> None:
    """Give the table of audits the columns of today, where it was made by an older version.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that may write.
    catalog : str
        The database.

    Raises
    ------
    ReleaseError
        DuckDB refuses the write.
    """
    query = sqlfiles.render("evidence/layout.sql.j2", catalog=catalog)
    if ("chain",) not in engine.rows(con, query, STAGE):
        text = sqlfiles.render("evidence/migrate.sql.j2", catalog=catalog)
        engine.run(con, text, STAGE, error=ReleaseError)


def _short(number: Decimal) -> Decimal:
    return Decimal(format(number.normalize(), "f"))
