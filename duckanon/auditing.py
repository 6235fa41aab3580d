"""AUDIT of an anonymized view by its own policy, and of any table by the policy that is given."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb

from duckanon import catalog, engine, schema, sqlfiles
from duckanon.errors import DuckanonError, PolicyError, ReleaseError
from duckanon.options import options_to_audit
from duckanon.places import columns_of, relation_of
from duckanon.policy import AuditPolicy, Policy
from duckanon.recording import changed_by_hand, evidence_of, record
from duckanon.schema import Role
from duckanon.stages.audit import audit_sql, judgements
from duckanon.stages.publish import transaction
from duckanon.stages.stage import temporary
from duckanon.stages.tree import audit_tree
from duckanon.unaudited import Roles, warnings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.catalog import Published, Target
    from duckanon.options import Options
    from duckanon.qualified import QualifiedName
    from duckanon.recording import Evidence
    from duckanon.report import Report
    from duckanon.schema import Attribute


def audit_named(con: duckdb.DuckDBPyConnection, name: QualifiedName, options: Options) -> Report:
    """Audit of an anonymized view by the policy of its release, kept in the metadata of its database.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection. In a transaction that an error has aborted, the committed release is audited.
    name : QualifiedName
        The view.
    options : Options
        Thresholds that replace those of the policy.

    Returns
    -------
    Report
        From the released columns alone. Its warnings say why, where it was not recorded.

    Raises
    ------
    ReleaseError
        There is no such anonymized view.
    """
    try:
        catalog.current(con)
    except DuckanonError as failure:
        if not isinstance(failure.__cause__, duckdb.TransactionException):
            raise
    else:
        return audit_view(con, catalog.resolve(con, name), options)
    with con.cursor() as reader:
        target = catalog.resolve(reader, name)
        with transaction(reader, whole=False):
            report = _audit_release(reader, target, options)[0]
    return _unrecorded(
        report, "the transaction is aborted, so this is the release as it was before; ROLLBACK"
    )


def audit_view(con: duckdb.DuckDBPyConnection, target: Target, options: Options) -> Report:
    """Audit of an anonymized view by the policy of its release, kept in the metadata of its database.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection. Inside an open transaction the record joins it.
    target : Target
        The view.
    options : Options
        Thresholds that replace those of the policy.

    Returns
    -------
    Report
        From the released columns alone. Its warnings say why, where it was not recorded.

    Raises
    ------
    ReleaseError
        There is no such anonymized view.
    """
    report: Report | None = None
    try:
        # One transaction, so that the fingerprint is of the rows that the audit saw.
        joined = engine.in_transaction(con)
        with transaction(con, whole=False):
            report, published, evidence = _audit_release(con, target, options)
            obstacle = _obstacle(con, target, joined=joined)
            if obstacle is None:
                record(
                    con,
                    target.catalog,
                    published.release_id,
                    report.measures,
                    evidence,
                    statement="audit",
                )
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
    wanted: AuditPolicy | None = None,
    home: str,
) -> Report:
    """Audit of the rows of a release, wherever they are.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection with the metadata of the release.
    reader : duckdb.DuckDBPyConnection
        Connection that sees `relation`.
    published : Published
        The release.
    relation : str
        The rows, as SQL text.
    wanted : AuditPolicy, optional
        Other thresholds than those of the release.
    home : str
        Catalog of `reader` in which the trees of the release are.

    Returns
    -------
    Report
        Verdict of every threshold.
    """
    policy = wanted or Policy.from_toml(published.policy).audited()
    name = str(published.target)
    attributes = schema.bind_audit(policy, columns_of(reader, relation, f"audit of {name}"))
    return _audit(reader, relation, attributes, policy, trees_of(con, published, home), name=name)


def trees_of(con: duckdb.DuckDBPyConnection, published: Published, home: str) -> dict[str, str]:
    """Trees of the hierarchical columns of a release.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection with the metadata of the release.
    published : Published
        The release.
    home : str
        Catalog in which its trees are.

    Returns
    -------
    dict of str
        Relation as SQL text by column.
    """
    return {
        column: relation_of(catalog.Target(home, catalog.SCHEMA, tree))
        for column, tree in catalog.trees(con, published).items()
    }


def audit_relation(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    policy: AuditPolicy | Policy,
    *,
    name: str,
    roles: Roles | None = None,
    evidence: bool = False,
) -> Report:
    """Audit of any relation by a policy.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    relation : str
        What stands after FROM.
    policy : AuditPolicy or Policy
        Roles, thresholds and hierarchy tables.
    name : str
        How the report calls it.
    roles : Roles, optional
        What is known of other columns; by default what a Policy says of them.
    evidence : bool
        Say in the report what was asked of which rows; that takes a sort of all rows.

    Returns
    -------
    Report
        Verdict of every threshold; a measure without one is reported only. Its warnings name the columns
        that are not audited, and say how many records are unique on them.

    Raises
    ------
    SourceError
        The relation cannot be read or is empty.
    PolicyError
        A column does not exist, or a hierarchy is unusable.
    """
    stage, roles = f"audit of {name}", roles or roles_of(policy)
    policy = policy.audited() if isinstance(policy, Policy) else policy
    columns = columns_of(con, relation, stage)
    attributes = schema.bind_audit(policy, columns)
    graded = [attribute for attribute in attributes if attribute.distance == "hierarchical"]
    with temporary(con) if graded else nullcontext("") as workspace:
        trees = {each.name: audit_tree(con, workspace, each, relation=relation) for each in graded}
        report = _audit(con, relation, attributes, policy, trees, name=name)
        beyond = warnings_of(con, relation, columns, attributes, roles=roles, stage=stage)
        report = replace(report, warnings=(*report.warnings, *beyond))
        if not evidence:
            return report
        return replace(report, evidence=evidence_of(con, relation, policy, trees).to_dict())


def roles_of(policy: AuditPolicy | Policy) -> Roles:
    """Roles of the columns that an audit does not look at.

    Parameters
    ----------
    policy : AuditPolicy or Policy
        The policy.

    Returns
    -------
    Roles
        Empty of an AuditPolicy, which does not know them.
    """
    return Roles(policy.insensitive, policy.identifiers) if isinstance(policy, Policy) else Roles()


def audit_table(con: duckdb.DuckDBPyConnection, name: QualifiedName, options: Options) -> Report:
    """Audit of a table, view or file by the options of AUDIT TABLE.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    name : QualifiedName
        As it was written.
    options : Options
        Roles and thresholds.

    Returns
    -------
    Report
        Verdict of every threshold.
    """
    parts = [part for part in (name.catalog, name.schema, name.name) if part is not None]
    relation = sqlfiles.render("audit_bind/named.sql.j2", parts=parts)
    return audit_relation(con, relation, options_to_audit(options), name=".".join(parts))


def _audit(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    attributes: Sequence[Attribute],
    policy: AuditPolicy,
    trees: Mapping[str, str],
    *,
    name: str,
) -> Report:
    quasi = [attribute.name for attribute in attributes if attribute.role is Role.QUASI_IDENTIFIER]
    if not quasi:
        raise PolicyError("an audit needs at least one quasi-identifier")
    asked = judgements(attributes, policy, trees)
    texts = {attribute.name for attribute in attributes if attribute.type == "VARCHAR"}
    return audit_sql(con, relation, quasi, asked, k=policy.k, name=name, texts=texts)


def _audit_release(
    con: duckdb.DuckDBPyConnection, target: Target, options: Options
) -> tuple[Report, Published, Evidence]:
    published = catalog.require(con, target, whole=True)
    wanted = options_to_audit(options, Policy.from_toml(published.policy).audited())
    relation = relation_of(target)
    report = audit_published(con, con, published, relation, wanted=wanted, home=target.catalog)
    evidence = evidence_of(con, relation, wanted, trees_of(con, published, target.catalog))
    changed = changed_by_hand(con, published, evidence.fingerprint)
    if changed is not None:
        report = replace(report, warnings=(*report.warnings, changed))
    return report, published, evidence


def _obstacle(con: duckdb.DuckDBPyConnection, target: Target, *, joined: bool) -> str | None:
    """Say why an audit cannot be recorded; trying it would abort the transaction of the user."""
    databases = dict(engine.rows(con, sqlfiles.read("catalog/databases.sql"), "audit"))
    if databases.get(target.catalog, True):
        return f"the database {target.catalog!r} is read-only"
    # DuckDB writes to one database in a transaction, and does not tell whether this one has a database yet.
    others = [name for name, read_only in databases.items() if not read_only and name != target.catalog]
    if joined and others:
        return (
            f"a transaction writes to one database only, and for this one that may be {others[0]!r}; "
            "outside of a transaction it is recorded"
        )
    return None


def _unrecorded(report: Report, obstacle: str) -> Report:
    return replace(report, warnings=(*report.warnings, f"this audit was not recorded: {obstacle}"))
