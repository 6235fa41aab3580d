"""AUDIT of an anonymized view by the policy of its release in the metadata."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb

from duckanon.audits.evidence import evidence_of
from duckanon.audits.run import audit_attributes, unknown_values
from duckanon.database import engine
from duckanon.database.engine import transaction
from duckanon.database.relations import columns_of, current, databases, resolve
from duckanon.errors import DuckanonError, ReleaseError
from duckanon.policy import bind
from duckanon.policy.audit_policy import audited
from duckanon.policy.policy import AUDIT_OPTIONS, AuditPolicy, Policy
from duckanon.policy.reported import report_notes
from duckanon.release import metadata
from duckanon.release.chain import changed_by_hand, held_elsewhere, record
from duckanon.release.proofs import read_supersets, supersets_of
from duckanon.statements.options import options_to_audit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.certificate import Supersets
    from duckanon.audits.evidence import Evidence
    from duckanon.audits.report import Report
    from duckanon.database.relations import Target
    from duckanon.release.metadata import Published
    from duckanon.statements.options import Options
    from duckanon.statements.tokens import QualifiedName


UNRECORDED = "this audit was not recorded"

_IN_LINE = threading.RLock()
"""Lock of an audit until its record is committed; only one process can write a database."""


def audit_named(con: duckdb.DuckDBPyConnection, name: QualifiedName, options: Options) -> Report:
    """Audit of the anonymized view of a name; a warning says why if the audit was not recorded.

    If an error has aborted the transaction, the committed release is audited.
    """
    try:
        current(con)
    except DuckanonError as failure:
        if not isinstance(failure.__cause__, duckdb.TransactionException):
            raise
    else:
        return audit_view(con, resolve(con, name), options)
    with con.cursor() as reader:
        target = resolve(reader, name)
        with transaction(reader, whole=False):
            report = _audit_release(reader, target, options)[0]
    return _unrecorded(
        report, "the transaction is aborted, so this is the release as it was before; ROLLBACK"
    )


def audit_view(con: duckdb.DuckDBPyConnection, target: Target, options: Options) -> Report:
    """Audit of the released columns of a view by its policy; the options may replace thresholds.

    The record joins an open transaction. A warning says why if the audit cannot be recorded. Audits of other
    threads outside a transaction wait for each other.
    """
    joined = engine.in_transaction(con)
    report: Report | None = None
    try:
        # One transaction, so that the fingerprint covers the audited rows.
        with contextlib.nullcontext() if joined else _IN_LINE, transaction(con, whole=False):
            report, published, evidence = _audit_release(con, target, options)
            obstacle = _obstacle(con, published, joined=joined)
            if obstacle is None:
                home, number = target.catalog, published.release_id
                record(con, home, number, report.measures, evidence, statement="audit")
    except ReleaseError as refused:
        if report is None:
            raise
        obstacle = str(refused)
    return report if obstacle is None else _unrecorded(report, obstacle)


def audit_published(
    con: duckdb.DuckDBPyConnection,
    reader: duckdb.DuckDBPyConnection,
    published: Published,
    relation: str,
    *,
    policy: AuditPolicy | None = None,
    home: str,
    columns: Sequence[tuple[str, str]] | None = None,
    supersets: Supersets | None = None,
) -> Report:
    """Audit of the rows of a release (`relation`, as `reader` sees it) by its own thresholds or by others.

    `con` sees the metadata; the trees of the release are in catalog `home` of `reader`. `columns` of the
    relation, if known: DuckDB takes long to describe a CSV of many columns. `supersets` are its boxes by the
    ranks of this relation, if these differ from the ranks of the release.
    """
    asked = policy or metadata.audited(con, published)
    name = str(published.target)
    columns = columns_of(reader, relation, f"audit of {name}") if columns is None else columns
    attributes = bind.bind_audit(asked, columns)
    trees = trees_of(con, published, home)
    if asked.n is not None and supersets is None:
        supersets = stored_supersets(con, published)
    return audit_attributes(reader, relation, attributes, asked, trees, name=name, supersets=supersets)


def stored_supersets(con: duckdb.DuckDBPyConnection, published: Published) -> Supersets | None:
    """Boxes of a release; None without n."""
    if Policy.from_toml(published.policy).n is None:
        return None
    relation = metadata.backing(published.target.catalog, supersets_of(published.release_id))
    return read_supersets(con, relation, f"audit of {published.target}")


def described(
    con: duckdb.DuckDBPyConnection, target: Target
) -> tuple[Report, Published, str, dict[str, str]]:
    """Report of an anonymized view, its metadata, its rows and its trees; nothing is recorded."""
    report, published, _ = _audit_release(con, target, {})
    return report, published, metadata.rows(con, published), trees_of(con, published, target.catalog)


def trees_of(con: duckdb.DuckDBPyConnection, published: Published, home: str) -> dict[str, str]:
    """Trees of the hierarchical columns of a release, by column: relations in catalog `home`, as SQL text."""
    return {column: metadata.backing(home, tree) for column, tree in metadata.trees(con, published).items()}


def _audit_release(
    con: duckdb.DuckDBPyConnection, target: Target, options: Options
) -> tuple[Report, Published, Evidence]:
    published = metadata.require(con, target, whole=True)
    stated = Policy.from_toml(published.policy)
    policy = options_to_audit(options, metadata.audited(con, published))
    if stated.release == "anatomy" and "l" in options and "l_diversity" not in options:
        policy = audited({"release": "anatomy", **{name: getattr(policy, name) for name in AUDIT_OPTIONS}})
    relation = metadata.rows(con, published)
    report = audit_published(con, con, published, relation, policy=policy, home=target.catalog)
    evidence = evidence_of(con, relation, policy, trees_of(con, published, target.catalog))
    told = (*unknown_values(report), *report_notes(stated, with_l=policy.l is not None))
    report = replace(report, warnings=(*report.warnings, *told))
    changed = changed_by_hand(con, published, relation, evidence.fingerprint)
    if changed is not None:
        report = replace(report, warnings=(*report.warnings, changed))
    return report, published, evidence


def _obstacle(con: duckdb.DuckDBPyConnection, published: Published, *, joined: bool) -> str | None:
    """Return why an audit cannot be recorded; an attempt would abort the user's transaction."""
    attached, target = databases(con, "audit"), published.target
    if target.catalog not in attached or attached[target.catalog].readonly:
        return f"the database {target.catalog!r} is read-only"
    if target.catalog not in metadata.with_releases(con):
        return f"{target.catalog!r} is an exported file, whose audits end with that of its export"
    # A DuckDB transaction writes to one database, and DuckDB does not say whether it has written to one yet.
    others = [name for name, database in attached.items() if not database.readonly and name != target.catalog]
    if joined and others:
        return (
            f"a transaction writes to one database only, and for this one that may be {others[0]!r}; "
            "outside of a transaction it is recorded"
        )
    if joined and held_elsewhere(con, target.catalog, published.release_id):
        return "another connection records an audit of it: audit it again outside of a transaction"
    return None


def _unrecorded(report: Report, obstacle: str) -> Report:
    return replace(report, warnings=(*report.warnings, f"{UNRECORDED}: {obstacle}"))
