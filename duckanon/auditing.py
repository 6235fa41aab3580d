"""AUDIT of an anonymized view by its own policy, and of any table by the policy that is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon import catalog, engine, schema, sqlfiles
from duckanon.errors import PolicyError, SourceError
from duckanon.options import options_to_audit
from duckanon.policy import AuditPolicy, Policy
from duckanon.schema import Role
from duckanon.stages.audit import Judgement, audit_sql
from duckanon.stages.stage import drop
from duckanon.stages.tree import audit_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from duckanon.catalog import Published, Target
    from duckanon.options import Options
    from duckanon.qualified import QualifiedName
    from duckanon.report import Report


def audit_view(con: duckdb.DuckDBPyConnection, target: Target, options: Options) -> Report:
    """Audit of an anonymized view by the policy of its release.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    target : Target
        The view.
    options : Options
        Thresholds that replace those of the policy.

    Returns
    -------
    Report
        From the released columns alone.

    Raises
    ------
    ReleaseError
        There is no such anonymized view.
    """
    published = catalog.require(con, target)
    wanted = options_to_audit(options, Policy.from_toml(published.policy).audited())
    return audit_published(con, con, published, relation_of(target), wanted=wanted, home=target.catalog)


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
    trees = {
        column: relation_of(catalog.Target(home, catalog.SCHEMA, tree))
        for column, tree in catalog.trees(con, published).items()
    }
    return _audit(reader, relation, policy, trees, name=str(published.target))


def audit_relation(
    con: duckdb.DuckDBPyConnection, relation: str, policy: AuditPolicy, *, name: str
) -> Report:
    """Audit of any relation by a policy.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    relation : str
        What stands after FROM.
    policy : AuditPolicy
        Roles, thresholds and hierarchy tables.
    name : str
        How the report calls it.

    Returns
    -------
    Report
        Verdict of every threshold; a measure without one is reported only.

    Raises
    ------
    SourceError
        The relation cannot be read or is empty.
    PolicyError
        A column does not exist, or a hierarchy is unusable.
    """
    workspace = engine.workspace()
    try:
        columns = _columns(con, relation, name)
        trees = {
            attribute.name: audit_tree(con, workspace, attribute, relation=relation)
            for attribute in schema.bind_audit(policy, columns)
            if attribute.distance == "hierarchical"
        }
        return _audit(con, relation, policy, trees, name=name)
    finally:
        drop(con, workspace)


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


def relation_of(target: Target) -> str:
    """Quoted full name of a relation.

    Parameters
    ----------
    target : Target
        Catalog, schema and name.

    Returns
    -------
    str
        SQL text.
    """
    return sqlfiles.render(
        "export/relation.sql.j2", catalog=target.catalog, schema=target.schema, name=target.name
    )


def _audit(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    policy: AuditPolicy,
    trees: Mapping[str, str],
    *,
    name: str,
) -> Report:
    attributes = schema.bind_audit(policy, _columns(con, relation, name))
    judgements = [
        Judgement(
            attribute.name,
            attribute.distance or "equal",
            attribute.t,
            attribute.l,
            policy.l_diversity,
            policy.c,
            trees.get(attribute.name),
        )
        for attribute in attributes
        if attribute.role is Role.SENSITIVE
    ]
    quasi = [attribute.name for attribute in attributes if attribute.role is Role.QUASI_IDENTIFIER]
    if not quasi:
        raise PolicyError("an audit needs at least one quasi-identifier")
    return audit_sql(con, relation, quasi, judgements, k=policy.k, name=name)


def _columns(con: duckdb.DuckDBPyConnection, relation: str, name: str) -> list[tuple[str, str]]:
    query = sqlfiles.render("export/describe.sql.j2", relation=relation)
    return [(row[0], row[1]) for row in engine.rows(con, query, f"audit of {name}", error=SourceError)]
